#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(SpecialTest, TextIsAsReviewed) {
  Golden g("special");
  g.Add("entropy", Sig("aten.special_entr.default").In({3}).Out({3}));
  g.Add("a Bessel function", Sig("aten.special_modified_bessel_i0.default").In({3}).Out({3}));
  g.Add("a polynomial of varying degree",
        Sig("aten.special_hermite_polynomial_h.default").In({3}).In({3}).Out({3}));
  g.Add("common divisors",
        Sig("aten.gcd.default").In({3}, DType::kI32).In({3}, DType::kI32).Out({3}, DType::kI32));
  g.Add("the next float", Sig("aten.nextafter.default").In({3}).In({3}).Out({3}));
  g.Check();
}

TEST(SpecialTest, WithoutF64TheyAreComputedInF32) {
  LoweringTraits narrow;
  narrow.has_f64 = false;
  Sig s = Sig("aten.lgamma.default").In({3}).Out({3});
  EXPECT_EQ(LowerAlone(s.sig(), narrow)->find("f64"), std::string::npos);
  EXPECT_NE(LowerAlone(s.sig())->find("f64"), std::string::npos);
}

TEST(SpecialTest, IncompleteGammaFunctionsNeedF64) {
  LoweringTraits narrow;
  narrow.has_f64 = false;
  Sig s = Sig("aten.igamma.default").In({3}).In({3}).Out({3});
  EXPECT_EQ(TryLower(s.sig(), narrow).code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
