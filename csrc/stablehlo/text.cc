#include "csrc/stablehlo/text.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace dendrite::stablehlo {
namespace {

// Keeps the top 16 bits of an f32, rounding to nearest even.
uint16_t BFloat16Bits(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if (std::isnan(f)) return 0x7FC0;
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

uint16_t HalfBits(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  if (std::isnan(f)) return 0x7E00;
  const double magnitude = std::fabs(static_cast<double>(f));
  if (magnitude >= 65520.0) return sign | 0x7C00;
  // Scaled so that one unit is the last place of the result; nearbyint rounds to even.
  const int exponent = magnitude == 0 ? -14 : std::max(std::ilogb(magnitude), -14);
  auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  uint32_t biased = static_cast<uint32_t>(exponent + 15);
  if (units < 1024) return sign | static_cast<uint16_t>(units);  // subnormal or zero
  // A carry out of the mantissa moves into the exponent by itself.
  return sign | static_cast<uint16_t>((biased << 10) + (units - 1024));
}

std::string Join(const Dims& v) {
  std::string out;
  for (size_t i = 0; i < v.size(); ++i) {
    if (i) out += ", ";
    out += std::to_string(v[i]);
  }
  return out;
}

std::string Hex(uint64_t bits, int digits) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "0x%0*llX", digits, static_cast<unsigned long long>(bits));
  return buffer;
}

}  // namespace

std::string Ref(const Value& v) { return "%" + std::to_string(v.id); }

std::string Refs(const std::vector<Value>& vs) {
  std::string out;
  for (size_t i = 0; i < vs.size(); ++i) {
    if (i) out += ", ";
    out += Ref(vs[i]);
  }
  return out;
}

std::string TypeOf(const Value& v) { return Builder::TypeText(v.dtype, v.dims); }

std::string TypesOf(const std::vector<Value>& vs) {
  std::string out;
  for (size_t i = 0; i < vs.size(); ++i) {
    if (i) out += ", ";
    out += TypeOf(vs[i]);
  }
  return out;
}

std::string ListText(const Dims& v) { return "[" + Join(v) + "]"; }

std::string ArrayText(const Dims& v) {
  return v.empty() ? "array<i64>" : "array<i64: " + Join(v) + ">";
}

std::string PairsText(const Dims& low, const Dims& high) {
  const std::string type = " : tensor<" + std::to_string(low.size()) + "x2xi64>";
  if (low.empty()) return "dense<>" + type;
  std::string out = "dense<[";
  for (size_t i = 0; i < low.size(); ++i) {
    if (i) out += ", ";
    out += ListText({low[i], high[i]});
  }
  return out + "]>" + type;
}

std::string Signature(const std::vector<Value>& operands, const std::vector<Value>& results) {
  std::string out = "(" + TypesOf(operands) + ") -> ";
  if (results.size() == 1) return out + TypeOf(results[0]);
  return out + "(" + TypesOf(results) + ")";
}

DType ComplexPart(DType dtype) { return dtype == DType::kC128 ? DType::kF64 : DType::kF32; }

std::string FloatLiteral(DType dtype, double v) {
  const auto f = static_cast<float>(v);
  if (std::isfinite(dtype == DType::kF64 ? v : static_cast<double>(f))) {
    char buffer[40];
    std::snprintf(buffer, sizeof buffer, "%.6e", v);
    // Short decimals keep goldens readable; whatever does not survive them is written as bits. A
    // 16-bit type must hold the decimal exactly, or the parser would have to round it our way.
    const double back = std::strtod(buffer, nullptr);
    const bool narrow = dtype == DType::kF16 || dtype == DType::kBF16;
    if (back == v && (dtype == DType::kF64 || static_cast<double>(f) == v) &&
        (!narrow || std::nearbyint(v) == v) && (!narrow || std::fabs(v) <= 256)) {
      return buffer;
    }
  }
  switch (dtype) {
    case DType::kF16:
      return Hex(HalfBits(f), 4);
    case DType::kBF16:
      return Hex(BFloat16Bits(f), 4);
    case DType::kF64:
      return Hex(std::isnan(v) ? 0x7FF8000000000000 : std::bit_cast<uint64_t>(v), 16);
    default:
      return Hex(std::isnan(f) ? 0x7FC00000 : std::bit_cast<uint32_t>(f), 8);
  }
}

std::string IntLiteral(DType dtype, int64_t v) {
  switch (dtype) {
    case DType::kBool:
      return v ? "true" : "false";
    case DType::kU8:
      return std::to_string(static_cast<uint8_t>(v));
    case DType::kI8:
      return std::to_string(static_cast<int8_t>(v));
    case DType::kI16:
      return std::to_string(static_cast<int16_t>(v));
    case DType::kU16:
      return std::to_string(static_cast<uint16_t>(v));
    case DType::kI32:
      return std::to_string(static_cast<int32_t>(v));
    case DType::kU32:
      return std::to_string(static_cast<uint32_t>(v));
    case DType::kU64:
      return std::to_string(static_cast<uint64_t>(v));
    default:
      return std::to_string(v);
  }
}

std::string NumberLiteral(DType dtype, double v) {
  if (IsComplex(dtype)) {
    return "(" + FloatLiteral(ComplexPart(dtype), v) + ", " + FloatLiteral(ComplexPart(dtype), 0) +
           ")";
  }
  if (IsFloat(dtype)) return FloatLiteral(dtype, v);
  if (dtype == DType::kBool) return v != 0 ? "true" : "false";
  if (std::isnan(v)) return "0";
  if (v >= 9223372036854775808.0) {
    return IntLiteral(dtype, dtype == DType::kU64 && v < 18446744073709551616.0
                                 ? static_cast<int64_t>(static_cast<uint64_t>(v))
                                 : INT64_MAX);
  }
  if (v < -9223372036854775808.0) return IntLiteral(dtype, INT64_MIN);
  return IntLiteral(dtype, static_cast<int64_t>(v));
}

}  // namespace dendrite::stablehlo
