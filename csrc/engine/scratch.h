// csrc/engine/scratch.h - memory that lives no longer than what the executor is running: CPU
// kernels' own temporaries, and storages that are made and dropped within one dispatched chunk.
//
// Taken from malloc, the former would stay in the process: glibc raises the size from which it maps
// and unmaps to that of what was freed, up to 32 MB, and its heap then keeps, beside the device's
// pool, what the largest steps of all kernels needed. Here they share one arena, of which a bounded
// part is kept while it is free. So do the buffers of executables (csrc/pjrt/plugin_memory.h).
//
// Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "csrc/base/mutex.h"
#include "csrc/engine/arena.h"

namespace dendrite::engine {

class Scratch {
 public:
  void* Take(size_t nbytes);  // null: out of memory
  // False, and nothing done, if `data` is not scratch.
  bool GiveBack(void* data);
  size_t Size(const void* data) const;  // rounded up; 0 if not scratch
  size_t in_use() const;                // bytes
  size_t resident() const;              // bytes, those included that are kept

 private:
  // How much may be resident: returning what the next launch takes again would mean page faults.
  size_t Kept() DENDRITE_REQUIRES(mu_);

  mutable Mutex mu_;
  Arena arena_;  // its range never changes: Contains needs no lock
  std::unordered_map<const void*, size_t> live_ DENDRITE_GUARDED_BY(mu_);
  // The most that was in use in this stretch of calls and in the one before.
  size_t peak_ DENDRITE_GUARDED_BY(mu_) = 0, last_peak_ DENDRITE_GUARDED_BY(mu_) = 0;
  int64_t calls_ DENDRITE_GUARDED_BY(mu_) = 0;
};

// The process's; never destroyed, for tensors may die at exit.
Scratch& GetScratch();

}  // namespace dendrite::engine
