#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(SoftmaxTest, TextIsAsReviewed) {
  Golden g("softmax");
  g.Add("softmax", Sig("aten._softmax.default").In({2, 3}).Int(-1).Bool(false).Out({2, 3}));
  g.Add("log-softmax of half",
        Sig("aten._log_softmax.default").In({2, 3}, DType::kF16).Int(1).Bool(true).Out({2, 3}));
  g.Add("masked rows give zeros",
        Sig("aten._safe_softmax.default").In({2, 3}).Int(-1).None().Out({2, 3}));
  g.Add("gradient", Sig("aten._softmax_backward_data.default")
                        .In({2, 3})
                        .In({2, 3})
                        .Int(1)
                        .Type(DType::kF32)
                        .Out({2, 3}));
  g.Check();
}

TEST(SoftmaxTest, ANumberHasOneDimension) {
  EXPECT_TRUE(
      TryLower(Sig("aten._softmax.default").In({}).Int(-1).Bool(false).Out({}).sig(), {}).ok());
}

}  // namespace
}  // namespace dendrite::lowering
