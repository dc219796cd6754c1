#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(DistancesTest, TextIsAsReviewed) {
  Golden g("distances");
  g.Add("between two sets",
        Sig("aten._cdist_forward.default").In({2, 3}).In({4, 3}).Float(2).None().Out({2, 4}));
  g.Add("within one", Sig("aten._pdist_forward.default").In({4, 3}).Float(1).Out({6}));
  g.Add("scaled down to a norm",
        Sig("aten.renorm.default").In({2, 3}).Float(2).Int(0).Float(1).Out({2, 3}));
  g.Add("violated margins", Sig("aten.multi_margin_loss.default")
                                .In({2, 3})
                                .In({2}, DType::kI64)
                                .Int(1)
                                .Int(1)
                                .None()
                                .Int(1)
                                .Out({}));
  g.Check();
}

}  // namespace
}  // namespace dendrite::lowering
