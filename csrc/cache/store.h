// csrc/cache/store.h - a level of the cache: bytes under keys.
//
// A store may forget anything at any time: callers treat every lookup as one that can miss. A
// damaged, foreign or tampered entry is a miss that is logged, counted and removed. Errors are for
// what the caller should know (the folder is gone, the disk is full); cache trouble is never fatal,
// so callers log them and go on. Failures to compile are never stored. All methods are thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "csrc/base/status.h"
#include "csrc/cache/key.h"

namespace dendrite::cache {

struct Entry {
  std::string bytes;
  std::string level;  // name of the store that had it
};

struct StoreStats {
  int64_t hits = 0;
  int64_t misses = 0;           // includes the corrupt ones
  int64_t corrupt_entries = 0;  // truncated, foreign, bit-flipped
  int64_t puts = 0;
  int64_t evictions = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  virtual const char* name() const = 0;
  // nullopt: a miss.
  virtual Result<std::optional<Entry>> Lookup(const Key& key) = 0;
  // Replaces what is there. OK if the store chose not to keep it (too large for its bound).
  virtual Status Put(const Key& key, std::string_view bytes) = 0;
  // Forgets the entry because its user found it bad; counts it as corrupt. Fine if it is not there.
  virtual Status Discard(const Key& key) = 0;
  virtual StoreStats stats() const = 0;
};

}  // namespace dendrite::cache
