// Operators whose CPU kernel has another name or none: attention (fused), recurrent cells, ranges.
#include <ATen/Functions.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include "csrc/aten/host.h"
#include "csrc/device/storage.h"

namespace dendrite::aten {
namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;

// --- attention: the flash kernel that PyTorch has for the CPU, recorded whole; its arithmetic is
// also what the lowering emits.

bool FitsFlash(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& mask,
               double dropout, bool gqa) {
  const auto type = q.scalar_type();
  if (dropout != 0 || gqa || q.dim() != 4 || k.dim() != 4 || v.dim() != 4) return false;
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16 && type != at::kHalf)
    return false;
  if (k.scalar_type() != type || v.scalar_type() != type) return false;
  if (q.size(3) != k.size(3) || q.size(3) != v.size(3) || q.numel() == 0 || k.numel() == 0)
    return false;
  if (q.size(0) != k.size(0) || q.size(1) != k.size(1) || k.sizes() != v.sizes()) return false;
  if (q.stride(3) != 1 || k.stride(3) != 1 || v.stride(3) != 1) return false;
  if (!mask.has_value()) return true;
  if (mask->requires_grad() || (mask->dim() != 2 && mask->dim() != 4)) return false;
  return mask->scalar_type() == at::kBool || mask->scalar_type() == type;
}

int64_t SdpChoice(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& mask,
                  double dropout, bool, std::optional<double>, bool gqa) {
  const bool fused =
      at::globalContext().userEnabledFlashSDP() && FitsFlash(q, k, v, mask, dropout, gqa);
  return static_cast<int64_t>(fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

using Attention =
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Attention FusedAttention(const Tensor& q, const Tensor& k, const Tensor& v, const OptTensor& bias,
                         double dropout, bool causal, bool, std::optional<double> scale) {
  OptTensor mask = bias;
  if (mask.has_value() && mask->scalar_type() == at::kBool) {
    mask = at::zeros_like(*mask, mask->options().dtype(q.scalar_type()))
               .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
  }
  auto [out, logsumexp] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, mask, scale);
  // PyTorch's Meta kernel, which torch.compile believes, promises the query's layout.
  Tensor promised = at::empty_like(q);
  if (promised.strides() != out.strides()) out = promised.copy_(out);
  const Tensor none;
  return {out,
          logsumexp,
          none,
          none,
          q.sym_size(2),
          k.sym_size(2),
          at::empty({}, at::TensorOptions(at::kLong)),
          at::empty({}, at::TensorOptions(at::kLong)),
          none};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> FusedAttentionBackward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias,
    std::array<bool, 4>, const Tensor& out, const Tensor& logsumexp, const Tensor&, const Tensor&,
    c10::SymInt, c10::SymInt, double dropout, bool causal, const Tensor&, const Tensor&,
    std::optional<double> scale) {
  OptTensor mask;
  if (bias.defined()) {
    mask = bias;
    if (mask->scalar_type() == at::kBool) {
      mask = at::zeros_like(*mask, mask->options().dtype(q.scalar_type()))
                 .masked_fill_(mask->logical_not(), -std::numeric_limits<double>::infinity());
    }
  }
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      grad, q, k, v, out, logsumexp, dropout, causal, mask, scale);
  return {dq, dk, dv, Tensor()};
}

// --- recurrent cells: the fused names that PyTorch calls on accelerators, from pointwise
// operators.

Tensor WithBias(const Tensor& gates, const OptTensor& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

std::tuple<Tensor, Tensor, Tensor> LstmCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                            const Tensor& cx, const OptTensor& input_bias,
                                            const OptTensor& hidden_bias) {
  const Tensor gates = WithBias(input_gates, input_bias) + WithBias(hidden_gates, hidden_bias);
  const auto parts = gates.chunk(4, 1);
  const Tensor i = parts[0].sigmoid(), f = parts[1].sigmoid(), g = parts[2].tanh(),
               o = parts[3].sigmoid();
  const Tensor cy = f * cx + i * g;
  return {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> LstmCellBackward(const OptTensor& grad_hy,
                                                    const OptTensor& grad_cy, const Tensor& cx,
                                                    const Tensor& cy, const Tensor& workspace,
                                                    bool has_bias) {
  const bool has_h = grad_hy.has_value() && grad_hy->defined(),
             has_c = grad_cy.has_value() && grad_cy->defined();
  if (!has_h && !has_c) return {};
  const auto parts = workspace.chunk(4, 1);
  const Tensor &i = parts[0], &f = parts[1], &g = parts[2], &o = parts[3];
  const Tensor tanh_cy = cy.tanh();
  Tensor dc = has_c ? *grad_cy : at::zeros_like(cx);
  Tensor d_o = at::zeros_like(cx);
  if (has_h) {
    dc = dc + at::tanh_backward(*grad_hy * o, tanh_cy);
    d_o = at::sigmoid_backward(*grad_hy * tanh_cy, o);
  }
  const Tensor grad_gates =
      at::cat({at::sigmoid_backward(dc * g, i), at::sigmoid_backward(dc * cx, f),
               at::tanh_backward(dc * i, g), d_o},
              1);
  return {grad_gates, dc * f, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                   const Tensor& hx, const OptTensor& input_bias,
                                   const OptTensor& hidden_bias) {
  const auto in = WithBias(input_gates, input_bias).chunk(3, 1);
  const auto hid = WithBias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor r = (in[0] + hid[0]).sigmoid(), z = (in[1] + hid[1]).sigmoid();
  const Tensor n = (in[2] + r * hid[2]).tanh();
  return {n + z * (hx - n), at::cat({r, z, n, hx, hid[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> GruCellBackward(const Tensor& grad,
                                                                   const Tensor& workspace,
                                                                   bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &r = parts[0], &z = parts[1], &n = parts[2], &hx = parts[3], &hn = parts[4];
  const Tensor dn = at::tanh_backward(grad * (1 - z), n);
  const Tensor dz = at::sigmoid_backward(grad * (hx - n), z);
  const Tensor dr = at::sigmoid_backward(dn * hn, r);
  const Tensor grad_in = at::cat({dr, dz, dn}, 1), grad_hid = at::cat({dr, dz, dn * r}, 1);
  return {grad_in, grad_hid, grad * z, has_bias ? grad_in.sum(0) : Tensor(),
          has_bias ? grad_hid.sum(0) : Tensor()};
}

// --- ranges: computed on the host, where they are constants, and copied.

template <typename F>
Tensor& FromHost(Tensor& out, F&& make) {
  const Tensor host = make(out.options().device(c10::kCPU));
  if (out.sizes() != host.sizes()) out.resize_(host.sizes());
  CopyFromHost(out, host);
  return out;
}
Tensor& ArangeOut(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                  Tensor& out) {
  return FromHost(out, [&](const at::TensorOptions& o) { return at::arange(start, end, step, o); });
}
Tensor& RangeOut(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                 Tensor& out) {
  return FromHost(out, [&](const at::TensorOptions& o) {
    Tensor host = at::empty({0}, o);
    return at::range_out(host, start, end, step);
  });
}
Tensor& LinspaceOut(const at::Scalar& start, const at::Scalar& end, int64_t steps, Tensor& out) {
  return FromHost(out,
                  [&](const at::TensorOptions& o) { return at::linspace(start, end, steps, o); });
}
Tensor& LogspaceOut(const at::Scalar& start, const at::Scalar& end, int64_t steps, double base,
                    Tensor& out) {
  return FromHost(
      out, [&](const at::TensorOptions& o) { return at::logspace(start, end, steps, base, o); });
}
Tensor& EyeOut(int64_t n, Tensor& out) {
  return FromHost(out, [&](const at::TensorOptions& o) { return at::eye(n, o); });
}
Tensor& EyeMOut(int64_t n, int64_t m, Tensor& out) {
  return FromHost(out, [&](const at::TensorOptions& o) { return at::eye(n, m, o); });
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", SdpChoice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", FusedAttention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", FusedAttentionBackward);
  m.impl("_thnn_fused_lstm_cell", LstmCell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", LstmCellBackward);
  m.impl("_thnn_fused_gru_cell", GruCell);
  m.impl("_thnn_fused_gru_cell_backward", GruCellBackward);
  m.impl("arange.start_out", ArangeOut);
  m.impl("range.out", RangeOut);
  m.impl("linspace.out", LinspaceOut);
  m.impl("logspace.out", LogspaceOut);
  m.impl("eye.out", EyeOut);
  m.impl("eye.m_out", EyeMOut);
}

}  // namespace dendrite::aten

// scaled_dot_product_attention asks this stub rather than the operator of that name, and takes the
// unfused path for a device without one.
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &dendrite::aten::SdpChoice)
}  // namespace at::native
