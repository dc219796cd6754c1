// csrc/lowering/conv_kernels.h - the convolution kernels by name, and their contract.
//
// The rules of csrc/lowering/kernels_by_name.h hold: XLA typed FFI (api_version 4), dense row-major
// f32 operands and results, all attributes always present. Geometry is PyTorch's: input [N, C,
// spatial...] with one to three spatial dimensions; weight [O, C / groups, window...], or, where
// transposed, [C, O / groups, window...]; output [N, O, spatial...].
//
//   dendrite.convolution (input, weight[, bias]) -> output
//     bias [O]. Same value as aten::convolution.
//   dendrite.convolution_backward (grad_output, input, weight) -> those of grad_input, grad_weight,
//     grad_bias whose output_mask is set, in this order. Same values as aten::convolution_backward.
//
// Attributes of both: stride, padding, dilation, output_padding : array<i64>, one element per
// spatial dimension; transposed : i1 (bool); groups : i64. The backward call adds output_mask :
// array<i64> of three elements, 0 or 1. No operand and no result is empty.
#pragma once

#include <string_view>

namespace dendrite::lowering {

inline constexpr std::string_view kConvolutionKernel = "dendrite.convolution";
inline constexpr std::string_view kConvolutionBackwardKernel = "dendrite.convolution_backward";

}  // namespace dendrite::lowering
