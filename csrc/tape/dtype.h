// csrc/tape/dtype.h - element types, by their StableHLO meaning. Stateless; any thread.
#pragma once

#include <cstdint>

namespace dendrite::tape {

// Values reach cache keys: never renumber, only append.
enum class DType : uint8_t {
  kUndefined = 0,
  kBool = 1,
  kU8 = 2,
  kI8 = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kF16 = 7,
  kBF16 = 8,
  kF32 = 9,
  kF64 = 10,
  kC64 = 11,   // complex<f32>
  kC128 = 12,  // complex<f64>
  kU16 = 13,
  kU32 = 14,
  kU64 = 15,
};

// Bytes of one element (bool is one byte, as in PyTorch and PJRT PRED).
int64_t ItemSize(DType t);
// StableHLO's spelling: "i1", "ui8", "i8", "i64", "bf16", "f32", "complex<f32>", ...
const char* Name(DType t);

constexpr bool IsFloat(DType t) { return t >= DType::kF16 && t <= DType::kF64; }
constexpr bool IsComplex(DType t) { return t == DType::kC64 || t == DType::kC128; }
constexpr bool IsUnsigned(DType t) {
  return t == DType::kBool || t == DType::kU8 || t >= DType::kU16;
}
constexpr bool IsIntegral(DType t) {  // bool not included
  return (t >= DType::kU8 && t <= DType::kI64) || t >= DType::kU16;
}
// The type in which PyTorch's CPU kernels compute on `t`: f16 and bf16 compute in f32.
constexpr DType OpMath(DType t) { return t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t; }

}  // namespace dendrite::tape
