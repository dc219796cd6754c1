#include "csrc/interpreter/placement.h"

#include <ATen/ops/clone.h>
#include <ATen/ops/copy.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_set>

#include "csrc/interpreter/scratch.h"

namespace dendrite::interpreter {
namespace {

thread_local Placement* t_placement = nullptr;

// Offered memory that was taken and not yet given back. oneDNN takes and frees raw pointers, on any
// thread and perhaps after the Placement is gone, so a pointer alone must tell what it is.
class Taken {
 public:
  void Add(void* data) {
    std::lock_guard lock(mu_);
    data_.insert(data);
    count_.store(data_.size(), std::memory_order_release);
  }
  bool Remove(void* data) {
    if (count_.load(std::memory_order_acquire) == 0) return false;
    std::lock_guard lock(mu_);
    const bool found = data_.erase(data) > 0;
    count_.store(data_.size(), std::memory_order_release);
    return found;
  }

 private:
  std::mutex mu_;
  std::unordered_set<void*> data_;
  std::atomic<size_t> count_{0};
};

Taken& GetTaken() {
  static auto& taken = *new Taken;  // tensors may die at exit
  return taken;
}

c10::Allocator* g_base = nullptr;

// False: the pointer was never offered.
bool GiveBack(void* data) {
  if (!GetTaken().Remove(data)) return false;
  if (t_placement != nullptr) t_placement->GiveBack(data);
  return true;
}

void GiveBackPlaced(void* data) { GiveBack(data); }

void DeleteScratch(void* data) { GiveBackScratch(data); }

void RawDelete(void* data) {
  if (!GiveBack(data) && !GiveBackScratch(data)) g_base->raw_deleter()(data);
}

class PlacingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    if (t_placement != nullptr && n > 0) {
      if (void* data = t_placement->Take(n)) {
        GetTaken().Add(data);
        return {data, data, &GiveBackPlaced, c10::Device(c10::DeviceType::CPU)};
      }
    }
    if (void* data = TakeScratch(n)) {
      return {data, data, &DeleteScratch, c10::Device(c10::DeviceType::CPU)};
    }
    return g_base->allocate(n);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return g_base->raw_deleter() == nullptr ? nullptr : &RawDelete;
  }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    g_base->copy_data(to, from, count);
  }
};

}  // namespace

void InstallPlacement() {
  if (g_base != nullptr) return;
  static PlacingAllocator allocator;
  g_base = c10::GetCPUAllocator();
  // Allocators of the same or a higher priority replace the one that is there.
  c10::SetCPUAllocator(&allocator, /*priority=*/UINT8_MAX);
}

Placement::Placement() : outer_(t_placement) { t_placement = this; }
Placement::~Placement() { t_placement = outer_; }

void Placement::Offer(const at::Tensor& to) {
  if (to.numel() == 0 || !to.is_non_overlapping_and_dense()) return;
  places_.push_back({to.data_ptr(), to.nbytes(), true});
}

void* Placement::Take(size_t nbytes) {
  for (Place& place : places_) {
    if (!place.free || place.nbytes != nbytes) continue;
    place.free = false;
    return place.data;
  }
  return nullptr;
}

void Placement::GiveBack(void* data) {
  for (Place& place : places_) {
    if (place.data == data) place.free = true;
  }
}

bool Placement::Owns(const at::Tensor& tensor) const {
  const auto* begin = static_cast<const char*>(tensor.storage().data());
  for (const Place& place : places_) {
    if (begin == place.data) return true;
  }
  return false;
}

void Placement::Deliver(std::vector<Delivery> deliveries) const {
  const auto arrived = [](const Delivery& d) {
    return d.result.const_data_ptr() == d.to.const_data_ptr() &&
           d.result.scalar_type() == d.to.scalar_type() && d.result.sizes() == d.to.sizes() &&
           d.result.strides() == d.to.strides() && d.result.is_conj() == d.to.is_conj() &&
           d.result.is_neg() == d.to.is_neg();
  };
  // Made in a place, but not in its own: the copies below may overwrite it before it is read.
  for (Delivery& d : deliveries) {
    if (!arrived(d) && d.result.has_storage() && Owns(d.result)) d.result = d.result.clone();
  }
  for (Delivery& d : deliveries) {
    if (!arrived(d)) d.to.copy_(d.result);
  }
}

}  // namespace dendrite::interpreter
