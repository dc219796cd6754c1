#include "csrc/cache/memory_store.h"

namespace dendrite::cache {

Result<std::optional<Entry>> MemoryStore::Lookup(const Key& key) {
  MutexLock lock(mutex_);
  const std::string* bytes = entries_.Lookup(key.full());
  if (!bytes) {
    ++stats_.misses;
    return std::optional<Entry>();
  }
  ++stats_.hits;
  return std::optional<Entry>(Entry{*bytes, name()});
}

Status MemoryStore::Put(const Key& key, std::string_view bytes) {
  const auto cost = static_cast<int64_t>(bytes.size() + key.full().size());
  MutexLock lock(mutex_);
  ++stats_.puts;
  stats_.evictions += entries_.Insert(key.full(), std::string(bytes), cost);
  return Status::Ok();
}

Status MemoryStore::Discard(const Key& key) {
  MutexLock lock(mutex_);
  if (entries_.Erase(key.full())) ++stats_.corrupt_entries;
  return Status::Ok();
}

StoreStats MemoryStore::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace dendrite::cache
