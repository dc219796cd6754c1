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
    : GeneratorImpl(device, std::make_shared<State>()) {}
GeneratorImpl::GeneratorImpl(c10::DeviceIndex device, std::shared_ptr<State> state)
    : c10::GeneratorImpl(c10::Device(kDeviceType, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_(std::move(state)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) { *state_ = {seed, 0}; }
void GeneratorImpl::set_offset(uint64_t offset) { state_->offset = offset; }
uint64_t GeneratorImpl::get_offset() const { return state_->offset; }
uint64_t GeneratorImpl::current_seed() const { return state_->seed; }
uint64_t GeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_->seed;
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == static_cast<int64_t>(kStateBytes),
              "RNG state is wrong size: expected ", kStateBytes, " bytes, got ", state.numel());
  const auto* bytes = static_cast<const char*>(state.data());
  std::memcpy(&state_->seed, bytes, sizeof state_->seed);
  std::memcpy(&state_->offset, bytes + sizeof state_->seed, sizeof state_->offset);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  at::Tensor state = at::empty({static_cast<int64_t>(kStateBytes)}, at::TensorOptions(at::kByte));
  auto* bytes = state.data_ptr<uint8_t>();
  std::memcpy(bytes, &state_->seed, sizeof state_->seed);
  std::memcpy(bytes + sizeof state_->seed, &state_->offset, sizeof state_->offset);
  return state.getIntrusivePtr();
}

c10::DeviceType GeneratorImpl::device_type() { return kDeviceType; }

GeneratorImpl* GeneratorImpl::clone_impl() const {
  return new GeneratorImpl(device().index(), std::make_shared<State>(*state_));
}

void GeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  auto* source = dynamic_cast<GeneratorImpl*>(other.get());
  TORCH_CHECK(source != nullptr, "expected a generator of the device neuron");
  state_ = source->state_;
}
c10::intrusive_ptr<c10::GeneratorImpl> GeneratorImpl::graphsafe_get_state() const {
  return c10::intrusive_ptr<c10::GeneratorImpl>::unsafe_steal_from_new(
      new GeneratorImpl(device().index(), state_));
}

PhiloxStream GeneratorImpl::Claim(int64_t n) {
  const PhiloxStream stream{state_->seed, state_->offset};
  state_->offset += MaxBlocks(n);
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
