// PrivateUse1 hooks: what ATen asks of a device beyond operators.
#include "csrc/device/hooks.h"

#include <ATen/CPUFunctions.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "csrc/device/generator.h"
#include "csrc/device/runtime.h"
#include "csrc/device/storage.h"

namespace dendrite::device {
namespace {

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  void init() const override { Runtime::Get(); }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return Runtime::Started(); }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return Runtime::DeviceCount() > 0; }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(Runtime::DeviceCount());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override { SetCurrentDevice(device); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(CurrentDevice());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const int old = CurrentDevice();
    SetCurrentDevice(device);
    return static_cast<c10::DeviceIndex>(old);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return DefaultGenerator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<GeneratorImpl>(
        device < 0 ? static_cast<c10::DeviceIndex>(CurrentDevice()) : device);
  }
  at::Device getDeviceFromPtr(void*) const override {
    return at::Device(kDeviceType, static_cast<c10::DeviceIndex>(CurrentDevice()));
  }
  // Any host memory will do: copies from it are taken at the call.
  at::Allocator* getPinnedMemoryAllocator() const override { return PinnedAllocator(); }
  bool isPinnedPtr(const void* data) const override { return IsPinned(data); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    ResizeStorage(storage.unsafeGetStorageImpl(), nbytes);
  }
};

}  // namespace

void RegisterHooks() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  PinnedAllocator();  // registers itself
}

}  // namespace dendrite::device
