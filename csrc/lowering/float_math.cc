// Functions of f32 and f64 spelled in StableHLO's operations, accurate over the whole range.
#include <cmath>

#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn10 = 2.30258509299404568402;

Value Abs(Builder& b, const Value& x) { return b.Unary("abs", x); }
Value Sqrt(Builder& b, const Value& x) { return b.Unary("sqrt", x); }
Value Log1p(Builder& b, const Value& x) { return b.Unary("log_plus_one", x); }

// sqrt(1 - x^2) without cancellation near 1.
Value Complement(Builder& b, const Value& x) {
  const Value one = Like(b, x, 1);
  return Sqrt(b, b.Mul(b.Sub(one, x), b.Add(one, x)));
}

}  // namespace

// A select that changes nothing, and after which XLA does not see that the operand is a square: it
// would make sqrt(x * x) into abs(x), which is finite where the square is not.
Value PlainSqrt(Builder& b, const Value& x) {
  if (tape::IsComplex(x.dtype)) return Sqrt(b, x);
  const Value nan = Like(b, x, std::nan(""));
  return Sqrt(b, b.Select(b.Compare(Cmp::kEq, x, x), x, nan));
}

Value Asin(Builder& b, const Value& x) { return b.Binary("atan2", x, Complement(b, x)); }
Value Acos(Builder& b, const Value& x) { return b.Binary("atan2", Complement(b, x), x); }
Value Atan(Builder& b, const Value& x) { return b.Binary("atan2", x, Like(b, x, 1)); }

Value Sinh(Builder& b, const Value& x) {
  const Value a = Abs(b, x), half = Like(b, x, 0.5), one = Like(b, x, 1);
  // expm1 keeps small arguments; halves of the argument keep large ones finite up to the true
  // overflow.
  const Value m = b.Unary("exponential_minus_one", a);
  const Value small = b.Mul(half, b.Add(m, b.Div(m, b.Add(m, one))));
  const Value root = b.Unary("exponential", b.Mul(half, a));
  const Value large = b.Mul(b.Mul(half, root), root);
  return CopySign(b, b.Select(b.Compare(Cmp::kGt, a, Like(b, x, 40)), large, small), x);
}

Value Cosh(Builder& b, const Value& x) {
  const Value a = Abs(b, x), half = Like(b, x, 0.5);
  const Value m = b.Unary("exponential", a);
  const Value small = b.Mul(half, b.Add(m, b.Div(Like(b, x, 1), m)));
  const Value root = b.Unary("exponential", b.Mul(half, a));
  const Value large = b.Mul(b.Mul(half, root), root);
  return b.Select(b.Compare(Cmp::kGt, a, Like(b, x, 40)), large, small);
}

Value Asinh(Builder& b, const Value& x) {
  const Value a = Abs(b, x), one = Like(b, x, 1), square = b.Mul(a, a);
  const Value near = Log1p(b, b.Add(a, b.Div(square, b.Add(one, Sqrt(b, b.Add(one, square))))));
  const Value far = b.Add(b.Unary("log", a), Like(b, x, kLn2));
  return CopySign(b, b.Select(b.Compare(Cmp::kGt, a, Like(b, x, 1e9)), far, near), x);
}

Value Acosh(Builder& b, const Value& x) {
  const Value t = b.Sub(x, Like(b, x, 1));
  const Value near = Log1p(b, b.Add(t, Sqrt(b, b.Add(b.Mul(Like(b, x, 2), t), b.Mul(t, t)))));
  const Value far = b.Add(b.Unary("log", x), Like(b, x, kLn2));
  const Value v = b.Select(b.Compare(Cmp::kGt, x, Like(b, x, 1e9)), far, near);
  return b.Select(b.Compare(Cmp::kLt, x, Like(b, x, 1)), Like(b, x, NAN), v);
}

Value Atanh(Builder& b, const Value& x) {
  const Value a = Abs(b, x), one = Like(b, x, 1);
  const Value ratio = b.Div(b.Mul(Like(b, x, 2), a), b.Sub(one, a));
  const Value v = CopySign(b, b.Mul(Like(b, x, 0.5), Log1p(b, ratio)), x);
  return b.Select(b.Compare(Cmp::kGt, a, one), Like(b, x, NAN), v);
}

// pow keeps large arguments exact, where exp(x * ln 2) multiplies the rounding error by x.
Value Exp2(Builder& b, const Value& x) { return b.Binary("power", Like(b, x, 2), x); }

Value Log2(Builder& b, const Value& x) { return b.Div(b.Unary("log", x), Like(b, x, kLn2)); }

Value Log10(Builder& b, const Value& x) { return b.Div(b.Unary("log", x), Like(b, x, kLn10)); }

Value Trunc(Builder& b, const Value& x) {
  const Value down = b.Unary("floor", Abs(b, x));
  return CopySign(b, down, x);
}

Value Sign(Builder& b, const Value& x) {
  const Value zero = Like(b, x, 0);
  return b.Sub(b.Convert(b.Compare(Cmp::kGt, x, zero), x.dtype),
               b.Convert(b.Compare(Cmp::kLt, x, zero), x.dtype));
}

Value SignBit(Builder& b, const Value& x) {
  const int64_t size = tape::ItemSize(x.dtype);
  const DType bits = size == 8 ? DType::kI64 : (size == 4 ? DType::kI32 : DType::kI16);
  const Value v = b.BitcastConvert(x, bits);
  return b.Compare(Cmp::kLt, v, Like(b, v, 0));
}

Value CopySign(Builder& b, const Value& magnitude, const Value& sign) {
  const Value a = Abs(b, magnitude);
  return b.Select(SignBit(b, sign), Negate(b, a), a);
}

Value Softplus(Builder& b, const Value& x) { return Log1p(b, b.Unary("exponential", x)); }

}  // namespace dendrite::lowering
