// csrc/engine/plan.h - what is known of a recurring chunk: how often it was seen, its executable,
// its times.
//
// The table is keyed by the chunk's in-process key, compared in full. Two chunks that differ in
// view offsets only share a *site*: an offset that was seen with two values there is lifted from
// then on (it becomes an argument), so that a moving slice is one plan. Bounded: plans least
// recently used are dropped. Guarded by the owner's lock, but for `choice`, which is the
// executor's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "csrc/compiler/compile_service.h"
#include "csrc/planner/tier_choice.h"

namespace dendrite::engine {

struct Chunk;

struct Plan {
  int64_t id = 0;                 // never reused
  std::vector<int64_t> offsets;   // that it was made for; those lifted are not compared
  std::vector<bool> lift_offset;  // parallel to the chunk's slots
  int64_t seen = 0;
  std::vector<bool> live;  // union over all sightings, per block
  std::shared_ptr<compiler::CompileJob> job;
  std::shared_ptr<const tape::Tape> tape;
  std::vector<bool> job_live;  // what the job was submitted with
  bool broken = false;         // does not lower or compile: tier 0 from now on
  bool warned = false;
  std::string label;
  planner::TierChoice choice;  // the executor's
  // What `choice` knows, for other threads: the fastest run per tier, in seconds, and runs.
  std::array<std::atomic<double>, planner::TierChoice::kTiers> best{};
  std::array<std::atomic<int64_t>, planner::TierChoice::kTiers> runs{};

  // The executor's: a run on `tier` took so long.
  void Sample(int tier, double seconds);
};

class PlanTable {
 public:
  explicit PlanTable(size_t max_plans) : max_plans_(max_plans) {}
  // The plan of `chunk` (made at first sight), with `seen` counted. `varies`, if given, says which
  // offsets are known to vary when the chunk is first seen.
  std::shared_ptr<Plan> Touch(const Chunk& chunk, const std::vector<bool>* varies = nullptr);
  size_t size() const { return count_; }
  // All plans, for explain().
  std::vector<std::shared_ptr<Plan>> All() const;

 private:
  struct Site {
    std::vector<uint64_t> key;
    std::vector<int64_t> last_offsets;
    std::vector<bool> varies;
    std::vector<std::shared_ptr<Plan>> plans;
    std::list<uint64_t>::iterator recency;
  };
  void Evict();
  const size_t max_plans_;
  size_t count_ = 0;
  int64_t next_id_ = 0;
  std::unordered_multimap<uint64_t, Site> sites_;
  std::list<uint64_t> recency_;  // hashes, most recent first
};

}  // namespace dendrite::engine
