#include "csrc/engine/arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

namespace dendrite::engine {
namespace {

constexpr size_t kExtent = size_t{64} << 20;  // addresses made accessible at once
constexpr size_t kLeast = size_t{1} << 30;

size_t TwiceTheMemory() {
  const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  return pages > 0 && size > 0 ? 2 * static_cast<size_t>(pages) * static_cast<size_t>(size)
                               : size_t{1} << 36;
}

// The words of 64 bits, and which of theirs, that hold `count` bits from `first` on.
template <typename Visit>
void ForEachWord(size_t first, size_t count, const Visit& visit) {
  for (size_t bit = first; bit < first + count;) {
    const size_t low = bit % 64, n = std::min(64 - low, first + count - bit);
    visit(bit / 64, n == 64 ? ~uint64_t{0} : ((uint64_t{1} << n) - 1) << low);
    bit += n;
  }
}

}  // namespace

Arena::Arena(size_t addresses) {
  size_t nbytes = addresses > 0 ? Round(addresses) : std::max(Round(TwiceTheMemory()), kLeast);
  const size_t least = std::min(nbytes, kLeast);
  for (; nbytes >= least; nbytes = Round(nbytes / 2)) {
    void* range =
        mmap(nullptr, nbytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) continue;
    begin_ = accessible_ = frontier_ = static_cast<char*>(range);
    end_ = begin_ + nbytes;
    return;
  }
}

Arena::~Arena() {
  if (begin_ != nullptr) munmap(begin_, static_cast<size_t>(end_ - begin_));
}

bool Arena::Extend(char* to) {
  if (to <= accessible_) return true;
  const size_t wanted = static_cast<size_t>(to - accessible_);
  const size_t extent =
      std::min((wanted + kExtent - 1) / kExtent * kExtent, static_cast<size_t>(end_ - accessible_));
  if (mprotect(accessible_, extent, PROT_READ | PROT_WRITE) != 0) return false;
  accessible_ += extent;
  pages_.resize((static_cast<size_t>(accessible_ - begin_) / kPage + 63) / 64);
  return true;
}

Arena::Piece Arena::Allocate(size_t nbytes) {
  Piece piece;
  auto fit = by_size_.lower_bound({nbytes, nullptr});
  if (fit != by_size_.end()) {
    // Nodes are moved, not made: a steady loop allocates nothing here.
    auto size = by_size_.extract(fit);
    auto range = by_address_.extract(size.value().second);
    piece = {range.key(), range.mapped().last_use};
    if (range.mapped().nbytes > nbytes) {
      range.key() += nbytes;
      range.mapped().nbytes -= nbytes;
      size.value() = {range.mapped().nbytes, range.key()};
      by_address_.insert(std::move(range));
      by_size_.insert(std::move(size));
    }
  } else {
    // What is free below the frontier is joined with new addresses.
    char* data = frontier_;
    auto last = by_address_.empty() ? by_address_.end() : std::prev(by_address_.end());
    const bool joins = last != by_address_.end() && last->first + last->second.nbytes == frontier_;
    if (joins) data = last->first;
    if (begin_ == nullptr || nbytes > static_cast<size_t>(end_ - data) || !Extend(data + nbytes)) {
      return piece;
    }
    piece.data = data;
    if (joins) {
      piece.last_use = last->second.last_use;
      by_size_.erase({last->second.nbytes, last->first});
      by_address_.erase(last);
    }
    frontier_ = data + nbytes;
  }
  in_use_ += nbytes;
  Mark(static_cast<char*>(piece.data), nbytes, true);
  return piece;
}

void Arena::Free(void* data, size_t nbytes, uint64_t last_use) {
  auto* begin = static_cast<char*>(data);
  in_use_ -= nbytes;
  auto next = by_address_.lower_bound(begin);
  if (next != by_address_.end() && begin + nbytes == next->first) {
    nbytes += next->second.nbytes;
    last_use = std::max(last_use, next->second.last_use);
    by_size_.erase({next->second.nbytes, next->first});
    next = by_address_.erase(next);
  }
  if (next != by_address_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second.nbytes == begin) {
      by_size_.erase({before->second.nbytes, before->first});
      before->second.nbytes += nbytes;
      before->second.last_use = std::max(last_use, before->second.last_use);
      by_size_.insert({before->second.nbytes, before->first});
      return;
    }
  }
  by_address_.insert(next, {begin, {nbytes, last_use}});
  by_size_.insert({nbytes, begin});
}

size_t Arena::Release(size_t nbytes, uint64_t completed) {
  size_t released = 0;
  for (auto it = by_size_.rbegin(); it != by_size_.rend() && released < nbytes; ++it) {
    const auto [size, data] = *it;
    Range& range = by_address_.find(data)->second;
    if (range.last_use > completed) continue;
    const size_t held = CountResident(data, size);
    if (held == 0 || madvise(data, size, MADV_DONTNEED) != 0) continue;
    Mark(data, size, false);
    released += held;
  }
  return released;
}

size_t Arena::CountResident(const char* data, size_t nbytes) const {
  size_t pages = 0;
  ForEachWord(static_cast<size_t>(data - begin_) / kPage, nbytes / kPage,
              [&](size_t word, uint64_t mask) {
                pages += static_cast<size_t>(std::popcount(pages_[word] & mask));
              });
  return pages * kPage;
}

void Arena::Mark(const char* data, size_t nbytes, bool resident) {
  resident_ -= CountResident(data, nbytes);
  if (resident) resident_ += nbytes;
  ForEachWord(static_cast<size_t>(data - begin_) / kPage, nbytes / kPage,
              [&](size_t word, uint64_t mask) {
                pages_[word] = resident ? pages_[word] | mask : pages_[word] & ~mask;
              });
}

}  // namespace dendrite::engine
