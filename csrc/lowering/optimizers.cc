// csrc/lowering/optimizers.cc - fused optimizers and gradient scaling, in the order of operations
// of PyTorch's CPU kernels (ATen/native/cpu/Fused*Kernel.cpp, AmpGradScalerKernels.cpp).
//
// Results are the mutated lists in schema order: parameters, gradients (changed only when they are
// unscaled), then the optimizer's states. Coefficients are computed in double on rank-0 values,
// whatever the parameters' type, because PyTorch computes them on the host in double.
#include <vector>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

DType Double(const Emitter& e) { return e.traits().has_f64 ? DType::kF64 : DType::kF32; }

// A coefficient that is a number, a lifted number or a one-element tensor, as a rank-0 double.
Value Coefficient(Emitter& e, int i) {
  const auto kind = e.arg(i).kind;
  if (kind != Arg::Kind::kTensor) return e.Scalar(i, Double(e));
  return e.b().Reshape(e.To(e.In(i), Double(e)), {});
}

// A tensor list; an empty list in a signature need not say of what.
std::vector<Value> Tensors(Emitter& e, int i) {
  const Arg& arg = e.arg(i);
  if (arg.kind == Arg::Kind::kIntList && arg.ints.empty()) return {};
  return e.InList(i);
}

bool IsZero(Emitter& e, int i) {
  const auto kind = e.arg(i).kind;
  return (kind == Arg::Kind::kFloat || kind == Arg::Kind::kInt) && e.Float(i) == 0;
}

// One parameter's step: what is common to all fused optimizers.
class Step {
 public:
  // Argument positions; found_inf and grad_scale may be None.
  Step(Emitter& e, size_t count, int grad_scale, int found_inf) : e_(e), b_(e.b()), count_(count) {
    if (!e.IsNone(grad_scale)) scale_ = b_.Reshape(e.To(e.In(grad_scale), DType::kF32), {});
    if (!e.IsNone(found_inf)) {
      const Value flag = b_.Reshape(e.To(e.In(found_inf), DType::kF32), {});
      skip_ = b_.Compare(Cmp::kEq, flag, b_.Constant(DType::kF32, {}, 1));
    }
  }

  // Starts parameter k.
  void Begin(size_t k, const Value& param) {
    k_ = k;
    math_ = tape::OpMath(param.dtype);
    dims_ = param.dims;
  }

  Value Load(const Value& x) { return e_.To(x, math_); }
  // A rank-0 double as a full tensor of the computing type.
  Value Fill(const Value& scalar) { return e_.ToSized(scalar, math_, dims_); }
  Value Fill(double v) { return b_.Constant(math_, dims_, v); }

  // The gradient, unscaled (and stored as such) and negated as asked.
  Value Gradient(const Value& grad, bool maximize) {
    Value g = Load(grad);
    if (scale_.defined()) g = b_.Div(g, Fill(scale_));
    Store(1, grad, g);
    return maximize ? b_.Unary("negate", g) : g;
  }

  // g + p * weight_decay, skipped where the decay is zero, as PyTorch skips it.
  Value Decay(const Value& g, const Value& p, int arg) {
    if (IsZero(e_, arg)) return g;
    const Value decay = Coefficient(e_, arg);
    const Value sum = b_.Add(g, b_.Mul(p, Fill(decay)));
    return IfNonZero(decay, sum, g);
  }

  Value IfNonZero(const Value& scalar, const Value& yes, const Value& no) {
    const Value pred = b_.Compare(Cmp::kNe, scalar, b_.Constant(scalar.dtype, {}, 0));
    return b_.Select(b_.BroadcastTo(pred, dims_), yes, no);
  }

  // New value of state `list` (position among the mutated lists); the old one where the step is
  // skipped.
  void Store(size_t list, const Value& old, const Value& now) {
    const int k = static_cast<int>(list * count_ + k_);
    if (!e_.Wanted(k)) return;
    const Value rounded = e_.To(now, old.dtype);
    e_.Out(k, skip_.defined() ? b_.Select(b_.BroadcastTo(skip_, dims_), old, rounded) : rounded);
  }

 private:
  Emitter& e_;
  Builder& b_;
  size_t count_;
  size_t k_ = 0;
  DType math_ = DType::kUndefined;
  Dims dims_;
  Value scale_, skip_;
};

bool SameSize(Emitter& e, size_t n, std::initializer_list<size_t> sizes) {
  for (size_t size : sizes) {
    if (size != n) {
      e.Fail(InvalidArgument("lists of a fused optimizer differ in length"));
      return false;
    }
  }
  return true;
}

// 1 - beta ^ step
Value BiasCorrection(Emitter& e, const Value& beta, const Value& step) {
  Builder& b = e.b();
  const Value one = b.Constant(Double(e), {}, 1);
  return b.Sub(one, b.Binary("power", beta, b.Reshape(e.To(step, Double(e)), {})));
}

void Adam(Emitter& e, bool decoupled_decay) {
  enum { kLr = 6, kBeta1, kBeta2, kDecay, kEps, kAmsgrad, kMaximize, kGradScale, kFoundInf };
  Builder& b = e.b();
  const auto params = Tensors(e, 0), grads = Tensors(e, 1), avgs = Tensors(e, 2),
             squares = Tensors(e, 3), maxima = Tensors(e, 4), steps = Tensors(e, 5);
  const size_t n = params.size();
  const bool amsgrad = e.Bool(kAmsgrad), maximize = e.Bool(kMaximize);
  if (!SameSize(e, n, {grads.size(), avgs.size(), squares.size(), steps.size()}) ||
      (amsgrad && !SameSize(e, n, {maxima.size()}))) {
    return;
  }
  const Value one = b.Constant(Double(e), {}, 1);
  const Value lr = Coefficient(e, kLr), beta1 = Coefficient(e, kBeta1),
              beta2 = Coefficient(e, kBeta2), eps = Coefficient(e, kEps);
  Step step(e, n, kGradScale, kFoundInf);
  for (size_t k = 0; k < n; ++k) {
    step.Begin(k, params[k]);
    Value p = step.Load(params[k]);
    Value g = step.Gradient(grads[k], maximize);
    if (!decoupled_decay) {
      g = step.Decay(g, p, kDecay);
    } else if (!IsZero(e, kDecay)) {
      p = b.Mul(p, step.Fill(b.Sub(one, b.Mul(lr, Coefficient(e, kDecay)))));
    }
    const Value correction1 = BiasCorrection(e, beta1, steps[k]);
    const Value correction2 = b.Unary("sqrt", BiasCorrection(e, beta2, steps[k]));

    // exp_avg.lerp_(grad, 1 - beta1): PyTorch starts from the nearer end.
    const Value old_avg = step.Load(avgs[k]);
    const Value weight = e.To(b.Sub(one, beta1), tape::OpMath(params[k].dtype));
    const Value from_avg =
        b.Compare(Cmp::kLt, b.Unary("abs", weight), b.Constant(weight.dtype, {}, 0.5));
    const Value coefficient =
        b.Select(from_avg, weight, b.Sub(weight, b.Constant(weight.dtype, {}, 1)));
    const Value base = b.Select(b.BroadcastTo(from_avg, g.dims), old_avg, g);
    const Value avg = b.Add(b.Mul(step.Fill(coefficient), b.Sub(g, old_avg)), base);
    step.Store(2, avgs[k], avg);

    const Value kept = b.Mul(step.Load(squares[k]), step.Fill(beta2));
    const Value added = b.Mul(b.Mul(step.Fill(b.Sub(one, beta2)), g), g);
    Value square = b.Add(kept, added);
    step.Store(3, squares[k], square);
    if (amsgrad) {
      square = b.Binary("maximum", step.Load(maxima[k]), square);
      step.Store(4, maxima[k], square);
    }
    const Value denominator =
        b.Add(b.Div(b.Unary("sqrt", square), step.Fill(correction2)), step.Fill(eps));
    const Value minus_size = b.Unary("negate", b.Div(lr, correction1));
    p = b.Add(p, b.Div(b.Mul(step.Fill(minus_size), avg), denominator));
    step.Store(0, params[k], p);
  }
}

void FusedAdam(Emitter& e) { Adam(e, false); }
void FusedAdamW(Emitter& e) { Adam(e, true); }

void FusedSgd(Emitter& e) {
  enum {
    kDecay = 3,
    kMomentum,
    kLr,
    kDampening,
    kNesterov,
    kMaximize,
    kFirst,
    kGradScale,
    kFoundInf
  };
  Builder& b = e.b();
  const auto params = Tensors(e, 0), grads = Tensors(e, 1), buffers = Tensors(e, 2);
  const size_t n = params.size();
  const bool has_momentum = !buffers.empty() && !IsZero(e, kMomentum);
  if (!SameSize(e, n, {grads.size()}) || (has_momentum && !SameSize(e, n, {buffers.size()})))
    return;
  const Value one = b.Constant(Double(e), {}, 1);
  const Value minus_lr = b.Unary("negate", Coefficient(e, kLr));
  Step step(e, n, kGradScale, kFoundInf);
  for (size_t k = 0; k < n; ++k) {
    step.Begin(k, params[k]);
    const Value p = step.Load(params[k]);
    Value g = step.Decay(step.Gradient(grads[k], e.Bool(kMaximize)), p, kDecay);
    if (has_momentum) {
      const Value momentum = Coefficient(e, kMomentum);
      Value buffer = g;
      if (!e.Bool(kFirst)) {
        const Value share = step.Fill(b.Sub(one, Coefficient(e, kDampening)));
        buffer = b.Add(b.Mul(step.Load(buffers[k]), step.Fill(momentum)), b.Mul(g, share));
      }
      step.Store(2, buffers[k], buffer);
      g = e.Bool(kNesterov) ? b.Add(g, b.Mul(buffer, step.Fill(momentum))) : buffer;
    }
    step.Store(0, params[k], b.Add(p, b.Mul(g, step.Fill(minus_lr))));
  }
}

void FusedAdagrad(Emitter& e) {
  enum { kLr = 4, kLrDecay, kDecay, kEps, kMaximize, kGradScale, kFoundInf };
  Builder& b = e.b();
  const auto params = Tensors(e, 0), grads = Tensors(e, 1), sums = Tensors(e, 2),
             steps = Tensors(e, 3);
  const size_t n = params.size();
  if (!SameSize(e, n, {grads.size(), sums.size(), steps.size()})) return;
  const Value one = b.Constant(Double(e), {}, 1);
  const Value lr = Coefficient(e, kLr), lr_decay = Coefficient(e, kLrDecay),
              eps = Coefficient(e, kEps);
  Step step(e, n, kGradScale, kFoundInf);
  for (size_t k = 0; k < n; ++k) {
    step.Begin(k, params[k]);
    const Value p = step.Load(params[k]);
    const Value g = step.Decay(step.Gradient(grads[k], e.Bool(kMaximize)), p, kDecay);
    const Value count = b.Reshape(e.To(steps[k], Double(e)), {});
    const Value rate = b.Div(lr, b.Add(one, b.Mul(b.Sub(count, one), lr_decay)));
    const Value sum = b.Add(step.Load(sums[k]), b.Mul(g, g));
    step.Store(2, sums[k], sum);
    const Value std = b.Add(b.Unary("sqrt", sum), step.Fill(eps));
    step.Store(0, params[k], b.Sub(p, b.Div(b.Mul(step.Fill(rate), g), std)));
    // Listed as mutated by the schema, but the caller has counted already.
    if (e.Wanted(static_cast<int>(3 * n + k))) e.Out(static_cast<int>(3 * n + k), steps[k]);
  }
}

// (self[], found_inf, inv_scale) -> (self[], found_inf)
void NonFiniteCheckAndUnscale(Emitter& e) {
  Builder& b = e.b();
  const auto grads = Tensors(e, 0);
  const Value inverse = b.Reshape(e.To(e.In(2), DType::kF32), {});
  const Value found_in = e.In(1);
  Value bad = b.Constant(DType::kBool, {}, 0);
  for (size_t k = 0; k < grads.size(); ++k) {
    const Value& g = grads[k];
    const Value x = e.To(g, tape::OpMath(g.dtype));
    const Value wrong = b.Unary("not", b.Unary("is_finite", x));
    Dims all(g.dims.size());
    for (size_t d = 0; d < all.size(); ++d) all[d] = static_cast<int64_t>(d);
    const Value any =
        b.Reduce(wrong, b.Constant(DType::kBool, {}, 0), all,
                 [](Builder& r, const Value& a, const Value& v) { return r.Binary("or", a, v); });
    bad = b.Binary("or", bad, any);
    e.Out(static_cast<int>(k), e.To(b.Mul(x, e.ToSized(inverse, x.dtype, x.dims)), g.dtype));
  }
  const Value one = b.Constant(found_in.dtype, found_in.dims, 1);
  e.Out(static_cast<int>(grads.size()), b.Select(b.BroadcastTo(bad, found_in.dims), one, found_in));
}

// (scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval) -> (scale,
// tracker)
void AmpUpdateScale(Emitter& e) {
  Builder& b = e.b();
  const Value scale = e.In(0), tracker = e.In(1);
  const auto flat = [&](const Value& x) { return b.Reshape(x, {}); };
  const Value old = flat(scale), count = flat(tracker);
  const Value found =
      b.Compare(Cmp::kNe, flat(e.To(e.In(2), DType::kF32)), b.Constant(DType::kF32, {}, 0));
  const auto times = [&](int factor) {
    return e.To(b.Mul(e.To(old, Double(e)), e.Scalar(factor, Double(e))), old.dtype);
  };
  const Value next = b.Add(count, b.ConstantInt(count.dtype, {}, 1));
  const Value due = b.Compare(Cmp::kEq, next, e.Scalar(5, count.dtype));
  const Value grown = times(3);
  const Value raised = b.Select(b.Binary("and", due, b.Unary("is_finite", grown)), grown, old);
  const Value zero = b.ConstantInt(count.dtype, {}, 0);
  const Value counted = b.Select(b.Binary("or", found, due), zero, next);
  e.Out(0, b.Reshape(b.Select(found, times(4), raised), scale.dims));
  e.Out(1, b.Reshape(counted, tracker.dims));
}

DENDRITE_LOWERING("aten._fused_adam.default", FusedAdam);
DENDRITE_LOWERING("aten._fused_adam.tensor_lr", FusedAdam);
DENDRITE_LOWERING("aten._fused_adamw.default", FusedAdamW);
DENDRITE_LOWERING("aten._fused_adamw.tensor_lr", FusedAdamW);
DENDRITE_LOWERING("aten._fused_sgd.default", FusedSgd);
DENDRITE_LOWERING("aten._fused_sgd.tensor_lr", FusedSgd);
DENDRITE_LOWERING("aten._fused_adagrad.default", FusedAdagrad);
DENDRITE_LOWERING("aten._fused_adagrad.tensor_lr", FusedAdagrad);
DENDRITE_LOWERING("aten._amp_foreach_non_finite_check_and_unscale.default",
                  NonFiniteCheckAndUnscale);
DENDRITE_LOWERING("aten._amp_update_scale.default", AmpUpdateScale);

}  // namespace
}  // namespace dendrite::lowering
