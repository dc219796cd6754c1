// Factorisations of matrices and what is solved with them: lu.cc, cholesky.cc, qr.cc,
// matrix_exp.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

Sig LuFactor(int64_t n) {
  Sig s("aten.linalg_lu_factor_ex.default");
  s.In({2, n, n}).Bool(true).Bool(false).Out({2, n, n});
  return s.Out({2, n}, DType::kI32).Out({2}, DType::kI32);
}

TEST(MatrixTest, TextIsAsReviewed) {
  Golden g("matrix");
  g.Add("pivoted factors", LuFactor(3));
  g.Add("a system by its factors", Sig("aten.linalg_lu_solve.default")
                                       .In({3, 3})
                                       .In({3}, DType::kI32)
                                       .In({3, 2})
                                       .Bool(true)
                                       .Bool(false)
                                       .Out({3, 2}));
  g.Add("a factor of a definite matrix", Sig("aten.linalg_cholesky_ex.default")
                                             .In({3, 3})
                                             .Bool(false)
                                             .Bool(false)
                                             .Out({3, 3})
                                             .Out({}, DType::kI32));
  g.Add("reflections", Sig("aten.geqrf.default").In({4, 3}).Out({4, 3}).Out({3}));
  g.Add("singular values", Sig("aten._linalg_svd.default")
                               .In({3, 2})
                               .Bool(false)
                               .Bool(false)
                               .None()
                               .Out({0})
                               .Out({2})
                               .Out({0}));
  g.Add("an exponential", Sig("aten.linalg_matrix_exp.default").In({3, 3}).Out({3, 3}));
  g.Check();
}

TEST(MatrixTest, TheTextDoesNotGrowWithTheMatrix) {
  const auto small = LowerAlone(LuFactor(4).sig()), large = LowerAlone(LuFactor(512).sig());
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(std::count(small->begin(), small->end(), '\n'),
            std::count(large->begin(), large->end(), '\n'));
}

TEST(MatrixTest, LargeOnesAreLeftToAHostKernelThatStandsBy) {
  LoweringTraits beside;
  beside.kernels_by_name = true;
  EXPECT_TRUE(CanLower(LuFactor(64).sig(), beside));
  EXPECT_EQ(TryLower(LuFactor(65).sig(), beside).code(), Code::kUnimplemented);
  EXPECT_TRUE(CanLower(LuFactor(65).sig(), {}));
}

}  // namespace
}  // namespace dendrite::lowering
