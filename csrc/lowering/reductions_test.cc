#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

TEST(ReductionsTest, TextIsAsReviewed) {
  Golden g("reductions");
  g.Add("integers widen",
        Sig("aten.sum.default").In({2, 3}, DType::kI32).None().Out({}, DType::kI64));
  g.Add("half accumulates in f32", Sig("aten.sum.dim_IntList")
                                       .In({2, 3}, DType::kBF16)
                                       .Ints({-1})
                                       .Bool(true)
                                       .None()
                                       .Out({2, 1}, DType::kBF16));
  g.Add("mean", Sig("aten.mean.dim").In({2, 3}).Ints({0}).Bool(false).None().Out({3}));
  g.Add("NaN wins", Sig("aten.amax.default").In({2, 3}).Ints({1}).Bool(false).Out({2}));
  g.Add("values and indices",
        Sig("aten.max.dim").In({2, 3}).Int(1).Bool(false).Out({2}).Out({2}, DType::kI64));
  g.Add("any of a dimension",
        Sig("aten.any.dim").In({2, 3}).Int(0).Bool(false).Out({3}, DType::kBool));
  g.Add("variance", Sig("aten.var.correction").In({2, 3}).Ints({1}).Int(1).Bool(false).Out({2}));
  g.Add("p-norm", Sig("aten.linalg_vector_norm.default")
                      .In({2, 3})
                      .Float(3)
                      .Ints({1})
                      .Bool(false)
                      .None()
                      .Out({2}));
  g.Check();
}

TEST(ReductionsTest, AnEmptyListMeansWhatTheResultsShapeSays) {
  Sig all = Sig("aten.any.dims").In({2, 3}).Ints({}).Bool(false).Out({}, DType::kBool);
  Sig none = Sig("aten.any.dims").In({2, 3}).Ints({}).Bool(false).Out({2, 3}, DType::kBool);
  EXPECT_NE(LowerAlone(all.sig())->find("stablehlo.reduce"), std::string::npos);
  EXPECT_TRUE(TryLower(none.sig(), {}).ok());
}

TEST(ReductionsTest, ALiftedOrderOfANormIsRefused) {
  Sig s = Sig("aten.norm.Scalar").In({2}).Lifted(DType::kF64).Out({});
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
