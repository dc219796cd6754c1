// csrc/cache/key.h - a cache key is a list of named ingredients.
//
// The full key is their unambiguous concatenation; its SHA-256 is the name under which an entry is
// filed. Stores keep the full key in the entry and compare it on read, so a collision is a miss,
// never a wrong answer. Explain() prints the digest of each ingredient: why a lookup missed is a
// diff of two logs. A Key is a value; copies may be used on any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dendrite::cache {

class Key {
 public:
  // `kind` ("snippet", "neff") is the first ingredient, and ends the entry's file name.
  // REQUIRES: lower-case letters only.
  explicit Key(std::string_view kind);
  // REQUIRES: every ingredient is added before the key is used. Order matters.
  void Add(std::string_view name, std::string_view value);
  void Add(std::string_view name, int64_t value);

  const std::string& kind() const { return kind_; }
  const std::string& full() const { return full_; }
  // 64 hex digits of the full key's SHA-256.
  const std::string& hex() const { return hex_; }
  // "kind neff; stablehlo 1f3a9c02; plugin 77e0..." with the first digits of each ingredient's
  // digest.
  std::string Explain() const;

  // The same full key filed under another name: how tests make two keys collide.
  static Key WithHexForTest(Key key, std::string hex);

 private:
  std::string kind_;
  std::string full_;
  std::vector<std::pair<std::string, std::string>> digests_;  // ingredient, short digest
  std::string hex_;
};

}  // namespace dendrite::cache
