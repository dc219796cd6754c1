// csrc/compiler/compile_service.h - tape -> snippet -> NEFF, in the background.
//
// Submit returns at once with a job shared by every caller who submitted an equal tape (same key,
// and outputs that are a superset of the live set). A background thread of this process makes the
// key, asks the caches, lowers to StableHLO; worker processes (dendrite-compile-worker) compile;
// the result is loaded into this process and published in the job. Failures are never cached; a job
// that failed stays failed for the process, with its reason. Workers start on the first compile,
// never before, and run at low priority.
//
// All methods are thread safe. No lock is held while waiting for a worker. Destruction cancels what
// is queued, kills the workers and joins the threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/lowering/snippet.h"
#include "csrc/pjrt/client.h"
#include "csrc/tape/record.h"

namespace dendrite::compiler {

// A snippet that is ready to launch. Immutable.
struct LoadedSnippet {
  lowering::Snippet snippet;  // stablehlo text may be empty if it came from a cache
  pjrt::Executable executable;
  std::string key;             // hex fingerprint of the NEFF's key
  double compile_seconds = 0;  // 0 if it came from a cache
  pjrt::MemoryStats memory;
};

class CompileJob {
 public:
  enum class State : uint8_t { kQueued, kRunning, kReady, kFailed };
  State state() const { return state_.load(std::memory_order_acquire); }
  bool done() const { return state() >= State::kReady; }
  // Blocks until done. Callers count the time as compile_wait_seconds themselves.
  void Wait();
  // REQUIRES: state() == kReady.
  const std::shared_ptr<const LoadedSnippet>& loaded() const { return loaded_; }
  // REQUIRES: state() == kFailed.
  const Status& error() const { return error_; }

 private:
  friend class CompileService;
  CompileJob();  // CompileService::MakeJob
  std::atomic<State> state_{State::kQueued};
  std::shared_ptr<const LoadedSnippet> loaded_;
  Status error_;
  struct Sync;
  std::shared_ptr<Sync> sync_;
};

struct CompileEvent {  // for traces: one per finished compile, times in seconds of the steady clock
  std::string label;
  double begin = 0, end = 0;
  int worker = 0;
  bool ok = true;
};

struct CompileStats {
  int64_t compiles = 0;
  double compile_seconds = 0;
  int64_t hits_memory = 0, hits_disk = 0, hits_job = 0, hits_shared = 0, misses = 0;
  int64_t corrupt_entries = 0, failures = 0;
  int64_t queued = 0, running = 0;  // now
  int64_t workers_started = 0;
};

struct CompileServiceOptions {
  std::shared_ptr<pjrt::Client> client;  // where executables are loaded
  std::string worker_path;               // dendrite-compile-worker
  int num_workers = 1;  // DENDRITE_COMPILE_WORKERS; 0: compile in this process's background thread
  std::string cache_dir;  // empty: no disk cache
  int64_t disk_limit_bytes = int64_t{4} << 30;
  int64_t memory_limit_bytes = int64_t{2} << 30;
  std::string target_name;      // ingredient of both keys
  std::string compile_options;  // serialised CompileOptionsProto; ingredient of the NEFF key
  // Which program this is (see ProgramName): what its last run loaded is loaded ahead. Empty:
  // nothing is.
  std::string program;
};

// Workers, cache folder and limits as the environment says (csrc/base/config.h); the rest is left
// as it is. INVALID_ARGUMENT for a bad value. Without any folder for it, the disk cache is off,
// with a warning.
Result<CompileServiceOptions> CompileServiceOptionsFromConfig();

class CompileService {
 public:
  static Result<std::unique_ptr<CompileService>> Create(CompileServiceOptions options);
  virtual ~CompileService() = default;

  // Higher priority first; equal priorities in order of submission. `label` names the snippet in
  // traces
  // ("model.py:12..31, 64 ops").
  virtual std::shared_ptr<CompileJob> Submit(std::shared_ptr<const tape::Tape> tape,
                                             lowering::SnippetOptions options, double priority,
                                             std::string label) = 0;
  // If the caches have this executable, it is loaded, so that a Submit to come finds its job ready;
  // else nothing happens. For what may come again, but is not worth a compile yet.
  virtual void Prefetch(std::shared_ptr<const tape::Tape> tape, lowering::SnippetOptions options,
                        std::string label);
  // False once so many in a row had nothing that asking costs more than it finds, as in a program
  // whose shapes never come again.
  virtual bool WantsPrefetch() const { return true; }
  virtual CompileStats stats() const = 0;
  virtual void ResetStats() = 0;
  virtual std::vector<CompileEvent> TakeEvents() = 0;
  // Blocks until nothing is queued, running, or being written to the caches, at most `seconds`;
  // true if idle.
  virtual bool WaitIdle(double seconds) = 0;

 protected:
  // For implementations (tests have one of their own). Each job is finished once, by one thread.
  static std::shared_ptr<CompileJob> MakeJob();
  static void SetRunning(CompileJob& job);
  static void SetReady(CompileJob& job, std::shared_ptr<const LoadedSnippet> loaded);
  static void SetFailed(CompileJob& job, Status error);
};

}  // namespace dendrite::compiler
