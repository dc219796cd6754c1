// Device guard: current device, streams and events for c10.
//
// All streams of a device run, in order, on its one executor: work on one stream is never reordered
// with work on another, so waits between streams hold by construction.
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "csrc/device/error.h"
#include "csrc/device/runtime.h"

namespace dendrite::device {
namespace {

thread_local c10::StreamId t_stream = 0;
std::atomic<c10::StreamId> g_next_stream{1};

struct Recorded {
  std::shared_ptr<engine::Marker> marker;
  c10::DeviceIndex device;
};
const engine::Marker& MarkerOf(void* event) { return *static_cast<Recorded*>(event)->marker; }

// "neuron" without an index is the current device.
c10::Device WithIndex(c10::Device d) {
  return d.has_index() ? d
                       : c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(CurrentDevice()));
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device old = getDevice();
    if (d.index() >= 0 && d.index() != old.index()) SetCurrentDevice(d.index());
    return old;
  }
  c10::Device getDevice() const override {
    return c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(CurrentDevice()));
  }
  void setDevice(c10::Device d) const override { exchangeDevice(d); }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.index() >= 0 && d.index() < Runtime::DeviceCount()) SetCurrentDevice(d.index());
  }
  c10::Stream getStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::UNSAFE, WithIndex(d), t_stream);
  }
  c10::Stream getDefaultStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::DEFAULT, WithIndex(d));
  }
  c10::Stream getNewStream(c10::Device d, int) const override {
    return c10::Stream(c10::Stream::UNSAFE, WithIndex(d), g_next_stream.fetch_add(1));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override {
    return getNewStream(d, 0);
  }
  c10::Stream exchangeStream(c10::Stream s) const override {
    const c10::Stream old(c10::Stream::UNSAFE, s.device(), t_stream);
    t_stream = s.id();
    return old;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(Runtime::DeviceCount());
  }

  bool queryStream(const c10::Stream& s) const override {
    auto& stream = Runtime::Get().stream(s.device_index());
    stream.Flush();
    return stream.Idle();
  }
  void synchronizeStream(const c10::Stream& s) const override {
    ThrowIfError(Runtime::Get().stream(s.device_index()).Synchronize());
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    ThrowIfError(Runtime::Get().stream(index < 0 ? CurrentDevice() : index).Synchronize());
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    auto* old = static_cast<Recorded*>(*event);
    const c10::DeviceIndex device = stream.device_index();
    *event = new Recorded{Runtime::Get().stream(device).RecordMarker(), device};
    delete old;
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event == nullptr) return;
    const auto& recorded = *static_cast<Recorded*>(event);
    // On one device the order of the executor is the wait.
    if (recorded.device == stream.device_index() || recorded.marker->done.load()) return;
    ThrowIfError(Runtime::Get()
                     .stream(stream.device_index())
                     .RunOnHost(
                         [marker = recorded.marker] {
                           marker->Wait();
                           return Status();
                         },
                         {}, /*wait=*/false));
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || MarkerOf(event).done.load();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Recorded*>(event);
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Recorded*>(event)->marker->Wait();
  }
  double elapsedTime(void* begin, void* end, c10::DeviceIndex) const override {
    TORCH_CHECK(begin != nullptr && end != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    const engine::Marker& a = MarkerOf(begin);
    const engine::Marker& b = MarkerOf(end);
    TORCH_CHECK(a.done.load() && b.done.load(),
                "Both events must be completed before calculating elapsed time.");
    return (b.time - a.time) * 1e3;
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace dendrite::device
