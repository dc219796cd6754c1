#include "csrc/lowering/convert.h"

namespace dendrite::lowering {

using stablehlo::Builder;
using stablehlo::Value;
using tape::Dims;
using tape::DType;

Value ConvertLikeTorch(Builder& b, const Value& v, DType dtype) {
  if (v.dtype == dtype) return v;
  if (tape::IsComplex(v.dtype) && !tape::IsComplex(dtype) && dtype != DType::kBool) {
    return ConvertLikeTorch(b, b.Real(v), dtype);
  }
  // Floats become small unsigned integers through int64, so that negative ones wrap instead of
  // saturating.
  if (tape::IsFloat(v.dtype) && tape::IsUnsigned(dtype) && dtype != DType::kBool &&
      dtype != DType::kU64) {
    return b.Convert(b.Convert(v, DType::kI64), dtype);
  }
  // f64 to a 16-bit float goes through f32, as c10::Half and c10::BFloat16 do.
  if (v.dtype == DType::kF64 && (dtype == DType::kF16 || dtype == DType::kBF16)) {
    return b.Convert(b.Convert(v, DType::kF32), dtype);
  }
  return b.Convert(v, dtype);
}

Value Reinterpret(Builder& b, const Value& v, DType dtype) {
  if (v.dtype == dtype) return v;
  const int64_t count = tape::NumElements(v.dims);
  if (tape::IsComplex(v.dtype)) {
    const Dims column = {count, 1};
    const Value parts =
        b.Concatenate({b.Reshape(b.Real(v), column), b.Reshape(b.Imag(v), column)}, 1);
    return Reinterpret(b, parts, dtype);
  }
  if (tape::IsComplex(dtype)) {
    const Value parts = Reinterpret(b, v, dtype == DType::kC64 ? DType::kF32 : DType::kF64);
    const int64_t pairs = tape::NumElements(parts.dims) / 2;
    if (tape::NumElements(parts.dims) % 2 != 0) {
      b.Fail(Unimplemented("an odd number of floats seen as complex"));
      return b.Constant(dtype, {0}, 0);
    }
    const Value rows = b.Reshape(parts, {pairs, 2});
    const Value re = b.Slice(rows, {0, 0}, {pairs, 1}, {1, 1});
    const Value im = b.Slice(rows, {0, 1}, {pairs, 2}, {1, 1});
    return b.Reshape(b.Complex(re, im), {pairs});
  }
  const int64_t from = tape::ItemSize(v.dtype), to = tape::ItemSize(dtype);
  if (from >= to) return b.BitcastConvert(v, dtype);
  const int64_t ratio = to / from;
  if (count % ratio != 0) {
    b.Fail(Unimplemented("bytes that do not divide into the viewed dtype"));
    return b.Constant(dtype, {0}, 0);
  }
  return b.BitcastConvert(b.Reshape(v, {count / ratio, ratio}), dtype);
}

}  // namespace dendrite::lowering
