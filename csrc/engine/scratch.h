// csrc/engine/scratch.h - memory that lives no longer than what the executor is running: CPU
// kernels' own temporaries, and storages that are made and dropped within one dispatched chunk.
//
// Taken from malloc, the former would stay in the process: glibc raises the size from which it maps
// and unmaps to that of what was freed, up to 32 MB, and its heap then keeps, beside the device's
// pool, what the largest steps of all kernels needed. Here they share one arena, of which a bounded
// part is kept while it is free.
//
// Thread safe.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "csrc/base/mutex.h"
#include "csrc/engine/arena.h"

namespace dendrite::engine {

class Scratch {
 public:
  void* Take(size_t nbytes);  // null: out of memory
  // False, and nothing done, if `data` is not scratch.
  bool GiveBack(void* data);
  size_t in_use() const;  // bytes

 private:
  mutable Mutex mu_;
  Arena arena_;  // its range never changes: Contains needs no lock
  std::unordered_map<void*, size_t> live_ DENDRITE_GUARDED_BY(mu_);
};

// The process's; never destroyed, for tensors may die at exit.
Scratch& GetScratch();

}  // namespace dendrite::engine
