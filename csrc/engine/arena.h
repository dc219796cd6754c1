// csrc/engine/arena.h - one range of addresses that memory of any size is cut from.
//
// A list of free blocks by exact size keeps, for each size, as much as that size ever needed; a
// training step that walks through many sizes then holds a fifth more than it uses. Here free
// neighbours join, and the smallest free piece that is large enough is cut. Addresses are reserved
// once and get memory when they are first handed out, so that a piece may span what was returned to
// the system and what was not.
//
// Not thread safe: the owner locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace dendrite::engine {

class Arena {
 public:
  // Sizes are rounded up to this, and pieces are aligned to it.
  static constexpr size_t kPage = 4096;
  static size_t Round(size_t nbytes) { return (nbytes + kPage - 1) / kPage * kPage; }

  // `addresses`: bytes of address space, twice the machine's memory if 0; less if the system gives
  // less.
  explicit Arena(size_t addresses = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  struct Piece {
    void* data = nullptr;   // null: out of addresses or memory
    uint64_t last_use = 0;  // the latest of those it was freed with
  };
  // REQUIRES: nbytes > 0 and rounded.
  Piece Allocate(size_t nbytes);
  // REQUIRES: `data` and `nbytes` are those of a piece, as allocated.
  void Free(void* data, size_t nbytes, uint64_t last_use);
  // Returns the pages of free pieces to the system, largest first, until `nbytes` are returned.
  // Pieces whose last use is after `completed` are kept. Returns how many bytes went.
  size_t Release(size_t nbytes, uint64_t completed);

  bool Contains(const void* data) const {
    return data >= static_cast<const void*>(begin_) && data < static_cast<const void*>(end_);
  }
  size_t addresses() const { return static_cast<size_t>(end_ - begin_); }
  size_t in_use() const { return in_use_; }      // bytes of live pieces
  size_t resident() const { return resident_; }  // bytes handed out once and not returned since

 private:
  struct Range {
    size_t nbytes;
    uint64_t last_use;
  };
  bool Extend(char* to);
  size_t CountResident(const char* data, size_t nbytes) const;
  void Mark(const char* data, size_t nbytes, bool resident);

  char* begin_ = nullptr;
  char* end_ = nullptr;         // of the reserved addresses
  char* accessible_ = nullptr;  // reserved addresses below may be touched
  char* frontier_ = nullptr;    // what is above was never handed out
  std::map<char*, Range> by_address_;
  std::set<std::pair<size_t, char*>> by_size_;
  std::vector<uint64_t> pages_;  // a bit for each page below the frontier: resident
  size_t in_use_ = 0, resident_ = 0;
};

}  // namespace dendrite::engine
