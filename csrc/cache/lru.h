// csrc/cache/lru.h - a map bounded by bytes that forgets the least recently used entry first.
//
// Keys are compared in full. An entry larger than the whole bound is not kept. Not thread safe: the
// owner has the lock.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace dendrite::cache {

template <typename V>
class Lru {
 public:
  explicit Lru(int64_t limit_bytes) : limit_(limit_bytes) {}

  // The value, made the most recent; null if absent. Valid until the next Insert or Erase.
  V* Lookup(std::string_view key) {
    const auto it = map_.find(key);
    if (it == map_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return &it->second->value;
  }

  // Returns how many entries had to go (the new one, if it does not fit).
  int64_t Insert(std::string key, V value, int64_t bytes) {
    Erase(key);
    if (bytes > limit_) return 1;
    order_.push_front(Node{std::move(key), std::move(value), bytes});
    map_.emplace(order_.front().key, order_.begin());
    bytes_ += bytes;
    int64_t evicted = 0;
    for (; bytes_ > limit_; ++evicted) Erase(std::string(order_.back().key));
    return evicted;
  }

  bool Erase(std::string_view key) {
    const auto it = map_.find(key);
    if (it == map_.end()) return false;
    const auto node = it->second;
    bytes_ -= node->bytes;
    map_.erase(it);
    order_.erase(node);
    return true;
  }

  int64_t bytes() const { return bytes_; }
  size_t size() const { return map_.size(); }

 private:
  struct Node {
    std::string key;
    V value;
    int64_t bytes;
  };
  const int64_t limit_;
  int64_t bytes_ = 0;
  std::list<Node> order_;  // most recent first
  // Views into the nodes' keys, which do not move.
  std::unordered_map<std::string_view, typename std::list<Node>::iterator> map_;
};

}  // namespace dendrite::cache
