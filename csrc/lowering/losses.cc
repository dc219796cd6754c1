// csrc/lowering/losses.cc - pointwise losses and their gradients. nll_loss: nll_loss.cc.
//
// Reductions: 0 none, 1 mean, 2 sum. Everything is computed in opmath and reduced before rounding.

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// Arguments i and i+1, broadcast to each other, in opmath.
struct Pair {
  Value x, t;
};

Dims Broadcast(const Dims& a, const Dims& c) {
  Dims out = a.size() >= c.size() ? a : c;
  const Dims& small = a.size() >= c.size() ? c : a;
  const size_t lead = out.size() - small.size();
  for (size_t i = 0; i < small.size(); ++i) {
    if (out[lead + i] == 1) out[lead + i] = small[i];
  }
  return out;
}

Pair InputTarget(Emitter& e, int i) {
  Value x = e.In(i), t = e.In(i + 1);
  // The wider type wins (mse_loss promotes).
  DType type = x.dtype;
  if (tape::IsFloat(t.dtype) && (!tape::IsFloat(type) || t.dtype > type)) type = t.dtype;
  type = tape::OpMath(type);
  const Dims dims = Broadcast(x.dims, t.dims);
  return {e.ToSized(x, type, dims), e.ToSized(t, type, dims)};
}

void OutLoss(Emitter& e, const Value& loss, int reduction_arg) {
  e.Out(0, ReduceLoss(e.b(), loss, e.Int(reduction_arg, 1)));
}

// slope * grad_output (argument 0), divided by the number of elements for a mean.
void OutGrad(Emitter& e, const Value& slope, int reduction_arg) {
  Builder& b = e.b();
  Value r = b.Mul(slope, e.ToSized(e.In(0), slope.dtype, slope.dims));
  if (e.Int(reduction_arg, 1) == 1) {
    r = b.Div(r, Like(b, r, static_cast<double>(tape::NumElements(slope.dims))));
  }
  e.Out(0, r);
}

void MseLoss(Emitter& e) {
  const Pair p = InputTarget(e, 0);
  Value d = e.b().Sub(p.x, p.t);
  OutLoss(e, e.b().Mul(d, d), 2);
}

void MseLossBackward(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 1);
  Value d = b.Sub(p.x, p.t);
  OutGrad(e, b.Add(d, d), 3);
}

void L1Loss(Emitter& e) {
  const Pair p = InputTarget(e, 0);
  OutLoss(e, e.b().Unary("abs", e.b().Sub(p.x, p.t)), 2);
}

void SmoothL1Loss(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 0);
  const double beta = e.Float(3, 1.0);
  Value z = b.Unary("abs", b.Sub(p.x, p.t));
  Value square = b.Div(b.Mul(Like(b, z, 0.5), b.Mul(z, z)), Like(b, z, beta));
  Value line = b.Sub(z, Like(b, z, 0.5 * beta));
  OutLoss(e, b.Select(b.Compare(Cmp::kLt, z, Like(b, z, beta)), square, line), 2);
}

// -edge below -bound, edge above bound, inner between (and for NaN).
Value Banded(Builder& b, const Value& d, double bound, double edge, const Value& inner) {
  Value low = b.Compare(Cmp::kLe, d, Like(b, d, -bound));
  Value high = b.Compare(Cmp::kGe, d, Like(b, d, bound));
  return b.Select(low, Like(b, d, -edge), b.Select(high, Like(b, d, edge), inner));
}

void SmoothL1LossBackward(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 1);
  const double beta = e.Float(4, 1.0);
  Value d = b.Sub(p.x, p.t);
  OutGrad(e, Banded(b, d, beta, 1, b.Div(d, Like(b, d, beta))), 3);
}

void HuberLoss(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 0);
  const double delta = e.Float(3, 1.0);
  Value z = b.Unary("abs", b.Sub(p.x, p.t));
  Value square = b.Mul(Like(b, z, 0.5), b.Mul(z, z));
  Value line = b.Mul(Like(b, z, delta), b.Sub(z, Like(b, z, 0.5 * delta)));
  OutLoss(e, b.Select(b.Compare(Cmp::kLe, z, Like(b, z, delta)), square, line), 2);
}

void HuberLossBackward(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 1);
  const double delta = e.Float(4, 1.0);
  Value d = b.Sub(p.x, p.t);
  OutGrad(e, Banded(b, d, delta, delta, d), 3);
}

// max(v, -100), NaN kept.
Value LogFloor(Builder& b, const Value& v) {
  const Value floor = Like(b, v, -100);
  return b.Select(b.Compare(Cmp::kLt, v, floor), floor, v);
}

// PyTorch refuses inputs outside of [0, 1] by their values; so does the record's check.
void CheckProbabilities(Emitter& e, const Value& x) {
  Builder& b = e.b();
  Value inside =
      b.Binary("and", b.Compare(Cmp::kGe, x, Like(b, x, 0)), b.Compare(Cmp::kLe, x, Like(b, x, 1)));
  Value bad = b.Unary("not", b.Binary("or", inside, IsNan(b, x)));
  e.CheckIndices(e.To(bad, DType::kI64), 0, 1);
}

void BinaryCrossEntropy(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 0);
  CheckProbabilities(e, p.x);
  const Value one = Like(b, p.x, 1);
  Value log_x = LogFloor(b, b.Unary("log", p.x));
  Value log_not_x = LogFloor(b, b.Unary("log_plus_one", b.Unary("negate", p.x)));
  Value loss = b.Sub(b.Mul(b.Sub(p.t, one), log_not_x), b.Mul(p.t, log_x));
  if (!e.IsNone(2)) loss = b.Mul(loss, e.ToSized(e.In(2), loss.dtype, loss.dims));
  OutLoss(e, loss, 3);
}

void BinaryCrossEntropyBackward(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 1);
  Value spread = b.Mul(b.Sub(Like(b, p.x, 1), p.x), p.x);
  const Value least = Like(b, p.x, 1e-12);
  spread = b.Select(b.Compare(Cmp::kLt, spread, least), least, spread);
  Value slope = b.Div(b.Sub(p.x, p.t), spread);
  if (!e.IsNone(3)) slope = b.Mul(slope, e.ToSized(e.In(3), slope.dtype, slope.dims));
  OutGrad(e, slope, 4);
}

// log(sigmoid(x)) without overflow.
Value LogSigmoid(Builder& b, const Value& x) {
  const Value zero = Like(b, x, 0);
  Value low = b.Select(b.Compare(Cmp::kGt, x, zero), zero, x);
  Value tail = b.Unary("exponential", b.Unary("negate", b.Unary("abs", x)));
  return b.Sub(low, b.Unary("log_plus_one", tail));
}

// (self, target, weight?, pos_weight?, reduction)
void BceWithLogits(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 0);
  const Value one = Like(b, p.x, 1);
  Value log_sigmoid = LogSigmoid(b, p.x);
  if (!e.IsNone(3)) {
    Value extra = b.Sub(e.ToSized(e.In(3), p.x.dtype, p.x.dims), one);
    log_sigmoid = b.Mul(log_sigmoid, b.Add(b.Mul(extra, p.t), one));
  }
  // (1 - t) x - log_weight * log_sigmoid(x), where log_weight also scales the x that it holds.
  Value loss = b.Sub(b.Mul(b.Sub(one, p.t), p.x), log_sigmoid);
  if (!e.IsNone(2)) loss = b.Mul(loss, e.ToSized(e.In(2), loss.dtype, loss.dims));
  OutLoss(e, loss, 4);
}

void KlDiv(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 0);
  if (e.Bool(3)) {
    return OutLoss(e, b.Mul(b.Unary("exponential", p.t), b.Sub(p.t, p.x)), 2);
  }
  const Value zero = Like(b, p.t, 0);
  Value entropy = b.Mul(p.t, b.Unary("log", p.t));
  entropy = b.Select(b.Compare(Cmp::kEq, p.t, zero), zero, entropy);
  OutLoss(e, b.Sub(entropy, b.Mul(p.t, p.x)), 2);
}

void SoftMarginLoss(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 0);
  Value z = b.Unary("exponential", b.Unary("negate", b.Mul(p.x, p.t)));
  OutLoss(e, b.Unary("log_plus_one", z), 2);
}

void SoftMarginLossBackward(Emitter& e) {
  Builder& b = e.b();
  const Pair p = InputTarget(e, 1);
  // z / (z + 1), z = exp(-t x), written so that a large z does not give inf / inf.
  Value share = b.Unary("logistic", b.Unary("negate", b.Mul(p.x, p.t)));
  OutGrad(e, b.Mul(b.Unary("negate", p.t), share), 3);
}

DENDRITE_LOWERING("aten.mse_loss.default", MseLoss);
DENDRITE_LOWERING("aten.mse_loss_backward.default", MseLossBackward);
DENDRITE_LOWERING("aten.l1_loss.default", L1Loss);
DENDRITE_LOWERING("aten.smooth_l1_loss.default", SmoothL1Loss);
DENDRITE_LOWERING("aten.smooth_l1_loss_backward.default", SmoothL1LossBackward);
DENDRITE_LOWERING("aten.huber_loss.default", HuberLoss);
DENDRITE_LOWERING("aten.huber_loss_backward.default", HuberLossBackward);
DENDRITE_LOWERING("aten.binary_cross_entropy.default", BinaryCrossEntropy);
DENDRITE_LOWERING("aten.binary_cross_entropy_backward.default", BinaryCrossEntropyBackward);
DENDRITE_LOWERING("aten.binary_cross_entropy_with_logits.default", BceWithLogits);
DENDRITE_LOWERING("aten.kl_div.default", KlDiv);
DENDRITE_LOWERING("aten.soft_margin_loss.default", SoftMarginLoss);
DENDRITE_LOWERING("aten.soft_margin_loss_backward.default", SoftMarginLossBackward);

}  // namespace
}  // namespace dendrite::lowering
