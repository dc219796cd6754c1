// csrc/lowering/gamma.cc - the gamma function's logarithm, its derivatives, Hurwitz's zeta function
// and the incomplete gamma functions.
#include <cmath>
#include <numeric>

#include "csrc/lowering/special.h"

namespace dendrite::lowering {
namespace {

// Bernoulli's numbers B2, B4, ..., B24.
constexpr double kBernoulli[] = {
    1.0 / 6, -1.0 / 30,     1.0 / 42,      -1.0 / 30,       5.0 / 66,       -691.0 / 2730,
    7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};
// From here on, asymptotic series with eight of them are as good as f64.
constexpr int kFar = 8;
constexpr int kTerms = 8;

Value AnyElement(Builder& b, const Value& mask) {
  Dims all(mask.dims.size());
  std::iota(all.begin(), all.end(), 0);
  return b.Reduce(mask, b.ConstantInt(DType::kBool, {}, 0), all,
                  [](Builder& r, const Value& p, const Value& q) { return r.Binary("or", p, q); });
}

// Sum of terms[k] / x^(2k), k = 0, 1, ...
Value InversePowers(const Special& s, const Value& inverse, const double* terms) {
  return Polynomial(s.b, s.Square(inverse), terms, kTerms);
}

Value LogGammaPositive(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value is_near = s.Is(Cmp::kLt, x, kFar);
  Value product = x;
  for (int k = 1; k < kFar; ++k) product = b.Mul(product, s.AddC(x, k));
  const Value far = b.Select(is_near, s.AddC(x, kFar), x);
  const Value shift = b.Select(is_near, s.Log(product), s.C(x, 0));
  double terms[kTerms];
  for (int k = 0; k < kTerms; ++k) {
    const int m = 2 * (k + 1);
    terms[k] = kBernoulli[k] / (m * (m - 1.0));
  }
  const Value inverse = s.Inverse(far), log = s.Log(far);
  const Value tail = b.Mul(InversePowers(s, inverse, terms), inverse);
  // (x - 1/2) log x - x, as x (log x - 1) - log x / 2 so that infinity stays infinite.
  const Value main = b.Sub(b.Mul(far, s.AddC(log, -1)), s.MulC(log, 0.5));
  return b.Sub(b.Add(s.AddC(main, 0.5 * std::log(2 * M_PI)), tail), shift);
}

Value Digamma(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value negative = s.Is(Cmp::kLt, x, 0);
  const Value y = b.Select(negative, b.Sub(s.C(x, 1), x), x);
  const Value is_near = s.Is(Cmp::kLt, y, kFar);
  Value shift = s.Inverse(y);
  for (int k = 1; k < kFar; ++k) shift = b.Add(shift, s.Inverse(s.AddC(y, k)));
  const Value far = b.Select(is_near, s.AddC(y, kFar), y);
  double terms[kTerms];
  for (int k = 0; k < kTerms; ++k) terms[k] = kBernoulli[k] / (2 * (k + 1));
  const Value inverse = s.Inverse(far);
  Value v = b.Sub(s.Log(far), s.MulC(inverse, 0.5));
  v = b.Sub(v, b.Mul(InversePowers(s, inverse, terms), s.Square(inverse)));
  v = b.Sub(v, b.Select(is_near, shift, s.C(x, 0)));
  const Value cotangent = b.Div(CosPi(s, x), SinPi(s, x));
  v = b.Select(negative, b.Sub(v, s.MulC(cotangent, M_PI)), v);
  // Poles: of either sign at the two zeros, none at negative integers.
  const Value pole = b.Binary("and", negative, b.Compare(Cmp::kEq, b.Unary("floor", x), x));
  const Value at_zero = CopySign(b, s.C(x, INFINITY), Negate(b, x));
  return s.If(Cmp::kEq, x, 0, at_zero, b.Select(pole, s.C(x, NAN), v));
}

// sum over k >= 0 of (k + q)^-x: the first terms, until k + q > 9, then Euler and Maclaurin's.
Value Zeta(const Special& s, const Value& x, const Value& q) {
  Builder& b = s.b;
  const double epsilon = s.type == DType::kF64 ? 0x1p-53 : 0x1p-24;
  const Value minus_x = Negate(b, x);
  const auto more = [&](Builder& w, const Value& count, const Value& a, const Value& done) {
    const Value few =
        w.BroadcastTo(w.Compare(Cmp::kLt, count, w.ConstantInt(DType::kI32, {}, 9)), a.dims);
    const Value low = w.Compare(Cmp::kLe, a, w.Constant(a.dtype, a.dims, 9));
    return w.Binary("and", w.Binary("or", few, low), w.Unary("not", done));
  };
  const auto negligible = [&](Builder& w, const Value& term, const Value& sum) {
    const Value bound = w.Mul(w.Unary("abs", sum), w.Constant(sum.dtype, sum.dims, epsilon));
    return w.Compare(Cmp::kLt, w.Unary("abs", term), bound);
  };
  const Value none = b.ConstantInt(DType::kBool, x.dims, 0);
  // count, a, the last term, the sum, finished early, the exponent
  const std::vector<Value> loop = b.While(
      {b.ConstantInt(DType::kI32, {}, 0), q, s.C(x, 0), b.Binary("power", q, minus_x), none,
       minus_x},
      [&](Builder& w, const std::vector<Value>& c) {
        return std::vector<Value>{AnyElement(w, more(w, c[0], c[1], c[4]))};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value active = more(w, c[0], c[1], c[4]);
        const Value a = w.Add(c[1], w.Constant(c[1].dtype, c[1].dims, 1));
        const Value term = w.Binary("power", a, c[5]);
        const Value sum = w.Add(c[3], term);
        const Value end = w.Binary("and", active, negligible(w, term, sum));
        return std::vector<Value>{w.Add(c[0], w.ConstantInt(DType::kI32, {}, 1)),
                                  w.Select(active, a, c[1]),
                                  w.Select(active, term, c[2]),
                                  w.Select(active, sum, c[3]),
                                  w.Binary("or", c[4], end),
                                  c[5]};
      });
  const Value start = loop[1], last = loop[2];
  Value done = loop[4];
  Value sum = b.Add(loop[3], b.Div(b.Mul(last, start), s.AddC(x, -1)));
  sum = b.Select(done, loop[3], b.Sub(sum, s.MulC(last, 0.5)));
  Value rising = s.C(x, 1), power = last;
  double factorial = 1;
  for (int i = 0; i < 12; ++i) {
    rising = b.Mul(rising, s.AddC(x, 2 * i));
    power = b.Div(power, start);
    factorial *= (2 * i + 1) * (2 * i + 2.0);
    const Value term = s.MulC(b.Mul(rising, power), kBernoulli[i] / factorial);
    const Value next = b.Add(sum, term);
    sum = b.Select(done, sum, next);
    done = b.Binary("or", done, negligible(b, term, next));
    rising = b.Mul(rising, s.AddC(x, 2 * i + 1));
    power = b.Div(power, start);
  }
  const Value nan = s.C(x, NAN), inf = s.C(x, INFINITY);
  const Value q_whole = b.Compare(Cmp::kEq, b.Unary("floor", q), q);
  const Value x_whole = b.Compare(Cmp::kEq, b.Unary("floor", x), x);
  const Value below = b.Select(q_whole, inf, b.Select(x_whole, sum, nan));
  const Value v = s.If(Cmp::kLe, q, 0, below, sum);
  return s.If(Cmp::kEq, x, 1, inf, s.If(Cmp::kLt, x, 1, nan, v));
}

Value Trigamma(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value low = s.Is(Cmp::kLt, x, 0.5);
  const Value direct = Zeta(s, s.C(x, 2), b.Select(low, b.Sub(s.C(x, 1), x), x));
  const Value reflected = b.Sub(b.Div(s.C(x, M_PI * M_PI), s.Square(SinPi(s, x))), direct);
  return s.If(Cmp::kEq, x, INFINITY, s.C(x, 0), b.Select(low, reflected, direct));
}

// (n, self)
void PolygammaOp(Emitter& e) {
  Pointwise p(e, {1});
  p.Floats();
  if (!p.RealOnly()) return;
  const Special s(p);
  const Value x = e.To(p[1], s.type);
  const int64_t n = e.Int(0);
  if (n == 0) return p.Out(e.To(Digamma(s, x), p.math));
  if (n == 1) return p.Out(e.To(Trigamma(s, x), p.math));
  const double factorial = std::tgamma(static_cast<double>(n) + 1) * (n % 2 ? 1 : -1);
  p.Out(e.To(s.MulC(Zeta(s, s.C(x, static_cast<double>(n + 1)), x), factorial), p.math));
}

// (self, p): log of the multivariate gamma function
void MvLgamma(Emitter& e) {
  Pointwise p(e, {0});
  p.Floats();
  if (!p.RealOnly()) return;
  const Special s(p);
  const Value x = e.To(p[0], s.type);
  const int64_t order = e.Int(1);
  const auto n = static_cast<double>(order);
  Value sum = s.C(x, n * (n - 1) / 4 * std::log(M_PI));
  for (int64_t i = 0; i < order; ++i) {
    sum = s.b.Add(sum, LogGamma(s, s.AddC(x, -static_cast<double>(i) / 2)));
  }
  p.Out(e.To(sum, p.math));
}

constexpr int kMaxIterations = 20000;

// Sum of x^k / ((a + 1) ... (a + k)), k >= 0, where `wanted`.
Value LowerSeries(const Special& s, const Value& a, const Value& x, const Value& wanted) {
  Builder& b = s.b;
  const Value one = s.C(x, 1);
  // count, denominator, term, sum, unfinished, x
  return b.While(
      {b.ConstantInt(DType::kI32, {}, 0), a, one, one, wanted, x},
      [&](Builder& w, const std::vector<Value>& c) {
        const Value few = w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, kMaxIterations));
        return std::vector<Value>{w.Binary("and", few, AnyElement(w, c[4]))};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value next = w.Add(c[1], w.Constant(c[1].dtype, c[1].dims, 1));
        const Value term = w.Mul(c[2], w.Div(c[5], next));
        const Value sum = w.Select(c[4], w.Add(c[3], term), c[3]);
        const Value bound = w.Mul(sum, w.Constant(sum.dtype, sum.dims, 0x1p-53));
        const Value goes_on = w.Binary("and", c[4], w.Compare(Cmp::kGt, term, bound));
        return std::vector<Value>{
            w.Add(c[0], w.ConstantInt(DType::kI32, {}, 1)), next, term, sum, goes_on, c[5]};
      })[3];
}

// The continued fraction 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)) by Lentz's method, where
// `wanted`.
Value UpperFraction(const Special& s, const Value& a, const Value& x, const Value& wanted) {
  Builder& b = s.b;
  const Value first = b.Add(b.Sub(x, a), s.C(x, 1));
  const Value d0 = s.Inverse(first);
  // count, b, c, d, h, unfinished, a
  return b.While(
      {b.ConstantInt(DType::kI32, {}, 1), first, s.C(x, 1e300), d0, d0, wanted, a},
      [&](Builder& w, const std::vector<Value>& c) {
        const Value few = w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, kMaxIterations));
        return std::vector<Value>{w.Binary("and", few, AnyElement(w, c[5]))};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const auto constant = [&](double v) { return w.Constant(c[1].dtype, c[1].dims, v); };
        const auto away_from_zero = [&](const Value& v) {
          return w.Select(w.Compare(Cmp::kEq, v, constant(0)), constant(1e-300), v);
        };
        const Value i = w.BroadcastTo(w.Convert(c[0], c[1].dtype), c[1].dims);
        const Value numerator = w.Mul(i, w.Sub(c[6], i));
        const Value base = w.Add(c[1], constant(2));
        const Value d = w.Div(constant(1), away_from_zero(w.Add(w.Mul(numerator, c[3]), base)));
        const Value cc = away_from_zero(w.Add(base, w.Div(numerator, c[2])));
        const Value step = w.Mul(d, cc);
        const Value h = w.Select(c[5], w.Mul(c[4], step), c[4]);
        const Value off = w.Unary("abs", w.Sub(step, constant(1)));
        const Value goes_on = w.Binary("and", c[5], w.Compare(Cmp::kGt, off, constant(0x1p-51)));
        return std::vector<Value>{
            w.Add(c[0], w.ConstantInt(DType::kI32, {}, 1)), base, cc, d, h, goes_on, c[6]};
      })[4];
}

template <bool kUpper>
void IncompleteGamma(Emitter& e) {  // (self: a, other: x)
  Pointwise p(e, {0, 1});
  p.Floats();
  if (!p.RealOnly()) return;
  const Special s(p);
  if (s.type != DType::kF64) {
    return e.Fail(Unimplemented("incomplete gamma functions without f64"));
  }
  Builder& b = s.b;
  const Value a = e.To(p[0], s.type), x = e.To(p[1], s.type);
  const Value finite = b.Binary("and", b.Unary("is_finite", a), b.Unary("is_finite", x));
  const Value positive = b.Binary("and", s.Is(Cmp::kGt, a, 0), s.Is(Cmp::kGt, x, 0));
  const Value usual = b.Binary("and", finite, positive);
  const Value by_fraction = b.Binary("and", s.Is(Cmp::kGt, x, 1.1), b.Compare(Cmp::kGt, x, a));
  const Value by_series = b.Unary("not", by_fraction);
  // x^a exp(-x) / Gamma(a)
  const Value factor = s.Exp(b.Sub(b.Sub(b.Mul(a, s.Log(x)), x), LogGamma(s, a)));
  const Value lower =
      b.Mul(b.Div(factor, a), LowerSeries(s, a, x, b.Binary("and", usual, by_series)));
  const Value upper = b.Mul(factor, UpperFraction(s, a, x, b.Binary("and", usual, by_fraction)));
  const Value one = s.C(x, 1), zero = s.C(x, 0), nan = s.C(x, NAN);
  const Value v = kUpper ? b.Select(by_fraction, upper, b.Sub(one, lower))
                         : b.Select(by_fraction, b.Sub(one, upper), lower);
  const Value none = kUpper ? one : zero, all = kUpper ? zero : one;
  const Value x_infinite = s.Is(Cmp::kEq, x, INFINITY);
  Value r = b.Select(x_infinite, all, v);
  r = s.If(Cmp::kEq, a, INFINITY, b.Select(x_infinite, nan, none), r);
  r = s.If(Cmp::kEq, x, 0, none, r);
  r = s.If(Cmp::kEq, a, 0, s.If(Cmp::kGt, x, 0, all, nan), r);
  const Value outside = b.Binary("or", s.Is(Cmp::kLt, a, 0), s.Is(Cmp::kLt, x, 0));
  p.Out(e.To(b.Select(outside, nan, r), p.math));
}

}  // namespace

Value LogGamma(const Special& s, const Value& x) {
  Builder& b = s.b;
  const Value low = s.Is(Cmp::kLt, x, 0.5);
  const Value y = b.Select(low, b.Sub(s.C(x, 1), x), x);
  const Value direct = LogGammaPositive(s, y);
  // log(pi / |sin(pi x)|) is +inf at the poles by itself.
  const Value mirror = s.Log(s.Inverse(s.Abs(SinPi(s, x)), M_PI));
  const Value v = b.Select(low, b.Sub(mirror, direct), direct);
  return s.If(Cmp::kEq, s.Abs(x), INFINITY, s.C(x, INFINITY), v);
}

namespace {

DENDRITE_LOWERING("aten.lgamma.default", SpecialUnary<LogGamma>);
DENDRITE_LOWERING("aten.mvlgamma.default", MvLgamma);
DENDRITE_LOWERING("aten.digamma.default", SpecialUnary<Digamma>);
DENDRITE_LOWERING("aten.special_digamma.default", SpecialUnary<Digamma>);
DENDRITE_LOWERING("aten.polygamma.default", PolygammaOp);
DENDRITE_LOWERING("aten.special_zeta.default", SpecialBinary<Zeta>);
DENDRITE_LOWERING("aten.special_zeta.self_scalar", SpecialBinary<Zeta>);
DENDRITE_LOWERING("aten.special_zeta.other_scalar", SpecialBinary<Zeta>);
DENDRITE_LOWERING("aten.igamma.default", IncompleteGamma<false>);
DENDRITE_LOWERING("aten.igammac.default", IncompleteGamma<true>);

}  // namespace
}  // namespace dendrite::lowering
