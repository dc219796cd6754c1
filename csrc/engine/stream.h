// csrc/engine/stream.h - one device stream: its open tape and its executor.
//
// Callers append operator calls to the open chunk under a short lock; closed chunks go, in order,
// through a queue to one executor thread, which runs them at tier 0, launches snippets, or moves
// buffers. The executor never needs Python's lock. Work never sits unstarted while the caller is
// busy elsewhere: an idle executor takes what is open after a millisecond.
//
// Threads: every public method may be called from any thread. Locks: mu_ (the tape) before
// queue_mu_ (the queue); neither is held while an operator runs, a compile is waited for, or a
// foreign destructor may run.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "csrc/engine/chunk.h"
#include "csrc/engine/plan.h"
#include "csrc/engine/stats.h"
#include "csrc/planner/cutter.h"
#include "csrc/planner/merger.h"

namespace dendrite::engine {

enum class Mode : uint8_t {
  kEager,
  kAdaptive,
  kRegion,  // one snippet from BeginRegion to EndRegion: compiled mode
  // Adaptive, but what runs how is a function of the recorded calls alone: a snippet is compiled at
  // its second sighting and waited for, and measured times, caches and load decide nothing.
  kDeterministic,
};

enum class TierPolicy : uint8_t { kAuto, kZero, kCompiled };

struct StreamOptions {
  bool host_visible = true;
  TierPolicy tier = TierPolicy::kAuto;
  lowering::LoweringTraits traits;
  planner::CutPolicy cuts;
  planner::MergePolicy merges;
  size_t max_plans = 4096;
  int64_t max_ops_in_flight = 4096;
  int64_t max_bytes_in_flight = int64_t{512} << 20;
  std::shared_ptr<pjrt::Client> client;  // may be null until something is compiled (embedded)
  compiler::CompileService* compiler = nullptr;  // null: nothing is compiled
  Interpreter* interpreter = nullptr;
  Counters* counters = nullptr;
  Trace* trace = nullptr;
  // Text and structure of a source site that csrc/aten numbered.
  tape::SourceSite (*site)(int32_t id) = nullptr;
  void (*destroy_host_storage)(void*) = nullptr;       // Block::host_storage (csrc/interpreter)
  void (*warn)(const std::string& message) = nullptr;  // called from any thread, no locks held
};

// A point in a stream: fires when all work recorded before it is complete.
struct Marker {
  std::atomic<bool> done{false};
  double time = 0;  // seconds of the steady clock when it fired
  std::mutex mu;
  std::condition_variable cv;
  void Fire();
  void Wait();
};

class Stream {
 public:
  explicit Stream(StreamOptions options);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Records one call. slots parallel to op->sig.operands, lifted to its lifted slots. Blocks must
  // be alive.
  void Append(const Op* op, const Slot* slots, const tape::Lifted* lifted, int32_t site, Mode mode);
  // Closes and dispatches everything recorded so far.
  void Flush();
  // Flushes and waits until it is complete. Returns the first error that nobody has read yet.
  Status Synchronize();
  // Waits until dispatched work up to `seq` is complete; does not flush.
  void WaitForSequence(uint64_t seq);
  // Waits for all work that touches `block`; its poison, if it has one.
  Status WaitForBlock(Block* block);
  // Runs `task` on the executor, in order, and, if `wait`, waits for it. Retains `blocks` until
  // then.
  Status RunOnHost(std::function<Status()> task, const std::vector<Block*>& blocks, bool wait);
  std::shared_ptr<Marker> RecordMarker();
  // The calls between the two become one snippet (several, if an operator in between does not lower
  // or something is read), compiled at once. End waits for the compiles and returns the first that
  // failed.
  void BeginRegion();
  Status EndRegion();

  // Throttling: true if so much is in flight that the caller should wait (without Python's lock).
  bool IsFull() const {
    return ops_in_flight_.load(std::memory_order_relaxed) > options_.max_ops_in_flight;
  }
  void WaitForRoom();
  bool Idle() const { return completed_.load() == submitted_.load(); }

  const std::atomic<uint64_t>& completed() const { return completed_; }
  // Bytes of a block, on opaque targets, copied to `dst` by the executor; waits.
  Status ReadBlock(Block* block, void* dst);
  const StreamOptions& options() const { return options_; }
  std::string Explain();

 private:
  // --- capture side; REQUIRES: mu_ held
  void CloseChunk(bool ended_by_read);
  void Dispatch(std::unique_ptr<Chunk> chunk);
  void Place(Chunk& chunk) const;
  void DispatchRest(std::unique_ptr<Chunk> chunk);
  void DispatchOpen();
  void ChooseHow(Chunk& chunk);
  void ExtendLive(Chunk& chunk);
  void SubmitUnlessCovered(Chunk& chunk, double priority);
  std::shared_ptr<const tape::Tape> MakeChunkTape(const Chunk& chunk) const;
  lowering::SnippetOptions SnippetOptionsOf(const Plan& plan) const;
  bool MayMerge() const;
  void Hold(std::unique_ptr<Chunk> chunk);
  void EndGroups();
  void Leave(const std::vector<planner::Merger::Release>& releases);
  void DispatchMerged(std::vector<std::unique_ptr<Chunk>> children, int32_t group);
  void PollGroups();
  void ForgetGroupsIfFull();
  planner::Merger::Saving SavingOf(int32_t group) const;
  bool Lowerable(const Op& op);
  bool MustCompile() const {
    return options_.tier == TierPolicy::kCompiled || !options_.host_visible;
  }
  std::string Label(const Chunk& chunk) const;

  // --- executor side
  void ExecutorLoop();
  void RunDispatched(Chunk& chunk);
  void RunChunk(Chunk& chunk);
  void RunTier0(Chunk& chunk);
  void RunChildren(Chunk& chunk);
  void RunCall(Chunk& chunk, const Call& call);
  void RunCallOnHost(Chunk& chunk, const Call& call);
  bool RunSnippet(Chunk& chunk);  // false: nothing ran, use tier 0
  Status Launch(Chunk& chunk, const compiler::LoadedSnippet& loaded);
  void Poison(Chunk& chunk, const Call& call, const Status& error);
  void PoisonAfterFailedCheck(Chunk& chunk, size_t failed, const Status& error);
  Status Describe(const Call& call, const Status& error) const;
  void ReportError(const Status& error);

  const StreamOptions options_;

  std::mutex mu_;
  // --- guarded by mu_
  std::unique_ptr<Chunk> open_;
  Mode open_mode_ = Mode::kEager;
  int64_t eager_bound_ = 1;
  planner::Cutter cutter_;
  PlanTable plans_;
  planner::Merger merger_;
  std::vector<std::unique_ptr<Chunk>> held_;  // closed, parallel to what merger_ holds
  struct Compiling {
    int32_t group;
    std::shared_ptr<Plan> plan;
  };
  std::vector<Compiling> compiling_;
  std::vector<std::shared_ptr<Plan>> group_plans_;  // by group
  bool in_region_ = false;
  std::vector<std::shared_ptr<compiler::CompileJob>> region_jobs_;

  std::mutex queue_mu_;
  std::condition_variable queue_cv_;  // the executor waits here
  std::condition_variable done_cv_;   // callers wait here
  // --- guarded by queue_mu_
  std::deque<std::unique_ptr<Chunk>> queue_;
  bool stop_ = false;
  bool executor_asleep_ = false;
  Status first_error_;

  std::atomic<bool> open_nonempty_{false};
  std::atomic<uint64_t> appends_{0};  // so that the executor sees whether the caller is silent
  std::atomic<uint64_t> submitted_{0}, completed_{0};
  std::atomic<int64_t> ops_in_flight_{0};
  std::thread executor_;
};

}  // namespace dendrite::engine
