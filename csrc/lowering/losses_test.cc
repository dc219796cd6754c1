#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(LossesTest, TextIsAsReviewed) {
  Golden g("losses");
  g.Add("a mean", Sig("aten.mse_loss.default").In({2, 3}).In({2, 3}).Int(1).Out({}));
  g.Add("its gradient",
        Sig("aten.mse_loss_backward.default").In({}).In({2, 3}).In({2, 3}).Int(1).Out({2, 3}));
  g.Add("likelihood with weights", Sig("aten.nll_loss_forward.default")
                                       .In({4, 5})
                                       .In({4}, DType::kI64)
                                       .In({5})
                                       .Int(1)
                                       .Int(-100)
                                       .Out({})
                                       .Out({}));
  g.Add("its gradient", Sig("aten.nll_loss_backward.default")
                            .In({})
                            .In({4, 5})
                            .In({4}, DType::kI64)
                            .None()
                            .Int(1)
                            .Int(-100)
                            .In({})
                            .Out({4, 5}));
  g.Add("logits", Sig("aten.binary_cross_entropy_with_logits.default")
                      .In({3})
                      .In({3})
                      .None()
                      .None()
                      .Int(2)
                      .Out({}));
  g.Check();
}

// What must be refused at run time ends in the module's last result.
TEST(LossesTest, TargetsAndProbabilitiesAreChecked) {
  for (const Sig& s :
       {Sig("aten.nll_loss_forward.default")
            .In({4, 5})
            .In({4}, DType::kI64)
            .None()
            .Int(1)
            .Int(-100)
            .Out({})
            .Out({}),
        Sig("aten.binary_cross_entropy.default").In({3}).In({3}).None().Int(2).Out({})}) {
    Result<std::string> text = LowerAlone(s.sig());
    ASSERT_TRUE(text.ok());
    EXPECT_NE(text->find("tensor<i1>) {"), std::string::npos) << *text;
  }
}

}  // namespace
}  // namespace dendrite::lowering
