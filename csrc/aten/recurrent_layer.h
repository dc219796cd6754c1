// csrc/aten/recurrent_layer.h - dendrite::recurrent_layer and its gradient, as operators.
//
// One record is one direction of one layer of an LSTM, GRU or plain recurrent network over a whole
// sequence. Functional, without autograd: csrc/aten/recurrent_sequence.cc has that. Arguments and
// results are those of csrc/interpreter/recurrent_layer.h; what is absent comes out empty, {0}.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>

namespace dendrite::aten {

// `kind` as lowering::RecurrentKindOf has it; batch_sizes empty: not packed; `keep`: the workspace.
// -> output, hy, cy (LSTM), workspace
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> RecurrentLayer(
    const std::string& kind, const at::Tensor& input, const at::Tensor& hx,
    const std::optional<at::Tensor>& cx, const at::Tensor& w_ih, const at::Tensor& w_hh,
    const std::optional<at::Tensor>& b_ih, const std::optional<at::Tensor>& b_hh,
    at::IntArrayRef batch_sizes, bool reverse, bool keep);

// `wanted`: input, weights, biases.
// -> grad_input, grad_hx, grad_cx (LSTM), grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh (GRU; it is
//    grad_b_ih otherwise)
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
RecurrentLayerBackward(const std::string& kind, const std::optional<at::Tensor>& grad_output,
                       const std::optional<at::Tensor>& grad_hy,
                       const std::optional<at::Tensor>& grad_cy, const at::Tensor& input,
                       const at::Tensor& hx, const std::optional<at::Tensor>& cx,
                       const at::Tensor& w_ih, const at::Tensor& w_hh, const at::Tensor& output,
                       const at::Tensor& workspace, at::IntArrayRef batch_sizes, bool reverse,
                       std::array<bool, 3> wanted);

}  // namespace dendrite::aten
