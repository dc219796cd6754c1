// Recurrent cells. PyTorch calls fused kernels on accelerators (_thnn_fused_lstm_cell, ...) and has
// none of that name for the CPU, so they are recorded as operators of the library `dendrite`,
// whole: a time step is one record, not fifteen. CPU kernels: the same arithmetic in few passes.
// Workspaces: csrc/lowering/recurrent.cc.
#include <ATen/Functions.h>
#include <torch/library.h>

#include "csrc/aten/registration.h"

namespace dendrite::aten {
namespace {

using at::Tensor;
using OptTensor = std::optional<Tensor>;
using Tensors3 = std::tuple<Tensor, Tensor, Tensor>;
using Tensors5 = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

bool Given(const OptTensor& t) { return t.has_value() && t->defined(); }

Tensor WithBias(const Tensor& gates, const OptTensor& bias) {
  return Given(bias) ? gates + *bias : gates;
}

// --- CPU kernels

Tensors3 CpuLstmCell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                     const OptTensor& input_bias, const OptTensor& hidden_bias) {
  Tensor gates = input_gates + hidden_gates;
  if (Given(input_bias)) gates.add_(*input_bias);
  if (Given(hidden_bias)) gates.add_(*hidden_bias);
  const int64_t n = cx.size(1);
  gates.narrow(1, 0, 2 * n).sigmoid_();
  gates.narrow(1, 2 * n, n).tanh_();
  gates.narrow(1, 3 * n, n).sigmoid_();
  const auto parts = gates.chunk(4, 1);
  Tensor cy = (parts[1] * cx).addcmul_(parts[0], parts[2]);
  Tensor hy = cy.tanh().mul_(parts[3]);
  return {hy, cy, gates};
}

Tensors3 CpuLstmCellBackward(const OptTensor& grad_hy, const OptTensor& grad_cy, const Tensor& cx,
                             const Tensor& cy, const Tensor& workspace, bool has_bias) {
  const auto parts = workspace.chunk(4, 1);
  const Tensor &i = parts[0], &f = parts[1], &g = parts[2], &o = parts[3];
  const Tensor shown = cy.tanh();
  Tensor grad_gates = at::empty_like(workspace, at::MemoryFormat::Contiguous);
  const auto out = grad_gates.chunk(4, 1);
  Tensor cell;
  if (Given(grad_hy)) {
    cell = at::tanh_backward(*grad_hy * o, shown);
    if (Given(grad_cy)) cell.add_(*grad_cy);
    out[3].copy_(at::sigmoid_backward(*grad_hy * shown, o));
  } else {
    cell = *grad_cy;
    out[3].zero_();
  }
  out[0].copy_(at::sigmoid_backward(cell * g, i));
  out[1].copy_(at::sigmoid_backward(cell * cx, f));
  out[2].copy_(at::tanh_backward(cell * i, g));
  return {grad_gates, cell * f, has_bias ? grad_gates.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> CpuGruCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                      const Tensor& hx, const OptTensor& input_bias,
                                      const OptTensor& hidden_bias) {
  const auto in = WithBias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = WithBias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor r = (in[0] + hidden[0]).sigmoid_(), z = (in[1] + hidden[1]).sigmoid_();
  const Tensor n = (r * hidden[2]).add_(in[2]).tanh_();
  return {(hx - n).mul_(z).add_(n), at::cat({r, z, n, hx, hidden[2]}, 1)};
}

Tensors5 CpuGruCellBackward(const Tensor& grad, const Tensor& workspace, bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &r = parts[0], &z = parts[1], &n = parts[2], &hx = parts[3], &hidden_n = parts[4];
  const Tensor dn = at::tanh_backward(grad * (1 - z), n);
  const Tensor dz = at::sigmoid_backward(grad * (hx - n), z);
  const Tensor dr = at::sigmoid_backward(dn * hidden_n, r);
  const Tensor grad_in = at::cat({dr, dz, dn}, 1), grad_hidden = at::cat({dr, dz, dn * r}, 1);
  return {grad_in, grad_hidden, grad * z, has_bias ? grad_in.sum(0) : Tensor(),
          has_bias ? grad_hidden.sum(0) : Tensor()};
}

// --- Meta kernels: sizes. Gates of the batch are [batch, n * hidden].

Tensor Gates(const Tensor& like, int64_t count) {
  return at::empty({like.size(0), count * like.size(1)}, like.options());
}
Tensor Like(const Tensor& t) { return at::empty(t.sizes(), t.options()); }

Tensors3 MetaLstmCell(const Tensor&, const Tensor&, const Tensor& cx, const OptTensor&,
                      const OptTensor&) {
  return {Like(cx), Like(cx), Gates(cx, 4)};
}
Tensors3 MetaLstmCellBackward(const OptTensor&, const OptTensor&, const Tensor& cx, const Tensor&,
                              const Tensor&, bool has_bias) {
  return {Gates(cx, 4), Like(cx), has_bias ? at::empty({4 * cx.size(1)}, cx.options()) : Tensor()};
}
std::tuple<Tensor, Tensor> MetaGruCell(const Tensor&, const Tensor&, const Tensor& hx,
                                       const OptTensor&, const OptTensor&) {
  return {Like(hx), Gates(hx, 5)};
}
Tensors5 MetaGruCellBackward(const Tensor& grad, const Tensor&, bool has_bias) {
  const auto bias = [&] {
    return has_bias ? at::empty({3 * grad.size(1)}, grad.options()) : Tensor();
  };
  return {Gates(grad, 3), Gates(grad, 3), Like(grad), bias(), bias()};
}

// --- PyTorch's names, on the device

Tensors3 LstmCell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                  const OptTensor& input_bias, const OptTensor& hidden_bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("dendrite::lstm_cell", "")
                             .typed<Tensors3(const Tensor&, const Tensor&, const Tensor&,
                                             const OptTensor&, const OptTensor&)>();
  at::AutoDispatchBelowADInplaceOrView below;
  return op.call(input_gates, hidden_gates, cx, input_bias, hidden_bias);
}
Tensors3 LstmCellBackward(const OptTensor& grad_hy, const OptTensor& grad_cy, const Tensor& cx,
                          const Tensor& cy, const Tensor& workspace, bool has_bias) {
  if (!Given(grad_hy) && !Given(grad_cy)) return {};
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("dendrite::lstm_cell_backward", "")
                             .typed<Tensors3(const OptTensor&, const OptTensor&, const Tensor&,
                                             const Tensor&, const Tensor&, bool)>();
  at::AutoDispatchBelowADInplaceOrView below;
  return op.call(grad_hy, grad_cy, cx, cy, workspace, has_bias);
}
std::tuple<Tensor, Tensor> GruCell(const Tensor& input_gates, const Tensor& hidden_gates,
                                   const Tensor& hx, const OptTensor& input_bias,
                                   const OptTensor& hidden_bias) {
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("dendrite::gru_cell", "")
          .typed<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&,
                                            const OptTensor&, const OptTensor&)>();
  at::AutoDispatchBelowADInplaceOrView below;
  return op.call(input_gates, hidden_gates, hx, input_bias, hidden_bias);
}
Tensors5 GruCellBackward(const Tensor& grad, const Tensor& workspace, bool has_bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("dendrite::gru_cell_backward", "")
                             .typed<Tensors5(const Tensor&, const Tensor&, bool)>();
  at::AutoDispatchBelowADInplaceOrView below;
  return op.call(grad, workspace, has_bias);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(dendrite, m) {
  m.def(
      "lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias, Tensor? "
      "hidden_bias) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor "
      "workspace, bool has_bias) -> "
      "(Tensor, Tensor, Tensor)");
  m.def(
      "gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor hx, Tensor? input_bias, Tensor? "
      "hidden_bias) -> "
      "(Tensor, Tensor)");
  m.def(
      "gru_cell_backward(Tensor grad, Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor, "
      "Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(dendrite, CPU, m) {
  m.impl("lstm_cell", CpuLstmCell);
  m.impl("lstm_cell_backward", CpuLstmCellBackward);
  m.impl("gru_cell", CpuGruCell);
  m.impl("gru_cell_backward", CpuGruCellBackward);
}

TORCH_LIBRARY_IMPL(dendrite, Meta, m) {
  m.impl("lstm_cell", MetaLstmCell);
  m.impl("lstm_cell_backward", MetaLstmCellBackward);
  m.impl("gru_cell", MetaGruCell);
  m.impl("gru_cell_backward", MetaGruCellBackward);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", LstmCell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", LstmCellBackward);
  m.impl("_thnn_fused_gru_cell", GruCell);
  m.impl("_thnn_fused_gru_cell_backward", GruCellBackward);
}

}  // namespace dendrite::aten
