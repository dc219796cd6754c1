#include "csrc/compiler/worker_pool.h"

#include <algorithm>

#include "csrc/base/clock.h"
#include "csrc/base/log.h"
#include "csrc/compiler/background_thread.h"

namespace dendrite::compiler {
namespace {

constexpr int kMaxDeaths = 2;
// An idle worker holds some 190 MB.
constexpr double kIdleSeconds = 60;

WorkerResult Failed(Status status) {
  WorkerResult result;
  result.answer.status = std::move(status);
  return result;
}

Status Stopped() { return {Code::kCancelled, "the compile service has shut down"}; }

}  // namespace

WorkerPool::WorkerPool(std::string worker_path, std::string plugin_path, int num_workers)
    : worker_path_(std::move(worker_path)),
      plugin_path_(std::move(plugin_path)),
      num_workers_(std::max(1, num_workers)) {}

WorkerPool::~WorkerPool() {
  std::map<std::pair<double, uint64_t>, Waiting> cancelled;
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    cancelled.swap(queue_);
    threads.swap(threads_);
    for (const auto& process : processes_) {
      if (process) process->Kill();
    }
  }
  changed_.NotifyAll();
  for (auto& [order, waiting] : cancelled) waiting.done(Failed(Stopped()));
  for (std::thread& thread : threads) thread.join();
}

void WorkerPool::Submit(WorkerJob job, double priority, Done done) {
  std::string encoded = Encode(job);
  {
    MutexLock lock(mutex_);
    if (!stopping_) {
      queue_.emplace(std::pair(-priority, next_sequence_++),
                     Waiting{std::move(encoded), std::move(done)});
      if (idle_ < static_cast<int>(queue_.size()) &&
          static_cast<int>(threads_.size()) < num_workers_) {
        const int worker = static_cast<int>(threads_.size());
        processes_.emplace_back();
        threads_.push_back(StartBackgroundThread("dendrite-cc", [this, worker] { Drive(worker); }));
      }
    }
  }
  if (done) return done(Failed(Stopped()));
  changed_.NotifyOne();
}

void WorkerPool::Drive(int worker) {
  for (;;) {
    Waiting next;
    {
      MutexLock lock(mutex_);
      ++idle_;
      while (queue_.empty() && !stopping_) {
        if (changed_.WaitFor(lock, kIdleSeconds)) continue;
        // Nothing to do for long: give the process's memory back. Killing is quick, so the lock is
        // fine.
        if (queue_.empty()) processes_[worker].reset();
      }
      --idle_;
      if (stopping_) break;
      next = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
      ++running_;
    }
    WorkerResult result = RunOn(worker, next.encoded_job);
    {
      MutexLock lock(mutex_);
      --running_;
    }
    next.done(std::move(result));
  }
  DropProcess(worker);
}

WorkerResult WorkerPool::RunOn(int worker, const std::string& encoded_job) {
  WorkerResult result;
  result.worker = worker;
  result.begin = NowSeconds();
  Status died;
  for (int deaths = 0; deaths < kMaxDeaths; ++deaths) {
    Result<WorkerAnswer> answer = Internal("not run");
    const Result<std::shared_ptr<WorkerProcess>> process = GetProcess(worker);
    if (process.ok()) {
      answer = (*process)->Run(encoded_job);
      if (answer.ok()) {
        result.answer = std::move(answer).value();
        result.end = NowSeconds();
        return result;
      }
      died = answer.status();
    } else {
      died = process.status();
    }
    DropProcess(worker);
    {
      MutexLock lock(mutex_);
      if (stopping_) died = Stopped();
    }
    // A worker that cannot start, or whose plugin does not load, will not the next time either.
    if (died.code() != Code::kUnavailable) break;
    DENDRITE_LOG(kInfo) << died.message() << (deaths + 1 < kMaxDeaths ? "; trying again" : "");
  }
  if (died.code() == Code::kUnavailable) died = Unavailable("compiler crashed: " + died.message());
  result.answer.status = died;
  result.end = NowSeconds();
  return result;
}

Result<std::shared_ptr<WorkerProcess>> WorkerPool::GetProcess(int worker) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return Stopped();
    if (processes_[worker]) return processes_[worker];
  }
  DENDRITE_ASSIGN_OR_RETURN(auto process, WorkerProcess::Spawn(worker_path_, plugin_path_));
  {
    MutexLock lock(mutex_);
    if (stopping_) return Stopped();
    processes_[worker] = process;  // from here on the destructor can kill it
    ++workers_started_;
  }
  DENDRITE_RETURN_IF_ERROR(process->Greet());
  return process;
}

void WorkerPool::DropProcess(int worker) {
  std::shared_ptr<WorkerProcess> process;  // reaped after the lock is released
  MutexLock lock(mutex_);
  process.swap(processes_[worker]);
}

int64_t WorkerPool::workers_started() const {
  MutexLock lock(mutex_);
  return workers_started_;
}

int64_t WorkerPool::running() const {
  MutexLock lock(mutex_);
  return running_;
}

std::vector<pid_t> WorkerPool::pids() const {
  MutexLock lock(mutex_);
  std::vector<pid_t> pids;
  for (const auto& process : processes_) {
    if (process) pids.push_back(process->pid());
  }
  return pids;
}

}  // namespace dendrite::compiler
