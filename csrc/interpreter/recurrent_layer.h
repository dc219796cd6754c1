// csrc/interpreter/recurrent_layer.h - recurrent layers on the host: one direction of one layer
// over a whole sequence, forward and backward.
//
// The input gates of all steps are one product; a step is a product with the hidden weight and one
// pass over its gates (recurrent_cells.h); the weights' gradients are one product each over the
// whole sequence. Both tier 0 and compiled snippets (by custom call) run these.
//
// Tensors are the host's, float, double, half or bfloat16, all of one dtype; the last two compute
// in float. Results are the caller's, dense and of the right sizes. Layout of the workspace:
// csrc/lowering/recurrent_kernels.h. Call below autograd. Thread safe.
#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/lowering/recurrent_kernels.h"

namespace dendrite::interpreter {

// Undefined tensors are absent. `batch_sizes` empty: input [T,N,I], output [T,N,H]. Otherwise a
// packed sequence: rows of all steps one after another, input [R,I], output [R,H], and the number
// of rows of each step, never growing, the first one N.
struct RecurrentLayer {
  lowering::RecurrentKind kind = lowering::RecurrentKind::kLstm;
  at::Tensor input, hx, cx, w_ih, w_hh, b_ih, b_hh;
  at::IntArrayRef batch_sizes;
  bool reverse = false;  // from the last step to the first
};

// An undefined workspace is not kept.
struct RecurrentOutputs {
  at::Tensor output, hy, cy, workspace;
};

// The gradients that arrive; undefined ones are zero.
struct RecurrentGrads {
  at::Tensor output, hy, cy;
};

// The gradients that leave, for what is defined. hx is required, cx where the layer has one; w_ih
// and w_hh come together; b_hh is that of the hidden bias (the same as b_ih's unless GRU).
struct RecurrentInputGrads {
  at::Tensor input, hx, cx, w_ih, w_hh, b_ih, b_hh;
};

void RunRecurrentLayer(const RecurrentLayer& layer, const RecurrentOutputs& results);

// `done` is what the forward pass gave; its hy and cy are not looked at.
void RunRecurrentLayerBackward(const RecurrentLayer& layer, const RecurrentOutputs& done,
                               const RecurrentGrads& grads, const RecurrentInputGrads& results);

}  // namespace dendrite::interpreter
