// csrc/lowering/recurrent_kernels.h - recurrent layers: the sizes of what they keep, and the
// kernels by name with their contract.
//
// A layer is one direction of one layer of an LSTM, GRU or plain recurrent network, over a whole
// sequence. Gates lie side by side, H each: i, f, g, o (LSTM); r, z, n (GRU); one otherwise.
//
// The workspace is what the forward pass keeps for the gradient, a row for each row of the output:
//   LSTM   i, f, g, o activated, then the cell state                                  5 H
//   GRU    r, z, n activated, then the hidden part of n before the reset gate         4 H
//   plain  nothing: the output is enough                                              0
//
// The rules of csrc/lowering/kernels_by_name.h hold. T steps of N sequences; of a packed sequence
// [T,N,D] stands for its rows, [R,D]:
//
//   dendrite.recurrent_layer
//     (input [T,N,I], hx [N,H], [cx,] w_ih [GH,I], w_hh [GH,H], [b_ih, b_hh])
//       -> output [T,N,H], hy [N,H], [cy,] [workspace [T,N,W]]
//   dendrite.recurrent_layer_backward
//     (grad_output, grad_hy, [grad_cy,] input, hx, [cx,] w_ih, w_hh, output, [workspace])
//       -> [grad_input,] grad_hx, [grad_cx,] [grad_w_ih, grad_w_hh,] [grad_b_ih, grad_b_hh]
//
// cx and its like are there for LSTM only; biases if `bias` is set; the workspace if the kind has
// one and (forward) `keep` is set; grad_input and the weights' gradients if wanted; grad_b_hh for
// GRU only, since it equals grad_b_ih otherwise. Attributes, always all: kind : i64
// (RecurrentKind); reverse, bias : i1; and keep : i1 forward, wants_input, wants_weights : i1
// backward. No operand and no result is empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dendrite::lowering {

inline constexpr std::string_view kRecurrentLayerKernel = "dendrite.recurrent_layer";
inline constexpr std::string_view kRecurrentLayerBackwardKernel =
    "dendrite.recurrent_layer_backward";

enum class RecurrentKind : int64_t { kLstm, kGru, kTanh, kRelu };

// By the names of PyTorch's operators: lstm, gru, rnn_tanh, rnn_relu.
constexpr std::optional<RecurrentKind> RecurrentKindOf(std::string_view name) {
  if (name == "lstm") return RecurrentKind::kLstm;
  if (name == "gru") return RecurrentKind::kGru;
  if (name == "rnn_tanh") return RecurrentKind::kTanh;
  if (name == "rnn_relu") return RecurrentKind::kRelu;
  return std::nullopt;
}
// How many gates a layer has, and how many times the hidden size a row of its workspace.
constexpr int64_t GatesOf(RecurrentKind kind) {
  return kind == RecurrentKind::kLstm ? 4 : kind == RecurrentKind::kGru ? 3 : 1;
}
constexpr int64_t WorkspaceOf(RecurrentKind kind) {
  return kind == RecurrentKind::kLstm ? 5 : kind == RecurrentKind::kGru ? 4 : 0;
}

}  // namespace dendrite::lowering
