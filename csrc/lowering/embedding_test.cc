#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

Sig Gradient(bool by_frequency) {
  return Sig("aten.embedding_dense_backward.default")
      .In({2, 3, 4})
      .In({2, 3}, DType::kI64)
      .Int(7)
      .Int(2)
      .Bool(by_frequency)
      .Out({7, 4});
}

Sig Bags(int64_t mode) {
  Sig s("aten._embedding_bag.default");
  s.In({7, 4}).In({5}, DType::kI64).In({2}, DType::kI64).Bool(false).Int(mode).Bool(false).None();
  s.Bool(false).Int(-1).Out({2, 4}).Out({5}, DType::kI64).Out({2}, DType::kI64);
  return s.Out({2}, DType::kI64);
}

TEST(EmbeddingTest, TextIsAsReviewed) {
  Golden g("embedding");
  LoweringTraits kernels;
  kernels.kernels_by_name = true;
  g.Add("rows by index", Sig("aten.embedding.default")
                             .In({7, 4})
                             .In({2, 3}, DType::kI64)
                             .Int(-1)
                             .Bool(false)
                             .Bool(false)
                             .Out({2, 3, 4}));
  g.Add("gradient", Gradient(false));
  g.Add("gradient by name", Gradient(false), kernels);
  g.Add("means of bags", Bags(1));
  g.Check();
}

TEST(EmbeddingTest, AGradientScaledByFrequencyIsRefused) {
  EXPECT_EQ(TryLower(Gradient(true).sig(), {}).code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
