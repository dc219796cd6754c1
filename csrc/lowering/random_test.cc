#include <gtest/gtest.h>

#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

Sig Random(const std::string& op, DType dtype) {
  return Sig("dendrite." + op).In({2, 3}, dtype).Lifted(DType::kI64).Lifted(DType::kI64);
}

TEST(RandomTest, TextIsAsReviewed) {
  Golden g("random");
  g.Add("uniform", Random("uniform.default", DType::kF32).Float(0).Float(1).Out({2, 3}));
  g.Add("integers", Random("random.default", DType::kI64).Int(0).Int(10).Out({2, 3}, DType::kI64));
  g.Add("dropout", Random("native_dropout.default", DType::kF32)
                       .Lifted(DType::kF64)
                       .Out({2, 3})
                       .Out({2, 3}, DType::kBool));
  g.Check();
}

TEST(RandomTest, ComplexNumbersAreNotLowered) {
  Sig s = Random("normal.default", DType::kC64).Float(0).Float(1).Out({2, 3}, DType::kC64);
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kUnimplemented);
}

TEST(RandomTest, NothingToDrawIsAConstant) {
  Sig s("dendrite.uniform.default");
  s.In({0}).Lifted(DType::kI64).Lifted(DType::kI64).Float(0).Float(1).Out({0});
  EXPECT_EQ(LowerAlone(s.sig())->find("stablehlo.iota"), std::string::npos);
}

}  // namespace
}  // namespace dendrite::lowering
