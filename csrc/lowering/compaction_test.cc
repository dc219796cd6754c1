#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;
constexpr DType kI64 = DType::kI64;

TEST(CompactionTest, TextIsAsReviewed) {
  Golden g("compaction");
  g.Add("values under a mask",
        Sig("aten.masked_scatter.default").In({2, 2}).In({2, 2}, DType::kBool).In({3}).Out({2, 2}));
  g.Check();
}

TEST(CompactionTest, ShortSourceAndWrongSizeAreReported) {
  Sig scatter("aten.masked_scatter.default");
  scatter.In({4}).In({4}, DType::kBool).In({3}).Out({4});
  EXPECT_NE(LowerAlone(scatter.sig())->find("-> (tensor<4xf32>, tensor<i1>)"), std::string::npos);
  Sig repeat("aten.repeat_interleave.Tensor");
  repeat.In({3}, kI64).Int(5).Out({5}, kI64);
  EXPECT_NE(LowerAlone(repeat.sig())->find("-> (tensor<5xi64>, tensor<i1>)"), std::string::npos);
}

TEST(GatedTest, TextIsAsReviewed) {
  Golden g("gated");
  g.Add("glu", Sig("aten.glu.default").In({2, 4}).Int(-1).Out({2, 2}));
  g.Add("gradient", Sig("aten.glu_backward.default").In({2, 2}).In({2, 4}).Int(1).Out({2, 4}));
  g.Check();
}

}  // namespace
}  // namespace dendrite::lowering
