// csrc/lowering/bessel.cc - Bessel functions of orders 0 and 1, plain and modified, and Airy's.
//
// Near the origin an expansion of what is smooth there, far away one of the amplitude: see
// tools/make_special_tables.py. Order of operations at infinity is the CPU kernels': inf / inf is
// NaN there, too.
#include <cmath>

#include "csrc/lowering/special.h"
#include "csrc/lowering/special_tables.h"

namespace dendrite::lowering {
namespace {

// --- modified, first kind: even (order 0) and odd (order 1)

Value ScaledI(const Special& s, const Value& x, int order) {
  const Value a = s.Abs(x);
  Value near = order == 0 ? s.Chebyshev(a, 0.25, -1, tables::kI0Near)
                          : s.b.Mul(s.Chebyshev(a, 0.25, -1, tables::kI1Near), a);
  const Value inverse = s.Inverse(a);
  const Value far = s.b.Div(order == 0 ? s.Chebyshev(inverse, 16, -1, tables::kI0Far)
                                       : s.Chebyshev(inverse, 16, -1, tables::kI1Far),
                            s.Sqrt(a));
  const Value v = s.If(Cmp::kLe, a, 8, near, far);
  return order == 0 ? v : s.b.Select(s.Is(Cmp::kLt, x, 0), Negate(s.b, v), v);
}

Value I0e(const Special& s, const Value& x) { return ScaledI(s, x, 0); }
Value I1e(const Special& s, const Value& x) { return ScaledI(s, x, 1); }

Value WithGrowth(const Special& s, const Value& x, int order) {
  return s.b.Mul(s.Exp(s.Abs(x)), ScaledI(s, x, order));
}
Value I0(const Special& s, const Value& x) { return WithGrowth(s, x, 0); }
Value I1(const Special& s, const Value& x) { return WithGrowth(s, x, 1); }

// --- modified, second kind

Value ModifiedK(const Special& s, const Value& x, int order, bool scaled) {
  Builder& b = s.b;
  const Value square = s.Square(x), log = s.Log(s.MulC(x, 0.5));
  Value near;
  if (order == 0) {
    near = b.Sub(s.Chebyshev(square, 0.5, -1, tables::kK0Near), b.Mul(log, I0(s, x)));
  } else {
    near = b.Add(b.Div(s.Chebyshev(square, 0.5, -1, tables::kK1Near), x), b.Mul(log, I1(s, x)));
  }
  const Value inverse = s.Inverse(x);
  Value far = s.Chebyshev(inverse, 4, -1,
                          order == 0 ? std::span<const double>(tables::kK0Far) : tables::kK1Far);
  if (scaled) {
    near = b.Mul(near, s.Exp(x));
  } else {
    far = b.Mul(s.Exp(Negate(b, x)), far);
  }
  far = b.Div(far, s.Sqrt(x));
  const Value v = s.If(Cmp::kLe, x, 2, near, far);
  return s.If(Cmp::kEq, x, 0, s.C(x, INFINITY), s.If(Cmp::kLt, x, 0, s.C(x, NAN), v));
}

template <int kOrder, bool kScaled>
Value K(const Special& s, const Value& x) {
  return ModifiedK(s, x, kOrder, kScaled);
}

// --- plain

// Amplitude and angle for x >= 8: (P, 8 / x Q) rotated, times sqrt(2 / (pi x)).
struct Wave {
  Value p, q, sine, cosine, scale;
};

Wave MakeWave(const Special& s, const Value& x, int order) {
  Wave w;
  const Value inverse = s.Inverse(x), square = s.Square(inverse);
  w.p =
      s.Chebyshev(square, 128, -1, order == 0 ? std::span<const double>(tables::kP0) : tables::kP1);
  w.q = s.b.Mul(
      s.Chebyshev(square, 128, -1, order == 0 ? std::span<const double>(tables::kQ0) : tables::kQ1),
      inverse);
  const Value angle = s.AddC(x, order == 0 ? -M_PI / 4 : -3 * M_PI / 4);
  w.sine = s.b.Unary("sine", angle);
  w.cosine = s.b.Unary("cosine", angle);
  w.scale = s.Sqrt(s.MulC(inverse, 2 / M_PI));
  return w;
}

Value NearJ(const Special& s, const Value& x, int order) {
  const Value square = s.Square(x);
  if (order == 0) return s.Chebyshev(square, 1.0 / 32, -1, tables::kJ0Near);
  return s.b.Mul(s.Chebyshev(square, 1.0 / 32, -1, tables::kJ1Near), x);
}

template <int kOrder>
Value J(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value a = s.Abs(x);
  const Wave w = MakeWave(s, a, kOrder);
  const Value far = b.Mul(b.Sub(b.Mul(w.p, w.cosine), b.Mul(w.q, w.sine)), w.scale);
  const Value v = s.If(Cmp::kLe, a, 8, NearJ(s, a, kOrder), far);
  return kOrder == 0 ? v : s.If(Cmp::kLt, x, 0, Negate(b, v), v);
}

template <int kOrder>
Value Y(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Wave w = MakeWave(s, x, kOrder);
  const Value far = b.Mul(b.Add(b.Mul(w.p, w.sine), b.Mul(w.q, w.cosine)), w.scale);
  const Value square = s.Square(x), log = b.Mul(s.Log(x), NearJ(s, x, kOrder));
  Value near;
  if (kOrder == 0) {
    near = b.Add(s.Chebyshev(square, 1.0 / 32, -1, tables::kY0Near), s.MulC(log, 2 / M_PI));
  } else {
    const Value singular = s.MulC(b.Sub(log, s.Inverse(x)), 2 / M_PI);
    near = b.Add(b.Mul(s.Chebyshev(square, 1.0 / 32, -1, tables::kY1Near), x), singular);
  }
  const Value v = s.If(Cmp::kLe, x, 8, near, far);
  return s.If(Cmp::kEq, x, 0, s.C(x, -INFINITY), s.If(Cmp::kLt, x, 0, s.C(x, NAN), v));
}

Value SphericalJ0(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value ratio = b.Div(b.Unary("sine", x), x);
  const Value a = s.Abs(x);
  return s.If(Cmp::kEq, x, 0, s.C(x, 1), s.If(Cmp::kEq, a, INFINITY, s.C(x, 0), ratio));
}

Value AiryAi(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value a = s.Abs(x), root = s.Sqrt(a), quarter = s.Sqrt(root);
  const Value zeta = s.MulC(b.Mul(a, root), 2.0 / 3), inverse = s.Inverse(zeta);
  // 2 zeta(2) and 2 zeta(4)^2; zeta(z) = 2/3 z^(3/2).
  const double far_scale = 4.0 / 3 * std::pow(2.0, 1.5), wave_scale = 2 * (16.0 / 3) * (16.0 / 3);
  const Value middle = s.Chebyshev(x, 1.0 / 3, 1.0 / 3, tables::kAiryMiddle);
  const Value far =
      b.Div(b.Mul(s.Chebyshev(inverse, far_scale, -1, tables::kAiryFar), s.Exp(Negate(b, zeta))),
            s.MulC(quarter, 2 * std::sqrt(M_PI)));
  const Value square = s.Square(inverse), angle = s.AddC(zeta, M_PI / 4);
  const Value f = s.Chebyshev(square, wave_scale, -1, tables::kAiryF);
  const Value g = b.Mul(s.Chebyshev(square, wave_scale, -1, tables::kAiryG), inverse);
  const Value wave =
      b.Div(b.Sub(b.Mul(f, b.Unary("sine", angle)), b.Mul(g, b.Unary("cosine", angle))),
            s.MulC(quarter, std::sqrt(M_PI)));
  const Value v = s.If(Cmp::kGt, x, 2, far, s.If(Cmp::kLt, x, -4, wave, middle));
  return s.If(Cmp::kEq, a, INFINITY, s.C(x, NAN), v);
}

DENDRITE_LOWERING("aten.i0.default", SpecialUnary<I0>);
DENDRITE_LOWERING("aten.special_i0e.default", SpecialUnary<I0e>);
DENDRITE_LOWERING("aten.special_i1.default", SpecialUnary<I1>);
DENDRITE_LOWERING("aten.special_i1e.default", SpecialUnary<I1e>);
DENDRITE_LOWERING("aten.special_modified_bessel_i0.default", SpecialUnary<I0>);
DENDRITE_LOWERING("aten.special_modified_bessel_i1.default", SpecialUnary<I1>);
DENDRITE_LOWERING("aten.special_modified_bessel_k0.default", (SpecialUnary<K<0, false>>));
DENDRITE_LOWERING("aten.special_modified_bessel_k1.default", (SpecialUnary<K<1, false>>));
DENDRITE_LOWERING("aten.special_scaled_modified_bessel_k0.default", (SpecialUnary<K<0, true>>));
DENDRITE_LOWERING("aten.special_scaled_modified_bessel_k1.default", (SpecialUnary<K<1, true>>));
DENDRITE_LOWERING("aten.special_bessel_j0.default", SpecialUnary<J<0>>);
DENDRITE_LOWERING("aten.special_bessel_j1.default", SpecialUnary<J<1>>);
DENDRITE_LOWERING("aten.special_bessel_y0.default", SpecialUnary<Y<0>>);
DENDRITE_LOWERING("aten.special_bessel_y1.default", SpecialUnary<Y<1>>);
DENDRITE_LOWERING("aten.special_spherical_bessel_j0.default", SpecialUnary<SphericalJ0>);
DENDRITE_LOWERING("aten.special_airy_ai.default", SpecialUnary<AiryAi>);

}  // namespace
}  // namespace dendrite::lowering
