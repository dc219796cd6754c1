#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(HistogramsTest, TextIsAsReviewed) {
  Golden g("histograms");
  g.Add("over a range", Sig("aten.histc.default").In({5}).Int(4).Int(0).Int(3).Out({4}));
  g.Add("over the data's own range",
        Sig("aten.histc.default").In({5}).Int(4).Int(0).Int(0).Out({4}));
  g.Add("between given edges",
        Sig("aten.histogram.bins_tensor").In({5}).In({4}).None().Bool(false).Out({3}).Out({4}));
  g.Add("the most frequent", Sig("aten.mode.default")
                                 .In({2, 3}, DType::kI32)
                                 .Int(1)
                                 .Bool(false)
                                 .Out({2}, DType::kI32)
                                 .Out({2}, DType::kI64));
  g.Check();
}

}  // namespace
}  // namespace dendrite::lowering
