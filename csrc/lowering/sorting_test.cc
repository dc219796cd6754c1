#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;
constexpr DType kI64 = DType::kI64;

TEST(SortingTest, TextIsAsReviewed) {
  Golden g("sorting");
  g.Add("ascending, NaN last",
        Sig("aten.sort.default").In({2, 5}).Int(-1).Bool(false).Out({2, 5}).Out({2, 5}, kI64));
  g.Add("largest two", Sig("aten.topk.default")
                           .In({5}, kI64)
                           .Int(2)
                           .Int(0)
                           .Bool(true)
                           .Bool(true)
                           .Out({2}, kI64)
                           .Out({2}, kI64));
  g.Add("median", Sig("aten.median.dim").In({2, 5}).Int(1).Bool(false).Out({2}).Out({2}, kI64));
  g.Add("search",
        Sig("aten.bucketize.Tensor").In({3}).In({4}).Bool(false).Bool(true).Out({3}, kI64));
  g.Check();
}

TEST(SortingTest, ComplexNumbersHaveNoOrder) {
  Sig s("aten.sort.default");
  s.In({5}, DType::kC64).Int(0).Bool(false).Out({5}, DType::kC64).Out({5}, kI64);
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
