#include "csrc/device/storage.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/StorageImpl.h>

#include <cstring>
#include <mutex>

#include "csrc/device/error.h"
#include "csrc/device/memory_interface.h"

namespace dendrite::device {
namespace {

void DeleteBlock(void* context) {
  auto* block = static_cast<engine::Block*>(context);
  block->storage_alive.store(false, std::memory_order_release);
  engine::ReleaseMemory(block);
}

// A storage that somebody else made over our memory: what it came with, and the Block.
struct Alias {
  engine::Block* block;
  c10::DataPtr foreign;
};
void DeleteAlias(void* context) {
  auto* alias = static_cast<Alias*>(context);
  engine::Block* block = alias->block;
  delete alias;
  engine::ReleaseMemory(block);
}

// The Block of a storage that our allocator did not make; from the first call on the storage keeps
// it.
engine::Block* BlockOfAlias(c10::StorageImpl* storage) {
  static std::mutex mu;
  std::lock_guard lock(mu);
  const c10::DataPtr& data = storage->data_ptr();
  if (data.get_deleter() == &DeleteAlias) return static_cast<Alias*>(data.get_context())->block;
  engine::Block* block =
      Runtime::Get().device(storage->device().index()).allocator->Find(data.get());
  TORCH_CHECK(block != nullptr, "the memory of this neuron storage is not the device's own");
  void* begin = data.get();
  const c10::Device device = data.device();
  auto* alias = new Alias{block, {}};
  alias->foreign = storage->set_data_ptr(c10::DataPtr(begin, alias, &DeleteAlias, device));
  return block;
}

class CachingAllocator final : public MemoryInterface {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    const int device = CurrentDevice();
    engine::Block* block =
        ValueOrThrow(Runtime::Get().device(device).allocator->Allocate(nbytes, device));
    return {block->data, block, &DeleteBlock,
            c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(device))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "a neuron storage cannot be copied by pointer");
  }
};

class DeviceScope {
 public:
  explicit DeviceScope(int device) : previous_(CurrentDevice()) {
    if (device != previous_) SetCurrentDevice(device);
  }
  ~DeviceScope() {
    if (CurrentDevice() != previous_) SetCurrentDevice(previous_);
  }

 private:
  int previous_;
};

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// For storages that PyTorch makes by itself (UntypedStorage of a device).
const bool kRegistered = [] {
  c10::SetAllocator(kDeviceType, GetAllocator());
  return true;
}();

}  // namespace

c10::Allocator* GetAllocator() {
  static CachingAllocator allocator;
  return &allocator;
}

engine::Block* BlockOf(const c10::StorageImpl* storage) {
  const c10::DataPtr& data = storage->data_ptr();
  if (data.get_deleter() == &DeleteBlock) return static_cast<engine::Block*>(data.get_context());
  return BlockOfAlias(const_cast<c10::StorageImpl*>(storage));
}

int64_t OffsetInBlock(const at::Tensor& t, const engine::Block* block) {
  const auto* begin = static_cast<const char*>(t.storage().data());
  const int64_t bytes = begin - static_cast<const char*>(block->data);
  if (bytes == 0) return t.storage_offset();
  const auto size = static_cast<int64_t>(t.element_size());
  TORCH_CHECK(bytes % size == 0, "a neuron tensor must be aligned to its element size");
  return bytes / size + t.storage_offset();
}

at::Tensor EmptyStrided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                        int device) {
  DeviceScope scope(device);
  return at::Tensor(
      at::detail::empty_strided_generic(sizes, strides, GetAllocator(), kKeys, dtype));
}

at::Tensor Empty(c10::IntArrayRef sizes, c10::ScalarType dtype, int device) {
  DeviceScope scope(device);
  return at::Tensor(at::detail::empty_generic(sizes, GetAllocator(), kKeys, dtype, std::nullopt));
}

void ResizeStorage(c10::StorageImpl* storage, size_t nbytes) {
  const int device = storage->device().index();
  engine::Block* old = BlockOf(storage);
  if (nbytes == storage->nbytes()) return;
  DeviceScope scope(device);
  c10::DataPtr grown = GetAllocator()->allocate(nbytes);
  auto* block = static_cast<engine::Block*>(grown.get_context());
  const size_t keep = std::min(old->nbytes, nbytes);
  block->form_dtype = old->form_dtype;
  block->initialized = true;
  engine::Stream& stream = Runtime::Get().stream(device);
  const bool host_visible = Runtime::Get().host_visible();
  auto client = Runtime::Get().client();
  ThrowIfError(stream.RunOnHost(
      [=]() -> Status {
        if (host_visible) {
          std::memcpy(block->host_data, old->host_data, keep);
          return {};
        }
        // Through the host: resizing is rare, and the plugin API has no way to copy between sizes.
        std::vector<char> bytes(std::max(block->nbytes, old->nbytes) + 16);
        if (old->buffer.defined()) {
          if (Status s = old->buffer.ToHost(bytes.data(), old->nbytes); !s.ok()) return s;
        }
        if (block->form_dtype == tape::DType::kUndefined) block->form_dtype = tape::DType::kU8;
        const int64_t count =
            static_cast<int64_t>(block->nbytes) / tape::ItemSize(block->form_dtype);
        auto buffer = client->FromHost(
            bytes.data(), pjrt::ElementTypeFromDType(static_cast<uint8_t>(block->form_dtype)),
            {count}, pjrt::HostBuffer::kCopy);
        if (!buffer.ok()) return buffer.status();
        block->buffer = std::move(*buffer);
        return {};
      },
      {old, block}, /*wait=*/true));
  storage->set_data_ptr_noswap(std::move(grown));
  storage->set_nbytes(nbytes);
}

tape::DType ToDType(c10::ScalarType type) {
  using c10::ScalarType;
  using tape::DType;
  switch (type) {
    case ScalarType::Bool:
      return DType::kBool;
    case ScalarType::Byte:
      return DType::kU8;
    case ScalarType::Char:
      return DType::kI8;
    case ScalarType::Short:
      return DType::kI16;
    case ScalarType::Int:
      return DType::kI32;
    case ScalarType::Long:
      return DType::kI64;
    case ScalarType::Half:
      return DType::kF16;
    case ScalarType::BFloat16:
      return DType::kBF16;
    case ScalarType::Float:
      return DType::kF32;
    case ScalarType::Double:
      return DType::kF64;
    case ScalarType::ComplexFloat:
      return DType::kC64;
    case ScalarType::ComplexDouble:
      return DType::kC128;
    case ScalarType::UInt16:
      return DType::kU16;
    case ScalarType::UInt32:
      return DType::kU32;
    case ScalarType::UInt64:
      return DType::kU64;
    default:
      return DType::kUndefined;
  }
}

c10::ScalarType ToScalarType(tape::DType dtype) {
  using c10::ScalarType;
  static constexpr ScalarType kTypes[] = {
      ScalarType::Undefined,     ScalarType::Bool,   ScalarType::Byte,   ScalarType::Char,
      ScalarType::Short,         ScalarType::Int,    ScalarType::Long,   ScalarType::Half,
      ScalarType::BFloat16,      ScalarType::Float,  ScalarType::Double, ScalarType::ComplexFloat,
      ScalarType::ComplexDouble, ScalarType::UInt16, ScalarType::UInt32, ScalarType::UInt64};
  return kTypes[static_cast<int>(dtype)];
}

}  // namespace dendrite::device
