// csrc/device/memory_interface.h - the part of PyTorch's DeviceAllocator interface that does not
// allocate: statistics and caches, for torch.accelerator's memory functions.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

namespace dendrite::device {

class MemoryInterface : public c10::DeviceAllocator {
 public:
  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool) override;
  // Nothing to do: all streams of a device run in order on one executor.
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override;
  void resetAccumulatedStats(c10::DeviceIndex index) override;
  void resetPeakStats(c10::DeviceIndex index) override;
  // The host's free and total memory, which is the device's, too.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override;
};

// Returns the pooled memory of all devices to the system, once their work is complete.
void EmptyCaches();

}  // namespace dendrite::device
