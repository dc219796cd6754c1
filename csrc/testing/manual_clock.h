// csrc/testing/manual_clock.h - a clock that moves only when a test turns it. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "csrc/base/clock.h"

namespace dendrite::testing {

class ManualClock : public Clock {
 public:
  int64_t NowNanos() const override { return now_.load(std::memory_order_acquire); }
  void AdvanceNanos(int64_t nanos) { now_.fetch_add(nanos, std::memory_order_acq_rel); }
  void AdvanceSeconds(double seconds) { AdvanceNanos(static_cast<int64_t>(seconds * 1e9)); }

 private:
  // Not zero, so that "never" and "now" differ for code that starts from zero.
  std::atomic<int64_t> now_{1'000'000'000};
};

}  // namespace dendrite::testing
