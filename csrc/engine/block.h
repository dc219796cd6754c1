// csrc/engine/block.h - the memory behind one storage, and the allocator that makes it.
//
// A Block is made for each storage and dies with the last thing that knows it: the storage itself,
// the open tape, and dispatched work. Its `data` is the storage's address; what a large storage of
// a host-visible target holds lies elsewhere, in memory that it is given when work that uses it is
// dispatched (Allocator::Place). By then it is known which storages nothing outside of that work
// can see: they never get memory of their own. A snippet keeps their values in registers or in the
// executable's own buffers; operator by operator they live in scratch (csrc/engine/scratch.h) from
// their first use to their last. So what a tape holds while it is open costs no memory.
//
// Memory returns to the pool when the storage is gone and the open tape holds no record of it. Work
// already dispatched still uses it, and that is right: whoever is given the same memory next
// touches it by later work of the same stream (as in CUDA's caching allocator), or waits (see
// Stream::WaitForBlock).
//
// Addresses are unique and never null. Large ones, and all of opaque targets, are in a reserved
// PROT_NONE range: a stray dereference faults. On opaque targets the bytes live in a plugin buffer
// that only the stream's executor touches.
//
// Thread safety: reference counts and `storage_alive` are atomic; fields are grouped by their
// owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "csrc/base/mutex.h"
#include "csrc/base/status.h"
#include "csrc/engine/arena.h"
#include "csrc/pjrt/client.h"
#include "csrc/tape/dtype.h"
#include "csrc/tape/record.h"

namespace dendrite::engine {

class Allocator;

struct Block {
  // --- constant after construction
  Allocator* allocator = nullptr;
  void* data = nullptr;  // the storage's address; not where its bytes are
  size_t nbytes = 0;     // what the storage asked for
  size_t capacity = 0;   // what the pool gave
  int stream_pool = 0;   // the pool that the memory returns to

  // --- guarded by the allocator's lock
  Block* previous = nullptr;  // list of blocks whose storage or tape is alive
  Block* next = nullptr;
  bool placed = false;  // has memory of its own

  // --- atomic
  std::atomic<int32_t> refs{1};         // storage, open tape, dispatched work
  std::atomic<int32_t> memory_refs{1};  // storage, open tape
  std::atomic<bool> storage_alive{true};
  std::atomic<uint64_t> last_use{0};  // sequence number of the last dispatch that touches it
  std::atomic<int32_t> last_stream{0};

  // --- guarded by the tape's lock
  uint64_t tape_epoch = 0;  // the open chunk that numbered it
  int32_t tape_index = 0;
  // Opaque targets: element type of the buffer (that of the first view recorded), and whether any
  // record up to here has written it.
  tape::DType form_dtype = tape::DType::kUndefined;
  bool initialized = false;

  // --- the executor's (after the storage's work is complete: anyone's)
  std::shared_ptr<const Status> poison;  // set: the values here were never made, and why
  pjrt::Buffer buffer;                   // opaque targets; rank 1, elements of form_dtype
  void* host_data = nullptr;     // where host kernels find the bytes: its memory, scratch, or a
                                 // staging copy; null: nowhere yet
  bool temporary = false;        // host_data is scratch
  int32_t uses = 0;              // what is left of the dispatched chunk's uses of a temporary
  void* host_storage = nullptr;  // csrc/interpreter's cached CPU storage; see Allocator::Options
};

void Retain(Block* block);
void Release(Block* block);       // drops a reference; deletes the Block at zero
void RetainMemory(Block* block);  // a reference that also keeps the memory out of the pool
void ReleaseMemory(Block* block);

struct MemoryStats {
  int64_t allocated = 0, peak_allocated = 0;  // bytes of live storages
  int64_t reserved = 0, peak_reserved = 0;    // bytes held from the system, pooled ones included
  int64_t allocations = 0, frees = 0;         // counts
};

// Caching allocator of one device. Free memory is kept in per-stream pools: large pieces in an
// arena (host-visible targets), small ones and opaque addresses by size. Thread safe.
class Allocator {
 public:
  struct Options {
    bool host_visible = true;
    // Destroys a Block's host_storage; called from any thread, without locks held.
    void (*destroy_host_storage)(void*) = nullptr;
    // Sequence number up to which the stream's work is complete; memory whose last use is later is
    // kept from the system. Must outlive the allocator.
    const std::atomic<uint64_t>* completed = nullptr;
  };
  explicit Allocator(Options options);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // RESOURCE_EXHAUSTED if so much can never be had, or the system has no memory left even after the
  // pools were emptied. A block of zero bytes has an address of its own too. The returned block
  // carries one reference and one memory reference, both the storage's.
  Result<Block*> Allocate(size_t nbytes, int stream_pool);
  // Gives `block` memory if it has none yet: host_data is set, and last_use says which work may
  // still touch that memory. REQUIRES: a memory reference; no work on the block is dispatched yet.
  Status Place(Block* block);
  // The block in use whose memory holds `address`, with a memory reference for the caller; null if
  // there is none. Walks all blocks: for storages that others made over our memory.
  Block* Find(const void* address);
  // Returns pooled memory to the system.
  void EmptyCache();
  MemoryStats stats() const;
  void ResetPeak();
  bool host_visible() const { return options_.host_visible; }

 private:
  friend void Release(Block*);
  friend void ReleaseMemory(Block*);
  struct FreeMemory {
    void* data = nullptr;
    uint64_t last_use = 0;  // dispatched work up to here may still touch it
  };
  bool IsPlacedLate(size_t capacity) const;
  bool IsAddressOnly(size_t capacity) const;
  std::vector<FreeMemory>& PoolOf(size_t capacity, int stream_pool) DENDRITE_REQUIRES(mu_);
  void ReturnMemory(Block* block);
  FreeMemory TakeAddress(size_t capacity, int stream_pool) DENDRITE_REQUIRES(mu_);
  void* NewAddress(size_t capacity) DENDRITE_REQUIRES(mu_);
  Status OutOfMemory(size_t nbytes) const DENDRITE_REQUIRES(mu_);
  void KeepWithinHighWater() DENDRITE_REQUIRES(mu_);
  void Trim(size_t nbytes) DENDRITE_REQUIRES(mu_);
  size_t Reserved() const DENDRITE_REQUIRES(mu_);
  void DestroyHostStorage(Block* block);

  const Options options_;
  mutable Mutex mu_;
  std::map<int, Arena> arenas_ DENDRITE_GUARDED_BY(mu_);  // by pool
  // (pool, capacity) -> free addresses, and small memory
  std::map<std::pair<int, size_t>, std::vector<FreeMemory>> pools_ DENDRITE_GUARDED_BY(mu_);
  size_t small_ DENDRITE_GUARDED_BY(mu_) = 0;         // bytes of small memory, pooled ones included
  size_t used_ DENDRITE_GUARDED_BY(mu_) = 0;          // bytes of memory in use
  size_t high_water_ DENDRITE_GUARDED_BY(mu_) = 0;    // most bytes ever in use
  Block* in_use_ DENDRITE_GUARDED_BY(mu_) = nullptr;  // head of the list
  MemoryStats stats_ DENDRITE_GUARDED_BY(mu_);
  // The range that addresses without memory are of.
  char* range_ DENDRITE_GUARDED_BY(mu_) = nullptr;
  size_t range_size_ DENDRITE_GUARDED_BY(mu_) = 0;
  size_t range_used_ DENDRITE_GUARDED_BY(mu_) = 0;
};

}  // namespace dendrite::engine
