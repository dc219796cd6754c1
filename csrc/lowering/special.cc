#include "csrc/lowering/special.h"

#include <cmath>

namespace dendrite::lowering {

Value Special::Chebyshev(const Value& u, std::span<const double> c) const {
  double largest = 0;
  for (double v : c) largest = std::max(largest, std::fabs(v));
  size_t n = c.size();
  while (n > 2 && std::fabs(c[n - 1]) < precision * largest) --n;
  // Clenshaw's recurrence.
  const Value twice = b.Add(u, u);
  Value next = C(u, c[n - 1]), after;
  for (size_t k = n - 2; k > 0; --k) {
    Value sum = AddC(b.Mul(twice, next), c[k]);
    if (after.defined()) sum = b.Sub(sum, after);
    after = next;
    next = sum;
  }
  const Value sum = AddC(b.Mul(u, next), c[0]);
  return after.defined() ? b.Sub(sum, after) : sum;
}

Value Special::Chebyshev(const Value& v, double scale, double shift,
                         std::span<const double> c) const {
  return Chebyshev(AddC(MulC(v, scale), shift), c);
}

namespace {

// x - 2 round(x / 2), in [-1, 1].
Value ModuloTwo(const Special& s, const Value& x) {
  const Value turns = s.b.Unary("round_nearest_even", s.MulC(x, 0.5));
  return s.b.Sub(x, s.MulC(turns, 2));
}

}  // namespace

Value SinPi(const Special& s, const Value& x) {
  // Folded into [-1/2, 1/2], so that integers give exactly 0.
  const Value r = ModuloTwo(s, x);
  const Value high = s.b.Sub(s.C(r, 1), r), low = s.b.Sub(s.C(r, -1), r);
  const Value folded = s.If(Cmp::kGt, r, 0.5, high, s.If(Cmp::kLt, r, -0.5, low, r));
  return s.b.Unary("sine", s.MulC(folded, M_PI));
}

Value CosPi(const Special& s, const Value& x) {
  const Value r = s.Abs(ModuloTwo(s, x));
  return s.b.Unary("sine", s.MulC(s.b.Sub(s.C(r, 0.5), r), M_PI));
}

}  // namespace dendrite::lowering
