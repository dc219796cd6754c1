#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

Sig MaxPool(const Dims& in, const Dims& window, const Dims& out) {
  Sig s("aten.max_pool2d_with_indices.default");
  s.In(in).Ints(window).Ints({2, 2}).Ints({0, 0}).Ints({1, 1}).Bool(false);
  return s.Out(out).Out(out, DType::kI64);
}

TEST(PoolingTest, TextIsAsReviewed) {
  Golden g("pooling");
  g.Add("maximum and its place", MaxPool({1, 2, 4, 4}, {2, 2}, {1, 2, 2, 2}));
  g.Add("large window", MaxPool({1, 1, 20, 20}, {10, 10}, {1, 1, 6, 6}));
  g.Add("gradient of the maximum", Sig("aten.max_pool2d_with_indices_backward.default")
                                       .In({1, 2, 2, 2})
                                       .In({1, 2, 4, 4})
                                       .Ints({2, 2})
                                       .Ints({2, 2})
                                       .Ints({0, 0})
                                       .Ints({1, 1})
                                       .Bool(false)
                                       .In({1, 2, 2, 2}, DType::kI64)
                                       .Out({1, 2, 4, 4}));
  g.Add("average without the padding", Sig("aten.avg_pool2d.default")
                                           .In({1, 1, 4, 4})
                                           .Ints({3, 3})
                                           .Ints({2, 2})
                                           .Ints({1, 1})
                                           .Bool(false)
                                           .Bool(false)
                                           .None()
                                           .Out({1, 1, 2, 2}));
  g.Add("adaptive, even windows",
        Sig("aten._adaptive_avg_pool2d.default").In({1, 2, 4, 4}).Ints({2, 1}).Out({1, 2, 2, 1}));
  g.Check();
}

TEST(PoolingTest, UnrolledWindowsNeedNoReduceWindow) {
  const auto text = [](const Sig& s) { return LowerAlone(s.sig()).value(); };
  EXPECT_EQ(text(MaxPool({1, 2, 9, 9}, {3, 3}, {1, 2, 4, 4})).find("reduce_window"),
            std::string::npos);
  EXPECT_NE(text(MaxPool({1, 1, 20, 20}, {10, 10}, {1, 1, 6, 6})).find("reduce_window"),
            std::string::npos);
}

TEST(PoolingTest, MissingWindowIsRefused) {
  Sig s("aten.avg_pool2d.default");
  s.In({1, 1, 4, 4}).Ints({3, 3, 3}).Ints({1, 1}).Ints({0, 0}).Bool(false).Bool(true).None();
  EXPECT_FALSE(CanLower(s.Out({1, 1, 2, 2}).sig(), {}));
}

}  // namespace
}  // namespace dendrite::lowering
