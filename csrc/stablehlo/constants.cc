// Constants and iota of stablehlo::Builder.
#include <cmath>
#include <limits>

#include "csrc/stablehlo/builder.h"
#include "csrc/stablehlo/text.h"

namespace dendrite::stablehlo {
namespace {

int64_t MaxInt(DType t) {
  switch (t) {
    case DType::kBool:
      return 1;
    case DType::kU8:
      return std::numeric_limits<uint8_t>::max();
    case DType::kI8:
      return std::numeric_limits<int8_t>::max();
    case DType::kI16:
      return std::numeric_limits<int16_t>::max();
    case DType::kU16:
      return std::numeric_limits<uint16_t>::max();
    case DType::kI32:
      return std::numeric_limits<int32_t>::max();
    case DType::kU32:
      return std::numeric_limits<uint32_t>::max();
    case DType::kU64:
      return -1;  // all ones; IntLiteral prints it unsigned
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

int64_t MinInt(DType t) {
  if (IsUnsigned(t)) return 0;
  return -MaxInt(t) - 1;
}

double MaxFloat(DType t) {
  switch (t) {
    case DType::kF16:
      return 65504.0;
    case DType::kBF16:
      return std::ldexp(255.0, 120);
    case DType::kF32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

std::string RankOne(DType dtype, size_t count, const std::string& joined) {
  return "stablehlo.constant dense<" + (count == 0 ? std::string() : "[" + joined + "]") +
         "> : " + Builder::TypeText(dtype, {static_cast<int64_t>(count)});
}

}  // namespace

Value Builder::Splat(DType dtype, const Dims& dims, const std::string& literal) {
  return Emit(dtype, dims,
              "stablehlo.constant dense<" +
                  (tape::NumElements(dims) == 0 ? std::string() : literal) +
                  "> : " + TypeText(dtype, dims));
}

Value Builder::Constant(DType dtype, const Dims& dims, double v) {
  return Splat(dtype, dims, NumberLiteral(dtype, v));
}

Value Builder::ConstantInt(DType dtype, const Dims& dims, int64_t v) {
  if (IsFloat(dtype) || IsComplex(dtype)) return Constant(dtype, dims, static_cast<double>(v));
  return Splat(dtype, dims, IntLiteral(dtype, v));
}

Value Builder::ConstantComplex(DType dtype, const Dims& dims, double re, double im) {
  Expect(IsComplex(dtype), "constant", "ConstantComplex of a real type");
  const DType part = ComplexPart(dtype);
  return Splat(dtype, dims, "(" + FloatLiteral(part, re) + ", " + FloatLiteral(part, im) + ")");
}

Value Builder::ConstantInts(DType dtype, const std::vector<int64_t>& values) {
  std::string joined;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) joined += ", ";
    joined += IsFloat(dtype) || IsComplex(dtype)
                  ? NumberLiteral(dtype, static_cast<double>(values[i]))
                  : IntLiteral(dtype, values[i]);
  }
  return Emit(dtype, {static_cast<int64_t>(values.size())}, RankOne(dtype, values.size(), joined));
}

Value Builder::ConstantFloats(DType dtype, const std::vector<double>& values) {
  std::string joined;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) joined += ", ";
    joined += NumberLiteral(dtype, values[i]);
  }
  return Emit(dtype, {static_cast<int64_t>(values.size())}, RankOne(dtype, values.size(), joined));
}

Value Builder::MaxFinite(DType dtype, const Dims& dims) {
  Expect(!IsComplex(dtype), "constant", "no largest complex number");
  if (IsFloat(dtype)) return Constant(dtype, dims, MaxFloat(dtype));
  return ConstantInt(dtype, dims, MaxInt(dtype));
}

Value Builder::Lowest(DType dtype, const Dims& dims) {
  Expect(!IsComplex(dtype), "constant", "no lowest complex number");
  if (IsFloat(dtype)) return Constant(dtype, dims, -MaxFloat(dtype));
  return ConstantInt(dtype, dims, MinInt(dtype));
}

Value Builder::Infinity(DType dtype, const Dims& dims, bool negative) {
  if (!IsFloat(dtype)) return negative ? Lowest(dtype, dims) : MaxFinite(dtype, dims);
  const double inf = std::numeric_limits<double>::infinity();
  return Constant(dtype, dims, negative ? -inf : inf);
}

Value Builder::Iota(DType dtype, const Dims& dims, int64_t dim) {
  Expect(dim >= 0 && dim < static_cast<int64_t>(dims.size()), "iota", "dimension out of range");
  // StableHLO has no boolean iota.
  if (dtype == DType::kBool) return Convert(Iota(DType::kI32, dims, dim), dtype);
  return Emit(dtype, dims,
              "stablehlo.iota dim = " + std::to_string(dim) + " : " + TypeText(dtype, dims));
}

}  // namespace dendrite::stablehlo
