#include "csrc/aten/host.h"

#include <ATen/Functions.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

#include "csrc/aten/sparse.h"
#include "csrc/device/error.h"
#include "csrc/device/storage.h"

namespace dendrite::aten {
namespace {

using device::BlockOf;
using device::Runtime;

at::Tensor StridedOver(const engine::Block* block, const at::Tensor& like, c10::DataPtr owner) {
  const size_t nbytes = block->nbytes;
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), nbytes,
                                                       std::move(owner), nullptr, false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), like.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                      device::OffsetInBlock(like, block));
  if (like.is_conj()) tensor._set_conj(true);
  if (like.is_neg()) tensor._set_neg(true);
  return tensor;
}

// True if nothing recorded or dispatched since it was made knows the block.
bool IsFresh(const engine::Block* block) { return block->tape_epoch == 0; }

// Where its bytes are, on host-visible targets.
void* HostData(engine::Block* block) {
  device::ThrowIfError(block->allocator->Place(block));
  return block->host_data;
}

pjrt::Buffer UploadOrThrow(engine::Block* block, const void* data, tape::DType dtype) {
  const int64_t count = static_cast<int64_t>(block->nbytes) / tape::ItemSize(dtype);
  return device::ValueOrThrow(Runtime::Get().client()->FromHost(
      data, pjrt::ElementTypeFromDType(static_cast<uint8_t>(dtype)), {count},
      pjrt::HostBuffer::kCopy));
}

tape::DType FormOf(engine::Block* block, const at::Tensor& t) {
  if (block->form_dtype == tape::DType::kUndefined) {
    const tape::DType dtype = device::ToDType(t.scalar_type());
    const bool divides = dtype != tape::DType::kUndefined &&
                         static_cast<int64_t>(block->nbytes) % tape::ItemSize(dtype) == 0;
    block->form_dtype = divides ? dtype : tape::DType::kU8;
  }
  return block->form_dtype;
}

}  // namespace

at::Tensor HostView(const at::Tensor& t) {
  engine::Block* block = BlockOf(t);
  engine::Stream& stream = Runtime::Get().stream(t.device().index());
  if (Runtime::Get().host_visible()) {
    void* data = HostData(block);
    device::ThrowIfError(stream.WaitForBlock(block));
    auto* keep = new c10::Storage(t.storage());
    return StridedOver(block, t,
                       c10::DataPtr(
                           data, keep, [](void* k) { delete static_cast<c10::Storage*>(k); },
                           c10::Device(c10::kCPU)));
  }
  device::ThrowIfError(stream.WaitForBlock(block));  // an error that is raised here counts as read
  c10::DataPtr bytes = c10::GetDefaultCPUAllocator()->allocate(block->nbytes + 64);
  device::ThrowIfError(stream.ReadBlock(block, bytes.get()));
  return StridedOver(block, t, std::move(bytes));
}

void CommitHostView(const at::Tensor& t, const at::Tensor& host) {
  if (Runtime::Get().host_visible()) return;
  engine::Block* block = BlockOf(t);
  if (block->nbytes == 0) return;
  auto buffer =
      std::make_shared<pjrt::Buffer>(UploadOrThrow(block, host.storage().data(), FormOf(block, t)));
  block->initialized = true;
  device::ThrowIfError(Runtime::Get()
                           .stream(t.device().index())
                           .RunOnHost(
                               [block, buffer] {
                                 block->buffer = std::move(*buffer);
                                 block->poison = nullptr;
                                 return Status();
                               },
                               {block}, /*wait=*/false));
}

void CopyFromHost(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.numel() == 0) return;
  at::AutoDispatchBelowADInplaceOrView below;
  engine::Block* block = BlockOf(dst);
  engine::Stream& stream = Runtime::Get().stream(dst.device().index());
  if (!Runtime::Get().host_visible()) {
    const bool whole = dst.is_non_overlapping_and_dense() &&
                       device::OffsetInBlock(dst, block) == 0 &&
                       static_cast<size_t>(dst.numel() * dst.element_size()) == block->nbytes &&
                       !dst.is_conj() && !dst.is_neg();
    if (!whole) {
      at::Tensor staged =
          at::empty_strided(dst.sizes(), c10::contiguous_strides(dst.sizes()), dst.options());
      CopyFromHost(staged, src);
      dst.copy_(staged);
      return;
    }
    at::Tensor values =
        at::empty_strided(dst.sizes(), dst.strides(), dst.options().device(c10::kCPU));
    values.copy_(src);
    auto buffer =
        std::make_shared<pjrt::Buffer>(UploadOrThrow(block, values.data_ptr(), FormOf(block, dst)));
    block->initialized = true;
    if (IsFresh(block)) {
      block->buffer = std::move(*buffer);
      return;
    }
    device::ThrowIfError(stream.RunOnHost(
        [block, buffer] {
          block->buffer = std::move(*buffer);
          block->poison = nullptr;
          return Status();
        },
        {block}, /*wait=*/false));
    return;
  }
  block->initialized = true;
  if (IsFresh(block)) {
    // Nobody knows this storage yet; its memory may still be in use by work that was dispatched
    // before it was freed.
    void* data = HostData(block);
    stream.WaitForSequence(block->last_use.load());
    StridedOver(block, dst, c10::DataPtr(data, c10::Device(c10::kCPU))).copy_(src);
    return;
  }
  at::Tensor values = at::empty_strided(dst.sizes(), c10::contiguous_strides(dst.sizes()),
                                        dst.options().device(c10::kCPU));
  values.copy_(src);
  at::Tensor target =
      StridedOver(block, dst, c10::DataPtr(HostData(block), c10::Device(c10::kCPU)));
  device::ThrowIfError(stream.RunOnHost(
      [target, values]() mutable -> Status {
        at::AutoDispatchBelowADInplaceOrView guard;
        target.copy_(values);
        return {};
      },
      {block}, /*wait=*/false));
}

at::Tensor ToDevice(const at::Tensor& host, int device) {
  if (!host.defined()) return host;
  if (host.is_sparse() || at::sparse_csr::is_sparse_compressed(host)) {
    return SparseToDevice(host, device);
  }
  TORCH_CHECK(host.layout() == c10::kStrided && !host.is_quantized(),
              "the neuron device has strided and sparse tensors only, got layout ", host.layout(),
              host.is_quantized() ? " of a quantized type" : "");
  at::Tensor result =
      device::EmptyStrided(host.sizes(), host.strides(), host.scalar_type(), device);
  CopyFromHost(result, host);
  return result;
}

void ResizeStrided(const at::Tensor& t, at::IntArrayRef sizes, at::IntArrayRef strides) {
  at::native::resize_output(t, sizes);
  const size_t need = at::detail::computeStorageNbytes(sizes, strides, t.dtype().itemsize(),
                                                       static_cast<size_t>(t.storage_offset()));
  auto* storage = t.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < need) device::ResizeStorage(storage, need);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
}

}  // namespace dendrite::aten
