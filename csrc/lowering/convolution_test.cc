#include <gtest/gtest.h>

#include "csrc/lowering/conv_kernels.h"
#include "csrc/lowering/golden_testing.h"

namespace dendrite::lowering {
namespace {

using Sig = SignatureMaker;

Sig Forward(bool transposed, const Dims& weight, const Dims& out) {
  Sig s("aten.convolution.default");
  s.In({2, 4, 7, 7}).In(weight).In({out[1]}).Ints({2, 2}).Ints({1}).Ints({1, 1});
  return s.Bool(transposed).Ints({0, 0}).Int(2).Out(out);
}

Sig Backward() {
  Sig s("aten.convolution_backward.default");
  s.In({2, 6, 4, 4}).In({2, 4, 7, 7}).In({6, 2, 3, 3}).Ints({6}).Ints({2, 2}).Ints({1, 1});
  s.Ints({1, 1}).Bool(false).Ints({0, 0}).Int(2).Mask({1, 1, 1});
  return s.Out({2, 4, 7, 7}).Out({6, 2, 3, 3}).Out({6});
}

LoweringTraits WithKernels() {
  LoweringTraits traits;
  traits.kernels_by_name = true;
  return traits;
}

TEST(ConvolutionTest, TextIsAsReviewed) {
  Golden g("convolution");
  g.Add("strided, grouped", Forward(false, {6, 2, 3, 3}, {2, 6, 4, 4}));
  g.Add("transposed", Forward(true, {4, 3, 3, 3}, {2, 6, 13, 13}));
  g.Add("gradients", Backward());
  g.Add("by name", Forward(false, {6, 2, 3, 3}, {2, 6, 4, 4}), WithKernels());
  g.Add("gradients by name", Backward(), WithKernels());
  g.Check();
}

TEST(ConvolutionTest, OnlyWantedGradientsAreComputed) {
  Sig s("aten.convolution_backward_overrideable.default");
  s.In({1, 2, 5}).In({1, 2, 7}).In({2, 2, 3}).Ints({1}).Ints({0}).Ints({1}).Bool(false);
  s.Ints({0}).Int(1).Mask({0, 1, 0}).NoOut().Out({2, 2, 3}).NoOut();
  const std::string plain = LowerAlone(s.sig()).value();
  EXPECT_EQ(plain.find("stablehlo.convolution"), plain.rfind("stablehlo.convolution"));
  const std::string named = LowerAlone(s.sig(), WithKernels()).value();
  EXPECT_NE(named.find("output_mask = array<i64: 0, 1, 0>"), std::string::npos);
}

TEST(ConvolutionTest, HalfPrecisionDoesNotTakeTheF32Kernel) {
  Sig s("aten.convolution.default");
  s.In({1, 2, 7}, DType::kBF16).In({2, 2, 3}, DType::kBF16).None().Ints({1}).Ints({0}).Ints({1});
  s.Bool(false).Ints({0}).Int(1).Out({1, 2, 5}, DType::kBF16);
  const std::string text = LowerAlone(s.sig(), WithKernels()).value();
  EXPECT_EQ(text.find(kConvolutionKernel), std::string::npos);
}

// A sum outside of a loop is made again by the compiler for each of its readers.
TEST(ConvolutionTest, DepthwiseIsALoopAndAWindowOfOneElementAProduct) {
  const auto text = [](const Dims& weight, int64_t groups, const Dims& out) {
    Sig s("aten.convolution.default");
    s.In({2, 4, 9}).In(weight).None().Ints({1}).Ints({0}).Ints({1});
    s.Bool(false).Ints({0}).Int(groups).Out(out);
    return LowerAlone(s.sig()).value();
  };
  const std::string depthwise = text({4, 1, 3}, 4, {2, 4, 7}),
                    product = text({5, 4, 1}, 1, {2, 5, 9});
  EXPECT_NE(depthwise.find("stablehlo.while"), std::string::npos);
  EXPECT_NE(product.find("stablehlo.dot_general"), std::string::npos);
  EXPECT_EQ((depthwise + product).find("stablehlo.convolution"), std::string::npos);
}

TEST(ConvolutionTest, TruthValuesAreNotLowered) {
  Sig s("aten.convolution.default");
  s.In({1, 2, 7}, DType::kBool).In({2, 2, 3}, DType::kBool).None().Ints({1}).Ints({0}).Ints({1});
  s.Bool(false).Ints({0}).Int(1).Out({1, 2, 5}, DType::kBool);
  EXPECT_EQ(TryLower(s.sig(), {}).code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace dendrite::lowering
