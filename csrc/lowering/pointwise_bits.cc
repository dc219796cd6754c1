// csrc/lowering/pointwise_bits.cc - operators on the representation of numbers: the neighbouring
// float, mantissa and exponent, common divisors.
#include <cmath>
#include <cstdint>
#include <numeric>

#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

DType BitsOf(DType t) {
  const int64_t size = tape::ItemSize(t);
  return size == 8 ? DType::kI64 : (size == 4 ? DType::kI32 : DType::kI16);
}

// The float next to x in the direction of y, in the tensors' own type.
void NextAfter(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (!p.RealOnly()) return;
  if (!p.is_float()) return e.Fail(Unimplemented("nextafter of integers"));
  Builder& b = e.b();
  const Value x = e.ToSized(e.In(0), p.common, p.dims), y = e.ToSized(e.In(1), p.common, p.dims);
  const Value zero = Like(b, x, 0), bits = b.BitcastConvert(x, BitsOf(x.dtype));
  // Away from zero is the next larger pattern, of either sign.
  const Value away = b.Compare(Cmp::kEq, b.Compare(Cmp::kLt, x, y), b.Compare(Cmp::kGt, x, zero));
  const Value step = b.Select(away, Like(b, bits, 1), Like(b, bits, -1));
  const Value moved = b.BitcastConvert(b.Add(bits, step), x.dtype);
  const Value smallest = b.BitcastConvert(Like(b, bits, 1), x.dtype);
  const Value from_zero = b.Select(b.Compare(Cmp::kLt, y, zero), Negate(b, smallest), smallest);
  Value v = b.Select(b.Compare(Cmp::kEq, x, zero), from_zero, moved);
  v = b.Select(b.Compare(Cmp::kEq, x, y), y, v);
  p.Out(b.Select(b.Binary("or", IsNan(b, x), IsNan(b, y)), Like(b, x, NAN), v));
}

// (self) -> mantissa in [1/2, 1), exponent i32; zeros, infinities and NaN are their own mantissas.
void Frexp(Emitter& e) {
  Builder& b = e.b();
  const Value raw = e.In(0);
  if (!tape::IsFloat(raw.dtype)) return e.Fail(Unimplemented("frexp of integers"));
  const Value x = e.To(raw, tape::OpMath(raw.dtype));
  const bool wide = x.dtype == DType::kF64;
  const int fraction = wide ? 52 : 23, bias = wide ? 1023 : 127;
  const DType type = BitsOf(x.dtype);
  const Value bits = b.BitcastConvert(x, type);
  const auto integer = [&](int64_t v) { return b.ConstantInt(type, bits.dims, v); };
  // All in integers: what computes with floats may take denormals for zeros.
  const Value field = integer(wide ? 0x7ff : 0xff), place = integer(fraction);
  const Value low = integer((int64_t{1} << fraction) - 1);
  const Value stored = b.Binary("and", b.Binary("shift_right_logical", bits, place), field);
  const Value digits = b.Binary("and", bits, low);
  const Value is_denormal = b.Compare(Cmp::kEq, stored, integer(0));
  // A denormal's first digit moves to where a normal number's hidden one stands.
  const Value shift = b.Sub(b.Unary("count_leading_zeros", digits), integer(wide ? 11 : 8));
  const Value normal = b.Binary("and", b.Binary("shift_left", digits, shift), low);
  const Value fraction_bits = b.Select(is_denormal, normal, digits);
  const Value exponent =
      b.Select(is_denormal, b.Sub(integer(2 - bias), shift), b.Sub(stored, integer(bias - 1)));
  const Value sign = b.Binary(
      "and", bits, b.Unary("not", b.Binary("or", low, b.Binary("shift_left", field, place))));
  const Value half = integer(static_cast<int64_t>(bias - 1) << fraction);
  const Value mantissa =
      b.BitcastConvert(b.Binary("or", sign, b.Binary("or", half, fraction_bits)), x.dtype);
  const Value zero = b.Binary("and", is_denormal, b.Compare(Cmp::kEq, digits, integer(0)));
  const Value special = b.Binary("or", zero, b.Compare(Cmp::kEq, stored, field));
  e.Out(0, b.Select(special, x, mantissa));
  e.Out(1, e.To(b.Select(special, integer(0), exponent), DType::kI32));
}

// Euclid's, over all elements at once; of non-negative numbers.
Value CommonDivisor(Builder& b, const Value& x, const Value& y) {
  Dims all(x.dims.size());
  std::iota(all.begin(), all.end(), 0);
  return b.While(
      {x, y},
      [&](Builder& w, const std::vector<Value>& c) {
        return std::vector<Value>{w.Reduce(
            w.Compare(Cmp::kNe, c[1], Like(w, c[1], 0)), w.ConstantInt(DType::kBool, {}, 0), all,
            [](Builder& r, const Value& u, const Value& v) { return r.Binary("or", u, v); })};
      },
      [](Builder& w, const std::vector<Value>& c) {
        const Value done = w.Compare(Cmp::kEq, c[1], Like(w, c[1], 0));
        const Value rest = w.Binary("remainder", c[0], w.Select(done, Like(w, c[1], 1), c[1]));
        return std::vector<Value>{w.Select(done, c[0], c[1]), w.Select(done, c[1], rest)};
      })[0];
}

Value Magnitude(Builder& b, const Value& x) {
  return tape::IsUnsigned(x.dtype) ? x : b.Unary("abs", x);
}

template <bool kMultiple>
void Divisor(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (!tape::IsIntegral(p.common)) return e.Fail(Unimplemented(e.sig().op + " of floats"));
  Builder& b = e.b();
  const Value x = p[0], y = p[1];
  const Value divisor = CommonDivisor(b, Magnitude(b, x), Magnitude(b, y));
  if (!kMultiple) return p.Out(divisor);
  const Value none = b.Compare(Cmp::kEq, divisor, Like(b, x, 0));
  const Value product = b.Mul(b.Div(x, b.Select(none, Like(b, x, 1), divisor)), y);
  p.Out(b.Select(none, Like(b, x, 0), Magnitude(b, product)));
}

DENDRITE_LOWERING("aten.nextafter.default", NextAfter);
DENDRITE_LOWERING("aten.frexp.Tensor", Frexp);
DENDRITE_LOWERING("aten.gcd.default", Divisor<false>);
DENDRITE_LOWERING("aten.lcm.default", Divisor<true>);

}  // namespace
}  // namespace dendrite::lowering
