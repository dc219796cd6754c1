// Activation functions and their backwards.
#include <cmath>

#include "csrc/lowering/pointwise.h"

namespace dendrite::lowering {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kTanhScale = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;

Value Exp(Builder& b, const Value& x) { return b.Unary("exponential", x); }
Value Expm1(Builder& b, const Value& x) { return b.Unary("exponential_minus_one", x); }
Value Tanh(Builder& b, const Value& x) { return b.Unary("tanh", x); }

Value Sigmoid(Builder& b, const Value& x) {
  const Value one = Like(b, x, 1);
  return b.Div(one, b.Add(one, Exp(b, Negate(b, x))));
}

Value Positive(Builder& b, const Value& x) { return b.Compare(Cmp::kGt, x, Like(b, x, 0)); }

// min(max(x + 3, 0), 6) / 6
Value HardGate(Builder& b, const Value& x) {
  const Value shifted = b.Add(x, Like(b, x, 3));
  const Value low = MaximumNan(b, shifted, Like(b, x, 0));
  return b.Div(MinimumNan(b, low, Like(b, x, 6)), Like(b, x, 6));
}

void Relu(Emitter& e) {
  Pointwise p(e, {0});
  // Not a maximum, which may take either zero: the sign of zero is the input's.
  const Value x = p[0], zero = p.Constant(0);
  p.Out(e.b().Select(e.b().Compare(Cmp::kLt, x, zero), zero, x));
}

void Relu6(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(MinimumNan(e.b(), MaximumNan(e.b(), p[0], p.Constant(0)), p.Constant(6)));
}

void LeakyRelu(Emitter& e) {
  Pointwise p(e, {0});
  const Value x = p[0];
  p.Out(e.b().Select(Positive(e.b(), x), x, e.b().Mul(x, p.Number(1, 0.01))));
}

// (grad, self, noise, lower, upper, training, self_is_result); noise holds the slopes that were
// drawn
void RReluBackward(Emitter& e) {
  Pointwise p(e, {0, 1});
  const double lower = e.Float(3), upper = e.Float(4);
  if (e.Bool(5) && upper - lower > 1e-6) return p.Out(e.b().Mul(p[0], p[2]));
  const Value slope = p.Constant((lower + upper) / 2);
  p.Out(e.b().Select(Positive(e.b(), p[1]), p[0], e.b().Mul(p[0], slope)));
}

void LeakyReluBackward(Emitter& e) {  // (grad, self, negative_slope, self_is_result)
  Pointwise p(e, {0, 1});
  const Value grad = p[0];
  p.Out(e.b().Select(Positive(e.b(), p[1]), grad, e.b().Mul(grad, p.Number(2))));
}

Value EluOf(const Pointwise& p, const Value& x, const Value& alpha, const Value& scale,
            const Value& input_scale) {
  Builder& b = p.e.b();
  const Value curve = b.Mul(b.Mul(Expm1(b, b.Mul(x, input_scale)), alpha), scale);
  return b.Select(b.Compare(Cmp::kLe, x, p.Constant(0)), curve, b.Mul(x, scale));
}

void Elu(Emitter& e) {  // (self, alpha, scale, input_scale)
  Pointwise p(e, {0});
  p.Out(EluOf(p, p[0], p.Number(1, 1), p.Number(2, 1), p.Number(3, 1)));
}

void Selu(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(EluOf(p, p[0], p.Constant(1.6732632423543772848170429916717),
              p.Constant(1.0507009873554804934193349852946), p.Constant(1)));
}

void Celu(Emitter& e) {  // (self, alpha)
  Pointwise p(e, {0});
  const Value alpha = p.Number(1, 1);
  p.Out(EluOf(p, p[0], alpha, p.Constant(1), e.b().Div(p.Constant(1), alpha)));
}

void EluBackward(Emitter& e) {  // (grad, alpha, scale, input_scale, is_result, self_or_result)
  Pointwise p(e, {0, 5});
  Builder& b = e.b();
  const Value grad = p[0], x = p[5];
  const Value alpha = p.Number(1), scale = p.Number(2), input_scale = p.Number(3);
  const Value negative_scale = b.Mul(alpha, scale);
  const Value slope = b.Mul(grad, input_scale);
  const Value curve = e.Bool(4)
                          ? b.Mul(slope, b.Add(x, negative_scale))
                          : b.Mul(b.Mul(slope, negative_scale), Exp(b, b.Mul(x, input_scale)));
  p.Out(b.Select(b.Compare(Cmp::kLe, x, p.Constant(0)), curve, b.Mul(grad, scale)));
}

void Gelu(Emitter& e) {  // (self, approximate)
  Pointwise p(e, {0});
  Builder& b = e.b();
  const Value x = p[0], half = p.Constant(0.5), one = p.Constant(1);
  if (e.String(1) == "tanh") {
    const Value cube = b.Mul(b.Mul(x, x), x);
    const Value inner =
        b.Mul(p.Constant(kTanhScale), b.Add(x, b.Mul(p.Constant(kTanhCubic), cube)));
    return p.Out(b.Mul(b.Mul(half, x), b.Add(one, Tanh(b, inner))));
  }
  const Value cdf = b.Mul(half, b.Add(one, Erf(b, b.Mul(x, p.Constant(kSqrtHalf)))));
  p.Out(b.Mul(x, cdf));
}

void GeluBackward(Emitter& e) {  // (grad, self, approximate)
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value grad = p[0], x = p[1], half = p.Constant(0.5), one = p.Constant(1);
  const Value square = b.Mul(x, x);
  if (e.String(2) == "tanh") {
    const Value scale = p.Constant(kTanhScale), cubic = p.Constant(kTanhCubic);
    const Value inner = b.Mul(scale, b.Add(x, b.Mul(cubic, b.Mul(square, x))));
    const Value t = Tanh(b, inner);
    const Value left = b.Mul(half, b.Add(one, t));
    const Value inner_slope = b.Mul(scale, b.Add(one, b.Mul(p.Constant(3 * kTanhCubic), square)));
    const Value right = b.Mul(b.Mul(b.Mul(half, x), b.Sub(one, b.Mul(t, t))), inner_slope);
    return p.Out(b.Mul(grad, b.Add(left, right)));
  }
  const Value cdf = b.Mul(half, b.Add(one, Erf(b, b.Mul(x, p.Constant(kSqrtHalf)))));
  const Value pdf = b.Mul(Exp(b, b.Mul(square, p.Constant(-0.5))), p.Constant(kTanhScale * 0.5));
  p.Out(b.Mul(grad, b.Add(cdf, b.Mul(x, pdf))));
}

void Silu(Emitter& e) {
  Pointwise p(e, {0});
  Builder& b = e.b();
  const Value x = p[0];
  p.Out(b.Div(x, b.Add(p.Constant(1), Exp(b, Negate(b, x)))));
}

void SiluBackward(Emitter& e) {
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value x = p[1], one = p.Constant(1), gate = Sigmoid(b, x);
  const Value slope = b.Mul(gate, b.Add(one, b.Mul(x, b.Sub(one, gate))));
  p.Out(b.Mul(p[0], slope));
}

void Mish(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(e.b().Mul(p[0], Tanh(e.b(), Softplus(e.b(), p[0]))));
}

void MishBackward(Emitter& e) {
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value x = p[1], gate = Sigmoid(b, x), t = Tanh(b, Softplus(b, x));
  const Value slope = b.Mul(b.Mul(x, gate), b.Sub(p.Constant(1), b.Mul(t, t)));
  p.Out(b.Mul(p[0], b.Add(t, slope)));
}

void SoftplusOp(Emitter& e) {  // (self, beta, threshold)
  Pointwise p(e, {0});
  Builder& b = e.b();
  const Value x = p[0], beta = p.Number(1, 1), scaled = b.Mul(x, beta);
  const Value curve = b.Div(Softplus(b, scaled), beta);
  p.Out(b.Select(b.Compare(Cmp::kGt, scaled, p.Number(2, 20)), x, curve));
}

void SoftplusBackward(Emitter& e) {  // (grad, self, beta, threshold)
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value grad = p[0], scaled = b.Mul(p[1], p.Number(2, 1)), z = Exp(b, scaled);
  const Value curve = b.Div(b.Mul(grad, z), b.Add(z, p.Constant(1)));
  p.Out(b.Select(b.Compare(Cmp::kGt, scaled, p.Number(3, 20)), grad, curve));
}

// -log(1 + exp(-x)) without overflow for negative x.
Value LogSigmoidOf(Builder& b, const Value& x) {
  const Value low = b.Binary("minimum", x, Like(b, x, 0));
  const Value tail = b.Unary("log_plus_one", Exp(b, Negate(b, b.Unary("abs", x))));
  return b.Select(IsNan(b, x), x, b.Sub(low, tail));
}

void LogSigmoidForward(Emitter& e) {  // -> (output, buffer)
  Pointwise p(e, {0});
  Builder& b = e.b();
  p.Out(LogSigmoidOf(b, p[0]));
  // PyTorch's CPU kernel keeps exp(-|x|) for the backward, which reads it from there only on CPU.
  if (!e.Wanted(1)) return;
  if (tape::NumElements(e.OutView(1).sizes) == 0) {
    return e.Out(1, b.Constant(p.math, e.OutView(1).sizes, 0));
  }
  e.Out(1, Exp(b, Negate(b, b.Unary("abs", p[0]))));
}

void LogSigmoidBackward(Emitter& e) {  // (grad, self, buffer): self is enough
  Pointwise p(e, {0, 1});
  p.Out(e.b().Mul(p[0], Sigmoid(e.b(), Negate(e.b(), p[1]))));
}

void Hardtanh(Emitter& e) {  // (self, min, max)
  Pointwise p(e, {0});
  const Value low = p.Number(1, -1), high = p.Number(2, 1);
  p.Out(MinimumNan(e.b(), MaximumNan(e.b(), p[0], low), high));
}

void HardtanhBackward(Emitter& e) {  // (grad, self, min, max)
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value x = p[1];
  const Value outside =
      b.Binary("or", b.Compare(Cmp::kLe, x, p.Number(2)), b.Compare(Cmp::kGe, x, p.Number(3)));
  p.Out(b.Select(outside, p.Constant(0), p[0]));
}

void Hardswish(Emitter& e) {
  Pointwise p(e, {0});
  Builder& b = e.b();
  const Value shifted = b.Add(p[0], p.Constant(3));
  const Value gate = MinimumNan(b, MaximumNan(b, shifted, p.Constant(0)), p.Constant(6));
  p.Out(b.Div(b.Mul(p[0], gate), p.Constant(6)));
}

void HardswishBackward(Emitter& e) {
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value grad = p[0], x = p[1];
  const Value middle = b.Mul(grad, b.Add(b.Div(x, p.Constant(3)), p.Constant(0.5)));
  const Value upper = b.Select(b.Compare(Cmp::kGe, x, p.Constant(3)), grad, middle);
  p.Out(b.Select(b.Compare(Cmp::kLe, x, p.Constant(-3)), p.Constant(0), upper));
}

void Hardsigmoid(Emitter& e) {
  Pointwise p(e, {0});
  p.Out(HardGate(e.b(), p[0]));
}

void HardsigmoidBackward(Emitter& e) {
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value inside = b.Binary("and", b.Compare(Cmp::kGt, p[1], p.Constant(-3)),
                                b.Compare(Cmp::kLt, p[1], p.Constant(3)));
  // PyTorch's kernel holds the sixth as a float, for doubles too.
  const Value sixth = p.Constant(static_cast<double>(1.0F / 6.0F));
  p.Out(b.Select(inside, b.Mul(p[0], sixth), p.Constant(0)));
}

void Threshold(Emitter& e) {  // (self, threshold, value)
  Pointwise p(e, {0});
  p.Out(e.b().Select(e.b().Compare(Cmp::kLe, p[0], p[1]), p[2], p[0]));
}

void ThresholdBackward(Emitter& e) {  // (grad, self, threshold)
  Pointwise p(e, {0, 1});
  p.Out(e.b().Select(e.b().Compare(Cmp::kLe, p[1], p[2]), p.Constant(0), p[0]));
}

Value Within(const Pointwise& p, const Value& x, const Value& bound) {
  Builder& b = p.e.b();
  return b.Binary("and", b.Compare(Cmp::kGe, x, Negate(b, bound)), b.Compare(Cmp::kLe, x, bound));
}

void Hardshrink(Emitter& e) {  // (self, lambd)
  Pointwise p(e, {0});
  p.Out(e.b().Select(Within(p, p[0], p.Number(1, 0.5)), p.Constant(0), p[0]));
}

void Softshrink(Emitter& e) {  // (self, lambd)
  Pointwise p(e, {0});
  Builder& b = e.b();
  const Value x = p[0], bound = p.Number(1, 0.5), zero = b.Mul(x, p.Constant(0));  // NaN stays
  const Value left = b.Select(b.Compare(Cmp::kLt, x, Negate(b, bound)), b.Add(x, bound), zero);
  p.Out(b.Select(b.Compare(Cmp::kGt, x, bound), b.Sub(x, bound), left));
}

void ShrinkBackward(Emitter& e) {  // (grad, self, lambd)
  Pointwise p(e, {0, 1});
  p.Out(e.b().Select(Within(p, p[1], p.Number(2)), p.Constant(0), p[0]));
}

void SigmoidBackward(Emitter& e) {  // (grad, output)
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  if (!p.RealOnly()) return;
  p.Out(b.Mul(b.Mul(p[0], b.Sub(p.Constant(1), p[1])), p[1]));
}

void TanhBackward(Emitter& e) {  // (grad, output)
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  if (!p.RealOnly()) return;
  p.Out(b.Mul(p[0], b.Sub(p.Constant(1), b.Mul(p[1], p[1]))));
}

void LogitBackward(Emitter& e) {  // (grad, self, eps)
  Pointwise p(e, {0, 1});
  Builder& b = e.b();
  const Value x = p[1], one = p.Constant(1);
  const Value slope = b.Div(p[0], b.Mul(x, b.Sub(one, x)));
  const bool clamps = !e.IsNone(2) && e.Float(2) >= 0;
  const Value low = clamps ? p.Number(2) : p.Constant(0);
  const Value high = b.Sub(one, low);
  const Value outside = b.Binary("or", b.Compare(Cmp::kLt, x, low), b.Compare(Cmp::kGt, x, high));
  p.Out(b.Select(outside, p.Constant(clamps ? 0 : NAN), slope));
}

void PRelu(Emitter& e) {  // (self, weight)
  Pointwise p(e, {0, 1});
  p.Out(e.b().Select(Positive(e.b(), p[0]), p[0], e.b().Mul(p[1], p[0])));
}

void PReluBackward(Emitter& e) {  // (grad, self, weight) -> (grad_self, grad_weight)
  Pointwise p(e, {0, 1, 2});
  Builder& b = e.b();
  const Value grad = p[0], x = p[1], positive = Positive(b, x);
  p.Out(b.Select(positive, grad, b.Mul(p[2], grad)));
  if (e.Wanted(1)) e.Out(1, b.Select(positive, p.Constant(0), b.Mul(x, grad)));
}

DENDRITE_LOWERING("aten.relu.default", Relu);
DENDRITE_LOWERING("aten.relu6.default", Relu6);
DENDRITE_LOWERING("aten.leaky_relu.default", LeakyRelu);
DENDRITE_LOWERING("aten.leaky_relu_backward.default", LeakyReluBackward);
DENDRITE_LOWERING("aten.rrelu_with_noise_backward.default", RReluBackward);
DENDRITE_LOWERING("aten.elu.default", Elu);
DENDRITE_LOWERING("aten.selu.default", Selu);
DENDRITE_LOWERING("aten.celu.default", Celu);
DENDRITE_LOWERING("aten.elu_backward.default", EluBackward);
DENDRITE_LOWERING("aten.gelu.default", Gelu);
DENDRITE_LOWERING("aten.gelu_backward.default", GeluBackward);
DENDRITE_LOWERING("aten.silu.default", Silu);
DENDRITE_LOWERING("aten.silu_backward.default", SiluBackward);
DENDRITE_LOWERING("aten.mish.default", Mish);
DENDRITE_LOWERING("aten.mish_backward.default", MishBackward);
DENDRITE_LOWERING("aten.softplus.default", SoftplusOp);
DENDRITE_LOWERING("aten.softplus_backward.default", SoftplusBackward);
DENDRITE_LOWERING("aten.log_sigmoid_forward.default", LogSigmoidForward);
DENDRITE_LOWERING("aten.log_sigmoid_backward.default", LogSigmoidBackward);
DENDRITE_LOWERING("aten.hardtanh.default", Hardtanh);
DENDRITE_LOWERING("aten.hardtanh_backward.default", HardtanhBackward);
DENDRITE_LOWERING("aten.hardswish.default", Hardswish);
DENDRITE_LOWERING("aten.hardswish_backward.default", HardswishBackward);
DENDRITE_LOWERING("aten.hardsigmoid.default", Hardsigmoid);
DENDRITE_LOWERING("aten.hardsigmoid_backward.default", HardsigmoidBackward);
DENDRITE_LOWERING("aten.threshold.default", Threshold);
DENDRITE_LOWERING("aten.threshold_backward.default", ThresholdBackward);
DENDRITE_LOWERING("aten.hardshrink.default", Hardshrink);
DENDRITE_LOWERING("aten.hardshrink_backward.default", ShrinkBackward);
DENDRITE_LOWERING("aten.softshrink.default", Softshrink);
DENDRITE_LOWERING("aten.softshrink_backward.default", ShrinkBackward);
DENDRITE_LOWERING("aten.sigmoid_backward.default", SigmoidBackward);
DENDRITE_LOWERING("aten.tanh_backward.default", TanhBackward);
DENDRITE_LOWERING("aten.logit_backward.default", LogitBackward);
DENDRITE_LOWERING("aten._prelu_kernel.default", PRelu);
DENDRITE_LOWERING("aten._prelu_kernel_backward.default", PReluBackward);

}  // namespace
}  // namespace dendrite::lowering
