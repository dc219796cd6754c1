#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

Sig BatchNorm(bool training, bool saved) {
  const Dims stats = {3}, kept = saved ? Dims{3} : Dims{0};
  Sig s =
      Sig("aten.native_batch_norm.default").In({2, 3, 4}).In(stats).In(stats).In(stats).In(stats);
  s.Bool(training).Float(0.1).Float(1e-5).Out({2, 3, 4}).Out(kept).Out(kept);
  if (training) s.Out(stats).Out(stats);
  return s;
}

TEST(NormsTest, TextIsAsReviewed) {
  Golden g("norms");
  g.Add("layer norm", Sig("aten.native_layer_norm.default")
                          .In({2, 5})
                          .Ints({5})
                          .In({5})
                          .In({5})
                          .Float(1e-5)
                          .Out({2, 5})
                          .Out({2, 1})
                          .Out({2, 1}));
  g.Add("layer norm without its input's gradient", Sig("aten.native_layer_norm_backward.default")
                                                       .In({2, 5})
                                                       .In({2, 5})
                                                       .Ints({5})
                                                       .In({2, 1})
                                                       .In({2, 1})
                                                       .In({5})
                                                       .In({5})
                                                       .Mask({0, 1, 1})
                                                       .NoOut()
                                                       .Out({5})
                                                       .Out({5}));
  g.Add("group norm", Sig("aten.native_group_norm.default")
                          .In({2, 4, 3})
                          .In({4})
                          .None()
                          .Int(2)
                          .Int(4)
                          .Int(3)
                          .Int(2)
                          .Float(1e-5)
                          .Out({2, 4, 3})
                          .Out({2, 2})
                          .Out({2, 2}));
  g.Add("batch norm trains", BatchNorm(true, true));
  g.Add("batch norm evaluates", BatchNorm(false, false));
  g.Add("RMS norm with its type's epsilon", Sig("aten._fused_rms_norm.default")
                                                .In({2, 5})
                                                .Ints({5})
                                                .None()
                                                .None()
                                                .Out({2, 5})
                                                .Out({2, 1}));
  g.Check();
}

TEST(NormsTest, BatchNormWithoutStatisticsCannotEvaluate) {
  Sig s = Sig("aten._native_batch_norm_legit.no_stats").In({2, 3}).None().None();
  s.Bool(false).Float(0.1).Float(1e-5).Out({2, 3}).Out({0}).Out({0});
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
