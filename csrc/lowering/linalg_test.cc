#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(LinalgTest, TextIsAsReviewed) {
  Golden g("linalg");
  g.Add("lower triangle", Sig("aten.tril.default").In({2, 3, 4}).Int(-1).Out({2, 3, 4}));
  g.Add("trace of integers",
        Sig("aten.trace.default").In({3, 4}, DType::kI32).Out({}, DType::kI64));
  g.Add("cross product",
        Sig("aten.linalg_cross.default").In({2, 3}).In({1, 3}).Int(-1).Out({2, 3}));
  g.Check();
}

}  // namespace
}  // namespace dendrite::lowering
