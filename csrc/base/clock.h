// csrc/base/clock.h - the steady clock, behind a seam so that tests can turn it by hand.
//
// Code that decides by time takes a `const Clock*`; code that only measures calls NowSeconds().
// Times compare within one process only. Thread safe.
#pragma once

#include <cstdint>

namespace dendrite {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNanos() const = 0;
  double NowSeconds() const { return static_cast<double>(NowNanos()) * 1e-9; }
};

// CLOCK_MONOTONIC; lives forever.
const Clock* SteadyClock();
// Seconds of SteadyClock().
double NowSeconds();

}  // namespace dendrite
