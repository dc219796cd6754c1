// csrc/lowering/random.cc - random operators as StableHLO, in the arithmetic that
// csrc/base/philox.h fixes.
//
// Every element computes its own block and selects its words: four times the arithmetic of sharing
// a block among its elements, but without the branches that a concatenation would put into the
// fused loop, so it vectorises and fuses with what reads it.
#include <cstdint>
#include <limits>

#include "csrc/base/philox.h"
#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

constexpr double kTwoPi = 6.283185307179586476925286766559;
constexpr int kSeed = 1, kOffset = 2, kFirstParameter = 3;

// The words that one operator draws, as rank-1 values over its elements.
class Draw {
 public:
  Draw(Emitter& e, int64_t n) : e_(e), b_(e.b()), n_(n), index_(b_.Iota(DType::kU64, {n}, 0)) {}

  // Narrow mapping: u32 [n].
  Value Narrow() {
    Round(Shift(index_, 2));
    return Pick(Bit(1), Pick(Bit(0), c_[3], c_[2]), Pick(Bit(0), c_[1], c_[0]));
  }

  // Narrow mapping, neighbours: the words of elements 2j and 2j+1, for both of them.
  void NarrowPair(Value* even, Value* odd) {
    Round(Shift(index_, 2));
    *even = Pick(Bit(1), c_[2], c_[0]);
    *odd = Pick(Bit(1), c_[3], c_[1]);
  }

  // Wide mapping: u64 [n].
  Value Wide() {
    Round(Shift(index_, 1));
    return Join(Pick(Bit(0), c_[2], c_[0]), Pick(Bit(0), c_[3], c_[1]));
  }

  // Wide mapping, neighbours: a block holds exactly one pair.
  void WidePair(Value* even, Value* odd) {
    Round(Shift(index_, 1));
    *even = Join(c_[0], c_[1]);
    *odd = Join(c_[2], c_[3]);
  }

  // bool [n]: bit `bit` of the element's number.
  Value Bit(int bit) {
    const Value mask = b_.ConstantInt(DType::kU64, {n_}, int64_t{1} << bit);
    return b_.Compare(Cmp::kNe, b_.Binary("and", index_, mask),
                      b_.ConstantInt(DType::kU64, {n_}, 0));
  }

 private:
  Value Shift(const Value& x, int by) {
    return b_.Binary("shift_right_logical", x, b_.ConstantInt(x.dtype, x.dims, by));
  }
  Value Pick(const Value& pred, const Value& yes, const Value& no) {
    return b_.Select(pred, yes, no);
  }
  Value Low(const Value& x) { return b_.Convert(x, DType::kU32); }
  Value High(const Value& x) { return b_.Convert(Shift(x, 32), DType::kU32); }
  Value Join(const Value& low, const Value& high) {
    const Value up = b_.Binary("shift_left", b_.Convert(high, DType::kU64),
                               b_.ConstantInt(DType::kU64, {n_}, 32));
    return b_.Binary("or", up, b_.Convert(low, DType::kU64));
  }

  // Philox-4x32-10 of counter offset + block and key seed, into c_.
  void Round(const Value& block) {
    const auto unsigned64 = [&](int i) {
      return b_.BitcastConvert(e_.Scalar(i, DType::kI64), DType::kU64);
    };
    const Value seed = unsigned64(kSeed);
    Value key[2] = {Low(seed), High(seed)};
    const Value counter = b_.Add(block, b_.BroadcastTo(unsigned64(kOffset), {n_}));
    const Value zero = b_.ConstantInt(DType::kU32, {n_}, 0);
    c_[0] = Low(counter), c_[1] = High(counter), c_[2] = zero, c_[3] = zero;
    for (int round = 0; round < 10; ++round) {
      const Value p0 = Product(c_[0], 0xD2511F53), p1 = Product(c_[2], 0xCD9E8D57);
      const Value k0 = b_.BroadcastTo(key[0], {n_}), k1 = b_.BroadcastTo(key[1], {n_});
      c_[0] = b_.Binary("xor", b_.Binary("xor", High(p1), c_[1]), k0);
      c_[2] = b_.Binary("xor", b_.Binary("xor", High(p0), c_[3]), k1);
      c_[1] = Low(p1);
      c_[3] = Low(p0);
      key[0] = b_.Add(key[0], b_.ConstantInt(DType::kU32, {}, 0x9E3779B9));
      key[1] = b_.Add(key[1], b_.ConstantInt(DType::kU32, {}, 0xBB67AE85));
    }
  }
  Value Product(const Value& x, int64_t multiplier) {
    return b_.Mul(b_.Convert(x, DType::kU64), b_.ConstantInt(DType::kU64, {n_}, multiplier));
  }

  Emitter& e_;
  stablehlo::Builder& b_;
  int64_t n_;
  Value index_;
  Value c_[4];
};

Value Splat(Emitter& e, const Value& like, double v) {
  return e.b().Constant(like.dtype, like.dims, v);
}

Value Parameter(Emitter& e, int i, const Value& like) {
  return e.b().BroadcastTo(e.Scalar(i, like.dtype), like.dims);
}

// (0, 1] from words of either width, f32 or f64.
Value Open01(Emitter& e, const Value& bits) {
  Builder& b = e.b();
  if (bits.dtype == DType::kU32) {
    const Value x = b.Convert(bits, DType::kF32);
    return b.Mul(b.Add(x, Splat(e, x, 0.5)), Splat(e, x, 0x1p-32));
  }
  const Value top = b.Binary("shift_right_logical", bits, b.ConstantInt(bits.dtype, bits.dims, 11));
  const Value x = b.Convert(top, DType::kF64);
  return b.Mul(b.Add(x, Splat(e, x, 0.5)), Splat(e, x, 0x1p-53));
}

// [0, 1) with `precision` bits, as f32 (u32 words) or f64 (u64 words).
Value Uniform01(Emitter& e, const Value& bits, int precision = kUniformBitsF32) {
  Builder& b = e.b();
  const bool narrow = bits.dtype == DType::kU32;
  if (!narrow) precision = 53;
  const int shift = (narrow ? 32 : 64) - precision;
  const Value top =
      b.Binary("shift_right_logical", bits, b.ConstantInt(bits.dtype, bits.dims, shift));
  const Value x = b.Convert(top, narrow ? DType::kF32 : DType::kF64);
  return b.Mul(x, Splat(e, x, 1.0 / static_cast<double>(int64_t{1} << precision)));
}

int64_t Count(Emitter& e) { return e.OutView(0).numel(); }
bool IsWide(Emitter& e) { return e.OutView(0).dtype == DType::kF64; }

// The type for arithmetic that PyTorch does in double.
DType Double(Emitter& e) { return e.traits().has_f64 ? DType::kF64 : DType::kF32; }

void Finish(Emitter& e, int k, const Value& flat) {
  if (e.Wanted(k)) e.Out(k, e.b().Reshape(flat, e.OutView(k).sizes));
}

// True if there is something to draw; fails the lowering for types that the operator does not take.
bool Begin(Emitter& e, bool needs_float) {
  if (!e.Wanted(0)) return false;
  const DType dtype = e.OutView(0).dtype;
  if (tape::IsComplex(dtype) || (needs_float && !tape::IsFloat(dtype))) {
    e.Fail(Unimplemented(e.sig().op + " of this dtype"));
    return false;
  }
  if (Count(e) == 0) {
    e.Out(0, e.b().Constant(dtype, e.OutView(0).sizes, 0));
    return false;
  }
  return true;
}

void Uniform(Emitter& e) {
  if (!Begin(e, true)) return;
  Builder& b = e.b();
  Draw draw(e, Count(e));
  const DType dtype = e.OutView(0).dtype;
  const DType wide = Double(e);
  const Value from = e.Scalar(kFirstParameter, wide), to = e.Scalar(kFirstParameter + 1, wide);
  Value span = b.Sub(to, from), low = from, u;
  if (IsWide(e)) {
    u = Uniform01(e, draw.Wide());
  } else {
    // Span and low end rounded to float: philox.h says why.
    span = e.To(e.To(span, DType::kF32), wide);
    low = e.To(e.To(low, DType::kF32), wide);
    const int precision = dtype == DType::kF16    ? kUniformBitsF16
                          : dtype == DType::kBF16 ? kUniformBitsBF16
                                                  : kUniformBitsF32;
    u = e.To(Uniform01(e, draw.Narrow(), precision), wide);
  }
  const Value x = b.Add(b.Mul(u, b.BroadcastTo(span, u.dims)), b.BroadcastTo(low, u.dims));
  Finish(e, 0, IsWide(e) ? x : e.To(x, DType::kF32));
}

// Standard normal numbers, f32 or f64, times std plus mean.
Value NormalValue(Emitter& e) {
  Builder& b = e.b();
  Draw draw(e, Count(e));
  Value even, odd;
  if (IsWide(e)) {
    draw.WidePair(&even, &odd);
  } else {
    draw.NarrowPair(&even, &odd);
  }
  const Value log = b.Unary("log", Open01(e, even));
  const Value radius = b.Unary("sqrt", b.Mul(log, Splat(e, log, -2)));
  const Value u = Uniform01(e, odd);
  const Value angle = b.Mul(u, Splat(e, u, kTwoPi));
  const Value wave = b.Select(draw.Bit(0), b.Unary("sine", angle), b.Unary("cosine", angle));
  const Value z = b.Mul(radius, wave);
  return b.Add(b.Mul(z, Parameter(e, kFirstParameter + 1, z)), Parameter(e, kFirstParameter, z));
}

void Normal(Emitter& e) {
  if (Begin(e, true)) Finish(e, 0, NormalValue(e));
}

void LogNormal(Emitter& e) {
  if (Begin(e, true)) Finish(e, 0, e.b().Unary("exponential", NormalValue(e)));
}

void Exponential(Emitter& e) {
  if (!Begin(e, true)) return;
  Builder& b = e.b();
  Draw draw(e, Count(e));
  const Value u = Open01(e, IsWide(e) ? draw.Wide() : draw.Narrow());
  const double half_epsilon = IsWide(e) ? std::numeric_limits<double>::epsilon() / 2
                                        : std::numeric_limits<float>::epsilon() / 2;
  const Value small = Splat(e, u, half_epsilon);
  const Value near_one = b.Compare(Cmp::kGe, u, Splat(e, u, 1 - half_epsilon));
  const Value x = b.Select(near_one, small, b.Unary("negate", b.Unary("log", u)));
  Finish(e, 0, b.Div(x, Parameter(e, kFirstParameter, x)));
}

void Cauchy(Emitter& e) {
  if (!Begin(e, true)) return;
  Builder& b = e.b();
  Draw draw(e, Count(e));
  const Value u = Open01(e, IsWide(e) ? draw.Wide() : draw.Narrow());
  const Value angle = b.Mul(b.Sub(u, Splat(e, u, 0.5)), Splat(e, u, kTwoPi / 2));
  const Value x = b.Div(b.Unary("sine", angle), b.Unary("cosine", angle));
  Finish(e, 0,
         b.Add(b.Mul(x, Parameter(e, kFirstParameter + 1, x)), Parameter(e, kFirstParameter, x)));
}

void Geometric(Emitter& e) {
  if (!Begin(e, false)) return;
  Builder& b = e.b();
  Draw draw(e, Count(e));
  const Value u = Open01(e, e.traits().has_f64 ? draw.Wide() : draw.Narrow());
  const Value p = e.Scalar(kFirstParameter, u.dtype);
  const Value log_failure = b.Unary("log_plus_one", b.Unary("negate", p));
  const Value trials =
      b.Unary("ceil", b.Div(b.Unary("log", u), b.BroadcastTo(log_failure, u.dims)));
  Finish(e, 0, b.Binary("maximum", trials, Splat(e, u, 1)));
}

// bool [n]: u < p, p rank-0 or [n].
Value Chance(Emitter& e, int64_t n, const Value& p) {
  Draw draw(e, n);
  const Value u = e.To(Uniform01(e, draw.Narrow()), p.dtype);
  return e.b().Compare(Cmp::kLt, u, e.b().BroadcastTo(p, u.dims));
}

void Bernoulli(Emitter& e) {
  if (Begin(e, false)) {
    Finish(e, 0, Chance(e, Count(e), e.Scalar(kFirstParameter, Double(e))));
  }
}

void BernoulliTensor(Emitter& e) {
  if (!Begin(e, false)) return;
  const Value p = e.ToSized(e.In(kFirstParameter), Double(e), e.OutView(0).sizes);
  Finish(e, 0, Chance(e, Count(e), e.b().Reshape(p, {Count(e)})));
}

// Integers in [from, to); as many bits as the result can hold where to - from is 0 (2^64).
void Random(Emitter& e) {
  if (!Begin(e, false)) return;
  Builder& b = e.b();
  const int64_t n = Count(e);
  Draw draw(e, n);
  const Value bits = draw.Wide();
  const auto bound = [&](int i) { return b.BitcastConvert(e.Scalar(i, DType::kI64), DType::kU64); };
  const Value from = bound(kFirstParameter);
  const Value range = b.Sub(bound(kFirstParameter + 1), from);
  const Value all = b.Compare(Cmp::kEq, range, b.ConstantInt(DType::kU64, {}, 0));
  // A remainder by zero is undefined: divide by one where every bit pattern is wanted.
  const Value divisor = b.Select(all, b.ConstantInt(DType::kU64, {}, 1), range);
  const Value r = b.Select(b.BroadcastTo(all, {n}), bits,
                           b.Binary("remainder", bits, b.BroadcastTo(divisor, {n})));
  const Value sum = b.Add(r, b.BroadcastTo(from, {n}));
  Finish(e, 0, b.BitcastConvert(sum, DType::kI64));
}

// A permutation: numbers sorted by 64 random bits; ties (2^-64 a pair) keep their order.
void RandPerm(Emitter& e) {
  if (!Begin(e, false)) return;
  Builder& b = e.b();
  const int64_t n = Count(e);
  Draw draw(e, n);
  const auto sorted = b.Sort({draw.Wide(), b.Iota(DType::kI64, {n}, 0)}, 0, /*stable=*/true,
                             [](Builder& r, const std::vector<Value>& v) {
                               return std::vector<Value>{r.Compare(Cmp::kLt, v[0], v[1])};
                             });
  Finish(e, 0, sorted[1]);
}

// (input, seed, offset, p) -> (output, mask)
void NativeDropout(Emitter& e) {
  Builder& b = e.b();
  const Value in = e.In(0);
  const int64_t n = tape::NumElements(in.dims);
  const DType math = tape::OpMath(in.dtype);
  const Value one = b.Constant(Double(e), {}, 1);
  const Value keep = b.Sub(one, e.Scalar(kFirstParameter, Double(e)));
  const Value none = b.Compare(Cmp::kEq, keep, b.Constant(Double(e), {}, 0));
  const Value scale = b.Select(none, b.Constant(Double(e), {}, 0), b.Div(one, keep));
  const Value mask =
      n == 0 ? b.Constant(DType::kBool, in.dims, 0) : b.Reshape(Chance(e, n, keep), in.dims);
  // Products, not a select: a dropped infinity is NaN in PyTorch.
  const Value kept = b.Mul(e.To(in, math), e.To(mask, math));
  e.Out(0, e.To(b.Mul(kept, e.ToSized(scale, math, in.dims)), in.dtype));
  e.Out(1, mask);
}

void NativeDropoutBackward(Emitter& e) {
  Builder& b = e.b();
  const Value grad = e.In(0);
  const DType type = FloatType(e, grad.dtype), math = tape::OpMath(type);
  const Value mask = e.ToSized(e.In(1), math, grad.dims);
  const Value factor = b.Mul(mask, b.BroadcastTo(e.Scalar(2, math), grad.dims));
  // The factor is a tensor of the gradient's type in PyTorch (of the default one where that is no
  // float), so it is rounded to it.
  e.Out(0, b.Mul(e.To(grad, math), e.To(e.To(factor, type), math)));
}

DENDRITE_LOWERING("dendrite.uniform.default", Uniform);
DENDRITE_LOWERING("dendrite.normal.default", Normal);
DENDRITE_LOWERING("dendrite.log_normal.default", LogNormal);
DENDRITE_LOWERING("dendrite.exponential.default", Exponential);
DENDRITE_LOWERING("dendrite.cauchy.default", Cauchy);
DENDRITE_LOWERING("dendrite.geometric.default", Geometric);
DENDRITE_LOWERING("dendrite.bernoulli.default", Bernoulli);
DENDRITE_LOWERING("dendrite.bernoulli.Tensor", BernoulliTensor);
DENDRITE_LOWERING("dendrite.random.default", Random);
DENDRITE_LOWERING("dendrite.randperm.default", RandPerm);
DENDRITE_LOWERING("dendrite.native_dropout.default", NativeDropout);
DENDRITE_LOWERING("aten.native_dropout_backward.default", NativeDropoutBackward);

}  // namespace
}  // namespace dendrite::lowering
