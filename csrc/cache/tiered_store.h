// csrc/cache/tiered_store.h - several stores as one, nearest first.
//
// A lookup asks them in order and copies a hit into the nearer ones; a put goes to all. A level
// that fails is logged and skipped: it never hides the others.
#pragma once

#include <memory>
#include <vector>

#include "csrc/cache/store.h"

namespace dendrite::cache {

class TieredStore final : public Store {
 public:
  explicit TieredStore(std::vector<std::shared_ptr<Store>> levels) : levels_(std::move(levels)) {}

  const char* name() const override { return "tiered"; }
  Result<std::optional<Entry>> Lookup(const Key& key) override;
  Status Put(const Key& key, std::string_view bytes) override;
  Status Discard(const Key& key) override;
  // Sums over the levels.
  StoreStats stats() const override;

 private:
  const std::vector<std::shared_ptr<Store>> levels_;
};

}  // namespace dendrite::cache
