#include "csrc/engine/scratch.h"

namespace dendrite::engine {
namespace {

constexpr size_t kKept = size_t{32} << 20;  // while free; returning more would mean page faults

}  // namespace

void* Scratch::Take(size_t nbytes) {
  const size_t capacity = Arena::Round(nbytes);
  MutexLock lock(mu_);
  void* data = arena_.Allocate(capacity).data;
  if (data != nullptr) live_.emplace(data, capacity);
  return data;
}

bool Scratch::GiveBack(void* data) {
  if (!arena_.Contains(data)) return false;
  MutexLock lock(mu_);
  const auto it = live_.find(data);
  arena_.Free(data, it->second, /*last_use=*/0);
  live_.erase(it);
  const size_t free = arena_.resident() - arena_.in_use();
  if (free > kKept) arena_.Release(free - kKept, /*completed=*/0);
  return true;
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
