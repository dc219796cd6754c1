#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(UnpoolingTest, TextIsAsReviewed) {
  Golden g("unpooling");
  g.Add("values to their places", Sig("aten.max_unpool2d.default")
                                      .In({1, 2, 2})
                                      .In({1, 2, 2}, DType::kI64)
                                      .Ints({4, 4})
                                      .Out({1, 4, 4}));
  g.Add("windows at random places", Sig("aten.fractional_max_pool2d.default")
                                        .In({1, 5, 5})
                                        .Ints({1, 2})
                                        .Ints({2, 2})
                                        .In({1, 1, 2})
                                        .Out({1, 2, 2})
                                        .Out({1, 2, 2}, DType::kI64));
  g.Check();
}

}  // namespace
}  // namespace dendrite::lowering
