// Comparisons, boolean and bitwise operators, selection.
#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

template <Cmp kCmp>
void Comparison(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (kCmp != Cmp::kEq && kCmp != Cmp::kNe && !p.RealOnly()) return;
  p.Out(e.b().Compare(kCmp, p[0], p[1]));
}

// Each operand by its own truth: no promotion, which could round a small number to zero.
Value Truth(Emitter& e, const Pointwise& p, int i) {
  const bool is_tensor = e.arg(i).kind == Arg::Kind::kTensor;
  const Value v = is_tensor ? e.b().Convert(e.In(i), DType::kBool) : e.Scalar(i, DType::kBool);
  return e.b().BroadcastTo(v, p.dims);
}

enum class Bits { kAnd, kOr, kXor };

template <Bits kBits>
Value Apply(Builder& b, const Value& x, const Value& y) {
  return b.Binary(kBits == Bits::kAnd ? "and" : (kBits == Bits::kOr ? "or" : "xor"), x, y);
}

template <Bits kBits>
void Logical(Emitter& e) {
  Pointwise p(e, DType::kBool);
  p.Out(Apply<kBits>(e.b(), Truth(e, p, 0), Truth(e, p, 1)));
}

template <Bits kBits>
void Bitwise(Emitter& e) {
  Pointwise p(e, {0, 1});
  if (p.is_float() || p.is_complex()) {
    return e.Fail(Unimplemented("bitwise operators take integers"));
  }
  p.Out(Apply<kBits>(e.b(), p[0], p[1]));
}

// Distances outside of [0, bits) are no mistake: a left shift gives 0, a right shift the sign.
void ShiftLeft(Emitter& e) {
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  if (!tape::IsIntegral(p.math)) return e.Fail(Unimplemented("shifts take integers"));
  const Value x = p[0], y = p[1];
  const auto bits = static_cast<double>(tape::ItemSize(p.math) * 8);
  const Value out_of_range = b.Binary("or", b.Compare(Cmp::kLt, y, p.Constant(0)),
                                      b.Compare(Cmp::kGe, y, p.Constant(bits)));
  p.Out(b.Select(out_of_range, p.Constant(0), b.Binary("shift_left", x, y)));
}

void ShiftRight(Emitter& e) {
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  if (!tape::IsIntegral(p.math)) return e.Fail(Unimplemented("shifts take integers"));
  const Value x = p[0], y = p[1];
  const bool is_unsigned = tape::IsUnsigned(p.math);
  const auto bits = static_cast<double>(tape::ItemSize(p.math) * 8);
  const Value out_of_range = b.Binary("or", b.Compare(Cmp::kLt, y, p.Constant(0)),
                                      b.Compare(Cmp::kGe, y, p.Constant(bits)));
  const char* op = is_unsigned ? "shift_right_logical" : "shift_right_arithmetic";
  const Value all = is_unsigned ? p.Constant(0) : b.Binary(op, x, p.Constant(bits - 1));
  p.Out(b.Select(out_of_range, all, b.Binary(op, x, y)));
}

void Where(Emitter& e) {
  Pointwise p(e, {1, 2});
  const Value condition = e.ToSized(e.In(0), DType::kBool, p.dims);
  p.Out(e.b().Select(condition, p[1], p[2]));
}

void MaskedFill(Emitter& e) {
  Pointwise p(e, {0});
  const Value mask = e.ToSized(e.In(1), DType::kBool, p.dims);
  p.Out(e.b().Select(mask, p[2], p[0]));
}

void IsClose(Emitter& e) {  // isclose(self, other, rtol, atol, equal_nan)
  Pointwise p(e, {0, 1});
  if (!p.RealOnly() || !p.is_float()) return e.Fail(Unimplemented("isclose of this dtype"));
  Builder& b = e.b();
  const Value x = p[0], y = p[1];
  const Value bound = b.Add(p.Number(3), b.Mul(p.Number(2), b.Unary("abs", y)));
  const Value distance = b.Unary("abs", b.Sub(x, y));
  Value close =
      b.Binary("and", b.Unary("is_finite", distance), b.Compare(Cmp::kLe, distance, bound));
  close = b.Binary("or", close, b.Compare(Cmp::kEq, x, y));
  if (e.Bool(4)) close = b.Binary("or", close, b.Binary("and", IsNan(b, x), IsNan(b, y)));
  p.Out(close);
}

DENDRITE_LOWERING("aten.eq.Tensor", Comparison<Cmp::kEq>);
DENDRITE_LOWERING("aten.eq.Scalar", Comparison<Cmp::kEq>);
DENDRITE_LOWERING("aten.ne.Tensor", Comparison<Cmp::kNe>);
DENDRITE_LOWERING("aten.ne.Scalar", Comparison<Cmp::kNe>);
DENDRITE_LOWERING("aten.lt.Tensor", Comparison<Cmp::kLt>);
DENDRITE_LOWERING("aten.lt.Scalar", Comparison<Cmp::kLt>);
DENDRITE_LOWERING("aten.le.Tensor", Comparison<Cmp::kLe>);
DENDRITE_LOWERING("aten.le.Scalar", Comparison<Cmp::kLe>);
DENDRITE_LOWERING("aten.gt.Tensor", Comparison<Cmp::kGt>);
DENDRITE_LOWERING("aten.gt.Scalar", Comparison<Cmp::kGt>);
DENDRITE_LOWERING("aten.ge.Tensor", Comparison<Cmp::kGe>);
DENDRITE_LOWERING("aten.ge.Scalar", Comparison<Cmp::kGe>);
DENDRITE_LOWERING("aten.logical_and.default", Logical<Bits::kAnd>);
DENDRITE_LOWERING("aten.logical_or.default", Logical<Bits::kOr>);
DENDRITE_LOWERING("aten.logical_xor.default", Logical<Bits::kXor>);
DENDRITE_LOWERING("aten.bitwise_and.Tensor", Bitwise<Bits::kAnd>);
DENDRITE_LOWERING("aten.bitwise_and.Scalar", Bitwise<Bits::kAnd>);
DENDRITE_LOWERING("aten.bitwise_and.Scalar_Tensor", Bitwise<Bits::kAnd>);
DENDRITE_LOWERING("aten.bitwise_or.Tensor", Bitwise<Bits::kOr>);
DENDRITE_LOWERING("aten.bitwise_or.Scalar", Bitwise<Bits::kOr>);
DENDRITE_LOWERING("aten.bitwise_or.Scalar_Tensor", Bitwise<Bits::kOr>);
DENDRITE_LOWERING("aten.bitwise_xor.Tensor", Bitwise<Bits::kXor>);
DENDRITE_LOWERING("aten.bitwise_xor.Scalar", Bitwise<Bits::kXor>);
DENDRITE_LOWERING("aten.bitwise_xor.Scalar_Tensor", Bitwise<Bits::kXor>);
DENDRITE_LOWERING("aten.bitwise_left_shift.Tensor", ShiftLeft);
DENDRITE_LOWERING("aten.bitwise_left_shift.Tensor_Scalar", ShiftLeft);
DENDRITE_LOWERING("aten.bitwise_left_shift.Scalar_Tensor", ShiftLeft);
DENDRITE_LOWERING("aten.bitwise_right_shift.Tensor", ShiftRight);
DENDRITE_LOWERING("aten.bitwise_right_shift.Tensor_Scalar", ShiftRight);
DENDRITE_LOWERING("aten.bitwise_right_shift.Scalar_Tensor", ShiftRight);
DENDRITE_LOWERING("aten.__lshift__.Tensor", ShiftLeft);
DENDRITE_LOWERING("aten.__lshift__.Scalar", ShiftLeft);
DENDRITE_LOWERING("aten.__rshift__.Tensor", ShiftRight);
DENDRITE_LOWERING("aten.__rshift__.Scalar", ShiftRight);
DENDRITE_LOWERING("aten.where.self", Where);
DENDRITE_LOWERING("aten.masked_fill.Scalar", MaskedFill);
DENDRITE_LOWERING("aten.masked_fill.Tensor", MaskedFill);
DENDRITE_LOWERING("aten.isclose.default", IsClose);

}  // namespace
}  // namespace dendrite::lowering
