#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(FftTest, TextIsAsReviewed) {
  Golden g("fft");
  g.Add("backwards over a first dimension, scaled", Sig("aten._fft_c2c.default")
                                                        .In({4, 3}, DType::kC64)
                                                        .Ints({0})
                                                        .Int(1)
                                                        .Bool(false)
                                                        .Out({4, 3}, DType::kC64));
  g.Add("a real signal", Sig("aten._fft_r2c.default")
                             .In({3, 4})
                             .Ints({0, 1})
                             .Int(0)
                             .Bool(true)
                             .Out({3, 3}, DType::kC64));
  g.Add("back to it",
        Sig("aten._fft_c2r.default").In({3, 3}, DType::kC64).Ints({1}).Int(2).Int(4).Out({3, 4}));
  g.Check();
}

}  // namespace
}  // namespace dendrite::lowering
