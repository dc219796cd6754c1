#include "csrc/engine/block.h"

#include <sys/mman.h>

#include <cstdlib>

namespace dendrite::engine {
namespace {

constexpr size_t kAlignment = 64;  // what XLA asks of zero-copy memory
constexpr size_t kSmallStep = 512, kLargeStep = 1 << 16, kLarge = 1 << 20;
constexpr size_t kSlack = 16 << 20;                 // pooled beyond what was ever in use
constexpr size_t kReservedRange = size_t{1} << 44;  // address space only

// Rounding keeps the number of distinct capacities small, so that pools are hit, and wastes at most
// 12 % above 4 KiB (of address space: pages are committed on first touch).
size_t Capacity(size_t nbytes) {
  if (nbytes == 0) return kSmallStep;
  const size_t step = nbytes >= kLarge ? kLargeStep : kSmallStep;
  return (nbytes + step - 1) / step * step;
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
  if (!options_.host_visible) {
    void* range = mmap(nullptr, kReservedRange, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range != MAP_FAILED) {
      range_ = static_cast<char*>(range);
      range_size_ = kReservedRange;
    }
  }
}

Allocator::~Allocator() {
  EmptyCache();
  if (range_ != nullptr) munmap(range_, range_size_);
}

void* Allocator::NewMemory(size_t capacity) {
  if (options_.host_visible) {
    if (capacity < kLarge) return std::aligned_alloc(kAlignment, capacity);
    // Pages of its own, which go back to the system whole when the pool is trimmed.
    void* data = mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? nullptr : data;
  }
  if (range_ == nullptr || range_used_ + capacity > range_size_) return nullptr;
  void* data = range_ + range_used_;
  range_used_ += capacity;
  return data;
}

void Allocator::DeleteMemory(void* data, size_t capacity) {
  if (!options_.host_visible) return;  // reserved addresses are only numbers
  if (capacity < kLarge) {
    std::free(data);
  } else {
    munmap(data, capacity);
  }
}

Result<Block*> Allocator::Allocate(size_t nbytes, int stream_pool) {
  const size_t capacity = Capacity(nbytes);
  void* data = nullptr;
  uint64_t last_use = 0;
  {
    MutexLock lock(mu_);
    auto it = pools_.find({stream_pool, capacity});
    if (it != pools_.end() && !it->second.empty()) {
      data = it->second.back().data;
      last_use = it->second.back().last_use;
      it->second.pop_back();
      pooled_ -= capacity;
    } else {
      MakeRoom(capacity, nbytes);
      data = NewMemory(capacity);
      if (data == nullptr) {
        Trim(0);
        data = NewMemory(capacity);
      }
      if (data == nullptr) {
        return Status(Code::kResourceExhausted,
                      "out of memory: tried to allocate " + std::to_string(nbytes) +
                          " bytes on the device; " + std::to_string(stats_.allocated) +
                          " bytes are held by live tensors");
      }
      stats_.reserved += static_cast<int64_t>(capacity);
      stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
    }
    stats_.allocated += static_cast<int64_t>(nbytes);
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    ++stats_.allocations;
  }
  auto* block = new Block;
  block->allocator = this;
  block->data = data;
  block->nbytes = nbytes;
  block->capacity = capacity;
  block->stream_pool = stream_pool;
  block->last_use.store(last_use, std::memory_order_relaxed);
  if (options_.host_visible) block->host_data = data;
  MutexLock lock(mu_);
  block->next = in_use_;
  if (in_use_ != nullptr) in_use_->previous = block;
  in_use_ = block;
  return block;
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
  pools_[{block->stream_pool, block->capacity}].push_back(
      {block->data, block->last_use.load(std::memory_order_relaxed)});
  pooled_ += block->capacity;
}

// What is pooled counts as ours in the process's resident set, but costs no peak while it and what
// is in use stay below what was in use once: returning it would mean page faults in every step. So
// it is returned when new memory would go beyond that.
void Allocator::MakeRoom(size_t capacity, size_t nbytes) {
  if (!options_.host_visible) return;
  const size_t in_use = static_cast<size_t>(stats_.allocated) + nbytes;
  high_water_ = std::max(high_water_, in_use);
  const size_t limit = high_water_ + high_water_ / 32 + kSlack;
  const size_t wanted = static_cast<size_t>(stats_.reserved) + capacity;
  if (wanted <= limit) return;
  const size_t excess = wanted - limit;
  Trim(pooled_ > excess ? pooled_ - excess : 0);
}

void Allocator::Trim(size_t keep_bytes) {
  if (!options_.host_visible) return;
  const uint64_t completed =
      options_.completed ? options_.completed->load(std::memory_order_acquire) : ~uint64_t{0};
  for (auto it = pools_.rbegin(); it != pools_.rend() && pooled_ > keep_bytes; ++it) {
    auto& free_list = it->second;
    size_t kept = 0;
    for (size_t i = 0; i < free_list.size(); ++i) {
      if (free_list[i].last_use > completed || pooled_ <= keep_bytes) {
        free_list[kept++] = free_list[i];
        continue;
      }
      DeleteMemory(free_list[i].data, it->first.second);
      pooled_ -= it->first.second;
      stats_.reserved -= static_cast<int64_t>(it->first.second);
    }
    free_list.resize(kept);
  }
}

void Allocator::DestroyHostStorage(Block* block) {
  if (block->host_storage != nullptr && options_.destroy_host_storage != nullptr) {
    options_.destroy_host_storage(block->host_storage);
  }
  block->host_storage = nullptr;
}

void Allocator::EmptyCache() {
  MutexLock lock(mu_);
  Trim(0);
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
