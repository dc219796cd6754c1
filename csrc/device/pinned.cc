#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "csrc/device/hooks.h"
#include "csrc/device/runtime.h"

namespace dendrite::device {
namespace {

constexpr size_t kPage = 4096;

struct Registry {
  std::mutex mu;
  std::map<const char*, size_t> ranges;  // guarded by mu
};
Registry& GetRegistry() {
  static auto* registry = new Registry;  // deleters may run after static destruction
  return *registry;
}

void Delete(void* data) {
  {
    Registry& registry = GetRegistry();
    std::lock_guard lock(registry.mu);
    registry.ranges.erase(static_cast<const char*>(data));
  }
  std::free(data);
}

class Pinned final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    const size_t size = (std::max<size_t>(nbytes, 1) + kPage - 1) / kPage * kPage;
    void* data = std::aligned_alloc(kPage, size);
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "out of host memory: ", nbytes, " bytes");
    Registry& registry = GetRegistry();
    std::lock_guard lock(registry.mu);
    registry.ranges[static_cast<const char*>(data)] = size;
    return {data, data, &Delete, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* dst, const void* src, size_t n) const override {
    default_copy_data(dst, src, n);
  }
  // Nothing is cached, and copies to the host wait for themselves: memory is free when it is freed.
  bool record_event(void*, void*, c10::Stream) override { return false; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

}  // namespace

c10::Allocator* PinnedAllocator() {
  static Pinned* allocator = [] {
    auto* made = new Pinned;
    at::setHostAllocator(kDeviceType, made);
    return made;
  }();
  return allocator;
}

bool IsPinned(const void* data) {
  Registry& registry = GetRegistry();
  std::lock_guard lock(registry.mu);
  auto it = registry.ranges.upper_bound(static_cast<const char*>(data));
  if (it == registry.ranges.begin()) return false;
  --it;
  return static_cast<const char*>(data) < it->first + it->second;
}

}  // namespace dendrite::device
