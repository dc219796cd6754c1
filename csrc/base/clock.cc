#include "csrc/base/clock.h"

#include <chrono>

namespace dendrite {
namespace {

class Steady final : public Clock {
 public:
  int64_t NowNanos() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

const Clock* SteadyClock() {
  static const Steady clock;
  return &clock;
}

double NowSeconds() { return SteadyClock()->NowSeconds(); }

}  // namespace dendrite
