// The error function and its relatives for f32 and f64; compilers' plugins accept no chlo
// operations.
//
// In f32, where GELU has made it a hot spot, erf(x) = x A(x^2) / B(x^2) for |x| < 3.92 and 1
// beyond: no branch and no exponential; relative error of the fit 2e-8. In f64 erf(x) = x P(2x^2 -
// 1) for |x| < 1 and 1 - erfc(x) beyond. erfc(x) = exp(-x^2) G(t) / (1 + 2x) for x >= 0, where t =
// (x - k) / (x + k) maps the half-line onto [-1, 1): G is smooth there, so one polynomial serves
// the whole tail. P and G interpolate at Chebyshev nodes, computed with 60 digits; relative error
// below 2e-8 for f32 and 2e-16 for f64.
#include <cmath>
#include <iterator>

#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

constexpr double kErfEnd32 = 3.92;
constexpr double kErfOver32[] = {1.1283791462486987,     0.1904025015468625,
                                 0.05274818680050976,    0.0037654422465194163,
                                 0.00028487810429744304, 2.0501096960238445e-6};
constexpr double kErfUnder32[] = {1.0,
                                  0.5020725656194305,
                                  0.11410746149745712,
                                  0.01496886909726593,
                                  0.001162491739660498,
                                  3.809170327053796e-5};
constexpr double kErf32[] = {0.96546873863756906,     -0.140536089021121148,
                             0.0198524977224558126,   -0.00228548561221224206,
                             0.000217511990620889903, -0.0000175369141808005966,
                             1.23163959774783754e-6,  -7.55237857147421595e-8};
constexpr double kErf64[] = {
    0.965468738669867308,     -0.140536089022717119,   0.0198524966889837074,
    -0.0022854855611441132,   0.000217517156041599315, -0.0000175371694411248655,
    1.22338273835989686e-6,   -7.51156928659172683e-8, 4.11580058320814911e-9,
    -2.03522840581576898e-10, 9.16761959686580632e-12, -3.80788240631949552e-13,
    1.45438870794651157e-14};
constexpr double kErfcx32[] = {
    1.27697839119215036,      -0.0927638157446717914,  -0.16603109041503115,
    0.164050497123231124,     -0.0542119952365025455,  -0.00802473910256481717,
    0.00868925269510845432,   0.00123050321722370638,  -0.00139580508835304462,
    -0.000370928411413522408, 0.000160840346334957994, 0.0000680751475896051314};
constexpr double kErfcx64[] = {
    1.23751263083782758,      -0.140240598585545209,    0.00358541548546630691,
    0.08227673848999159,      -0.108803930141939147,    0.0923043211643561598,
    -0.0586933985844918477,   0.0283622773713700457,    -0.00974657962081509014,
    0.00175562616922767209,   0.000293714087772276824,  -0.000290155365639471284,
    0.0000516473712387183769, 0.0000223875927253476892, -0.0000114396152600759497,
    -9.79297529099822918e-7,  1.74385774113591811e-6,   -5.08169118116981883e-8,
    -2.49965380374052424e-7,  1.87785011564687965e-8,   3.25649908379851293e-8,
    -1.95279016297483689e-9,  -2.72939413325338551e-9};

bool IsDouble(const Value& x) { return x.dtype == DType::kF64; }

// x in [-end, end], and NaN for NaN, which the plugin's minimum and maximum may drop.
Value Within(Builder& b, const Value& x, double end) {
  const Value hi = Like(b, x, end), lo = Like(b, x, -end);
  const Value below = b.Select(b.Compare(Cmp::kGt, x, hi), hi, x);
  return b.Select(b.Compare(Cmp::kLt, x, lo), lo, below);
}

// erf(x) for |x| <= 1.
Value ErfNear(Builder& b, const Value& x) {
  const Value s = b.Sub(b.Mul(Like(b, x, 2), b.Mul(x, x)), Like(b, x, 1));
  return b.Mul(x, IsDouble(x) ? Polynomial(b, s, kErf64, std::size(kErf64))
                              : Polynomial(b, s, kErf32, std::size(kErf32)));
}

// exp(-x^2) with the rounding error of the square taken back: z is x with half of its digits, so
// z^2 is exact.
Value ExpMinusSquare(Builder& b, const Value& x) {
  const DType bits = IsDouble(x) ? DType::kI64 : DType::kI32;
  const Value mask =
      b.ConstantInt(bits, x.dims, IsDouble(x) ? ~int64_t{0xFFFFFFFF} : ~int64_t{0xFFF});
  const Value z = b.BitcastConvert(b.Binary("and", b.BitcastConvert(x, bits), mask), x.dtype);
  const Value head = b.Unary("exponential", Negate(b, b.Mul(z, z)));
  const Value tail = b.Unary("exponential", b.Mul(b.Sub(z, x), b.Add(z, x)));
  return b.Mul(head, tail);
}

// erfc(x) for x >= 0.
Value ErfcFar(Builder& b, const Value& x) {
  // Beyond 30 both types underflow; infinity would make t a NaN.
  const Value limit = Like(b, x, 30);
  const Value a = b.Select(b.Compare(Cmp::kGt, x, limit), limit, x);
  const Value k = Like(b, x, IsDouble(x) ? 3.75 : 2.0);
  const Value t = b.Div(b.Sub(a, k), b.Add(a, k));
  const Value g = IsDouble(x) ? Polynomial(b, t, kErfcx64, std::size(kErfcx64))
                              : Polynomial(b, t, kErfcx32, std::size(kErfcx32));
  const Value scale = b.Add(Like(b, x, 1), b.Mul(Like(b, x, 2), a));
  return b.Mul(ExpMinusSquare(b, a), b.Div(g, scale));
}

// Winitzki-type seed after Giles, "Approximating the erfinv function" (2010), in two ranges of
// w = -log(1 - y^2).
Value ErfInvSeed(Builder& b, const Value& y) {
  static constexpr double kCentral[] = {1.50140941,     0.246640727,    -0.00417768164,
                                        -0.00125372503, 0.00021858087,  -4.39150654e-06,
                                        -3.5233877e-06, 3.43273939e-07, 2.81022636e-08};
  static constexpr double kTail[] = {2.83297682,    1.00167406,     0.00943887047,
                                     -0.0076224613, 0.00573950773,  -0.00367342844,
                                     0.00134934322, 0.000100950558, -0.000200214257};
  const Value one = Like(b, y, 1);
  const Value w = Negate(b, b.Unary("log", b.Mul(b.Sub(one, y), b.Add(one, y))));
  const Value central = Polynomial(b, b.Sub(w, Like(b, y, 2.5)), kCentral, std::size(kCentral));
  const Value root = b.Sub(b.Unary("sqrt", w), Like(b, y, 3));
  const Value tail = Polynomial(b, root, kTail, std::size(kTail));
  return b.Mul(y, b.Select(b.Compare(Cmp::kLt, w, Like(b, y, 5)), central, tail));
}

}  // namespace

Value Erf(Builder& b, const Value& x) {
  if (!IsDouble(x)) {
    const Value near = Within(b, x, kErfEnd32);
    const Value s = b.Mul(near, near);
    const Value over = b.Mul(near, Polynomial(b, s, kErfOver32, std::size(kErfOver32)));
    return Within(b, b.Div(over, Polynomial(b, s, kErfUnder32, std::size(kErfUnder32))), 1);
  }
  const Value a = b.Unary("abs", x), one = Like(b, x, 1);
  const Value far = CopySign(b, b.Sub(one, ErfcFar(b, a)), x);
  return b.Select(b.Compare(Cmp::kLt, a, one), ErfNear(b, x), far);
}

Value Erfc(Builder& b, const Value& x) {
  const Value a = b.Unary("abs", x);
  const Value right = ErfcFar(b, a);
  const Value left = b.Sub(Like(b, x, 2), right);
  const Value far = b.Select(b.Compare(Cmp::kLt, x, Like(b, x, 0)), left, right);
  const Value near = b.Sub(Like(b, x, 1), ErfNear(b, x));
  return b.Select(b.Compare(Cmp::kLt, a, Like(b, x, 0.5)), near, far);
}

Value ErfInv(Builder& b, const Value& y) {
  Value x = ErfInvSeed(b, y);
  const Value one = Like(b, y, 1), size = b.Unary("abs", y);
  // Newton's steps on erfc, which keeps its digits where erf is close to 1.
  for (int i = 0; i < (IsDouble(y) ? 3 : 1); ++i) {
    const Value a = b.Unary("abs", x);
    const Value wrong = b.Sub(b.Sub(one, size), Erfc(b, a));
    const Value slope = b.Mul(Like(b, y, 1.12837916709551257390), ExpMinusSquare(b, a));
    x = CopySign(b, b.Sub(a, b.Div(wrong, slope)), y);
  }
  const Value at_one = b.Compare(Cmp::kEq, size, one);
  const Value inf = CopySign(b, b.Infinity(y.dtype, y.dims, false), y);
  return b.Select(at_one, inf, x);
}

}  // namespace dendrite::lowering
