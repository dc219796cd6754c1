// csrc/device/generator.h - the device's random number generator: a Philox (seed, offset) pair.
//
// Operators claim offsets at capture under the generator's mutex; the numbers are made later, on
// whatever tier, from what was claimed. State: 16 bytes, seed then offset, little endian.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <memory>

#include "csrc/base/philox.h"

namespace dendrite::device {

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  // By reference: afterwards both generators draw from one state, until the next such call.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  static c10::DeviceType device_type();

  // The stream for an operator that makes `n` numbers, and moves the offset past it.
  // REQUIRES: mutex_ held.
  PhiloxStream Claim(int64_t n);

 private:
  struct State {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };
  GeneratorImpl(c10::DeviceIndex device, std::shared_ptr<State> state);
  GeneratorImpl* clone_impl() const override;
  std::shared_ptr<State> state_;  // shared by graphsafe_get_state only; guarded by mutex_
};

const at::Generator& DefaultGenerator(c10::DeviceIndex device);
// Claims from `generator`, or from the device's default one, under its lock.
PhiloxStream Claim(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                   int64_t n);

}  // namespace dendrite::device
