// csrc/planner/tier_choice.h - which tier runs a snippet: the fastest measured, not the highest.
//
// Pure logic, no clock: callers give seconds. Each tier keeps the minimum of its last samples; the
// loser is tried again with growing intervals, since what made it slow (a cold cache, a compile
// beside it) may have passed. Not thread safe: one executor owns it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dendrite::planner {

class TierChoice {
 public:
  static constexpr int kTiers = 2;  // 0: operator by operator, 1: compiled

  // The tier for the next run, given that tier 1 is ready.
  int Choose();
  // How long a run on `tier` took.
  void Sample(int tier, double seconds);
  // Minimum over the window; 0 if never run.
  double Best(int tier) const;
  int64_t runs(int tier) const { return sides_[static_cast<size_t>(tier)].runs; }

 private:
  static constexpr int kWindow = 8;
  static constexpr int kProbes = 3;              // runs of each tier before they are compared
  static constexpr double kSwitch = 1.05;        // change sides only for more than 5 %
  static constexpr int64_t kFirstInterval = 32;  // runs until the loser is tried again; doubles
  static constexpr int64_t kLastInterval = 4096;
  struct Side {
    std::array<double, kWindow> window{};
    int64_t runs = 0;
  };
  std::array<Side, kTiers> sides_;
  int current_ = 1;
  int64_t until_probe_ = kFirstInterval;
  int64_t interval_ = kFirstInterval;
};

}  // namespace dendrite::planner
