// csrc/lowering/special.h - what the special functions share: the type that they are computed in,
// series, and operators made of them.
//
// They are computed in f64 wherever the target has it, whatever the tensors' type: that is how one
// table serves all types, and how results agree with CPU kernels that are themselves accurate to a
// few units in the last place. Targets without f64 compute in f32.
#pragma once

#include <span>

#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {

struct Special {
  explicit Special(const Pointwise& p)
      : b(p.e.b()),
        type(p.e.traits().has_f64 ? DType::kF64 : DType::kF32),
        precision(type == DType::kF64 && p.math == DType::kF64 ? 1e-17 : 1e-10) {}

  // c[0] + c[1] T1(u) + ..., u in [-1, 1], without what lies below `precision` of the first terms.
  Value Chebyshev(const Value& u, std::span<const double> c) const;
  // The same at u = scale * v + shift.
  Value Chebyshev(const Value& v, double scale, double shift, std::span<const double> c) const;

  Value C(const Value& x, double v) const { return b.Constant(type, x.dims, v); }
  Value AddC(const Value& x, double v) const { return b.Add(x, C(x, v)); }
  Value MulC(const Value& x, double v) const { return b.Mul(x, C(x, v)); }
  Value Inverse(const Value& x, double numerator = 1) const { return b.Div(C(x, numerator), x); }
  Value Square(const Value& x) const { return b.Mul(x, x); }
  Value Exp(const Value& x) const { return b.Unary("exponential", x); }
  Value Log(const Value& x) const { return b.Unary("log", x); }
  Value Sqrt(const Value& x) const { return b.Unary("sqrt", x); }
  Value Abs(const Value& x) const { return b.Unary("abs", x); }
  Value Is(Cmp cmp, const Value& x, double v) const { return b.Compare(cmp, x, C(x, v)); }
  // `special` where x compares so with v, else `usual`.
  Value If(Cmp cmp, const Value& x, double v, const Value& special, const Value& usual) const {
    return b.Select(Is(cmp, x, v), special, usual);
  }

  Builder& b;
  DType type;        // of all values here
  double precision;  // what a term may be dropped for, relative to the sum's size
};

// Operators of one or two arguments made of such a function; integers are computed as floats.
template <Value (*kFn)(const Special&, const Value&)>
void SpecialUnary(Emitter& e) {
  Pointwise p(e, {0});
  p.Floats();
  if (!p.RealOnly()) return;
  const Special s(p);
  p.Out(e.To(kFn(s, e.To(p[0], s.type)), p.math));
}

template <Value (*kFn)(const Special&, const Value&, const Value&)>
void SpecialBinary(Emitter& e) {
  Pointwise p(e, {0, 1});
  p.Floats();
  if (!p.RealOnly()) return;
  const Special s(p);
  p.Out(e.To(kFn(s, e.To(p[0], s.type), e.To(p[1], s.type)), p.math));
}

// sin(pi x) and cos(pi x) without a large angle.
Value SinPi(const Special& s, const Value& x);
Value CosPi(const Special& s, const Value& x);
// log |Gamma(x)|; +inf at the poles.
Value LogGamma(const Special& s, const Value& x);

}  // namespace dendrite::lowering
