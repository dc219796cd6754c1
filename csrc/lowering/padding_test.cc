#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(PaddingTest, TextIsAsReviewed) {
  Golden g("padding");
  g.Add(
      "constant, cut at one side",
      Sig("aten.constant_pad_nd.default").In({2, 5}).Ints({1, -2}).Lifted(DType::kF64).Out({2, 4}));
  g.Add("reflection", Sig("aten.reflection_pad1d.default").In({2, 5}).Ints({2, 1}).Out({2, 8}));
  g.Add("gradient of replication", Sig("aten.replication_pad1d_backward.default")
                                       .In({2, 6})
                                       .In({2, 3})
                                       .Ints({2, 1})
                                       .Out({2, 3}));
  g.Check();
}

TEST(PaddingTest, TooManyPadsAreRefused) {
  Sig s = Sig("aten.constant_pad_nd.default").In({5}).Ints({1, 1, 1, 1}).Int(0).Out({7});
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace dendrite::lowering
