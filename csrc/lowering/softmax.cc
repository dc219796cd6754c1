// csrc/lowering/softmax.cc - softmax, log-softmax and their gradients.
//
// Computed in f32 for f16 and bf16. The peak is found with XLA's plain maximum, which may drop NaN:
// a NaN in the row comes back through exp and the sum, as in PyTorch.

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

struct Row {
  Value x;  // opmath, rank >= 1
  int64_t dim = 0;
};

Row MakeRow(Emitter& e, int arg, int dim_arg) {
  Value x = e.In(arg);
  x = e.To(x, tape::OpMath(x.dtype));
  const int64_t dim = WrapDim(e.Int(dim_arg), x.rank());
  return {AtLeast1d(e.b(), x), dim};
}

void OutShaped(Emitter& e, const Value& v) { e.Out(0, e.b().Reshape(v, e.OutView(0).sizes)); }

// x minus its peak along dim.
Value Shifted(Builder& b, const Row& r) {
  return b.Sub(r.x, Spread(b, MaxIgnoringNan(b, r.x, {r.dim}), r.x.dims, {r.dim}));
}

Value SoftmaxOf(Builder& b, const Row& r) {
  Value p = b.Unary("exponential", Shifted(b, r));
  return b.Div(p, Spread(b, Sum(b, p, {r.dim}), r.x.dims, {r.dim}));
}

void Softmax(Emitter& e) { OutShaped(e, SoftmaxOf(e.b(), MakeRow(e, 0, 1))); }

void LogSoftmax(Emitter& e) {
  Builder& b = e.b();
  const Row r = MakeRow(e, 0, 1);
  Value s = Shifted(b, r);
  Value log_sum = b.Unary("log", Sum(b, b.Unary("exponential", s), {r.dim}));
  OutShaped(e, b.Sub(s, Spread(b, log_sum, r.x.dims, {r.dim})));
}

// Rows that are -inf throughout give zeros, not NaN.
void SafeSoftmax(Emitter& e) {
  Builder& b = e.b();
  Row r = MakeRow(e, 0, 1);
  if (!e.IsNone(2)) r.x = e.To(r.x, tape::OpMath(e.Dtype(2)));
  Value masked = b.Compare(Cmp::kEq, r.x, b.Infinity(r.x.dtype, r.x.dims, true));
  Value all_masked = Spread(b, AllOf(b, masked, {r.dim}), r.x.dims, {r.dim});
  OutShaped(e, b.Select(all_masked, Like(b, r.x, 0), SoftmaxOf(b, r)));
}

void SoftmaxBackward(Emitter& e) {
  Builder& b = e.b();
  const Row g = MakeRow(e, 0, 2), y = MakeRow(e, 1, 2);
  Value gy = b.Mul(g.x, y.x);
  Value sum = Spread(b, Sum(b, gy, {g.dim}), g.x.dims, {g.dim});
  OutShaped(e, b.Mul(b.Sub(g.x, sum), y.x));
}

void LogSoftmaxBackward(Emitter& e) {
  Builder& b = e.b();
  const Row g = MakeRow(e, 0, 2), y = MakeRow(e, 1, 2);
  Value sum = Spread(b, Sum(b, g.x, {g.dim}), g.x.dims, {g.dim});
  OutShaped(e, b.Sub(g.x, b.Mul(b.Unary("exponential", y.x), sum)));
}

DENDRITE_LOWERING("aten._softmax.default", Softmax);
DENDRITE_LOWERING("aten._log_softmax.default", LogSoftmax);
DENDRITE_LOWERING("aten._safe_softmax.default", SafeSoftmax);
DENDRITE_LOWERING("aten._softmax_backward_data.default", SoftmaxBackward);
DENDRITE_LOWERING("aten._log_softmax_backward_data.default", LogSoftmaxBackward);

}  // namespace
}  // namespace dendrite::lowering
