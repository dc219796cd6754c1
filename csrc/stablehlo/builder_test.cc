#include "csrc/stablehlo/builder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dendrite::stablehlo {
namespace {

// The operations of a module that returns `v`, one a line, without indentation of the first level.
std::string Body(Builder& b, const Value& v) {
  const Result<std::string> text = b.Finish({v});
  if (!text.ok()) return text.status().ToString();
  const size_t begin = text->find("{\n", text->find("func.func")) + 2;
  std::string body = text->substr(begin, text->find("    return") - begin);
  std::string out;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    out += body.substr(at + 4, end - at - 3);
    at = end + 1;
  }
  return out;
}

std::string ConstantText(DType dtype, double v) {
  Builder b;
  const std::string body = Body(b, b.Constant(dtype, {}, v));
  const size_t begin = body.find('<') + 1;
  return body.substr(begin, body.find('>') - begin);
}

TEST(BuilderTest, ModuleNamesArgumentsAndResults) {
  Builder b;
  const Value x = b.Argument(DType::kF32, {2, 3}, 0);
  const Value y = b.Argument(DType::kF32, {2, 3});
  EXPECT_EQ(*b.Finish({b.Add(x, y)}),
            "module @dendrite {\n"
            "  func.func public @main(%0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %1: "
            "tensor<2x3xf32>) -> (tensor<2x3xf32>) {\n"
            "    %2 = stablehlo.add %0, %1 : tensor<2x3xf32>\n"
            "    return %2 : tensor<2x3xf32>\n"
            "  }\n"
            "}\n");
}

TEST(BuilderTest, ConstantsAreExact) {
  EXPECT_EQ(ConstantText(DType::kF32, 1.5), "1.500000e+00");
  EXPECT_EQ(ConstantText(DType::kF32, 0.1), "0x3DCCCCCD");
  EXPECT_EQ(ConstantText(DType::kF32, -0.0), "-0.000000e+00");
  EXPECT_EQ(ConstantText(DType::kF32, NAN), "0x7FC00000");
  EXPECT_EQ(ConstantText(DType::kF32, -INFINITY), "0xFF800000");
  EXPECT_EQ(ConstantText(DType::kF64, 1.0 / 3), "0x3FD5555555555555");
  EXPECT_EQ(ConstantText(DType::kF16, 65504), "0x7BFF");
  EXPECT_EQ(ConstantText(DType::kF16, 65520), "0x7C00");               // rounds to infinity
  EXPECT_EQ(ConstantText(DType::kF16, 2049), "0x6800");                // tie to even: 2048
  EXPECT_EQ(ConstantText(DType::kF16, std::ldexp(1, -24)), "0x0001");  // the smallest subnormal
  EXPECT_EQ(ConstantText(DType::kBF16, 0.1), "0x3DCD");
  EXPECT_EQ(ConstantText(DType::kBF16, 3e38), "0x7F62");
  EXPECT_EQ(ConstantText(DType::kBool, 0.5), "true");
  EXPECT_EQ(ConstantText(DType::kI64, std::numeric_limits<double>::infinity()),
            "9223372036854775807");
}

TEST(BuilderTest, IntegersWrapAndKeepAllDigits) {
  Builder b;
  EXPECT_EQ(Body(b, b.ConstantInt(DType::kI64, {}, INT64_MIN)),
            "%0 = stablehlo.constant dense<-9223372036854775808> : tensor<i64>\n");
  Builder c;
  EXPECT_EQ(Body(c, c.ConstantInt(DType::kU8, {2}, -1)),
            "%0 = stablehlo.constant dense<255> : tensor<2xui8>\n");
}

TEST(BuilderTest, WhatChangesNothingEmitsNothing) {
  Builder b;
  const Value x = b.Argument(DType::kF32, {2, 3});
  EXPECT_EQ(b.Reshape(x, {2, 3}).id, x.id);
  EXPECT_EQ(b.Transpose(x, {0, 1}).id, x.id);
  EXPECT_EQ(b.Slice(x, {0, 0}, {2, 3}, {1, 1}).id, x.id);
  EXPECT_EQ(b.Convert(x, DType::kF32).id, x.id);
  EXPECT_EQ(b.BroadcastTo(x, {2, 3}).id, x.id);
  EXPECT_EQ(Body(b, x), "");
}

TEST(BuilderTest, ConversionToBoolIsAComparison) {
  Builder b;
  EXPECT_EQ(
      Body(b, b.Convert(b.Argument(DType::kF32, {}), DType::kBool)),
      "%1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n"
      "%2 = stablehlo.compare NE, %0, %1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n");
}

TEST(BuilderTest, RegionsNestWithTheirOwnNames) {
  Builder b;
  const Value x = b.Argument(DType::kF32, {2, 3});
  const Value zero = b.Constant(DType::kF32, {}, 0);
  const Value sum = b.Reduce(
      x, zero, {1}, [](Builder& r, const Value& p, const Value& q) { return r.Add(p, q); });
  EXPECT_EQ(sum.dims, (Dims{2}));
  EXPECT_EQ(Body(b, sum),
            "%1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n"
            "%5 = \"stablehlo.reduce\"(%0, %1) <{dimensions = array<i64: 1>}> ({\n"
            "^bb0(%2: tensor<f32>, %3: tensor<f32>):\n"
            "  %4 = stablehlo.add %2, %3 : tensor<f32>\n"
            "  stablehlo.return %4 : tensor<f32>\n"
            "}) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n");
}

TEST(BuilderTest, FirstMistakeIsKeptAndStopsTheText) {
  Builder b;
  const Value x = b.Argument(DType::kF32, {2}), y = b.Argument(DType::kF32, {3});
  b.Add(x, y);
  b.Transpose(x, {1});
  const Result<std::string> text = b.Finish({x});
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.status().message(),
            "stablehlo.add: operands differ: tensor<2xf32> and tensor<3xf32>");
}

TEST(BuilderTest, RollBackForgetsTextAndMistakes) {
  Builder b;
  const Value x = b.Argument(DType::kF32, {2});
  const Builder::Mark mark = b.GetMark();
  b.Add(x, x);
  b.Fail(Unimplemented("no"));
  b.RollBack(mark);
  EXPECT_TRUE(b.status().ok());
  EXPECT_EQ(Body(b, b.Mul(x, x)), "%1 = stablehlo.multiply %0, %0 : tensor<2xf32>\n");
}

TEST(BuilderTest, LocationsAreQuoted) {
  Builder b;
  const Value x = b.Argument(DType::kF32, {});
  b.SetLocation("a \"b\".py", 7);
  EXPECT_EQ(Body(b, b.Unary("abs", x)),
            "%1 = stablehlo.abs %0 : tensor<f32> loc(\"a \\\"b\\\".py\":7:0)\n");
}

TEST(BuilderTest, ShapesAreInferred) {
  Builder b;
  const Value x = b.Argument(DType::kF32, {2, 8, 8, 3});
  const Value w = b.Argument(DType::kF32, {5, 3, 3, 3});
  ConvDims dims;
  dims.stride = {2, 2};
  dims.pad_low = dims.pad_high = {1, 1};
  dims.lhs_dilate = dims.rhs_dilate = {1, 1};
  dims.lhs_order = dims.out_order = {0, 3, 1, 2};
  EXPECT_EQ(b.Convolution(x, w, dims, DType::kF32).dims, (Dims{2, 4, 4, 5}));
  const Value a = b.Argument(DType::kF32, {7, 2, 3}), c = b.Argument(DType::kF32, {7, 3, 4});
  EXPECT_EQ(b.DotGeneral(a, c, {{0}, {0}, {2}, {1}}, DType::kF32).dims, (Dims{7, 2, 4}));
  EXPECT_EQ(b.Pad(a, b.Constant(DType::kF32, {}, 0), {0, 1, -1}, {0, 0, 0}, {0, 1, 0}).dims,
            (Dims{7, 4, 2}));
  EXPECT_TRUE(b.status().ok()) << b.status().ToString();
}

}  // namespace
}  // namespace dendrite::stablehlo
