// csrc/aten/recurrent_unrolled.h - a recurrent layer step by step, out of PyTorch's operators.
//
// The same function as dendrite::recurrent_layer, slower and differentiable any number of times:
// the gradient's gradient is taken through it.
#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/lowering/recurrent_kernels.h"

namespace dendrite::aten {

struct UnrolledLayer {
  lowering::RecurrentKind kind = lowering::RecurrentKind::kLstm;
  at::Tensor input, hx, cx, w_ih, w_hh, b_ih, b_hh;  // undefined: absent
  std::vector<int64_t> batch_sizes;                  // empty: not packed
  bool reverse = false;
};

struct UnrolledOutputs {
  at::Tensor output, hy, cy;
};

UnrolledOutputs Unroll(const UnrolledLayer& layer);

}  // namespace dendrite::aten
