// csrc/engine/block.h - the memory behind one storage, and the allocator that makes it.
//
// A Block is made for each storage and dies with the last thing that knows it: the storage itself,
// the open tape, and dispatched work. Its *memory* returns to the pool earlier: when the storage is
// gone and the open tape holds no record of it. Work already dispatched still uses the address, and
// that is right: whoever is given the same memory next touches it by later work of the same stream
// (as in CUDA's caching allocator), or waits (see Stream::WaitForBlock).
//
// Host-visible targets: `data` is real memory, 64-byte aligned, pages committed on first touch.
// Opaque targets: `data` is an address in a reserved PROT_NONE range: unique, never null, and a
// stray dereference faults; the bytes live in a plugin buffer that only the stream's executor
// touches.
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
#include "csrc/pjrt/client.h"
#include "csrc/tape/dtype.h"
#include "csrc/tape/record.h"

namespace dendrite::engine {

class Allocator;

struct Block {
  // --- constant after construction
  Allocator* allocator = nullptr;
  void* data = nullptr;
  size_t nbytes = 0;    // what the storage asked for
  size_t capacity = 0;  // what the pool gave
  int stream_pool = 0;  // the pool that the memory returns to

  // --- guarded by the allocator's lock: its list of blocks whose memory is in use
  Block* previous = nullptr;
  Block* next = nullptr;

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
  void* host_data = nullptr;     // where host kernels find the bytes: data, or a staging copy
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

// Caching allocator of one device: free memory is kept by size in per-stream pools. Thread safe.
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

  // RESOURCE_EXHAUSTED if the system has no memory left even after the pools were emptied. A block
  // of zero bytes has an address of its own too. The returned block carries one reference and one
  // memory reference, both the storage's.
  Result<Block*> Allocate(size_t nbytes, int stream_pool);
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
    void* data;
    uint64_t last_use;  // dispatched work up to here may still touch it
  };
  void ReturnMemory(Block* block);
  void MakeRoom(size_t capacity, size_t nbytes) DENDRITE_REQUIRES(mu_);
  void* NewMemory(size_t capacity) DENDRITE_REQUIRES(mu_);
  void DeleteMemory(void* data, size_t capacity);
  void Trim(size_t keep_bytes) DENDRITE_REQUIRES(mu_);
  void DestroyHostStorage(Block* block);

  const Options options_;
  mutable Mutex mu_;
  // (pool, capacity) -> free memory
  std::map<std::pair<int, size_t>, std::vector<FreeMemory>> pools_ DENDRITE_GUARDED_BY(mu_);
  size_t pooled_ DENDRITE_GUARDED_BY(mu_) = 0;
  size_t high_water_ DENDRITE_GUARDED_BY(mu_) = 0;    // most bytes ever in use
  Block* in_use_ DENDRITE_GUARDED_BY(mu_) = nullptr;  // head of the list
  MemoryStats stats_ DENDRITE_GUARDED_BY(mu_);
  // Opaque: the reserved range.
  char* range_ DENDRITE_GUARDED_BY(mu_) = nullptr;
  size_t range_size_ DENDRITE_GUARDED_BY(mu_) = 0;
  size_t range_used_ DENDRITE_GUARDED_BY(mu_) = 0;
};

}  // namespace dendrite::engine
