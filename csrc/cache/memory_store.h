// csrc/cache/memory_store.h - a Store in this process's memory, bounded by bytes, LRU.
#pragma once

#include <memory>
#include <string>

#include "csrc/base/mutex.h"
#include "csrc/cache/lru.h"
#include "csrc/cache/store.h"

namespace dendrite::cache {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(int64_t limit_bytes) : entries_(limit_bytes) {}

  const char* name() const override { return "memory"; }
  Result<std::optional<Entry>> Lookup(const Key& key) override;
  Status Put(const Key& key, std::string_view bytes) override;
  Status Discard(const Key& key) override;
  StoreStats stats() const override;

 private:
  mutable Mutex mutex_;
  // By full key, so that nothing can collide.
  Lru<std::string> entries_ DENDRITE_GUARDED_BY(mutex_);
  StoreStats stats_ DENDRITE_GUARDED_BY(mutex_);
};

}  // namespace dendrite::cache
