// Unary pointwise operators: exp, sin, erf, floor, sign, isnan, ...
#include <cmath>

#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

using MathFn = Value (*)(Builder&, const Value&);

// Operators on floats; integers are computed in the default dtype.
template <MathFn kFn>
void FloatUnary(Emitter& e) {
  Pointwise p(e, {0});
  p.Floats();
  if (p.RealOnly()) p.Out(kFn(e.b(), p[0]));
}

// The same, where StableHLO has the complex function too.
template <MathFn kFn>
void ComplexUnary(Emitter& e) {
  Pointwise p(e, {0});
  p.Floats();
  p.Out(kFn(e.b(), p[0]));
}

// Floats only; integers stay as they are (floor, round, ...).
template <MathFn kFn>
void Rounding(Emitter& e) {
  Pointwise p(e, {0});
  if (p.RealOnly()) p.Out(p.is_float() ? kFn(e.b(), p[0]) : p[0]);
}

template <MathFn kFn>
void Predicate(Emitter& e) {  // of floats; `kFn` is false for every integer
  Pointwise p(e, {0});
  if (!p.RealOnly()) return;
  p.Out(p.is_float() ? kFn(e.b(), p[0]) : e.b().ConstantInt(DType::kBool, p.dims, 0));
}

Value Exp(Builder& b, const Value& x) { return b.Unary("exponential", x); }
// The user's own exponential, which XLA does not recognise: it would make exp(x) * exp(y) into
// exp(x + y), log(exp(x)) into x and x / exp(y) into x * exp(-y), which are other numbers where
// something overflows.
Value PlainExp(Builder& b, const Value& x) {
  if (tape::IsComplex(x.dtype)) return Exp(b, x);
  return b.Select(b.Compare(Cmp::kEq, x, x), Exp(b, x), x);
}
Value Expm1(Builder& b, const Value& x) { return b.Unary("exponential_minus_one", x); }
Value Log(Builder& b, const Value& x) { return b.Unary("log", x); }
Value Log1p(Builder& b, const Value& x) { return b.Unary("log_plus_one", x); }
Value Sine(Builder& b, const Value& x) { return b.Unary("sine", x); }
Value Cosine(Builder& b, const Value& x) { return b.Unary("cosine", x); }
Value Tangent(Builder& b, const Value& x) { return b.Div(Sine(b, x), Cosine(b, x)); }
Value Tanh(Builder& b, const Value& x) { return b.Unary("tanh", x); }
Value PlainExp2(Builder& b, const Value& x) {
  return b.Select(b.Compare(Cmp::kEq, x, x), Exp2(b, x), x);
}
Value Rsqrt(Builder& b, const Value& x) { return b.Div(Like(b, x, 1), PlainSqrt(b, x)); }
Value Reciprocal(Builder& b, const Value& x) { return b.Div(Like(b, x, 1), x); }
Value Sigmoid(Builder& b, const Value& x) {
  const Value one = Like(b, x, 1);
  return b.Div(one, b.Add(one, Exp(b, Negate(b, x))));
}
Value Floor(Builder& b, const Value& x) { return b.Unary("floor", x); }
Value Ceil(Builder& b, const Value& x) { return b.Unary("ceil", x); }
Value RoundEven(Builder& b, const Value& x) { return b.Unary("round_nearest_even", x); }
Value Frac(Builder& b, const Value& x) { return b.Sub(x, Trunc(b, x)); }

Value IsInf(Builder& b, const Value& x) {
  return b.Compare(Cmp::kEq, b.Unary("abs", x), b.Infinity(x.dtype, x.dims, false));
}
Value IsPosInf(Builder& b, const Value& x) {
  return b.Compare(Cmp::kEq, x, b.Infinity(x.dtype, x.dims, false));
}
Value IsNegInf(Builder& b, const Value& x) {
  return b.Compare(Cmp::kEq, x, b.Infinity(x.dtype, x.dims, true));
}

void Neg(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(Negate(e.b(), p[0]));
}

void Abs(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(tape::IsUnsigned(p.math) ? p[0] : e.b().Unary("abs", p[0]));
}

void SignOp(Emitter& e) {
  Pointwise p(e, {0});
  Builder& b = e.b();
  const Value x = p[0];
  if (p.is_complex()) {  // sgn: x / |x|, 0 at 0
    const Value size = b.Unary("abs", x);
    const Value unit = b.Div(x, b.Convert(size, x.dtype));
    p.Out(b.Select(b.Compare(Cmp::kEq, size, Like(b, size, 0)), Like(b, x, 0), unit));
  } else if (p.math == DType::kBool) {
    p.Out(x);
  } else if (tape::IsUnsigned(p.math)) {
    p.Out(b.Convert(b.Compare(Cmp::kNe, x, Like(b, x, 0)), x.dtype));
  } else {
    p.Out(Sign(b, x));
  }
}

void Round(Emitter& e) { Rounding<RoundEven>(e); }

void RoundDecimals(Emitter& e) {
  Pointwise p(e, {0});
  if (!p.RealOnly()) return;
  if (!p.is_float()) return p.Out(p[0]);
  Builder& b = e.b();
  const int64_t decimals = e.Int(1);
  if (decimals == 0) return p.Out(RoundEven(b, p[0]));
  const Value scale = p.Constant(std::pow(10.0, static_cast<double>(std::abs(decimals))));
  if (decimals > 0) return p.Out(b.Div(RoundEven(b, b.Mul(p[0], scale)), scale));
  p.Out(b.Mul(RoundEven(b, b.Div(p[0], scale)), scale));
}

void IsNanOp(Emitter& e) {
  Pointwise p(e, {0});
  const Value x = p[0];
  p.Out(p.is_float() || p.is_complex() ? IsNan(e.b(), x)
                                       : e.b().ConstantInt(DType::kBool, p.dims, 0));
}

void IsFinite(Emitter& e) {
  Pointwise p(e, {0});
  if (!p.RealOnly()) return;
  p.Out(p.is_float() ? e.b().Unary("is_finite", p[0]) : e.b().ConstantInt(DType::kBool, p.dims, 1));
}

void SignBitOp(Emitter& e) {
  Pointwise p(e, {0});
  if (!p.RealOnly()) return;
  Builder& b = e.b();
  if (p.is_float()) return p.Out(SignBit(b, p[0]));
  if (tape::IsUnsigned(p.math)) return p.Out(b.ConstantInt(DType::kBool, p.dims, 0));
  p.Out(b.Compare(Cmp::kLt, p[0], p.Constant(0)));
}

void LogicalNot(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(e.b().Compare(Cmp::kEq, p[0], p.Constant(0)));
}

void BitwiseNot(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(e.b().Unary("not", p[0]));
}

Value ToRadians(Builder& b, const Value& x) { return b.Mul(x, Like(b, x, M_PI / 180)); }
Value ToDegrees(Builder& b, const Value& x) { return b.Mul(x, Like(b, x, 180 / M_PI)); }

Value Sinc(Builder& b, const Value& x) {
  const Value angle = b.Mul(x, Like(b, x, M_PI));
  return b.Select(b.Compare(Cmp::kEq, x, Like(b, x, 0)), Like(b, x, 1),
                  b.Div(Sine(b, angle), angle));
}

void Square(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(e.b().Mul(p[0], p[0]));
}

void Logit(Emitter& e) {
  Pointwise p(e, {0});
  p.Floats();
  if (!p.RealOnly()) return;
  Builder& b = e.b();
  Value x = p[0];
  if (!e.IsNone(1)) {
    const Value low = p.Number(1), high = b.Sub(p.Constant(1), low);
    x = b.Select(b.Compare(Cmp::kLt, x, low), low, b.Select(b.Compare(Cmp::kGt, x, high), high, x));
  }
  p.Out(Log(b, b.Div(x, b.Sub(p.Constant(1), x))));
}

void NanToNum(Emitter& e) {
  Pointwise p(e, {0});
  if (!p.RealOnly()) return;
  if (!p.is_float()) return p.Out(p[0]);
  Builder& b = e.b();
  // The largest finite value is that of the tensor's own dtype, not of opmath.
  const Value x = p[0];
  const Value high = e.IsNone(2) ? b.Convert(b.MaxFinite(p.common, p.dims), p.math) : p.Number(2);
  const Value low = e.IsNone(3) ? b.Convert(b.Lowest(p.common, p.dims), p.math) : p.Number(3);
  const Value finite = b.Select(IsPosInf(b, x), high, b.Select(IsNegInf(b, x), low, x));
  p.Out(b.Select(IsNan(b, x), p.Number(1, 0), finite));
}

void Angle(Emitter& e) {
  Pointwise p(e, {0});
  p.Floats();
  Builder& b = e.b();
  const Value x = p[0];
  if (p.is_complex()) return p.Out(b.Binary("atan2", b.Imag(x), b.Real(x)));
  const Value pi = b.Select(b.Compare(Cmp::kLt, x, p.Constant(0)), p.Constant(M_PI), p.Constant(0));
  p.Out(b.Select(IsNan(b, x), x, pi));
}

void ConjPhysical(Emitter& e) {
  Pointwise p(e, {0});
  Builder& b = e.b();
  const Value x = p[0];
  p.Out(p.is_complex() ? b.Complex(b.Real(x), Negate(b, b.Imag(x))) : x);
}

DENDRITE_LOWERING("aten.exp.default", ComplexUnary<PlainExp>);
DENDRITE_LOWERING("aten.exp2.default", FloatUnary<PlainExp2>);
DENDRITE_LOWERING("aten.expm1.default", FloatUnary<Expm1>);
DENDRITE_LOWERING("aten.log.default", ComplexUnary<Log>);
DENDRITE_LOWERING("aten.log2.default", FloatUnary<Log2>);
DENDRITE_LOWERING("aten.log10.default", FloatUnary<Log10>);
DENDRITE_LOWERING("aten.log1p.default", FloatUnary<Log1p>);
DENDRITE_LOWERING("aten.sin.default", ComplexUnary<Sine>);
DENDRITE_LOWERING("aten.cos.default", ComplexUnary<Cosine>);
DENDRITE_LOWERING("aten.tan.default", FloatUnary<Tangent>);
DENDRITE_LOWERING("aten.asin.default", FloatUnary<Asin>);
DENDRITE_LOWERING("aten.acos.default", FloatUnary<Acos>);
DENDRITE_LOWERING("aten.atan.default", FloatUnary<Atan>);
DENDRITE_LOWERING("aten.sinh.default", FloatUnary<Sinh>);
DENDRITE_LOWERING("aten.cosh.default", FloatUnary<Cosh>);
DENDRITE_LOWERING("aten.tanh.default", ComplexUnary<Tanh>);
DENDRITE_LOWERING("aten.asinh.default", FloatUnary<Asinh>);
DENDRITE_LOWERING("aten.acosh.default", FloatUnary<Acosh>);
DENDRITE_LOWERING("aten.atanh.default", FloatUnary<Atanh>);
DENDRITE_LOWERING("aten.sqrt.default", ComplexUnary<PlainSqrt>);
DENDRITE_LOWERING("aten.rsqrt.default", ComplexUnary<Rsqrt>);
DENDRITE_LOWERING("aten.reciprocal.default", ComplexUnary<Reciprocal>);
DENDRITE_LOWERING("aten.sigmoid.default", ComplexUnary<Sigmoid>);
DENDRITE_LOWERING("aten.logit.default", Logit);
DENDRITE_LOWERING("aten.erf.default", FloatUnary<Erf>);
DENDRITE_LOWERING("aten.erfc.default", FloatUnary<Erfc>);
DENDRITE_LOWERING("aten.erfinv.default", FloatUnary<ErfInv>);
DENDRITE_LOWERING("aten.special_erfinv.default", FloatUnary<ErfInv>);
DENDRITE_LOWERING("aten.floor.default", Rounding<Floor>);
DENDRITE_LOWERING("aten.ceil.default", Rounding<Ceil>);
DENDRITE_LOWERING("aten.trunc.default", Rounding<Trunc>);
DENDRITE_LOWERING("aten.frac.default", Rounding<Frac>);
DENDRITE_LOWERING("aten.round.default", Round);
DENDRITE_LOWERING("aten.round.decimals", RoundDecimals);
DENDRITE_LOWERING("aten.neg.default", Neg);
DENDRITE_LOWERING("aten.abs.default", Abs);
DENDRITE_LOWERING("aten.sign.default", SignOp);
DENDRITE_LOWERING("aten.sgn.default", SignOp);
DENDRITE_LOWERING("aten.signbit.default", SignBitOp);
DENDRITE_LOWERING("aten.isnan.default", IsNanOp);
DENDRITE_LOWERING("aten.isinf.default", Predicate<IsInf>);
DENDRITE_LOWERING("aten.isposinf.default", Predicate<IsPosInf>);
DENDRITE_LOWERING("aten.isneginf.default", Predicate<IsNegInf>);
DENDRITE_LOWERING("aten.isfinite.default", IsFinite);
DENDRITE_LOWERING("aten.logical_not.default", LogicalNot);
DENDRITE_LOWERING("aten.bitwise_not.default", BitwiseNot);
DENDRITE_LOWERING("aten.square.default", Square);
DENDRITE_LOWERING("aten.deg2rad.default", FloatUnary<ToRadians>);
DENDRITE_LOWERING("aten.rad2deg.default", FloatUnary<ToDegrees>);
DENDRITE_LOWERING("aten.sinc.default", FloatUnary<Sinc>);
DENDRITE_LOWERING("aten.nan_to_num.default", NanToNum);
DENDRITE_LOWERING("aten.angle.default", Angle);
DENDRITE_LOWERING("aten.conj_physical.default", ConjPhysical);
DENDRITE_LOWERING("aten._conj_physical.default", ConjPhysical);

}  // namespace
}  // namespace dendrite::lowering
