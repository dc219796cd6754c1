// csrc/device/storage.h - tensors of the device and the Blocks behind their storages.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include "csrc/device/runtime.h"
#include "csrc/engine/block.h"

namespace dendrite::device {

// The c10 allocator of the device: DataPtrs whose context is a Block.
c10::Allocator* GetAllocator();

inline bool IsOurs(const at::Tensor& t) { return t.defined() && t.device().type() == kDeviceType; }

// The Block behind a storage or tensor. A storage that somebody else made over our memory (DLPack,
// from_blob) shares the Block of that memory. Throws for memory that is not ours.
engine::Block* BlockOf(const c10::StorageImpl* storage);
inline engine::Block* BlockOf(const at::Tensor& t) {
  return BlockOf(t.storage().unsafeGetStorageImpl());
}
// Where a tensor begins in its Block, in elements.
int64_t OffsetInBlock(const at::Tensor& t, const engine::Block* block);

// A fresh, uninitialised tensor.
at::Tensor EmptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                        int device);
// Row-major.
at::Tensor Empty(c10::IntArrayRef sizes, c10::ScalarType dtype, int device);

// Grows a storage to `nbytes`, keeping its contents (in stream order).
void ResizeStorage(c10::StorageImpl* storage, size_t nbytes);

// kUndefined for a dtype that the tape does not know (quantised, float8, ...).
tape::DType ToDType(c10::ScalarType type);
c10::ScalarType ToScalarType(tape::DType dtype);

}  // namespace dendrite::device
