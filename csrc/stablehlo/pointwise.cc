// Pointwise operations and conversions of stablehlo::Builder.
#include "csrc/stablehlo/builder.h"
#include "csrc/stablehlo/text.h"

namespace dendrite::stablehlo {

Value Builder::Unary(std::string_view op, const Value& x) {
  if (!Expect(x.defined(), op, "undefined operand")) return x;
  const std::string name = "stablehlo." + std::string(op) + " ";
  DType out = x.dtype;
  if (op == "is_finite") {
    out = DType::kBool;
  } else if (IsComplex(x.dtype) && (op == "abs" || op == "real" || op == "imag")) {
    out = ComplexPart(x.dtype);
  }
  if (out == x.dtype) return Emit(out, x.dims, name + Ref(x) + " : " + TypeOf(x));
  return Emit(out, x.dims, name + Ref(x) + " : (" + TypeOf(x) + ") -> " + TypeText(out, x.dims));
}

Value Builder::Binary(std::string_view op, const Value& a, const Value& b) {
  if (!Expect(a.defined() && b.defined(), op, "undefined operand")) return a;
  Expect(a.dtype == b.dtype && a.dims == b.dims, op,
         "operands differ: " + TypeOf(a) + " and " + TypeOf(b));
  return Emit(a.dtype, a.dims,
              "stablehlo." + std::string(op) + " " + Ref(a) + ", " + Ref(b) + " : " + TypeOf(a));
}

Value Builder::Compare(Cmp cmp, const Value& a, const Value& b) {
  static constexpr const char* kNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  if (!Expect(a.defined() && b.defined(), "compare", "undefined operand")) return a;
  Expect(a.dtype == b.dtype && a.dims == b.dims, "compare",
         "operands differ: " + TypeOf(a) + " and " + TypeOf(b));
  const char* type = IsFloat(a.dtype) || IsComplex(a.dtype) ? "FLOAT"
                     : IsUnsigned(a.dtype)                  ? "UNSIGNED"
                                                            : "SIGNED";
  return Emit(DType::kBool, a.dims,
              std::string("stablehlo.compare ") + kNames[static_cast<int>(cmp)] + ", " + Ref(a) +
                  ", " + Ref(b) + ", " + type + " : (" + TypesOf({a, b}) + ") -> " +
                  TypeText(DType::kBool, a.dims));
}

Value Builder::Select(const Value& pred, const Value& on_true, const Value& on_false) {
  if (!Expect(pred.defined() && on_true.defined() && on_false.defined(), "select",
              "undefined operand")) {
    return on_true;
  }
  Expect(on_true.dtype == on_false.dtype && on_true.dims == on_false.dims, "select",
         "operands differ: " + TypeOf(on_true) + " and " + TypeOf(on_false));
  Expect(pred.dtype == DType::kBool && (pred.dims.empty() || pred.dims == on_true.dims), "select",
         "predicate is " + TypeOf(pred));
  return Emit(
      on_true.dtype, on_true.dims,
      "stablehlo.select " + Refs({pred, on_true, on_false}) + " : " + TypesOf({pred, on_true}));
}

Value Builder::Clamp(const Value& lo, const Value& x, const Value& hi) {
  if (!Expect(lo.defined() && x.defined() && hi.defined(), "clamp", "undefined operand")) return x;
  Expect(lo.dtype == x.dtype && hi.dtype == x.dtype && (lo.dims.empty() || lo.dims == x.dims) &&
             (hi.dims.empty() || hi.dims == x.dims),
         "clamp", "bounds differ from " + TypeOf(x));
  Value out = NewValue(x.dtype, x.dims);
  Append({out}, "stablehlo.clamp " + Refs({lo, x, hi}) + " : " + Signature({lo, x, hi}, {out}));
  return out;
}

Value Builder::Convert(const Value& x, DType to) {
  if (!Expect(x.defined(), "convert", "undefined operand") || x.dtype == to) return x;
  if (to == DType::kBool) return Compare(Cmp::kNe, x, Constant(x.dtype, x.dims, 0));
  if (IsComplex(x.dtype) && !IsComplex(to)) return Convert(Real(x), to);
  if (IsComplex(to)) {
    const DType part = ComplexPart(to);
    if (!IsComplex(x.dtype)) return Complex(Convert(x, part), Constant(part, x.dims, 0));
    return Complex(Convert(Real(x), part), Convert(Imag(x), part));
  }
  if (x.dtype == DType::kBool && IsFloat(to)) {
    // XLA makes `convert(p) * y` into `select(p, y, 0)`, which hides NaN and the sign of zero.
    return Select(x, Constant(to, x.dims, 1), Constant(to, x.dims, 0));
  }
  Value out = NewValue(to, x.dims);
  Append({out}, "stablehlo.convert " + Ref(x) + " : " + Signature({x}, {out}));
  return out;
}

Value Builder::BitcastConvert(const Value& x, DType to) {
  if (!Expect(x.defined(), "bitcast_convert", "undefined operand") || x.dtype == to) return x;
  // i1 is one bit to StableHLO, though one byte in memory: go through the value.
  if (x.dtype == DType::kBool) return BitcastConvert(Convert(x, DType::kU8), to);
  if (to == DType::kBool) return Convert(BitcastConvert(x, DType::kU8), to);
  const int64_t from_size = ItemSize(x.dtype), to_size = ItemSize(to);
  Dims dims = x.dims;
  if (from_size > to_size) {
    dims.push_back(from_size / to_size);
  } else if (from_size < to_size) {
    if (!Expect(!dims.empty() && dims.back() == to_size / from_size, "bitcast_convert",
                TypeOf(x) + " to " + Name(to))) {
      return x;
    }
    dims.pop_back();
  }
  Value out = NewValue(to, dims);
  Append({out}, "stablehlo.bitcast_convert " + Ref(x) + " : " + Signature({x}, {out}));
  return out;
}

Value Builder::Complex(const Value& re, const Value& im) {
  if (!Expect(re.defined() && im.defined(), "complex", "undefined operand")) return re;
  Expect(re.dtype == im.dtype && re.dims == im.dims &&
             (re.dtype == DType::kF32 || re.dtype == DType::kF64),
         "complex", "parts are " + TypesOf({re, im}));
  Value out = NewValue(re.dtype == DType::kF64 ? DType::kC128 : DType::kC64, re.dims);
  Append({out}, "stablehlo.complex " + Refs({re, im}) + " : " + TypeOf(out));
  return out;
}

}  // namespace dendrite::stablehlo
