// csrc/engine/stats.h - counters behind torch.neuron.stats(), and trace events. Thread safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "csrc/base/mutex.h"

namespace dendrite::engine {

constexpr int kMaxTier = 4;

struct Counters {
  std::atomic<int64_t> ops_captured{0};
  std::array<std::atomic<int64_t>, kMaxTier> ops_by_tier{};
  std::atomic<int64_t> ops_host{
      0};  // on the host and back (opaque targets), or synchronously on the host
  std::atomic<int64_t> snippets_launched{0};
  std::atomic<int64_t> kernels_by_name{0};  // that compiled snippets called
  std::atomic<int64_t> compile_wait_ns{0};
  std::atomic<int64_t> launch_errors{0};

  void CountFallback(const std::string& op, int64_t n = 1);
  std::map<std::string, int64_t> fallback_ops() const;
  void Reset();

 private:
  mutable Mutex mu_;
  std::map<std::string, int64_t> fallback_ops_ DENDRITE_GUARDED_BY(mu_);
};

struct TraceEvent {
  std::string lane;  // "caller", "stream", "compile-0"
  std::string name;
  double begin = 0, end = 0;  // seconds of the steady clock
  std::string site;
  int tier = 0;
};

// Off until Start; bounded (further events are dropped and counted).
class Trace {
 public:
  bool on() const { return on_.load(std::memory_order_relaxed); }
  void Start();
  std::vector<TraceEvent> Stop();
  void Add(TraceEvent event);

 private:
  static constexpr size_t kLimit = 1 << 20;
  std::atomic<bool> on_{false};
  Mutex mu_;
  std::vector<TraceEvent> events_ DENDRITE_GUARDED_BY(mu_);
};

double NowSeconds();

}  // namespace dendrite::engine
