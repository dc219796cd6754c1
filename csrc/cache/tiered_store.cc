#include "csrc/cache/tiered_store.h"

#include "csrc/base/log.h"

namespace dendrite::cache {
namespace {

void Warn(const Store& level, const Status& status) {
  if (!status.ok())
    DENDRITE_LOG(kWarning) << "the " << level.name() << " cache: " << status.message();
}

}  // namespace

Result<std::optional<Entry>> TieredStore::Lookup(const Key& key) {
  for (size_t i = 0; i < levels_.size(); ++i) {
    Result<std::optional<Entry>> entry = levels_[i]->Lookup(key);
    Warn(*levels_[i], entry.status());
    if (!entry.ok() || !entry->has_value()) continue;
    for (size_t nearer = 0; nearer < i; ++nearer) {
      Warn(*levels_[nearer], levels_[nearer]->Put(key, (*entry)->bytes));
    }
    return entry;
  }
  return std::optional<Entry>();
}

Status TieredStore::Put(const Key& key, std::string_view bytes) {
  for (const auto& level : levels_) Warn(*level, level->Put(key, bytes));
  return Status::Ok();
}

Status TieredStore::Discard(const Key& key) {
  for (const auto& level : levels_) Warn(*level, level->Discard(key));
  return Status::Ok();
}

StoreStats TieredStore::stats() const {
  StoreStats sum;
  for (const auto& level : levels_) {
    const StoreStats s = level->stats();
    sum.hits += s.hits;
    sum.misses += s.misses;
    sum.corrupt_entries += s.corrupt_entries;
    sum.puts += s.puts;
    sum.evictions += s.evictions;
  }
  return sum;
}

}  // namespace dendrite::cache
