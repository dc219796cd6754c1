#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

bool Contains(const Result<std::string>& text, const std::string& what) {
  return text.ok() && text->find(what) != std::string::npos;
}

TEST(MatmulTest, TextIsAsReviewed) {
  Golden g("matmul");
  LoweringTraits kernels;
  kernels.kernels_by_name = true;
  g.Add("dot", Sig("aten.mm.default").In({2, 3}).In({3, 4}).Out({2, 4}));
  g.Add("half accumulates in f32", Sig("aten.mm.default")
                                       .In({2, 3}, DType::kBF16)
                                       .In({3, 4}, DType::kBF16)
                                       .Out({2, 4}, DType::kBF16));
  g.Add("beta and alpha",
        Sig("aten.addmm.default").In({4}).In({2, 3}).In({3, 4}).Float(0.5).Float(2).Out({2, 4}));
  g.Add("kernel by name",
        Sig("aten.linear.default").In({8, 64, 32}).In({48, 32}).None().Out({8, 64, 48}), kernels);
  g.Add("gradient by name",
        Sig("aten.linear_backward.default")
            .In({8, 64, 32})
            .In({8, 64, 48})
            .In({48, 32})
            .Mask({1, 1, 1})
            .Out({8, 64, 32})
            .Out({48, 32})
            .Out({48}),
        kernels);
  g.Add("rows in groups", Sig("aten._grouped_mm.default")
                              .In({6, 4})
                              .In({2, 4, 3})
                              .In({2}, DType::kI32)
                              .None()
                              .None()
                              .Out({6, 3}));
  g.Check();
}

TEST(MatmulTest, BetaOfZeroDoesNotReadSelf) {
  Sig s = Sig("aten.addmm.default").In({4}).In({2, 3}).In({3, 4}).Int(0).Int(1).Out({2, 4});
  EXPECT_FALSE(Contains(LowerAlone(s.sig()), "stablehlo.add"));
}

TEST(MatmulTest, ALiftedBetaMayTurnOutToBeZero) {
  Sig s = Sig("aten.addmm.default")
              .In({4})
              .In({2, 3})
              .In({3, 4})
              .Lifted(DType::kF64)
              .Int(1)
              .Out({2, 4});
  EXPECT_TRUE(Contains(LowerAlone(s.sig()), "stablehlo.select"));
}

TEST(MatmulTest, OnlyLargeF32ProductsAreCalledByName) {
  LoweringTraits kernels;
  kernels.kernels_by_name = true;
  const auto product = [&](int64_t n, DType t) {
    return LowerAlone(Sig("aten.mm.default").In({n, n}, t).In({n, n}, t).Out({n, n}, t).sig(),
                      kernels);
  };
  EXPECT_TRUE(Contains(product(32, DType::kF32), "\"dendrite.mm\""));
  EXPECT_FALSE(Contains(product(31, DType::kF32), "custom_call"));
  EXPECT_FALSE(Contains(product(64, DType::kF64), "custom_call"));
}

TEST(MatmulTest, AnEmptyContractionGivesZeros) {
  Sig s = Sig("aten.mm.default").In({2, 0}).In({0, 4}).Out({2, 4});
  EXPECT_FALSE(Contains(LowerAlone(s.sig()), "dot_general"));
}

}  // namespace
}  // namespace dendrite::lowering
