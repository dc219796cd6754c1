#include "csrc/engine/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>

namespace dendrite::engine {
namespace {

constexpr size_t kAlignment = 64;  // what XLA asks of zero-copy memory
constexpr size_t kSmallStep = 512, kLarge = 1 << 16;
constexpr size_t kSlack = 16 << 20;                 // pooled beyond what was ever in use
constexpr size_t kReservedRange = size_t{1} << 44;  // address space only

// Rounding keeps the number of distinct small capacities small, so that pools are hit, and wastes
// at most 12 % above 4 KiB.
size_t Capacity(size_t nbytes) {
  if (nbytes == 0) return kSmallStep;
  if (nbytes >= kLarge) return Arena::Round(nbytes);
  return (nbytes + kSmallStep - 1) / kSmallStep * kSmallStep;
}

// Addresses without memory cost nothing: few distinct spans are reused more.
size_t Span(size_t capacity) {
  const size_t step = std::max(kSmallStep, std::bit_floor(capacity) / 8);
  return (capacity + step - 1) / step * step;
}

}  // namespace

void Retain(Block* block) { block->refs.fetch_add(1, std::memory_order_relaxed); }

void Release(Block* block) {
  if (block->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  block->allocator->DestroyHostStorage(block);
  delete block;
}

void RetainMemory(Block* block) {
  Retain(block);
  block->memory_refs.fetch_add(1, std::memory_order_relaxed);
}

void ReleaseMemory(Block* block) {
  if (block->memory_refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    block->allocator->ReturnMemory(block);
  }
  Release(block);
}

Allocator::Allocator(Options options) : options_(options) {
  void* range =
      mmap(nullptr, kReservedRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range != MAP_FAILED) {
    range_ = static_cast<char*>(range);
    range_size_ = kReservedRange;
  }
}

Allocator::~Allocator() {
  EmptyCache();
  if (range_ != nullptr) munmap(range_, range_size_);
}

bool Allocator::IsPlacedLate(size_t capacity) const {
  return options_.host_visible && capacity >= kLarge;
}

bool Allocator::IsAddressOnly(size_t capacity) const {
  return !options_.host_visible || capacity >= kLarge;
}

void* Allocator::NewAddress(size_t capacity) {
  if (!IsAddressOnly(capacity)) return std::aligned_alloc(kAlignment, capacity);
  const size_t span = Span(capacity);
  if (range_ == nullptr || span < capacity || span > range_size_ - range_used_) return nullptr;
  void* data = range_ + range_used_;
  range_used_ += span;
  return data;
}

std::vector<Allocator::FreeMemory>& Allocator::PoolOf(size_t capacity, int stream_pool) {
  return pools_[{stream_pool, IsAddressOnly(capacity) ? Span(capacity) : capacity}];
}

Allocator::FreeMemory Allocator::TakeAddress(size_t capacity, int stream_pool) {
  std::vector<FreeMemory>& pool = PoolOf(capacity, stream_pool);
  if (!pool.empty()) {
    const FreeMemory memory = pool.back();
    pool.pop_back();
    return memory;
  }
  const FreeMemory memory{NewAddress(capacity), 0};
  if (memory.data != nullptr && !IsPlacedLate(capacity)) small_ += capacity;
  return memory;
}

Status Allocator::OutOfMemory(size_t nbytes) const {
  return Status(Code::kResourceExhausted, "out of memory: tried to allocate " +
                                              std::to_string(nbytes) + " bytes on the device; " +
                                              std::to_string(stats_.allocated) +
                                              " bytes are held by live tensors");
}

Result<Block*> Allocator::Allocate(size_t nbytes, int stream_pool) {
  const size_t capacity = Capacity(nbytes);
  auto block = std::make_unique<Block>();
  block->allocator = this;
  block->nbytes = nbytes;
  block->capacity = capacity;
  block->stream_pool = stream_pool;
  MutexLock lock(mu_);
  FreeMemory memory;
  const bool late = IsPlacedLate(capacity);
  if (!late || capacity <= arenas_[stream_pool].addresses()) {
    memory = TakeAddress(capacity, stream_pool);
    if (memory.data == nullptr) {
      Trim(~size_t{0});
      memory = TakeAddress(capacity, stream_pool);
    }
  }
  if (memory.data == nullptr) return OutOfMemory(nbytes);
  block->data = memory.data;
  block->last_use.store(memory.last_use, std::memory_order_relaxed);
  if (!late) {
    if (options_.host_visible) block->host_data = memory.data;
    used_ += capacity;
    KeepWithinHighWater();
  }
  stats_.allocated += static_cast<int64_t>(nbytes);
  stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
  ++stats_.allocations;
  block->next = in_use_;
  if (in_use_ != nullptr) in_use_->previous = block.get();
  in_use_ = block.get();
  return block.release();
}

Status Allocator::Place(Block* block) {
  if (!IsPlacedLate(block->capacity)) return {};
  MutexLock lock(mu_);
  if (block->placed) return {};
  Arena& arena = arenas_[block->stream_pool];
  Arena::Piece piece = arena.Allocate(block->capacity);
  if (piece.data == nullptr) {
    Trim(~size_t{0});
    piece = arena.Allocate(block->capacity);
  }
  if (piece.data == nullptr) return OutOfMemory(block->nbytes);
  block->placed = true;
  block->host_data = piece.data;
  block->last_use.store(piece.last_use, std::memory_order_relaxed);
  used_ += block->capacity;
  KeepWithinHighWater();
  return {};
}

Block* Allocator::Find(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  MutexLock lock(mu_);
  for (Block* block = in_use_; block != nullptr; block = block->next) {
    const auto* begin = static_cast<const char*>(block->data);
    if (byte < begin || byte >= begin + block->capacity) continue;
    // At zero its memory is on the way back to the pool.
    int32_t refs = block->memory_refs.load(std::memory_order_relaxed);
    while (refs > 0 && !block->memory_refs.compare_exchange_weak(refs, refs + 1)) {
    }
    if (refs == 0) return nullptr;
    Retain(block);
    return block;
  }
  return nullptr;
}

void Allocator::ReturnMemory(Block* block) {
  MutexLock lock(mu_);
  stats_.allocated -= static_cast<int64_t>(block->nbytes);
  ++stats_.frees;
  (block->previous != nullptr ? block->previous->next : in_use_) = block->next;
  if (block->next != nullptr) block->next->previous = block->previous;
  const uint64_t last_use = block->last_use.load(std::memory_order_relaxed);
  PoolOf(block->capacity, block->stream_pool).push_back({block->data, last_use});
  if (block->placed) {
    arenas_[block->stream_pool].Free(block->host_data, block->capacity, last_use);
    block->placed = false;  // work that is dispatched still finds it at host_data
    used_ -= block->capacity;
  } else if (!IsPlacedLate(block->capacity)) {
    used_ -= block->capacity;
  }
}

// What is free counts as ours in the process's resident set, but costs no peak while it and what is
// in use stay below what was in use once: returning it would mean page faults in every step. So it
// is returned when more would be held. Pages just handed out count already, and are not touched
// yet.
void Allocator::KeepWithinHighWater() {
  high_water_ = std::max(high_water_, used_);
  const size_t limit = high_water_ + high_water_ / 32 + kSlack;
  size_t reserved = Reserved();
  if (reserved > limit) {
    Trim(reserved - limit);
    reserved = Reserved();
  }
  stats_.reserved = static_cast<int64_t>(reserved);
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
}

size_t Allocator::Reserved() const {
  size_t reserved = small_;
  for (const auto& [pool, arena] : arenas_) reserved += arena.resident();
  return reserved;
}

// Returns about so many bytes to the system.
void Allocator::Trim(size_t nbytes) {
  if (!options_.host_visible) return;  // reserved addresses are only numbers
  const uint64_t completed =
      options_.completed ? options_.completed->load(std::memory_order_acquire) : ~uint64_t{0};
  size_t trimmed = 0;
  for (auto& [pool, arena] : arenas_) {
    if (trimmed < nbytes) trimmed += arena.Release(nbytes - trimmed, completed);
  }
  for (auto it = pools_.rbegin(); it != pools_.rend() && trimmed < nbytes; ++it) {
    if (IsAddressOnly(it->first.second)) continue;
    std::erase_if(it->second, [&](const FreeMemory& memory) {
      if (memory.last_use > completed || trimmed >= nbytes) return false;
      std::free(memory.data);
      trimmed += it->first.second;
      small_ -= it->first.second;
      return true;
    });
  }
  stats_.reserved = static_cast<int64_t>(Reserved());
}

void Allocator::DestroyHostStorage(Block* block) {
  if (block->host_storage != nullptr && options_.destroy_host_storage != nullptr) {
    options_.destroy_host_storage(block->host_storage);
  }
  block->host_storage = nullptr;
}

void Allocator::EmptyCache() {
  MutexLock lock(mu_);
  Trim(~size_t{0});
}

MemoryStats Allocator::stats() const {
  MutexLock lock(mu_);
  return stats_;
}

void Allocator::ResetPeak() {
  MutexLock lock(mu_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

}  // namespace dendrite::engine
