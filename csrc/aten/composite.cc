// Operators whose CPU kernel has another name or none: attention (fused), ranges, pooling.
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

int DeviceOf(std::optional<at::Device> device) {
  return device.has_value() && device->has_index() ? device->index() : device::CurrentDevice();
}
Tensor TrilIndices(int64_t rows, int64_t columns, int64_t offset,
                   std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                   std::optional<at::Device> device, std::optional<bool>) {
  return ToDevice(at::tril_indices(rows, columns, offset, dtype.value_or(at::kLong)),
                  DeviceOf(device));
}
Tensor TriuIndices(int64_t rows, int64_t columns, int64_t offset,
                   std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                   std::optional<at::Device> device, std::optional<bool>) {
  return ToDevice(at::triu_indices(rows, columns, offset, dtype.value_or(at::kLong)),
                  DeviceOf(device));
}

// Derivatives' zeros that PyTorch would not store.
Tensor EfficientZeros(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> dtype,
                      std::optional<at::Layout> layout, std::optional<at::Device> device,
                      std::optional<bool> pin) {
  return at::zeros_symint(sizes, dtype, layout, device.value_or(at::Device(device::kDeviceType)),
                          pin);
}

// --- max_pool1d: without a gradient CPU has a kernel of its own, whose result is contiguous.

Tensor MaxPool1d(const Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                 at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  const bool differentiated =
      (self.requires_grad() && at::GradMode::is_enabled()) || self._fw_grad(/*level=*/0).defined();
  const bool odd = !differentiated && self.layout() == at::kStrided && self.dim() >= 2;
  return std::get<0>(at::max_pool1d_with_indices(odd ? self.contiguous() : self, kernel, stride,
                                                 padding, dilation, ceil_mode));
}

// --- a factorisation whose failure raises at once, as on the CPU.

Tensor Cholesky(const Tensor& self, bool upper) {
  auto [factor, info] = at::linalg_cholesky_ex(self, upper, /*check_errors=*/false);
  at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
  return factor;
}

// --- comparison of whole tensors: on the device, all but the one answer.

bool Equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("tril_indices", TrilIndices);
  m.impl("triu_indices", TriuIndices);
  m.impl("_efficientzerotensor", EfficientZeros);
  m.impl("cholesky", Cholesky);
  m.impl("max_pool1d", MaxPool1d);
  m.impl("equal", Equal);
  m.impl("_fused_sdp_choice", SdpChoice);
  m.impl("_scaled_dot_product_fused_attention_overrideable", FusedAttention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", FusedAttentionBackward);
  m.impl("arange.start_out", ArangeOut);
  m.impl("range.out", RangeOut);
  m.impl("linspace.out", LinspaceOut);
  m.impl("logspace.out", LogspaceOut);
  m.impl("eye.out", EyeOut);
  m.impl("eye.m_out", EyeMOut);
}

// An implicit composite with a kernel on the device alone would lose its gradient.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("max_pool1d", MaxPool1d); }

}  // namespace dendrite::aten

// scaled_dot_product_attention asks this stub rather than the operator of that name, and takes the
// unfused path for a device without one.
namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &dendrite::aten::SdpChoice)
}  // namespace at::native
