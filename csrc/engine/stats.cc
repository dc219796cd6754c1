#include "csrc/engine/stats.h"

#include <chrono>
#include <utility>

namespace dendrite::engine {

void Counters::CountFallback(const std::string& op, int64_t n) {
  MutexLock lock(mu_);
  fallback_ops_[op] += n;
}

std::map<std::string, int64_t> Counters::fallback_ops() const {
  MutexLock lock(mu_);
  return fallback_ops_;
}

void Counters::Reset() {
  ops_captured = 0;
  for (auto& n : ops_by_tier) n = 0;
  ops_host = 0;
  snippets_launched = 0;
  kernels_by_name = 0;
  compile_wait_ns = 0;
  launch_errors = 0;
  MutexLock lock(mu_);
  fallback_ops_.clear();
}

void Trace::Start() {
  MutexLock lock(mu_);
  events_.clear();
  on_ = true;
}

std::vector<TraceEvent> Trace::Stop() {
  MutexLock lock(mu_);
  on_ = false;
  return std::exchange(events_, {});
}

void Trace::Add(TraceEvent event) {
  MutexLock lock(mu_);
  if (on_ && events_.size() < kLimit) events_.push_back(std::move(event));
}

double NowSeconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace dendrite::engine
