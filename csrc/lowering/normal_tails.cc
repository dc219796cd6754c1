// csrc/lowering/normal_tails.cc - the normal distribution's tails and quantiles, and entropies.
#include <cmath>

#include "csrc/lowering/special.h"
#include "csrc/lowering/special_tables.h"

namespace dendrite::lowering {
namespace {

// exp(x^2) erfc(x). Beyond 5e7 the reciprocal alone is left.
Value Erfcx(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value a = s.Abs(x);
  const Value t = b.Div(s.C(a, 4), s.AddC(a, 4));
  const Value near = b.Mul(s.Chebyshev(t, 2, -1, tables::kErfcx), t);
  const Value right = s.If(Cmp::kGt, a, 5e7, s.Inverse(a, 1 / std::sqrt(M_PI)), near);
  const Value left = b.Sub(s.MulC(s.Exp(s.Square(x)), 2), right);
  return s.If(Cmp::kLt, x, 0, left, right);
}

// Rounding of t^2, which the exponential would magnify, cancels with the other term's.
Value LogNdtr(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value t = s.MulC(x, std::sqrt(0.5));
  const Value left = b.Sub(s.Log(s.MulC(Erfcx(s, Negate(b, t)), 0.5)), s.Square(t));
  const Value right = b.Unary("log_plus_one", s.MulC(Erfc(b, t), -0.5));
  return s.If(Cmp::kLt, x, -1, left, right);
}

Value Ndtri(const Special& s, const Value& p) {
  Builder& b = s.b;
  const Value y = s.AddC(p, -0.5), high = s.Is(Cmp::kGt, y, 0);
  const Value square = s.Square(y);
  // u = 2 (8 y / 3)^2 - 1
  const Value centre = b.Mul(s.Chebyshev(square, 128.0 / 9, -1, tables::kQuantileCentre), y);
  const Value tail = b.Select(high, b.Sub(s.C(p, 1), p), p);
  const Value r = s.Sqrt(s.MulC(s.Log(tail), -2)), inverse = s.Inverse(r);
  // 1 / r runs over [1/8, 1/2] and [1/64, 1/8]: u is its place there.
  const auto at = [&](double low, double top, std::span<const double> c) {
    const double middle = (1 / low + 1 / top) / 2, half = (1 / low - 1 / top) / 2;
    return s.Chebyshev(inverse, 1 / half, -middle / half, c);
  };
  const Value correction =
      s.If(Cmp::kLt, r, 8, at(2, 8, tables::kQuantileTail), at(8, 64, tables::kQuantileFarTail));
  const Value distance = b.Sub(b.Sub(r, b.Div(s.Log(r), r)), b.Mul(correction, inverse));
  const Value far = b.Select(high, distance, Negate(b, distance));
  const Value v = s.If(Cmp::kLe, s.Abs(y), 0.375, centre, far);
  const Value inside = b.Binary("and", s.Is(Cmp::kGt, p, 0), s.Is(Cmp::kLt, p, 1));
  const Value ends =
      s.If(Cmp::kEq, p, 0, s.C(p, -INFINITY), s.If(Cmp::kEq, p, 1, s.C(p, INFINITY), s.C(p, NAN)));
  return b.Select(inside, v, ends);
}

Value Entr(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value v = Negate(b, b.Mul(x, s.Log(x)));
  const Value low = s.If(Cmp::kEq, x, 0, s.C(x, 0), s.If(Cmp::kLt, x, 0, s.C(x, -INFINITY), x));
  return s.If(Cmp::kGt, x, 0, v, low);
}

Value XLog1pY(const Special& s, const Value& x, const Value& y) {
  Builder& b = s.b;
  const Value v = s.If(Cmp::kEq, x, 0, s.C(x, 0), b.Mul(x, b.Unary("log_plus_one", y)));
  return b.Select(IsNan(b, y), y, v);
}

DENDRITE_LOWERING("aten.special_erfcx.default", SpecialUnary<Erfcx>);
DENDRITE_LOWERING("aten.special_log_ndtr.default", SpecialUnary<LogNdtr>);
DENDRITE_LOWERING("aten.special_ndtri.default", SpecialUnary<Ndtri>);
DENDRITE_LOWERING("aten.special_entr.default", SpecialUnary<Entr>);
DENDRITE_LOWERING("aten.special_xlog1py.default", SpecialBinary<XLog1pY>);
DENDRITE_LOWERING("aten.special_xlog1py.self_scalar", SpecialBinary<XLog1pY>);
DENDRITE_LOWERING("aten.special_xlog1py.other_scalar", SpecialBinary<XLog1pY>);

}  // namespace
}  // namespace dendrite::lowering
