#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(UpsampleTest, TextIsAsReviewed) {
  Golden g("upsample");
  g.Add("whole factor is a broadcast", Sig("aten.upsample_nearest2d.default")
                                           .In({1, 2, 3, 3})
                                           .Ints({6, 9})
                                           .None()
                                           .None()
                                           .Out({1, 2, 6, 9}));
  g.Add("and its gradient a sum", Sig("aten.upsample_nearest1d_backward.default")
                                      .In({1, 2, 6})
                                      .Ints({6})
                                      .Ints({1, 2, 3})
                                      .None()
                                      .Out({1, 2, 3}));
  g.Add("linear", Sig("aten.upsample_linear1d.default")
                      .In({1, 2, 3})
                      .Ints({5})
                      .Bool(false)
                      .None()
                      .Out({1, 2, 5}));
  g.Add("linear, aligned corners", Sig("aten.upsample_linear1d.default")
                                       .In({1, 2, 3})
                                       .Ints({5})
                                       .Bool(true)
                                       .None()
                                       .Out({1, 2, 5}));
  g.Check();
}

TEST(UpsampleTest, WideGradientIsAProduct) {
  Sig s("aten.upsample_linear1d_backward.default");
  s.In({1, 2, 64}).Ints({64}).Ints({1, 2, 3}).Bool(false).None().Out({1, 2, 3});
  EXPECT_NE(LowerAlone(s.sig())->find("dot_general"), std::string::npos);
}

}  // namespace
}  // namespace dendrite::lowering
