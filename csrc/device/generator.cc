#include "csrc/device/generator.h"

#include <ATen/Functions.h>
#include <ATen/Utils.h>
#include <ATen/core/Tensor.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "csrc/device/runtime.h"

namespace dendrite::device {
namespace {
constexpr size_t kStateBytes = 16;
}

GeneratorImpl::GeneratorImpl(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(kDeviceType, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}
void GeneratorImpl::set_offset(uint64_t offset) { offset_ = offset; }
uint64_t GeneratorImpl::get_offset() const { return offset_; }
uint64_t GeneratorImpl::current_seed() const { return seed_; }
uint64_t GeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return seed_;
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == static_cast<int64_t>(kStateBytes),
              "RNG state is wrong size: expected ", kStateBytes, " bytes, got ", state.numel());
  const auto* bytes = static_cast<const char*>(state.data());
  std::memcpy(&seed_, bytes, sizeof seed_);
  std::memcpy(&offset_, bytes + sizeof seed_, sizeof offset_);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  at::Tensor state = at::empty({static_cast<int64_t>(kStateBytes)}, at::TensorOptions(at::kByte));
  auto* bytes = state.data_ptr<uint8_t>();
  std::memcpy(bytes, &seed_, sizeof seed_);
  std::memcpy(bytes + sizeof seed_, &offset_, sizeof offset_);
  return state.getIntrusivePtr();
}

c10::DeviceType GeneratorImpl::device_type() { return kDeviceType; }

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

PhiloxStream GeneratorImpl::Claim(int64_t n) {
  const PhiloxStream stream{seed_, offset_};
  offset_ += MaxBlocks(n);
  return stream;
}

const at::Generator& DefaultGenerator(c10::DeviceIndex device) {
  static std::mutex mu;
  static std::vector<at::Generator>* generators = new std::vector<at::Generator>;
  std::lock_guard lock(mu);
  const auto index = static_cast<size_t>(device < 0 ? CurrentDevice() : device);
  TORCH_CHECK(index < static_cast<size_t>(Runtime::DeviceCount()),
              "invalid device index neuron:", index);
  generators->reserve(64);  // references must stay valid
  while (generators->size() <= index) {
    generators->push_back(
        at::make_generator<GeneratorImpl>(static_cast<c10::DeviceIndex>(generators->size())));
    generators->back().set_current_seed(c10::default_rng_seed_val);
  }
  return (*generators)[index];
}

PhiloxStream Claim(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                   int64_t n) {
  const at::Generator& gen =
      generator.has_value() && generator->defined() ? *generator : DefaultGenerator(device);
  auto* impl = at::check_generator<GeneratorImpl>(gen);
  std::lock_guard lock(impl->mutex_);
  return impl->Claim(n);
}

}  // namespace dendrite::device
