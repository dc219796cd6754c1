// csrc/compiler/worker_pool.h - N compile workers behind a priority queue.
//
// A worker is a thread of this process and the dendrite-compile-worker that it drives; both start
// with the first job that finds no idle one, and the process goes away again after a minute without
// work. A worker that dies is replaced and its job tried once more; two deaths fail the job with
// UNAVAILABLE. Destruction kills what runs, cancels what waits, and joins; every `done` has been
// called by then, exactly once, on some thread of the pool or the destroying one. No lock is held
// while waiting or calling `done`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "csrc/base/mutex.h"
#include "csrc/base/status.h"
#include "csrc/compiler/worker_process.h"
#include "csrc/compiler/worker_protocol.h"

namespace dendrite::compiler {

struct WorkerResult {
  WorkerAnswer answer;
  double begin = 0, end = 0;  // of the steady clock
  int worker = 0;
};

class WorkerPool {
 public:
  using Done = std::function<void(WorkerResult)>;

  WorkerPool(std::string worker_path, std::string plugin_path, int num_workers);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Higher priority first, equal ones in order of submission.
  void Submit(WorkerJob job, double priority, Done done);

  int64_t workers_started() const;
  int64_t running() const;
  // Pids of the processes that live now.
  std::vector<pid_t> pids() const;

 private:
  struct Waiting {
    std::string encoded_job;
    Done done;
  };
  void Drive(int worker);
  WorkerResult RunOn(int worker, const std::string& encoded_job);
  // Starts the worker's process if there is none.
  Result<std::shared_ptr<WorkerProcess>> GetProcess(int worker);
  void DropProcess(int worker);

  // Constant after construction.
  const std::string worker_path_, plugin_path_;
  const int num_workers_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ DENDRITE_GUARDED_BY(mutex_) = false;
  // First the greatest priority, then the smallest sequence number.
  std::map<std::pair<double, uint64_t>, Waiting> queue_ DENDRITE_GUARDED_BY(mutex_);
  uint64_t next_sequence_ DENDRITE_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_ DENDRITE_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<WorkerProcess>> processes_ DENDRITE_GUARDED_BY(mutex_);
  int idle_ DENDRITE_GUARDED_BY(mutex_) = 0;
  int64_t running_ DENDRITE_GUARDED_BY(mutex_) = 0;
  int64_t workers_started_ DENDRITE_GUARDED_BY(mutex_) = 0;
};

}  // namespace dendrite::compiler
