// csrc/lowering/orthogonal_polynomials.cc - Chebyshev's (four kinds, also shifted to [0, 1]),
// Hermite's, Laguerre's and Legendre's polynomials of degrees that vary by element.
//
// The three-term recurrence runs in a loop until every element has reached its degree, in the
// tensors' own arithmetic, so that it overflows where the CPU kernels do. Chebyshev's have a closed
// form inside of (-1, 1) for high degrees.
#include <cmath>
#include <limits>
#include <numeric>

#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

enum class Kind : uint8_t { kT, kU, kV, kW, kHermite, kHermiteE, kLaguerre, kLegendre };

constexpr bool IsChebyshev(Kind kind) { return kind <= Kind::kW; }

struct Problem {
  Builder& b;
  Kind kind;
  Value x;      // shifted already
  Value n;      // i64; negative for what is no degree
  Value order;  // n in x's type

  Value C(double v) const { return b.Constant(x.dtype, x.dims, v); }
  Value Degree(Cmp cmp, int64_t v) const {
    return b.Compare(cmp, n, b.ConstantInt(DType::kI64, n.dims, v));
  }
  // v, or -v for odd degrees
  Value Alternating(const Value& v) const {
    const Value odd = b.Compare(Cmp::kNe, b.Binary("and", n, b.ConstantInt(DType::kI64, n.dims, 1)),
                                b.ConstantInt(DType::kI64, n.dims, 0));
    return b.Select(odd, Negate(b, v), v);
  }
};

Value FirstDegree(const Problem& p) {
  Builder& b = p.b;
  const Value twice = b.Add(p.x, p.x);
  switch (p.kind) {
    case Kind::kU:
    case Kind::kHermite:
      return twice;
    case Kind::kV:
      return b.Sub(twice, p.C(1));
    case Kind::kW:
      return b.Add(twice, p.C(1));
    case Kind::kLaguerre:
      return b.Sub(p.C(1), p.x);
    default:
      return p.x;
  }
}

// Of degree k + 1 from those of degrees k - 1 and k; `k` as a number of x's type and shape.
Value NextDegree(Builder& w, Kind kind, const Value& x, const Value& k, const Value& p,
                 const Value& q) {
  const Value one = Like(w, x, 1), twice = w.Add(x, x);
  switch (kind) {
    case Kind::kHermite:
      return w.Sub(w.Mul(twice, q), w.Mul(w.Add(k, k), p));
    case Kind::kHermiteE:
      return w.Sub(w.Mul(x, q), w.Mul(k, p));
    case Kind::kLaguerre: {
      const Value factor = w.Add(w.Add(k, k), w.Sub(one, x));
      return w.Div(w.Sub(w.Mul(factor, q), w.Mul(k, p)), w.Add(k, one));
    }
    case Kind::kLegendre: {
      const Value factor = w.Mul(w.Add(w.Add(k, k), one), x);
      return w.Div(w.Sub(w.Mul(factor, q), w.Mul(k, p)), w.Add(k, one));
    }
    default:
      return w.Sub(w.Mul(twice, q), p);
  }
}

Value Recurrence(const Problem& p, const Value& wanted) {
  Builder& b = p.b;
  const Kind kind = p.kind;
  Dims all(p.x.dims.size());
  std::iota(all.begin(), all.end(), 0);
  // An element goes on until its degree is reached, or is NaN from there on.
  const auto active = [](Builder& w, const std::vector<Value>& c) {
    const Value k = w.BroadcastTo(c[0], c[3].dims);
    return w.Binary("and", w.Binary("and", c[5], w.Compare(Cmp::kLt, k, c[3])),
                    w.Compare(Cmp::kEq, c[2], c[2]));
  };
  // k, degree k - 1, degree k, n, x, wanted
  const std::vector<Value> done = b.While(
      {b.ConstantInt(DType::kI64, {}, 1), p.C(1), FirstDegree(p), p.n, p.x, wanted},
      [&](Builder& w, const std::vector<Value>& c) {
        return std::vector<Value>{w.Reduce(
            active(w, c), w.ConstantInt(DType::kBool, {}, 0), all,
            [](Builder& r, const Value& x, const Value& y) { return r.Binary("or", x, y); })};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value goes_on = active(w, c);
        const Value k = w.BroadcastTo(w.Convert(c[0], c[4].dtype), c[4].dims);
        const Value next = NextDegree(w, kind, c[4], k, c[1], c[2]);
        return std::vector<Value>{w.Add(c[0], w.ConstantInt(DType::kI64, {}, 1)),
                                  w.Select(goes_on, c[2], c[1]),
                                  w.Select(goes_on, next, c[2]),
                                  c[3],
                                  c[4],
                                  c[5]};
      });
  return b.Select(p.Degree(Cmp::kEq, 0), p.C(1), done[2]);
}

// At x = 1 and x = -1.
Value AtEdge(const Problem& p) {
  Builder& b = p.b;
  const Value one = p.C(1), right = b.Compare(Cmp::kGt, p.x, p.C(0));
  const Value wide = b.Add(b.Add(p.order, p.order), one);
  switch (p.kind) {
    case Kind::kU: {
      const Value v = b.Add(p.order, one);
      return b.Select(right, v, p.Alternating(v));
    }
    case Kind::kV:
      return b.Select(right, one, p.Alternating(wide));
    case Kind::kW:
      return b.Select(right, wide, p.Alternating(one));
    default:
      return b.Select(right, one, p.Alternating(one));
  }
}

// By the angle whose cosine is x.
Value ClosedForm(const Problem& p) {
  Builder& b = p.b;
  const Value angle = Acos(b, p.x), half = b.Mul(angle, p.C(0.5));
  const Value between = b.Mul(b.Add(p.order, p.C(0.5)), angle);
  switch (p.kind) {
    case Kind::kT:
      return b.Unary("cosine", b.Mul(p.order, angle));
    case Kind::kU:
      return b.Div(b.Unary("sine", b.Mul(b.Add(p.order, p.C(1)), angle)), b.Unary("sine", angle));
    case Kind::kV: {
      const Value usual = b.Div(b.Unary("cosine", between), b.Unary("cosine", half));
      return b.Select(b.Compare(Cmp::kNe, b.Unary("sine", half), p.C(1)), usual, AtEdge(p));
    }
    default: {
      const Value usual = b.Div(b.Unary("sine", between), b.Unary("sine", half));
      return b.Select(b.Compare(Cmp::kNe, b.Unary("cosine", half), p.C(1)), usual, AtEdge(p));
    }
  }
}

template <Kind kKind, bool kShifted>
void Polynomials(Emitter& e) {  // (x, n)
  Pointwise operands(e, {0, 1});
  operands.Floats();
  if (!operands.RealOnly()) return;
  Builder& b = e.b();
  const Value raw = operands[0], degree = operands[1];
  const Value no_degree = b.ConstantInt(DType::kI64, raw.dims, -1);
  Problem p{b, kKind, raw, {}, {}};
  if (kShifted) p.x = b.Sub(b.Add(raw, raw), p.C(1));
  p.n = b.Select(b.Unary("is_finite", degree), e.To(degree, DType::kI64), no_degree);
  p.order = e.To(p.n, raw.dtype);

  const Value size = b.Unary("abs", p.x);
  Value special = p.Degree(Cmp::kLt, 0), v = p.C(0);
  // A further case, where none before it holds.
  const auto add_case = [&](const Value& when, const Value& value) {
    v = b.Select(special, v, value);
    special = b.Binary("or", special, when);
  };
  if (IsChebyshev(kKind) || kKind == Kind::kLegendre) {
    add_case(b.Compare(Cmp::kEq, size, p.C(1)), AtEdge(p));
  }
  if (IsChebyshev(kKind)) {
    const int64_t high = kKind == Kind::kT || kShifted ? 6 : 8;
    const Value inside = b.Compare(Cmp::kLt, size, p.C(1));
    add_case(b.Binary("and", p.Degree(Cmp::kGt, high), inside), ClosedForm(p));
  }
  if (kKind == Kind::kLaguerre) add_case(b.Compare(Cmp::kEq, size, p.C(0)), p.C(1));
  if (kKind == Kind::kHermite || kKind == Kind::kHermiteE) {
    add_case(p.Degree(Cmp::kGt, operands.math == DType::kF64 ? 512 : 128), p.C(NAN));
  }
  operands.Out(b.Select(special, v, Recurrence(p, b.Unary("not", special))));
}

#define DENDRITE_POLYNOMIAL(name, kind, shifted)                                           \
  DENDRITE_LOWERING("aten.special_" name ".default", (Polynomials<Kind::kind, shifted>));  \
  DENDRITE_LOWERING("aten.special_" name ".x_scalar", (Polynomials<Kind::kind, shifted>)); \
  DENDRITE_LOWERING("aten.special_" name ".n_scalar", (Polynomials<Kind::kind, shifted>))

DENDRITE_POLYNOMIAL("chebyshev_polynomial_t", kT, false);
DENDRITE_POLYNOMIAL("chebyshev_polynomial_u", kU, false);
DENDRITE_POLYNOMIAL("chebyshev_polynomial_v", kV, false);
DENDRITE_POLYNOMIAL("chebyshev_polynomial_w", kW, false);
DENDRITE_POLYNOMIAL("shifted_chebyshev_polynomial_t", kT, true);
DENDRITE_POLYNOMIAL("shifted_chebyshev_polynomial_u", kU, true);
DENDRITE_POLYNOMIAL("shifted_chebyshev_polynomial_v", kV, true);
DENDRITE_POLYNOMIAL("shifted_chebyshev_polynomial_w", kW, true);
DENDRITE_POLYNOMIAL("hermite_polynomial_h", kHermite, false);
DENDRITE_POLYNOMIAL("hermite_polynomial_he", kHermiteE, false);
DENDRITE_POLYNOMIAL("laguerre_polynomial_l", kLaguerre, false);
DENDRITE_POLYNOMIAL("legendre_polynomial_p", kLegendre, false);

}  // namespace
}  // namespace dendrite::lowering
