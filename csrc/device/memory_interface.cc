#include "csrc/device/memory_interface.h"

#include <c10/core/Device.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "csrc/device/error.h"
#include "csrc/device/runtime.h"

namespace dendrite::device {
namespace {

engine::Allocator& AllocatorOf(c10::DeviceIndex index) {
  return *Runtime::Get().device(index < 0 ? CurrentDevice() : index).allocator;
}

void Set(c10::CachingAllocator::StatArray& stats, int64_t current, int64_t peak, int64_t allocated,
         int64_t freed) {
  auto& stat = stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  stat.current = current;
  stat.peak = peak;
  stat.allocated = allocated;
  stat.freed = freed;
}

// What resetAccumulatedStats subtracts from then on: allocations and frees.
constexpr size_t kMaxDevices = 64;
struct Baseline {
  std::atomic<int64_t> allocations{0}, frees{0};
};
Baseline& BaselineOf(c10::DeviceIndex index) {
  static auto* baselines = new std::array<Baseline, kMaxDevices>;
  return baselines->at(static_cast<size_t>(index < 0 ? CurrentDevice() : index));
}

}  // namespace

bool MemoryInterface::initialized() { return Runtime::Started(); }

void MemoryInterface::emptyCache(c10::MempoolId_t) {
  if (Runtime::Started()) EmptyCaches();
}

void MemoryInterface::recordStream(const c10::DataPtr&, c10::Stream) {}

c10::CachingDeviceAllocator::DeviceStats MemoryInterface::getDeviceStats(c10::DeviceIndex index) {
  const engine::MemoryStats memory = AllocatorOf(index).stats();
  c10::CachingDeviceAllocator::DeviceStats stats;
  Set(stats.allocated_bytes, memory.allocated, memory.peak_allocated, 0, 0);
  stats.requested_bytes = stats.active_bytes = stats.allocated_bytes;
  Set(stats.reserved_bytes, memory.reserved, memory.peak_reserved, 0, 0);
  const int64_t live = memory.allocations - memory.frees;
  const Baseline& base = BaselineOf(index);
  Set(stats.allocation, live, live, memory.allocations - base.allocations,
      memory.frees - base.frees);
  return stats;
}

void MemoryInterface::resetAccumulatedStats(c10::DeviceIndex index) {
  const engine::MemoryStats memory = AllocatorOf(index).stats();
  Baseline& base = BaselineOf(index);
  base.allocations = memory.allocations;
  base.frees = memory.frees;
}

void MemoryInterface::resetPeakStats(c10::DeviceIndex index) { AllocatorOf(index).ResetPeak(); }

std::pair<size_t, size_t> MemoryInterface::getMemoryInfo(c10::DeviceIndex) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return {static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
          static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * page};
}

void EmptyCaches() {
  Runtime& runtime = Runtime::Get();
  for (int i = 0; i < Runtime::DeviceCount(); ++i) {
    runtime.stream(i).Flush();
    // An error that is still unread stays so.
    runtime.stream(i).RecordMarker()->Wait();
    runtime.device(i).allocator->EmptyCache();
  }
}

}  // namespace dendrite::device
