#include <utility>

#include "csrc/pjrt/pjrt_api.h"

namespace dendrite::pjrt {

Buffer::~Buffer() {
  if (raw_ == nullptr) return;
  const Plugin& plugin = *client_->impl_->plugin;
  DENDRITE_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
  args.buffer = static_cast<PJRT_Buffer*>(raw_);
  (void)plugin.ToStatus(plugin.api.PJRT_Buffer_Destroy(&args), "PJRT_Buffer_Destroy");
}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)), raw_(std::exchange(other.raw_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  // The old buffer goes now, not when `other` does: its memory may be wanted back.
  Buffer old(std::move(*this));
  client_ = std::move(other.client_);
  raw_ = std::exchange(other.raw_, nullptr);
  return *this;
}

Status Buffer::ToHost(void* dst, size_t size_bytes) {
  if (raw_ == nullptr) return FailedPrecondition("ToHost of a buffer that is not defined");
  const Plugin& plugin = *client_->impl_->plugin;
  DENDRITE_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = static_cast<PJRT_Buffer*>(raw_);
  args.dst = dst;
  args.dst_size = size_bytes;
  // Without a layout a plugin may hand out its own. Rank 0 and 1 have only one.
  std::vector<int64_t> minor_to_major;
  DENDRITE_PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
  if (plugin.api.PJRT_Buffer_Dimensions != nullptr) {
    DENDRITE_PJRT_ARGS(PJRT_Buffer_Dimensions_Args, dims);
    dims.buffer = args.src;
    DENDRITE_RETURN_IF_ERROR(
        plugin.ToStatus(plugin.api.PJRT_Buffer_Dimensions(&dims), "PJRT_Buffer_Dimensions"));
    if (dims.num_dims > 1) {
      for (size_t i = dims.num_dims; i-- > 0;) minor_to_major.push_back(static_cast<int64_t>(i));
      layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
      layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
      layout.tiled.minor_to_major = minor_to_major.data();
      layout.tiled.minor_to_major_size = minor_to_major.size();
      args.host_layout = &layout;
    }
  }
  DENDRITE_RETURN_IF_ERROR(
      plugin.ToStatus(plugin.api.PJRT_Buffer_ToHostBuffer(&args), "PJRT_Buffer_ToHostBuffer"));
  return plugin.AwaitAndDestroy(args.event, "PJRT_Buffer_ToHostBuffer");
}

Result<void*> Buffer::UnsafePointer() {
  if (raw_ == nullptr) return FailedPrecondition("UnsafePointer of a buffer that is not defined");
  const Plugin& plugin = *client_->impl_->plugin;
  if (plugin.api.PJRT_Buffer_UnsafePointer == nullptr) {
    return plugin.Lacks("PJRT_Buffer_UnsafePointer", "see where a buffer lies in memory");
  }
  DENDRITE_PJRT_ARGS(PJRT_Buffer_UnsafePointer_Args, args);
  args.buffer = static_cast<PJRT_Buffer*>(raw_);
  DENDRITE_RETURN_IF_ERROR(
      plugin.ToStatus(plugin.api.PJRT_Buffer_UnsafePointer(&args), "PJRT_Buffer_UnsafePointer"));
  return reinterpret_cast<void*>(args.buffer_pointer);
}

Result<size_t> Buffer::OnDeviceSize() {
  if (raw_ == nullptr) return FailedPrecondition("OnDeviceSize of a buffer that is not defined");
  const Plugin& plugin = *client_->impl_->plugin;
  if (plugin.api.PJRT_Buffer_OnDeviceSizeInBytes == nullptr) {
    return plugin.Lacks("PJRT_Buffer_OnDeviceSizeInBytes", "count device memory");
  }
  DENDRITE_PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes_Args, args);
  args.buffer = static_cast<PJRT_Buffer*>(raw_);
  DENDRITE_RETURN_IF_ERROR(plugin.ToStatus(plugin.api.PJRT_Buffer_OnDeviceSizeInBytes(&args),
                                           "PJRT_Buffer_OnDeviceSizeInBytes"));
  return args.on_device_size_in_bytes;
}

}  // namespace dendrite::pjrt
