#include "csrc/python/profiler.h"

#include <torch/csrc/profiler/stubs/base.h>

#include "csrc/base/clock.h"
#include "csrc/device/error.h"
#include "csrc/device/runtime.h"

namespace dendrite::python {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

class Stubs final : public torch::profiler::impl::ProfilerStubs {
 public:
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    const int current = device::CurrentDevice();
    if (device != nullptr) *device = static_cast<c10::DeviceIndex>(current);
    if (cpu_ns != nullptr) *cpu_ns = static_cast<int64_t>(NowSeconds() * 1e9);
    *event = device::Runtime::Get().stream(current).RecordMarker();
  }
  // Microseconds of device time; the profiler asks once all is over.
  float elapsed(const ProfilerVoidEventStub* begin,
                const ProfilerVoidEventStub* end) const override {
    auto* a = static_cast<engine::Marker*>(begin->get());
    auto* b = static_cast<engine::Marker*>(end->get());
    a->Wait();
    b->Wait();
    return static_cast<float>((b->time - a->time) * 1e6);
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> op) const override {
    for (int i = 0; i < device::Runtime::DeviceCount(); ++i) op(i);
  }
  void synchronize() const override {
    for (int i = 0; i < device::Runtime::DeviceCount(); ++i) {
      device::Runtime::Get().stream(i).RecordMarker()->Wait();
    }
  }
};

}  // namespace

void RegisterProfiler() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
}

}  // namespace dendrite::python
