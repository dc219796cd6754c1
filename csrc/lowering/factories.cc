// Tensors made from numbers: fill, zeros, full, arange, linspace, eye. Sizes come from the result's
// view.
#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

void FillWith(Emitter& e, double v) {
  const tape::View& out = e.OutView(0);
  e.Out(0, e.b().Constant(out.dtype, out.sizes, v));
}

void Zeros(Emitter& e) { FillWith(e, 0); }
void Ones(Emitter& e) { FillWith(e, 1); }

// `number`: position of the value among the arguments.
template <int kNumber>
void Full(Emitter& e) {
  const tape::View& out = e.OutView(0);
  e.Out(0, e.b().BroadcastTo(e.Scalar(kNumber, out.dtype), out.sizes));
}

void FillTensor(Emitter& e) {
  const tape::View& out = e.OutView(0);
  e.Out(0, e.ToSized(e.In(1), out.dtype, out.sizes));
}

// Floats are computed in f64 where there is one, as PyTorch's CPU kernels do.
DType AccumulateIn(Emitter& e, DType t) {
  if (!tape::IsFloat(t)) return DType::kI64;
  return e.traits().has_f64 ? DType::kF64 : DType::kF32;
}

void Ramp(Emitter& e, const Value& start, const Value& step) {
  const tape::View& out = e.OutView(0);
  Builder& b = e.b();
  const Value index = b.Iota(start.dtype, out.sizes, 0);
  const Value scaled = b.Mul(index, b.BroadcastTo(step, out.sizes));
  e.Out(0, b.Add(b.BroadcastTo(start, out.sizes), scaled));
}

// `start`, `step`: positions of the arguments; -1: 0 and 1.
template <int kStart, int kStep>
void Arange(Emitter& e) {
  const DType t = AccumulateIn(e, e.OutView(0).dtype);
  const Value start = kStart < 0 ? e.b().Constant(t, {}, 0) : e.Scalar(kStart, t);
  const Value step = kStep < 0 || e.IsNone(kStep) ? e.b().Constant(t, {}, 1) : e.Scalar(kStep, t);
  Ramp(e, start, step);
}

// From both ends towards the middle, so that the last element is exactly `end`.
void Linspace(Emitter& e) {  // (start, end, steps)
  const tape::View& out = e.OutView(0);
  Builder& b = e.b();
  if (!tape::IsFloat(out.dtype)) return e.Fail(Unimplemented("linspace of integers"));
  const DType t = tape::OpMath(out.dtype);
  const int64_t n = out.sizes[0];
  const Value start = e.Scalar(0, t), end = e.Scalar(1, t);
  if (n <= 1) return e.Out(0, b.BroadcastTo(start, out.sizes));
  const Value step = b.Div(b.Sub(end, start), b.Constant(t, {}, static_cast<double>(n - 1)));
  const Value index = b.Iota(t, out.sizes, 0), wide_step = b.BroadcastTo(step, out.sizes);
  const Value from_start = b.Add(b.BroadcastTo(start, out.sizes), b.Mul(wide_step, index));
  const Value left = b.Sub(Like(b, index, static_cast<double>(n - 1)), index);
  const Value from_end = b.Sub(b.BroadcastTo(end, out.sizes), b.Mul(wide_step, left));
  const Value first_half = b.Compare(Cmp::kLt, index, Like(b, index, static_cast<double>(n / 2)));
  e.Out(0, b.Select(first_half, from_start, from_end));
}

void Eye(Emitter& e) {
  const Dims& sizes = e.OutView(0).sizes;
  Builder& b = e.b();
  e.Out(0, b.Compare(Cmp::kEq, b.Iota(DType::kI64, sizes, 0), b.Iota(DType::kI64, sizes, 1)));
}

DENDRITE_LOWERING("aten.fill.Scalar", Full<1>);
DENDRITE_LOWERING("aten.fill.Tensor", FillTensor);
DENDRITE_LOWERING("aten.zero.default", Zeros);
DENDRITE_LOWERING("aten.zeros.default", Zeros);
DENDRITE_LOWERING("aten.zeros_like.default", Zeros);
DENDRITE_LOWERING("aten.new_zeros.default", Zeros);
DENDRITE_LOWERING("aten.ones.default", Ones);
DENDRITE_LOWERING("aten.ones_like.default", Ones);
DENDRITE_LOWERING("aten.new_ones.default", Ones);
DENDRITE_LOWERING("aten.full.default", Full<1>);
DENDRITE_LOWERING("aten.full_like.default", Full<1>);
DENDRITE_LOWERING("aten.new_full.default", Full<2>);
DENDRITE_LOWERING("aten.scalar_tensor.default", Full<0>);
DENDRITE_LOWERING("aten.arange.default", (Arange<-1, -1>));
DENDRITE_LOWERING("aten.arange.start", (Arange<0, -1>));
DENDRITE_LOWERING("aten.arange.start_step", (Arange<0, 2>));
DENDRITE_LOWERING("aten.linspace.default", Linspace);
DENDRITE_LOWERING("aten.eye.default", Eye);
DENDRITE_LOWERING("aten.eye.m", Eye);

}  // namespace
}  // namespace dendrite::lowering
