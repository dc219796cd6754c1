#include "csrc/planner/tier_choice.h"

#include <algorithm>

namespace dendrite::planner {

int TierChoice::Choose() {
  // One run of a tier is for warming it up, the others are for the comparison; interleaved.
  if (runs(1) < kProbes || runs(0) < kProbes) return runs(0) < runs(1) ? 0 : 1;
  if (Best(1 - current_) * kSwitch < Best(current_)) {
    current_ = 1 - current_;
    interval_ = kFirstInterval;
    until_probe_ = interval_;
  }
  if (--until_probe_ > 0) return current_;
  interval_ = std::min(interval_ * 2, kLastInterval);
  until_probe_ = interval_;
  return 1 - current_;
}

void TierChoice::Sample(int tier, double seconds) {
  Side& side = sides_[static_cast<size_t>(tier)];
  side.window[static_cast<size_t>(side.runs % kWindow)] = seconds;
  ++side.runs;
}

double TierChoice::Best(int tier) const {
  const Side& side = sides_[static_cast<size_t>(tier)];
  if (side.runs == 0) return 0;
  const auto n = static_cast<std::ptrdiff_t>(std::min<int64_t>(side.runs, kWindow));
  return *std::min_element(side.window.begin(), side.window.begin() + n);
}

}  // namespace dendrite::planner
