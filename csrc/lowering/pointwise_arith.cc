// Arithmetic of two and three operands: add, div, pow, remainder, clamp, lerp, ...
#include <cmath>

#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

constexpr auto kExact = Pointwise::Precision::kExactNumber;

// alpha * x; alpha of exactly 1 costs nothing. PyTorch's kernel takes alpha in the operands' dtype,
// 16-bit ones included.
Value Scaled(const Pointwise& p, const Value& x, int alpha) {
  const Arg& arg = p.e.arg(alpha);
  const bool is_one =
      arg.kind == Arg::Kind::kNone ||
      ((arg.kind == Arg::Kind::kInt || arg.kind == Arg::Kind::kBool) && arg.i == 1) ||
      (arg.kind == Arg::Kind::kFloat && arg.d == 1);
  return is_one ? x : p.e.b().Mul(x, p[alpha]);
}

void Add(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Out(e.b().Add(p[0], Scaled(p, p.Get(1, kExact), 2)));
}

void Sub(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Out(e.b().Sub(p[0], Scaled(p, p.Get(1, kExact), 2)));
}

void RSub(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Out(e.b().Sub(p.Get(1, kExact), Scaled(p, p[0], 2)));
}

void Mul(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Out(e.b().Mul(p[0], p.Get(1, kExact)));
}

// Integer division by zero raises in PyTorch: the record's check fails, which discards the result.
void CheckDivisor(const Pointwise& p, const Value& divisor) {
  Builder& b = p.e.b();
  const Value bad = b.Compare(Cmp::kEq, divisor, Like(b, divisor, 0));
  p.e.CheckIndices(b.Convert(bad, DType::kI64), 0, 1);
}

// Of integers: rounds towards minus infinity.
Value IntFloorDiv(Builder& b, const Value& x, const Value& y) {
  const Value q = b.Div(x, y);
  if (tape::IsUnsigned(x.dtype)) return q;
  const Value r = b.Binary("remainder", x, y), zero = Like(b, x, 0);
  const Value signs_differ =
      b.Compare(Cmp::kNe, b.Compare(Cmp::kLt, r, zero), b.Compare(Cmp::kLt, y, zero));
  const Value adjust = b.Binary("and", b.Compare(Cmp::kNe, r, zero), signs_differ);
  return b.Sub(q, b.Convert(adjust, x.dtype));
}

// Python's: the remainder has the divisor's sign.
Value Modulo(Builder& b, const Value& x, const Value& y) {
  const Value r = b.Binary("remainder", x, y);
  if (tape::IsUnsigned(x.dtype)) return r;
  const Value zero = Like(b, x, 0);
  const Value signs_differ =
      b.Compare(Cmp::kNe, b.Compare(Cmp::kLt, r, zero), b.Compare(Cmp::kLt, y, zero));
  const Value adjust = b.Binary("and", b.Compare(Cmp::kNe, r, zero), signs_differ);
  return b.Select(adjust, b.Add(r, y), r);
}

// Python's floor division: exact where the quotient is close to an integer, unlike floor(x / y).
Value FloatFloorDiv(Builder& b, const Value& x, const Value& y) {
  const Value zero = Like(b, x, 0), one = Like(b, x, 1), quotient = b.Div(x, y);
  const Value r = b.Binary("remainder", x, y);
  const Value signs_differ =
      b.Compare(Cmp::kNe, b.Compare(Cmp::kLt, r, zero), b.Compare(Cmp::kLt, y, zero));
  const Value adjust = b.Binary("and", b.Compare(Cmp::kNe, r, zero), signs_differ);
  Value d = b.Div(b.Sub(x, r), y);
  d = b.Select(adjust, b.Sub(d, one), d);
  const Value down = b.Unary("floor", d);
  const Value nearest =
      b.Select(b.Compare(Cmp::kGt, b.Sub(d, down), Like(b, x, 0.5)), b.Add(down, one), down);
  const Value result = b.Select(b.Compare(Cmp::kEq, d, zero), CopySign(b, zero, quotient), nearest);
  return b.Select(b.Compare(Cmp::kEq, y, zero), quotient, result);
}

void TrueDivide(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Floats();
  p.Out(e.b().Div(p[0], p.Get(1, kExact)));
}

void DivideDown(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (!p.RealOnly()) return;
  const Value x = p[0], y = p[1];
  if (p.is_float()) return p.Out(FloatFloorDiv(e.b(), x, y));
  CheckDivisor(p, y);
  p.Out(IntFloorDiv(e.b(), x, y));
}

void DivideTowardsZero(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (!p.RealOnly()) return;
  const Value x = p[0], y = p[1];
  if (p.is_float()) {
    // The quotient is rounded to the tensors' own type first, which can carry it up to an integer.
    const Value quotient = e.To(e.b().Div(x, y), p.common);
    return p.Out(Trunc(e.b(), e.To(quotient, p.math)));
  }
  CheckDivisor(p, y);
  p.Out(e.b().Div(x, y));
}

void DivideMode(Emitter& e) {
  if (e.IsNone(2)) return TrueDivide(e);
  const std::string mode = e.String(2);
  if (mode == "floor") return DivideDown(e);
  if (mode == "trunc") return DivideTowardsZero(e);
  e.Fail(Unimplemented("div with rounding mode " + mode));
}

void Remainder(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (!p.RealOnly()) return;
  const Value y = p[1];
  if (!p.is_float()) CheckDivisor(p, y);
  p.Out(Modulo(e.b(), p[0], y));
}

void Fmod(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (!p.RealOnly()) return;
  const Value y = p[1];
  if (!p.is_float()) CheckDivisor(p, y);
  p.Out(e.b().Binary("remainder", p[0], y));
}

// x to a power that PyTorch's CPU kernels special-case; undefined for other powers.
Value SpecialPower(Builder& b, const Value& x, double exponent, bool is_float) {
  const Value one = Like(b, x, 1);
  if (exponent == 0) return one;
  if (exponent == 1) return x;
  if (exponent == 2) return b.Mul(x, x);
  if (exponent == 3) return b.Mul(b.Mul(x, x), x);
  if (!is_float) return {};
  if (exponent == 0.5) return PlainSqrt(b, x);
  if (exponent == -0.5) return b.Div(one, PlainSqrt(b, x));
  if (exponent == -1) return b.Div(one, x);
  if (exponent == -2) return b.Div(one, b.Mul(x, x));
  return {};
}

Value Power(const Pointwise& p, const Value& x, const Value& y) {
  Builder& b = p.e.b();
  if (p.math == DType::kBool) {  // false ** true is the one combination that gives false
    return b.Binary("or", x, b.Unary("not", y));
  }
  const Value power = b.Binary("power", x, y);
  if (p.is_float() || p.is_complex() || tape::IsUnsigned(p.math)) return power;
  // Integers to negative powers: 1 and -1 stay, all else rounds to 0.
  const Value one = Like(b, x, 1), minus_one = Like(b, x, -1), zero = Like(b, x, 0);
  const Value odd = b.Compare(Cmp::kNe, b.Binary("and", y, one), zero);
  const Value inverse =
      b.Select(b.Compare(Cmp::kEq, x, one), one,
               b.Select(b.Compare(Cmp::kEq, x, minus_one), b.Select(odd, minus_one, one), zero));
  const Value exponent = b.Binary("maximum", y, zero);
  return b.Select(b.Compare(Cmp::kLt, y, zero), inverse, b.Binary("power", x, exponent));
}

void PowTensors(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Out(Power(p, p[0], p[1]));
}

void PowNumber(Emitter& e) {
  Pointwise p(e, {0, 1});
  const Arg& exponent = e.arg(1);
  if (exponent.kind == Arg::Kind::kInt || exponent.kind == Arg::Kind::kFloat) {
    const Value special = SpecialPower(e.b(), p[0], e.Float(1), p.is_float());
    if (special.defined()) return p.Out(special);
  }
  p.Out(Power(p, p[0], p[1]));
}

template <Value (*kFn)(Builder&, const Value&, const Value&)>
void RealBinary(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (p.RealOnly()) p.Out(kFn(e.b(), p[0], p[1]));
}

template <Value (*kFn)(Builder&, const Value&, const Value&)>
void FloatBinary(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Floats();
  if (p.RealOnly()) p.Out(kFn(e.b(), p[0], p[1]));
}

// The number where the other is NaN.
Value FMax(Builder& b, const Value& x, const Value& y) {
  const Value larger = MaximumNan(b, x, y);
  if (!tape::IsFloat(x.dtype)) return larger;
  return b.Select(IsNan(b, x), y, b.Select(IsNan(b, y), x, larger));
}

Value FMin(Builder& b, const Value& x, const Value& y) {
  const Value smaller = MinimumNan(b, x, y);
  if (!tape::IsFloat(x.dtype)) return smaller;
  return b.Select(IsNan(b, x), y, b.Select(IsNan(b, y), x, smaller));
}

Value Atan2(Builder& b, const Value& x, const Value& y) { return b.Binary("atan2", x, y); }

// Scaled by the larger one, so that squares do not overflow.
Value Hypot(Builder& b, const Value& x, const Value& y) {
  const Value ax = b.Unary("abs", x), ay = b.Unary("abs", y), zero = Like(b, x, 0);
  const Value high = b.Binary("maximum", ax, ay), low = b.Binary("minimum", ax, ay);
  const Value ratio = b.Div(low, high);
  const Value root = b.Unary("sqrt", b.Add(Like(b, x, 1), b.Mul(ratio, ratio)));
  const Value inf = b.Infinity(x.dtype, x.dims, false);
  const Value finite = b.Select(b.Compare(Cmp::kEq, high, zero), zero, b.Mul(high, root));
  // An infinite side makes an infinite hypotenuse, even beside a NaN.
  const Value any_inf = b.Binary("or", b.Compare(Cmp::kEq, ax, inf), b.Compare(Cmp::kEq, ay, inf));
  const Value any_nan = b.Binary("or", IsNan(b, x), IsNan(b, y));
  return b.Select(any_inf, inf, b.Select(any_nan, Like(b, x, NAN), finite));
}

Value XLogY(Builder& b, const Value& x, const Value& y) {
  const Value zero = Like(b, x, 0);
  const Value v = b.Select(b.Compare(Cmp::kEq, x, zero), zero, b.Mul(x, b.Unary("log", y)));
  return b.Select(IsNan(b, y), y, v);
}

// log(exp(x) + exp(y)), or of powers of 2. Equal infinities have no difference to take.
Value LogAddExp(Builder& b, const Value& x, const Value& y) {
  const Value distance = b.Unary("abs", b.Sub(x, y));
  const Value sum = b.Add(MaximumNan(b, x, y),
                          b.Unary("log_plus_one", b.Unary("exponential", Negate(b, distance))));
  const Value infinite = b.Compare(Cmp::kEq, b.Unary("abs", x), b.Infinity(x.dtype, x.dims, false));
  return b.Select(b.Binary("and", infinite, b.Compare(Cmp::kEq, x, y)), x, sum);
}

Value LogAddExp2(Builder& b, const Value& x, const Value& y) {
  const Value ln2 = Like(b, x, 0.69314718055994530942);
  return b.Div(LogAddExp(b, b.Mul(x, ln2), b.Mul(y, ln2)), ln2);
}

Value Heaviside(Builder& b, const Value& x, const Value& at_zero) {
  const Value zero = Like(b, x, 0);
  const Value step = b.Convert(b.Compare(Cmp::kGt, x, zero), x.dtype);
  return b.Select(b.Compare(Cmp::kEq, x, zero), at_zero, step);
}

void Clamp(Emitter& e) {
  Pointwise p(e, {0, 1, 2});
  if (!p.RealOnly()) return;
  Value x = p[0];
  if (!e.IsNone(1)) x = MaximumNan(e.b(), x, p[1]);
  if (!e.IsNone(2)) x = MinimumNan(e.b(), x, p[2]);
  p.Out(x);
}

void AddCMul(Emitter& e) {
  Pointwise p(e, {0, 1, 2});
  p.Out(e.b().Add(p[0], e.b().Mul(Scaled(p, p[1], 3), p[2])));
}

void AddCDiv(Emitter& e) {
  Pointwise p(e, {0, 1, 2});
  p.Floats();
  p.Out(e.b().Add(p[0], e.b().Div(Scaled(p, p[1], 3), p[2])));
}

// Computed from the nearer end, so that weights 0 and 1 are exact.
void Lerp(Emitter& e) {
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value start = p[0], end = p[1], weight = p.Get(2, kExact);
  const Value size = p.is_complex() ? b.Unary("abs", weight) : b.Unary("abs", weight);
  const Value difference = b.Sub(end, start);
  const Value from_start = b.Add(start, b.Mul(weight, difference));
  const Value from_end = b.Sub(end, b.Mul(difference, b.Sub(p.Constant(1), weight)));
  p.Out(b.Select(b.Compare(Cmp::kLt, size, Like(b, size, 0.5)), from_start, from_end));
}

DENDRITE_LOWERING("aten.add.Tensor", Add);
DENDRITE_LOWERING("aten.add.Scalar", Add);
DENDRITE_LOWERING("aten.sub.Tensor", Sub);
DENDRITE_LOWERING("aten.sub.Scalar", Sub);
DENDRITE_LOWERING("aten.rsub.Tensor", RSub);
DENDRITE_LOWERING("aten.rsub.Scalar", RSub);
DENDRITE_LOWERING("aten.mul.Tensor", Mul);
DENDRITE_LOWERING("aten.mul.Scalar", Mul);
DENDRITE_LOWERING("aten.div.Tensor", TrueDivide);
DENDRITE_LOWERING("aten.div.Scalar", TrueDivide);
DENDRITE_LOWERING("aten.div.Tensor_mode", DivideMode);
DENDRITE_LOWERING("aten.div.Scalar_mode", DivideMode);
DENDRITE_LOWERING("aten.floor_divide.default", DivideDown);
DENDRITE_LOWERING("aten.floor_divide.Scalar", DivideDown);
DENDRITE_LOWERING("aten.remainder.Tensor", Remainder);
DENDRITE_LOWERING("aten.remainder.Scalar", Remainder);
DENDRITE_LOWERING("aten.remainder.Scalar_Tensor", Remainder);
DENDRITE_LOWERING("aten.fmod.Tensor", Fmod);
DENDRITE_LOWERING("aten.fmod.Scalar", Fmod);
DENDRITE_LOWERING("aten.pow.Tensor_Tensor", PowTensors);
DENDRITE_LOWERING("aten.pow.Tensor_Scalar", PowNumber);
DENDRITE_LOWERING("aten.pow.Scalar", PowTensors);
DENDRITE_LOWERING("aten.maximum.default", RealBinary<MaximumNan>);
DENDRITE_LOWERING("aten.minimum.default", RealBinary<MinimumNan>);
DENDRITE_LOWERING("aten.fmax.default", RealBinary<FMax>);
DENDRITE_LOWERING("aten.fmin.default", RealBinary<FMin>);
DENDRITE_LOWERING("aten.heaviside.default", RealBinary<Heaviside>);
DENDRITE_LOWERING("aten.atan2.default", FloatBinary<Atan2>);
DENDRITE_LOWERING("aten.hypot.default", FloatBinary<Hypot>);
DENDRITE_LOWERING("aten.logaddexp.default", FloatBinary<LogAddExp>);
DENDRITE_LOWERING("aten.logaddexp2.default", FloatBinary<LogAddExp2>);
DENDRITE_LOWERING("aten.copysign.Tensor", FloatBinary<CopySign>);
DENDRITE_LOWERING("aten.copysign.Scalar", FloatBinary<CopySign>);
DENDRITE_LOWERING("aten.xlogy.Tensor", FloatBinary<XLogY>);
DENDRITE_LOWERING("aten.xlogy.Scalar_Self", FloatBinary<XLogY>);
DENDRITE_LOWERING("aten.xlogy.Scalar_Other", FloatBinary<XLogY>);
DENDRITE_LOWERING("aten.clamp.default", Clamp);
DENDRITE_LOWERING("aten.clamp.Tensor", Clamp);
DENDRITE_LOWERING("aten.clamp_min.default", RealBinary<MaximumNan>);
DENDRITE_LOWERING("aten.clamp_min.Tensor", RealBinary<MaximumNan>);
DENDRITE_LOWERING("aten.clamp_max.default", RealBinary<MinimumNan>);
DENDRITE_LOWERING("aten.clamp_max.Tensor", RealBinary<MinimumNan>);
DENDRITE_LOWERING("aten.addcmul.default", AddCMul);
DENDRITE_LOWERING("aten.addcdiv.default", AddCDiv);
DENDRITE_LOWERING("aten.lerp.Scalar", Lerp);
DENDRITE_LOWERING("aten.lerp.Tensor", Lerp);

}  // namespace
}  // namespace dendrite::lowering
