// csrc/planner/cutter.h - where a tape is cut into snippets: a pure function of the sequence of
// records.
//
// Content-defined: a cut falls after a record whose content hash says so, once the snippet is long
// enough, and at the latest at the bounds. So equal stretches of operators (layers, parameter
// updates) are cut alike wherever they stand. Never of timing, nor of where dispatches fell.
#pragma once

#include <cstdint>

namespace dendrite::planner {

struct CutPolicy {
  int64_t max_ops = 64;
  int64_t max_bytes = int64_t{256} << 20;  // written by the snippet
  int64_t min_ops() const { return max_ops / 2; }
};

class Cutter {
 public:
  explicit Cutter(CutPolicy policy) : policy_(policy) {}

  // Adds a record to the current snippet; true: the snippet ends with it.
  bool Add(uint64_t content_hash, int64_t bytes_written) {
    ++ops_;
    bytes_ += bytes_written;
    const bool end = ops_ >= policy_.max_ops || bytes_ >= policy_.max_bytes ||
                     (ops_ >= policy_.min_ops() && (content_hash & kMask) == 0);
    if (end) Reset();
    return end;
  }
  // The snippet was ended from outside: a read, an operator that does not lower.
  void Reset() { ops_ = bytes_ = 0; }

 private:
  static constexpr uint64_t kMask = 15;
  CutPolicy policy_;
  int64_t ops_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace dendrite::planner
