// csrc/lowering/nll_loss.cc - negative log likelihood, for [N, C], [C] and [N, C, H, W] inputs.
//
// Targets are checked against [0, C), ignored ones apart. The loss gathers one element per target;
// the gradient is a comparison with an iota, which fuses into the log-softmax gradient that follows
// it.

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

struct Targets {
  Value index;   // i64, [N] or [N, H, W]; 0 where ignored
  Value used;    // bool: not ignored
  Value weight;  // opmath: the class's weight, 0 where ignored
};

// x [N, C, ...], target [N, ...].
Targets ReadTargets(Emitter& e, const Value& x, const Value& target, int weight_arg,
                    int ignore_arg) {
  Builder& b = e.b();
  const int64_t classes = x.dims[1];
  Value t = e.To(target, DType::kI64);
  Value used = b.Compare(Cmp::kNe, t, b.ConstantInt(DType::kI64, t.dims, e.Int(ignore_arg, -100)));
  Value index = b.Select(used, t, b.ConstantInt(DType::kI64, t.dims, 0));
  e.CheckIndices(index, 0, classes);
  Value weight = b.Constant(x.dtype, t.dims, 1);
  if (!e.IsNone(weight_arg)) {
    Builder::GatherDims g;
    g.collapsed_slice_dims = {0};
    g.start_index_map = {0};
    g.index_vector_dim = t.rank();
    g.slice_sizes = {1};
    weight = b.Gather(e.To(e.In(weight_arg), x.dtype), index, g);
  }
  weight = b.Select(used, weight, Like(b, weight, 0));
  return {index, used, weight};
}

// x[n, index[n, ...], ...]
Value Pick(Builder& b, const Value& x, const Value& index) {
  // Classes last, one row per target: then every gather is of single elements of [rows, C].
  const int64_t rows = tape::NumElements(index.dims), classes = x.dims[1];
  Value flat = x;
  if (x.rank() > 2) {
    Dims perm = {0};
    for (int64_t i = 2; i < x.rank(); ++i) perm.push_back(i);
    perm.push_back(1);
    flat = b.Reshape(b.Transpose(x, perm), {rows, classes});
  }
  Value row = b.Iota(DType::kI64, {rows, 1}, 0);
  Value at = b.Concatenate({row, b.Reshape(index, {rows, 1})}, 1);
  Builder::GatherDims g;
  g.collapsed_slice_dims = {0, 1};
  g.start_index_map = {0, 1};
  g.index_vector_dim = 1;
  g.slice_sizes = {1, 1};
  return b.Reshape(b.Gather(flat, at, g), index.dims);
}

// The input as [N, C, ...] and the target as [N, ...]: a lone sample becomes a batch of one.
struct Batch {
  Value x, target;
  bool lone = false;
};

Batch AsBatch(Emitter& e, int arg) {
  Builder& b = e.b();
  Value x = e.In(arg), t = e.In(arg + 1);
  x = e.To(x, tape::OpMath(x.dtype));
  if (x.rank() == 0) {
    e.Fail(Unimplemented("nll_loss of a 0-dim tensor"));
    x = b.Reshape(x, {1, 1});
  }
  if (x.rank() == 1) {
    return {b.Reshape(x, {1, x.dims[0]}), b.Reshape(t, {1}), true};
  }
  return {x, t, false};
}

void NllForward(Emitter& e) {
  Builder& b = e.b();
  const Batch in = AsBatch(e, 0);
  const int64_t reduction = e.Int(3);
  if (e.failed()) return;
  if (tape::NumElements(in.target.dims) == 0 || in.x.dims[1] == 0) {
    return e.Fail(Unimplemented("nll_loss of nothing"));
  }
  const Targets t = ReadTargets(e, in.x, in.target, 2, 4);
  Value picked = b.Select(t.used, Pick(b, in.x, t.index), Like(b, t.weight, 0));
  Value loss = b.Unary("negate", b.Mul(picked, t.weight));
  const Dims all = AllDims(loss.rank());
  Value total = Sum(b, t.weight, all);
  if (reduction == 0) {
    if (e.Wanted(0)) e.Out(0, b.Reshape(loss, e.OutView(0).sizes));
    // PyTorch counts no weight for a batch that it does not reduce.
    if (!in.lone) total = Like(b, total, 0);
  } else {
    Value sum = Sum(b, loss, all);
    e.Out(0, reduction == 1 ? b.Div(sum, total) : sum);
  }
  e.Out(1, total);
}

// (grad_output, self, target, weight?, reduction, ignore_index, total_weight)
void NllBackward(Emitter& e) {
  Builder& b = e.b();
  const Batch in = AsBatch(e, 1);
  if (e.failed()) return;
  const Value& x = in.x;
  const Targets t = ReadTargets(e, x, in.target, 3, 5);
  const int64_t reduction = e.Int(4);
  Value grad = e.To(e.In(0), x.dtype);
  if (reduction == 1) grad = b.Div(grad, b.Reshape(e.To(e.In(6), x.dtype), grad.dims));
  if (grad.rank() == 0 || in.lone) {
    grad = b.BroadcastTo(b.Reshape(grad, {}), t.weight.dims);
  }
  Value slope = b.Unary("negate", b.Mul(grad, t.weight));
  Value cls = b.Iota(DType::kI64, x.dims, 1);
  Value here = b.Compare(Cmp::kEq, cls, Spread(b, t.index, x.dims, {1}));
  here = b.Binary("and", here, Spread(b, t.used, x.dims, {1}));
  Value r = b.Select(here, Spread(b, slope, x.dims, {1}), Like(b, x, 0));
  if (e.Wanted(0)) e.Out(0, b.Reshape(r, e.OutView(0).sizes));
}

DENDRITE_LOWERING("aten.nll_loss_forward.default", NllForward);
DENDRITE_LOWERING("aten.nll_loss_backward.default", NllBackward);
DENDRITE_LOWERING("aten.nll_loss2d_forward.default", NllForward);
DENDRITE_LOWERING("aten.nll_loss2d_backward.default", NllBackward);

}  // namespace
}  // namespace dendrite::lowering
