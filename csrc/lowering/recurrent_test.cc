#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(RecurrentTest, TextIsAsReviewed) {
  Golden g("recurrent");
  g.Add("lstm", Sig("dendrite.lstm_cell.default")
                    .In({2, 12})
                    .In({2, 12})
                    .In({2, 3})
                    .In({12})
                    .None()
                    .Out({2, 3})
                    .Out({2, 3})
                    .Out({2, 12}));
  g.Add("gru gradient, no bias", Sig("dendrite.gru_cell_backward.default")
                                     .In({2, 3})
                                     .In({2, 15})
                                     .Bool(false)
                                     .Out({2, 9})
                                     .Out({2, 9})
                                     .Out({2, 3})
                                     .NoOut()
                                     .NoOut());
  g.Check();
}

}  // namespace
}  // namespace dendrite::lowering
