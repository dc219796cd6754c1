// csrc/aten/sparse.h - sparse tensors of the device: PyTorch's own classes (COO and compressed rows
// or columns) whose indices and values are dense tensors of ours.
//
// What only arranges indices and values is PyTorch's code, which knows no device. What computes
// goes to the host and back by the synchronous path (capture.h), counted as every operator there;
// gathers and sums over values that are dense stay on the device. Any thread.
#pragma once

#include <ATen/core/Tensor.h>

namespace dendrite::aten {

// A CPU tensor of the same layout with the device tensor's values. For a sparse one of ours.
at::Tensor SparseOnHost(const at::Tensor& t);
// A new device tensor with the layout and values of a sparse CPU tensor.
at::Tensor SparseToDevice(const at::Tensor& host, int device);
// Gives a sparse device tensor the sizes and values of a sparse CPU tensor of the same layout.
void AssignSparse(const at::Tensor& t, const at::Tensor& host);

// Registers the kernels. Once, at import, before the first tensor.
void RegisterSparseOperators();

}  // namespace dendrite::aten
