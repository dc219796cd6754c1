#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(ScansTest, TextIsAsReviewed) {
  Golden g("scans");
  g.Add("along the last dimension",
        Sig("aten.cumsum.default").In({2, 5}).Int(-1).None().Out({2, 5}));
  g.Add("values and indices",
        Sig("aten.cummax.default").In({5}).Int(0).Out({5}).Out({5}, DType::kI64));
  g.Check();
}

TEST(ScansTest, WithoutF64TheSumStaysInF32) {
  LoweringTraits traits;
  traits.has_f64 = false;
  Sig s = Sig("aten.cumsum.default").In({4}).Int(0).None().Out({4});
  EXPECT_EQ(LowerAlone(s.sig(), traits)->find("f64"), std::string::npos);
  EXPECT_NE(LowerAlone(s.sig())->find("f64"), std::string::npos);
}

TEST(ScansTest, NothingToScanNeedsNoLoop) {
  Sig s = Sig("aten.cumsum.default").In({0, 3}).Int(0).None().Out({0, 3});
  EXPECT_EQ(LowerAlone(s.sig())->find("stablehlo.while"), std::string::npos);
}

}  // namespace
}  // namespace dendrite::lowering
