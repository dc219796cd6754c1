// csrc/compiler/local_compile_service.h - the CompileService: queues, threads, and the steps of a
// task.
//
// A task is one job's way through the service. Its steps, and where they run:
//   Prepare   keys, caches, lowering                                      prepare thread
//   Claim     one compile per NEFF key: in this process, then on the host  prepare thread
//   Compile   StableHLO -> bytes                                           worker pool, or inline
//   thread Load      bytes -> executable; publish the job; write the caches       load thread
// A task belongs to the step that has it; the queues hand it over, so its fields need no lock. A
// task that is dropped anywhere fails its job as cancelled: nobody waits forever.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "csrc/base/mutex.h"
#include "csrc/compiler/compile_keys.h"
#include "csrc/compiler/compile_service.h"
#include "csrc/compiler/job_table.h"
#include "csrc/compiler/preloader.h"
#include "csrc/compiler/product_choice.h"
#include "csrc/compiler/snippet_cache.h"
#include "csrc/compiler/task_queue.h"
#include "csrc/compiler/worker_pool.h"

namespace dendrite::compiler {

class LocalCompileService final : public CompileService {
 public:
  explicit LocalCompileService(CompileServiceOptions options);
  ~LocalCompileService() override;

  std::shared_ptr<CompileJob> Submit(std::shared_ptr<const tape::Tape> tape,
                                     lowering::SnippetOptions options, double priority,
                                     std::string label) override;
  void Prefetch(std::shared_ptr<const tape::Tape> tape, lowering::SnippetOptions options,
                std::string label) override;
  bool WantsPrefetch() const override {
    return cache_.enabled() &&
           prefetch_misses_.load(std::memory_order_relaxed) < kMostPrefetchMisses;
  }
  CompileStats stats() const override;
  void ResetStats() override;
  std::vector<CompileEvent> TakeEvents() override;
  bool WaitIdle(double seconds) override;

 private:
  struct Task {
    LocalCompileService* service = nullptr;
    std::shared_ptr<CompileJob> job;
    std::shared_ptr<const tape::Tape> tape;
    lowering::SnippetOptions options;  // live is the output mask
    double priority = 0;
    std::string label;
    std::string job_key;

    // What the steps add.
    std::optional<cache::Key> snippet_key, neff_key;
    std::string program_digest;  // ingredient of neff_key
    lowering::Snippet snippet;   // with its text only if it was lowered here
    bool snippet_was_cached = false;
    std::string level;            // the cache level that had the executable; empty: compiled
    bool distrust_cache = false;  // an entry did not load: compile
    bool only_cached = false;     // nobody waits for it: dropped where the caches have nothing
    std::string executable_bytes;
    pjrt::Executable executable;  // set at once if compiled in this process
    double compile_seconds = 0;
    std::unique_ptr<FileLock> lock;  // of neff_key, while compiling
    double lock_deadline = 0;

    ~Task();
  };
  using TaskPtr = std::shared_ptr<Task>;

  // Steps.
  void Prepare(const TaskPtr& task);
  Status Lower(Task& task);
  bool FindExecutable(Task& task);
  void PushLoad(const TaskPtr& task);
  void Claim(const TaskPtr& task);
  // False if another process has the lock.
  bool TryClaimOnHost(const TaskPtr& task);
  void Compile(const TaskPtr& task);
  void OnWorkerDone(const TaskPtr& task, WorkerResult result);
  void CompileInline(const TaskPtr& task);
  void OnCompiled(const TaskPtr& task);
  void Load(const TaskPtr& task);
  void WriteCaches(Task& task);
  void Fail(Task& task, const Status& error);

  void PrepareLoop();
  void PollHostLocks();
  // The tasks that wait for this one's NEFF; the next task with its key compiles anew.
  std::vector<TaskPtr> EndFlight(const Task& task);
  void CountCompile(const Task& task, double begin, double end, int worker, bool ok);
  void CountHit(const std::string& level);
  Result<const CompilerIdentity*> Identity();

  // Constant after construction.
  const CompileServiceOptions options_;
  SnippetCache cache_;
  Preloader preloader_;

  std::atomic<bool> cannot_serialize_{false};

  // Only the prepare thread.
  std::vector<TaskPtr> waiting_for_host_;
  double next_poll_ = 0;
  std::unique_ptr<MeasuredProducts> products_;  // made with identity_
  std::optional<CompilerIdentity> identity_;

  mutable Mutex mutex_;
  CondVar idle_;
  JobTable jobs_ DENDRITE_GUARDED_BY(mutex_);
  // By full NEFF key: who waits for the task that compiles it.
  std::unordered_map<std::string, std::vector<TaskPtr>> flights_ DENDRITE_GUARDED_BY(mutex_);
  CompileStats stats_ DENDRITE_GUARDED_BY(mutex_);
  int64_t corrupt_at_reset_ DENDRITE_GUARDED_BY(mutex_) = 0;
  int64_t workers_at_reset_ DENDRITE_GUARDED_BY(mutex_) = 0;
  std::vector<CompileEvent> events_ DENDRITE_GUARDED_BY(mutex_);
  int64_t active_ DENDRITE_GUARDED_BY(mutex_) = 0;  // tasks alive
  int64_t running_inline_ DENDRITE_GUARDED_BY(mutex_) = 0;

  static constexpr int kMostPrefetchMisses = 64;
  std::atomic<int> prefetch_misses_{0};  // in a row
  TaskQueue<TaskPtr> prepare_queue_, inline_queue_, load_queue_;
  std::unique_ptr<WorkerPool> pool_;  // null: compile inline
  std::thread prepare_thread_, inline_thread_, load_thread_;
};

}  // namespace dendrite::compiler
