// csrc/lowering/batch_norm.cc - batch normalisation in its many overloads, and its gradient.
//
// Every overload gives out, save_mean, save_invstd first; those with a reserve have it next; then
// come the new running statistics, where the signature lists them. In evaluation PyTorch's CPU
// kernel saves empty tensors: what is saved has the size that its result asks for.

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

// Where an overload keeps its arguments, -1: it has none of the kind.
struct Layout {
  int running_mean, running_var;
  int training;  // position of the flag, -1: see `always`
  bool always;   // without a flag: trains (true) or evaluates
  int momentum, eps;
  int first_running;  // result index of the new running mean; a reserve, if any, is before it
};

Dims AllButChannels(const Value& x) {
  Dims dims;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != 1) dims.push_back(i);
  }
  return dims;
}

void OutSaved(Emitter& e, int k, const Value& v) {
  if (!e.Wanted(k)) return;
  const Dims& sizes = e.OutView(k).sizes;
  e.Out(k, sizes == v.dims ? v : e.b().Constant(v.dtype, sizes, 0));
}

// momentum * fresh + (1 - momentum) * running
Value Moved(Emitter& e, int running, const Value& fresh, int momentum) {
  Builder& b = e.b();
  Value m = Stretch(b, e.Scalar(momentum, fresh.dtype), fresh);
  Value old = e.To(e.In(running), fresh.dtype);
  return b.Add(b.Mul(m, fresh), b.Mul(b.Sub(Like(b, fresh, 1), m), old));
}

void BatchNorm(Emitter& e, const Layout& at) {
  Builder& b = e.b();
  Value x = e.In(0);
  x = e.To(x, tape::OpMath(x.dtype));
  if (x.rank() < 2) return e.Fail(Unimplemented("batch norm of fewer than 2 dimensions"));
  const bool training = at.training >= 0 ? e.Bool(at.training) : at.always;
  const bool has_running = at.running_mean >= 0 && !e.IsNone(at.running_mean);
  const Dims dims = AllButChannels(x);
  const int64_t count = Count(x, dims);

  Value mean, var;
  if (training) {
    mean = Mean(b, x, dims);
    Value d = b.Sub(x, Spread(b, mean, x.dims, dims));
    var = Mean(b, b.Mul(d, d), dims);
  } else {
    if (!has_running) return e.Fail(Unimplemented("batch norm evaluates without statistics"));
    mean = e.To(e.In(at.running_mean), x.dtype);
    var = e.To(e.In(at.running_var), x.dtype);
  }
  Value eps = Stretch(b, e.Scalar(at.eps, x.dtype), var);
  Value invstd = b.Unary("rsqrt", b.Add(var, eps));
  Value scale = e.IsNone(1) ? invstd : b.Mul(invstd, e.To(e.In(1), x.dtype));
  Value y = b.Mul(b.Sub(x, Along(b, mean, x.dims, 1)), Along(b, scale, x.dims, 1));
  if (!e.IsNone(2)) y = b.Add(y, Along(b, e.To(e.In(2), x.dtype), x.dims, 1));
  e.Out(0, y);
  OutSaved(e, 1, mean);
  OutSaved(e, 2, invstd);
  for (int k = 3; k < at.first_running; ++k) {
    if (e.Wanted(k)) e.Out(k, b.Constant(DType::kU8, e.OutView(k).sizes, 0));
  }
  const int rm = at.first_running, rv = rm + 1;
  if (!has_running) return;
  if (!training) {
    if (e.Wanted(rm)) e.Out(rm, mean);
    if (e.Wanted(rv)) e.Out(rv, var);
    return;
  }
  if (e.Wanted(rm)) e.Out(rm, Moved(e, at.running_mean, mean, at.momentum));
  if (e.Wanted(rv)) {
    // The running variance is the unbiased one: NaN from a single element, as in PyTorch.
    const Value sum = b.Mul(var, Like(b, var, static_cast<double>(count)));
    Value unbiased = b.Div(sum, Like(b, var, static_cast<double>(count - 1)));
    e.Out(rv, Moved(e, at.running_var, unbiased, at.momentum));
  }
}

void NativeBatchNorm(Emitter& e) { BatchNorm(e, {3, 4, 5, false, 6, 7, 3}); }
void NoStats(Emitter& e) { BatchNorm(e, {-1, -1, 3, false, 4, 5, 3}); }
void NoTraining(Emitter& e) { BatchNorm(e, {3, 4, -1, false, 5, 6, 3}); }
void WithUpdate(Emitter& e) { BatchNorm(e, {3, 4, -1, true, 5, 6, 4}); }
void NoUpdate(Emitter& e) { BatchNorm(e, {3, 4, -1, false, 5, 6, 4}); }

// native_batch_norm_backward(grad_out, input, weight?, running_mean?, running_var?, save_mean?,
// save_invstd?, train, eps, output_mask); batch_norm_backward has the same order and a reserve.
void BatchNormBackward(Emitter& e) {
  Builder& b = e.b();
  Value grad = e.In(0), x = e.In(1);
  grad = e.To(grad, tape::OpMath(grad.dtype));
  x = e.To(x, tape::OpMath(x.dtype));
  if (x.rank() < 2) return e.Fail(Unimplemented("batch norm of fewer than 2 dimensions"));
  const bool train = e.Bool(7);
  const Dims dims = AllButChannels(x);
  Value mean, invstd;
  if (train) {
    mean = e.To(e.In(5), x.dtype);
    invstd = e.To(e.In(6), x.dtype);
  } else {
    mean = e.To(e.In(3), x.dtype);
    Value var = e.To(e.In(4), x.dtype);
    invstd = b.Unary("rsqrt", b.Add(var, Stretch(b, e.Scalar(8, x.dtype), var)));
  }
  Value d = b.Sub(x, Along(b, mean, x.dims, 1));
  Value sum_gd = Sum(b, b.Mul(grad, d), dims);
  if (e.Wanted(0)) {
    Value scale = e.IsNone(2) ? invstd : b.Mul(invstd, e.To(e.In(2), x.dtype));
    Value g = grad;
    if (train) {
      const Value n = Like(b, invstd, static_cast<double>(Count(x, dims)));
      Value slope = b.Mul(b.Div(sum_gd, n), b.Mul(invstd, invstd));
      g = b.Sub(g, Along(b, Mean(b, grad, dims), x.dims, 1));
      g = b.Sub(g, b.Mul(d, Along(b, slope, x.dims, 1)));
    }
    e.Out(0, b.Mul(g, Along(b, scale, x.dims, 1)));
  }
  if (e.Wanted(1)) e.Out(1, b.Mul(sum_gd, invstd));
  if (e.Wanted(2)) e.Out(2, Sum(b, grad, dims));
}

DENDRITE_LOWERING("aten.native_batch_norm.default", NativeBatchNorm);
DENDRITE_LOWERING("aten._native_batch_norm_legit.default", NativeBatchNorm);
DENDRITE_LOWERING("aten._native_batch_norm_legit_functional.default", NativeBatchNorm);
DENDRITE_LOWERING("aten._native_batch_norm_legit.no_stats", NoStats);
DENDRITE_LOWERING("aten._native_batch_norm_legit_no_training.default", NoTraining);
DENDRITE_LOWERING("aten._batch_norm_with_update.default", WithUpdate);
DENDRITE_LOWERING("aten._batch_norm_with_update_functional.default", WithUpdate);
DENDRITE_LOWERING("aten._batch_norm_no_update.default", NoUpdate);
DENDRITE_LOWERING("aten.native_batch_norm_backward.default", BatchNormBackward);
DENDRITE_LOWERING("aten.batch_norm_backward.default", BatchNormBackward);

}  // namespace
}  // namespace dendrite::lowering
