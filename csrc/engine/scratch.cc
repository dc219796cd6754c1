#include "csrc/engine/scratch.h"

#include <algorithm>

namespace dendrite::engine {
namespace {

constexpr size_t kKept = size_t{32} << 20;  // at least
constexpr int64_t kStretch = 1024;          // calls: some steps of a small model

}  // namespace

void* Scratch::Take(size_t nbytes) {
  const size_t capacity = Arena::Round(nbytes);
  MutexLock lock(mu_);
  void* data = arena_.Allocate(capacity).data;
  if (data != nullptr) live_.emplace(data, capacity);
  peak_ = std::max(peak_, arena_.in_use());
  return data;
}

size_t Scratch::Kept() {
  if (++calls_ == kStretch) {
    calls_ = 0;
    last_peak_ = peak_;
    peak_ = arena_.in_use();
  }
  return std::max({kKept, peak_, last_peak_});
}

bool Scratch::GiveBack(void* data) {
  if (!arena_.Contains(data)) return false;
  MutexLock lock(mu_);
  const auto it = live_.find(data);
  arena_.Free(data, it->second, /*last_use=*/0);
  live_.erase(it);
  const size_t kept = Kept(), resident = arena_.resident();
  if (resident > kept) arena_.Release(resident - kept, /*completed=*/0);
  return true;
}

size_t Scratch::Size(const void* data) const {
  if (!arena_.Contains(data)) return 0;
  MutexLock lock(mu_);
  const auto it = live_.find(data);
  return it == live_.end() ? 0 : it->second;
}

size_t Scratch::resident() const {
  MutexLock lock(mu_);
  return arena_.resident();
}

size_t Scratch::in_use() const {
  MutexLock lock(mu_);
  return arena_.in_use();
}

Scratch& GetScratch() {
  static auto& scratch = *new Scratch;
  return scratch;
}

}  // namespace dendrite::engine
