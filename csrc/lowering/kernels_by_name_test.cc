#include "csrc/lowering/kernels_by_name.h"

#include <gtest/gtest.h>

#include <set>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

// Lowers a product of (maybe transposed) arguments and gives the text.
std::string Product(const Dims& a, const Dims& a_perm, const Dims& b, const Dims& b_perm) {
  const tape::Signature sig;
  LoweringTraits traits;
  traits.kernels_by_name = true;
  Builder builder;
  Emitter e(sig, builder, traits, {}, {});
  const Value x = builder.Transpose(builder.Argument(DType::kF32, a), a_perm);
  const Value y = builder.Transpose(builder.Argument(DType::kF32, b), b_perm);
  Result<std::string> text = builder.Finish({MatMul(e, {x}, {y})});
  EXPECT_TRUE(text.ok()) << text.status().ToString();
  return text.ok() ? *text : "";
}

TEST(KernelsByNameTest, ATransposedOperandBecomesAFlag) {
  const std::string text = Product({64, 32}, {1, 0}, {48, 64}, {1, 0});
  EXPECT_NE(text.find("trans_a = true, trans_b = true"), std::string::npos) << text;
  EXPECT_NE(text.find("tensor<32x48xf32>"), std::string::npos) << text;
}

TEST(KernelsByNameTest, BatchesKeepTheirOwnTransposes) {
  const std::string text = Product({4, 64, 32}, {0, 2, 1}, {64, 4, 48}, {1, 0, 2});
  EXPECT_NE(text.find("\"dendrite.bmm\""), std::string::npos) << text;
  EXPECT_NE(text.find("trans_a = true, trans_b = false"), std::string::npos) << text;
}

TEST(KernelsByNameTest, EveryNameIsListedOnce) {
  const std::vector<std::string_view> names = KernelNames();
  EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), names.size());
  for (std::string_view name : {kMmKernel, kBmmKernel, kEmbeddingBackwardKernel}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

}  // namespace
}  // namespace dendrite::lowering
