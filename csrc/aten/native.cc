// Factories, views and copies: the kernels that make tensors and move values, native to the device.
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/addbmm.h>
#include <ATen/ops/as_strided.h>
#include <torch/library.h>

#include "csrc/aten/capture.h"
#include "csrc/aten/host.h"
#include "csrc/aten/registration.h"
#include "csrc/device/error.h"
#include "csrc/device/storage.h"

namespace dendrite::aten {
namespace {

using at::Tensor;
using device::IsOurs;

int DeviceIndex(const std::optional<at::Device>& device) {
  return device.has_value() && device->has_index() ? device->index() : device::CurrentDevice();
}

void CheckFactory(std::optional<at::Layout> layout, std::optional<bool> pin) {
  TORCH_CHECK(!layout.has_value() || *layout == at::kStrided,
              "this factory of the neuron device makes strided tensors only, got layout ",
              layout.value_or(at::kStrided));
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
}

Tensor EmptyMemoryFormat(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device,
                         std::optional<bool> pin, std::optional<at::MemoryFormat> format) {
  CheckFactory(layout, pin);
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  Tensor result = device::Empty(sizes, c10::dtype_or_default(dtype), DeviceIndex(device));
  if (format.has_value() && *format != at::MemoryFormat::Contiguous &&
      *format != at::MemoryFormat::Preserve) {
    result.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return result;
}

Tensor EmptyStrided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                    std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                    std::optional<at::Device> device, std::optional<bool> pin) {
  CheckFactory(layout, pin);
  return device::EmptyStrided(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                              c10::dtype_or_default(dtype), DeviceIndex(device));
}

Tensor NewEmptyStrided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                       std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                       std::optional<at::Device> device, std::optional<bool> pin) {
  const at::Device where = device.value_or(self.device());
  if (where.type() != device::kDeviceType) {
    return at::empty_strided_symint(size, stride, dtype.value_or(self.scalar_type()), layout, where,
                                    pin);
  }
  return EmptyStrided(size, stride, dtype.value_or(self.scalar_type()), layout, where, pin);
}

Tensor Alias(const Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(), self.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return result;
}

Tensor AsStrided(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                 std::optional<c10::SymInt> offset) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  const auto strides = C10_AS_INTARRAYREF_SLOW(stride);
  const int64_t start =
      offset.has_value() ? offset->guard_int(__FILE__, __LINE__) : self.storage_offset();
  TORCH_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape");
  for (int64_t s : strides) {
    TORCH_CHECK(
        s >= 0,
        "as_strided: Negative strides are not supported at the moment, got strides: ", strides);
  }
  TORCH_CHECK(start >= 0, "Tensor: invalid storage offset ", start);
  at::native::checkInBoundsForStorage(sizes, strides, start, self.dtype(), self.storage());
  return Alias(self, sizes, strides, start);
}

Tensor View(const Tensor& self, c10::SymIntArrayRef size) {
  const auto sizes = at::infer_size_dv(C10_AS_INTARRAYREF_SLOW(size), self.numel());
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), sizes);
  TORCH_CHECK(strides.has_value(),
              "view size is not compatible with input tensor's size and stride (at least one "
              "dimension spans across "
              "two contiguous subspaces). Use .reshape(...) instead.");
  return Alias(self, sizes, *strides, self.storage_offset());
}

Tensor ReshapeAlias(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return Alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
               self.storage_offset());
}

Tensor Unfold(const Tensor& self, int64_t dim, int64_t size, int64_t step) {
  dim = at::maybe_wrap_dim(dim, self.dim(), /*wrap_scalar=*/true);
  auto sizes = self.sizes().vec();
  auto strides = self.strides().vec();
  const int64_t max = self.dim() == 0 ? 1 : self.size(dim);
  TORCH_CHECK(size >= 0, "size is ", size, " but must be >= 0");
  TORCH_CHECK(size <= max, "maximum size for tensor at dimension ", dim, " is ", max,
              " but size is ", size);
  TORCH_CHECK(step > 0, "step is ", step, " but must be > 0");
  sizes.push_back(size);
  strides.push_back(self.dim() == 0 ? 1 : self.stride(dim));
  if (self.dim() > 0) {
    sizes[static_cast<size_t>(dim)] = (self.size(dim) - size) / step + 1;
    strides[static_cast<size_t>(dim)] = step * self.stride(dim);
  }
  return Alias(self, sizes, strides, self.storage_offset());
}

Tensor ViewAsReal(const Tensor& self) {
  TORCH_CHECK(self.is_complex(), "view_as_real is only supported for complex tensors");
  TORCH_CHECK(!self.is_conj(),
              "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the "
              "conjugate tensor so you can view it as real, use self.resolve_conj(); however, be "
              "warned that the resulting tensor will NOT alias the original.");
  auto sizes = self.sizes().vec();
  auto strides = self.strides().vec();
  for (auto& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(),
      c10::scalarTypeToTypeMeta(c10::toRealValueType(self.scalar_type())));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, 2 * self.storage_offset());
  return result;
}

Tensor ViewAsComplex(const Tensor& self) {
  TORCH_CHECK(self.is_floating_point(),
              "view_as_complex is only supported for floating point tensors, but got a tensor "
              "of scalar type: ",
              self.scalar_type());
  TORCH_CHECK(self.dim() > 0, "Input tensor must have one or more dimensions");
  TORCH_CHECK(self.size(-1) == 2, "Tensor must have a last dimension of size 2");
  TORCH_CHECK(self.stride(-1) == 1, "Tensor must have a last dimension with stride 1");
  auto sizes = self.sizes().vec();
  auto strides = self.strides().vec();
  sizes.pop_back();
  strides.pop_back();
  for (auto& s : strides) {
    TORCH_CHECK(s % 2 == 0, "Tensor must have a stride divisible by 2 for all but last dimension");
    s /= 2;
  }
  TORCH_CHECK(self.storage_offset() % 2 == 0, "Tensor must have a storage_offset divisible by 2");
  Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(),
      c10::scalarTypeToTypeMeta(c10::toComplexType(self.scalar_type())));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, self.storage_offset() / 2);
  return result;
}

const Tensor& Resize(const Tensor& self, c10::SymIntArrayRef size,
                     std::optional<at::MemoryFormat> format) {
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  auto* impl = self.unsafeGetTensorImpl();
  if (self.sizes() != sizes) {
    impl->set_sizes_contiguous(sizes);
    const size_t need =
        self.numel() == 0
            ? 0
            : (static_cast<size_t>(self.storage_offset() + self.numel())) * self.dtype().itemsize();
    auto* storage = self.storage().unsafeGetStorageImpl();
    if (storage->nbytes() < need) device::ResizeStorage(storage, need);
  }
  if (format.has_value()) impl->empty_tensor_restride(*format);
  return self;
}

Tensor& SetStorageOffset(Tensor& self, at::Storage source, c10::SymInt offset,
                         c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  const int64_t start = offset.guard_int(__FILE__, __LINE__);
  const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
  const auto strides = C10_AS_INTARRAYREF_SLOW(stride);
  at::native::checkSetStorage(self, std::move(source), start, sizes, strides);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(start);
  std::optional<at::IntArrayRef> optional_strides;
  if (strides.data() != nullptr) optional_strides = strides;
  c10::DimVector actual = c10::contiguous_strides(sizes);
  if (optional_strides.has_value()) actual.assign(strides.begin(), strides.end());
  impl->set_sizes_and_strides(sizes, actual, start);
  const size_t need = at::detail::computeStorageNbytes(sizes, actual, self.dtype().itemsize(),
                                                       static_cast<size_t>(start));
  auto* storage = self.storage().unsafeGetStorageImpl();
  if (storage->nbytes() < need) device::ResizeStorage(storage, need);
  return self;
}

Tensor& SetStorage(Tensor& self, at::Storage source) {
  const auto n = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return SetStorageOffset(self, std::move(source), 0, c10::SymInt(n), c10::SymIntArrayRef());
}

Tensor& SetTensor(Tensor& self, const Tensor& source) {
  if (self.is_same(source)) return self;
  return SetStorageOffset(self, source.storage(), source.sym_storage_offset(), source.sym_sizes(),
                          source.sym_strides());
}

Tensor& SetNothing(Tensor& self) {
  at::Storage storage(at::Storage::use_byte_size_t(), 0, device::GetAllocator()->allocate(0),
                      device::GetAllocator(), true);
  return SetStorageOffset(self, std::move(storage), 0, c10::SymInt(0), c10::SymIntArrayRef());
}

bool IsSetTo(const Tensor& self, const Tensor& other) {
  return self.storage().is_alias_of(other.storage()) &&
         self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() &&
         self.strides() == other.strides();
}

Tensor& Copy(Tensor& self, const Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.defined() && src.defined(), "copy_: both tensors must be defined");
  if (self.is_same(src) || self.numel() == 0) {
    if (self.numel() == 0 && !self.is_same(src)) {
      TORCH_CHECK(at::is_expandable_to(src.sizes(), self.sizes()), "The size of tensor a ",
                  self.sizes(), " must match the size of tensor b ", src.sizes());
    }
    return self;
  }
  if (IsOurs(self) && IsOurs(src) && self.device() == src.device()) {
    static OpInfo& info = InfoOf("aten::copy_", "");
    torch::jit::Stack stack{self, src, non_blocking};
    Capture(info, &stack);
    return self;
  }
  at::AutoDispatchBelowADInplaceOrView below;
  if (!IsOurs(self)) {
    self.copy_(HostView(src));
    return self;
  }
  at::assert_no_internal_overlap(self);
  if (IsOurs(src)) {
    CopyFromHost(self, HostView(src));
  } else {
    TORCH_CHECK(src.device().is_cpu(), "copy_: cannot copy from ", src.device(), " to ",
                self.device());
    CopyFromHost(self, src);
  }
  return self;
}

// The functional form, which torch.compile's graphs have in place of copy_.
Tensor CopyFunctional(const Tensor& self, const Tensor& src, bool non_blocking) {
  Tensor result = at::empty_like(self);
  return Copy(result, src, non_blocking);
}

Tensor CopyFrom(const Tensor& self, const Tensor& dst, bool non_blocking) {
  Tensor target = dst;
  Copy(target, self, non_blocking);
  return target;
}

Tensor CopyFromAndResize(const Tensor& self, const Tensor& dst) {
  at::native::resize_(dst, self.sizes());
  return CopyFrom(self, dst, false);
}

// PyTorch's gives `self` the result's sizes where they differ, which a record of an operator in
// place does not do.
Tensor& AddbmmInPlace(Tensor& self, const Tensor& batch1, const Tensor& batch2,
                      const at::Scalar& beta, const at::Scalar& alpha) {
  const Tensor result = at::addbmm(self, batch1, batch2, beta, alpha);
  self.resize_(result.sizes());
  return Copy(self, result, false);
}

at::Scalar LocalScalarDense(const Tensor& self) {
  engine::Counters& counters = device::Runtime::Get().counters();
  counters.ops_captured.fetch_add(1, std::memory_order_relaxed);
  if (device::Runtime::Get().host_visible()) {
    counters.ops_by_tier[0].fetch_add(1, std::memory_order_relaxed);
  } else {
    counters.ops_host.fetch_add(1, std::memory_order_relaxed);
  }
  at::AutoDispatchBelowADInplaceOrView below;
  return HostView(self).item();
}

Tensor UnsafeView(const Tensor& self, c10::SymIntArrayRef size) { return View(self, size); }

void RecordStream(Tensor&, at::Stream) {}  // one executor runs all streams in order

// `param.data = moved` swaps what a tensor is in place, which keeps parameters' identity (and ties
// between them) in Module.to: possible between the host's and our tensors, which are plain
// TensorImpls both.
bool HasCompatibleShallowCopyType(const Tensor& self, const Tensor& from) {
  const auto plain = [](const Tensor& t) {
    return t.layout() == at::kStrided && (IsOurs(t) || t.device().is_cpu()) && !t.is_quantized();
  };
  return plain(self) && plain(from);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", HasCompatibleShallowCopyType);
  m.impl("empty.memory_format", EmptyMemoryFormat);
  m.impl("empty_strided", EmptyStrided);
  m.impl("new_empty_strided", NewEmptyStrided);
  m.impl("as_strided", AsStrided);
  m.impl("view", View);
  m.impl("_unsafe_view", UnsafeView);
  m.impl("_reshape_alias", ReshapeAlias);
  m.impl("unfold", Unfold);
  m.impl("view_as_real", ViewAsReal);
  m.impl("view_as_complex", ViewAsComplex);
  m.impl("resize_", Resize);
  m.impl("set_.source_Storage_storage_offset", SetStorageOffset);
  m.impl("set_.source_Storage", SetStorage);
  m.impl("set_.source_Tensor", SetTensor);
  m.impl("set_", SetNothing);
  m.impl("is_set_to", IsSetTo);
  m.impl("copy_", Copy);
  m.impl("copy", CopyFunctional);
  m.impl("_copy_from", CopyFrom);
  m.impl("_copy_from_and_resize", CopyFromAndResize);
  m.impl("addbmm_", AddbmmInPlace);
  m.impl("_local_scalar_dense", LocalScalarDense);
  m.impl("record_stream", RecordStream);
}

}  // namespace dendrite::aten
