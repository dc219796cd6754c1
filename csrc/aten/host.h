// csrc/aten/host.h - device tensors as the host sees them.
#pragma once

#include <ATen/core/Tensor.h>

namespace dendrite::aten {

// A CPU tensor with the device tensor's values, sizes and strides, after all work that makes them
// is complete. Host-visible targets: over the same memory (writes write through; keep `t` alive).
// Opaque: a copy. Throws the error that poisoned the storage, if one did.
at::Tensor HostView(const at::Tensor& t);
// After writing to a HostView: brings the values back where it was a copy. No-op on host-visible
// targets.
void CommitHostView(const at::Tensor& t, const at::Tensor& host);
// Copies a host tensor's values into a device tensor (broadcasting, converting), in stream order;
// `src` may change or die at once.
void CopyFromHost(const at::Tensor& dst, const at::Tensor& src);
// A new device tensor with the values and strides of a host tensor.
at::Tensor ToDevice(const at::Tensor& host, int device);
// Gives an out= tensor of the device these sizes and strides, growing its storage to what they
// reach; warns as PyTorch does if it held other values.
void ResizeStrided(const at::Tensor& t, at::IntArrayRef sizes, at::IntArrayRef strides);

}  // namespace dendrite::aten
