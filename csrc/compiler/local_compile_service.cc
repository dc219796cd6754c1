#include "csrc/compiler/local_compile_service.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "csrc/base/clock.h"
#include "csrc/base/log.h"
#include "csrc/base/sha256.h"
#include "csrc/compiler/background_thread.h"

namespace dendrite::compiler {
namespace {

// How often a key that another process compiles is looked at.
constexpr double kPollSeconds = 0.02;
// A lock that is held longer than any compile is not waited for: a forked child may keep it open.
constexpr double kMaxLockSeconds = 1800;
constexpr size_t kMaxEvents = 10'000;

Status Cancelled() { return {Code::kCancelled, "the compile service has shut down"}; }

}  // namespace

LocalCompileService::Task::~Task() {
  if (!job->done()) SetFailed(*job, Cancelled());
  lock.reset();
  {
    MutexLock service_lock(service->mutex_);
    --service->active_;
    // Under the lock: the service may be gone once a waiter for idleness sees zero.
    service->idle_.NotifyAll();
  }
}

LocalCompileService::LocalCompileService(CompileServiceOptions options)
    : options_(std::move(options)),
      cache_(options_.cache_dir, options_.disk_limit_bytes),
      preloader_(options_.client, &cache_, options_.program, options_.target_name),
      jobs_(options_.memory_limit_bytes) {
  if (options_.num_workers > 0) {
    pool_ = std::make_unique<WorkerPool>(options_.worker_path, options_.client->info().path,
                                         options_.num_workers);
  }
  prepare_thread_ = StartBackgroundThread("dendrite-lower", [this] { PrepareLoop(); });
  load_thread_ = StartBackgroundThread("dendrite-load", [this] {
    while (TaskPtr task = load_queue_.Pop()) {
      Load(task);
      task.reset();
      bool idle = false;
      {
        MutexLock lock(mutex_);
        idle = active_ == 0;
      }
      // Loading leaves tens of megabytes free in malloc's heap that nothing else asks for.
      if (idle) malloc_trim(0);
    }
  });
  inline_thread_ = StartBackgroundThread("dendrite-cc", [this] {
    while (TaskPtr task = inline_queue_.Pop()) CompileInline(task);
  });
}

LocalCompileService::~LocalCompileService() {
  prepare_queue_.Close();
  inline_queue_.Close();
  load_queue_.Close();
  pool_.reset();  // kills the workers
  prepare_thread_.join();
  inline_thread_.join();
  load_thread_.join();
  preloader_.Stop();
  // What is left fails as cancelled when it is destroyed.
  prepare_queue_.Clear();
  inline_queue_.Clear();
  load_queue_.Clear();
  waiting_for_host_.clear();
  decltype(flights_) flights;
  {
    MutexLock lock(mutex_);
    flights.swap(flights_);
  }
}

std::shared_ptr<CompileJob> LocalCompileService::Submit(std::shared_ptr<const tape::Tape> tape,
                                                        lowering::SnippetOptions options,
                                                        double priority, std::string label) {
  options.live = OutputMask(*tape, options.live);
  std::string key = JobKey(*tape, options);
  TaskPtr task;
  {
    MutexLock lock(mutex_);
    if (auto job = jobs_.Lookup(key, options.live)) {
      if (job->state() == CompileJob::State::kReady) ++stats_.hits_memory;
      return job;
    }
    task = std::make_shared<Task>();
    task->service = this;
    task->job = MakeJob();
    jobs_.Insert(key, options.live, task->job);
    ++active_;
  }
  task->tape = std::move(tape);
  task->options = std::move(options);
  task->priority = priority;
  task->label = std::move(label);
  task->job_key = std::move(key);
  std::shared_ptr<CompileJob> job = task->job;
  prepare_queue_.Push(priority, std::move(task));
  return job;
}

void LocalCompileService::Prefetch(std::shared_ptr<const tape::Tape> tape,
                                   lowering::SnippetOptions options, std::string label) {
  if (!cache_.enabled()) return;
  options.live = OutputMask(*tape, options.live);
  auto task = std::make_shared<Task>();
  task->service = this;
  task->job = MakeJob();
  {
    MutexLock lock(mutex_);
    ++active_;
  }
  task->tape = std::move(tape);
  task->options = std::move(options);
  task->label = std::move(label);
  task->only_cached = true;
  prepare_queue_.Push(/*priority=*/0, std::move(task));
}

void LocalCompileService::PrepareLoop() {
  preloader_.Start([this] { return Identity(); });
  while (!prepare_queue_.closed()) {
    TaskPtr task = prepare_queue_.Pop(waiting_for_host_.empty() ? -1 : kPollSeconds);
    if (task) Prepare(task);
    task.reset();
    PollHostLocks();
  }
}

void LocalCompileService::PollHostLocks() {
  if (waiting_for_host_.empty() || NowSeconds() < next_poll_) return;
  next_poll_ = NowSeconds() + kPollSeconds;
  std::vector<TaskPtr> tasks;
  tasks.swap(waiting_for_host_);
  for (TaskPtr& task : tasks) {
    if (!TryClaimOnHost(task)) waiting_for_host_.push_back(std::move(task));
  }
}

void LocalCompileService::Prepare(const TaskPtr& task) {
  const Result<const CompilerIdentity*> identity = Identity();
  if (!identity.ok()) return Fail(*task, identity.status());
  if (task->only_cached) task->job_key = JobKey(*task->tape, task->options);
  if (!task->snippet_key) {
    lowering::LoweringTraits& traits = task->options.traits;
    const bool measured = traits.kernels_by_name && !task->options.fixed_choices;
    if (measured) {
      if (products_ == nullptr) {
        products_ = std::make_unique<MeasuredProducts>(*options_.client, cache_, **identity);
      }
      traits.products = products_.get();
    }
    task->snippet_key = MakeSnippetKey(
        task->job_key, task->options.live,
        options_.target_name + (measured ? ", products " + products_->Describe() : ""));
    if (auto cached = cache_.LookupSnippet(*task->snippet_key, *task->tape)) {
      task->snippet = std::move(cached->snippet);
      task->snippet_was_cached = true;
      task->program_digest = cached->stablehlo_digest;
      task->neff_key = MakeNeffKey(task->program_digest, **identity);
      if (FindExecutable(*task)) return PushLoad(task);
    }
  }
  if (task->only_cached) {
    prefetch_misses_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (task->snippet.stablehlo.empty()) {
    if (const Status status = Lower(*task); !status.ok()) return Fail(*task, status);
    if (FindExecutable(*task)) return PushLoad(task);
  }
  Claim(task);
}

// Only here a prefetched job becomes known to others: it will be ready, and there is no other one.
void LocalCompileService::PushLoad(const TaskPtr& task) {
  if (task->only_cached) {
    prefetch_misses_.store(0, std::memory_order_relaxed);
    MutexLock lock(mutex_);
    if (jobs_.Lookup(task->job_key, task->options.live) != nullptr) return;
    jobs_.Insert(task->job_key, task->options.live, task->job);
    task->only_cached = false;
  }
  load_queue_.Push(task->priority, task);
}

Status LocalCompileService::Lower(Task& task) {
  DENDRITE_ASSIGN_OR_RETURN(task.snippet, lowering::LowerTape(*task.tape, task.options));
  DENDRITE_ASSIGN_OR_RETURN(const CompilerIdentity* identity, Identity());
  task.program_digest = ProgramDigest(task.snippet.stablehlo);
  task.neff_key = MakeNeffKey(task.program_digest, *identity);
  task.snippet_was_cached = false;
  return Status::Ok();
}

bool LocalCompileService::FindExecutable(Task& task) {
  if (task.distrust_cache) return false;
  if (std::optional<Preloader::Loaded> loaded = preloader_.Take(*task.neff_key)) {
    task.executable = std::move(loaded->executable);
    task.executable_bytes = std::move(loaded->entry.bytes);
    task.level = std::move(loaded->entry.level);
    return true;
  }
  std::optional<cache::Entry> entry = cache_.Lookup(*task.neff_key);
  if (!entry) return false;
  task.executable_bytes = std::move(entry->bytes);
  task.level = std::move(entry->level);
  return true;
}

void LocalCompileService::Claim(const TaskPtr& task) {
  {
    MutexLock lock(mutex_);
    const auto [flight, first] = flights_.try_emplace(task->neff_key->full());
    if (!first) return flight->second.push_back(task);
  }
  task->lock_deadline = NowSeconds() + kMaxLockSeconds;
  if (!TryClaimOnHost(task)) {
    DENDRITE_LOG(kInfo) << "another process compiles " << task->label;
    waiting_for_host_.push_back(task);
  }
}

bool LocalCompileService::TryClaimOnHost(const TaskPtr& task) {
  if (!cache_.TryLock(*task->neff_key, &task->lock) && NowSeconds() < task->lock_deadline)
    return false;
  // Whoever held the lock has published before releasing it, unless it died or failed.
  if (FindExecutable(*task)) {
    task->lock.reset();
    OnCompiled(task);
    return true;
  }
  DENDRITE_LOG(kInfo) << "compiling " << task->label
                      << " (not cached: " << task->neff_key->Explain() << ")";
  {
    MutexLock lock(mutex_);
    ++stats_.misses;
  }
  Compile(task);
  return true;
}

void LocalCompileService::Compile(const TaskPtr& task) {
  if (!pool_ || cannot_serialize_) return inline_queue_.Push(task->priority, task);
  SetRunning(*task->job);
  WorkerJob job{task->snippet.stablehlo, options_.compile_options, task->snippet.custom_calls};
  pool_->Submit(std::move(job), task->priority,
                [this, task](WorkerResult result) { OnWorkerDone(task, std::move(result)); });
}

void LocalCompileService::OnWorkerDone(const TaskPtr& task, WorkerResult result) {
  WorkerAnswer& answer = result.answer;
  if (answer.cannot_serialize) {
    // From now on compiling happens where the result is needed.
    cannot_serialize_ = true;
    return inline_queue_.Push(task->priority, task);
  }
  const bool ok = answer.status.ok();
  task->compile_seconds = answer.seconds;
  if (answer.status.code() != Code::kCancelled) {
    CountCompile(*task, result.begin, result.end, result.worker, ok);
  }
  if (!ok) {
    for (const TaskPtr& follower : EndFlight(*task)) Fail(*follower, answer.status);
    return Fail(*task, answer.status);
  }
  task->executable_bytes = std::move(answer.executable);
  OnCompiled(task);
}

void LocalCompileService::CompileInline(const TaskPtr& task) {
  SetRunning(*task->job);
  {
    MutexLock lock(mutex_);
    ++running_inline_;
  }
  const double begin = NowSeconds();
  Result<pjrt::Executable> executable =
      options_.client->Compile(task->snippet.stablehlo, options_.compile_options);
  const double end = NowSeconds();
  task->compile_seconds = end - begin;
  CountCompile(*task, begin, end, /*worker=*/-1, executable.ok());
  {
    MutexLock lock(mutex_);
    --running_inline_;
  }
  if (!executable.ok()) {
    for (const TaskPtr& follower : EndFlight(*task)) Fail(*follower, executable.status());
    return Fail(*task, executable.status());
  }
  if (!cannot_serialize_) {
    Result<std::string> bytes = executable->Serialize();
    if (bytes.ok()) {
      task->executable_bytes = std::move(bytes).value();
    } else {
      cannot_serialize_ = true;
    }
  }
  task->executable = std::move(executable).value();
  OnCompiled(task);
}

// The flight has its executable, compiled here or by another process meanwhile.
void LocalCompileService::OnCompiled(const TaskPtr& task) {
  for (const TaskPtr& follower : EndFlight(*task)) {
    if (task->executable_bytes.empty()) {
      inline_queue_.Push(follower->priority, follower);
      continue;
    }
    follower->executable_bytes = task->executable_bytes;
    follower->level = task->level;
    follower->compile_seconds = task->compile_seconds;
    load_queue_.Push(follower->priority, follower);
  }
  load_queue_.Push(task->priority, task);
}

void LocalCompileService::Load(const TaskPtr& task) {
  if (!task->executable.defined()) {
    Result<pjrt::Executable> executable = options_.client->Deserialize(task->executable_bytes);
    if (!executable.ok() && !task->level.empty()) {
      DENDRITE_LOG(kWarning) << "cached executable " << task->neff_key->hex()
                             << " does not load: " << executable.status().message();
      cache_.Discard(*task->neff_key);
      task->distrust_cache = true;
      task->level.clear();
      task->executable_bytes.clear();
      return prepare_queue_.Push(task->priority, task);
    }
    if (executable.status().code() == Code::kUnimplemented) {
      cannot_serialize_ = true;
      return inline_queue_.Push(task->priority, task);
    }
    if (!executable.ok()) return Fail(*task, executable.status());
    task->executable = std::move(executable).value();
  }
  auto loaded = std::make_shared<LoadedSnippet>();
  loaded->snippet = task->snippet;
  loaded->executable = std::move(task->executable);
  loaded->key = task->neff_key->hex();
  loaded->compile_seconds = task->level.empty() ? task->compile_seconds : 0;
  const Result<pjrt::MemoryStats> memory = loaded->executable.GetMemoryStats();
  if (memory.ok()) loaded->memory = *memory;
  const auto bytes = static_cast<int64_t>(task->executable_bytes.size() +
                                          task->snippet.stablehlo.size() + task->job_key.size()) +
                     loaded->memory.code_bytes;
  // Counted first: who sees the job ready must see it counted.
  if (!task->level.empty()) CountHit(task->level);
  {
    MutexLock lock(mutex_);
    jobs_.SetBytes(task->job_key, task->job.get(), bytes);
  }
  SetReady(*task->job, std::move(loaded));
  preloader_.Note(task->program_digest);
  WriteCaches(*task);
}

// After publishing: nobody who waits for the job waits for the disk.
void LocalCompileService::WriteCaches(Task& task) {
  if (task.level.empty() && !task.executable_bytes.empty()) {
    cache_.Put(*task.neff_key, task.executable_bytes);
  }
  task.lock.reset();
  if (task.snippet_was_cached || task.snippet.stablehlo.empty()) return;
  cache_.Put(*task.snippet_key, EncodeSnippet(task.snippet, task.program_digest));
}

void LocalCompileService::Fail(Task& task, const Status& error) {
  task.lock.reset();
  {
    MutexLock lock(mutex_);
    if (error.code() != Code::kCancelled) ++stats_.failures;
    jobs_.SetBytes(task.job_key, task.job.get(), static_cast<int64_t>(task.job_key.size()));
  }
  SetFailed(*task.job, task.label.empty() ? error : error.WithContext(task.label));
}

std::vector<LocalCompileService::TaskPtr> LocalCompileService::EndFlight(const Task& task) {
  MutexLock lock(mutex_);
  const auto flight = flights_.find(task.neff_key->full());
  if (flight == flights_.end()) return {};
  std::vector<TaskPtr> followers = std::move(flight->second);
  flights_.erase(flight);
  return followers;
}

Result<const CompilerIdentity*> LocalCompileService::Identity() {
  if (identity_) return &*identity_;
  const pjrt::PluginInfo& info = options_.client->info();
  DENDRITE_ASSIGN_OR_RETURN(std::string digest, cache_.PluginDigest(info.path));
  CompilerIdentity identity;
  identity.target_name = options_.target_name;
  identity.plugin_digest = std::move(digest);
  identity.plugin_api = std::to_string(info.api_major) + "." + std::to_string(info.api_minor);
  identity.compile_options = options_.compile_options;
  identity.cpu_features = CpuFeatures();
  identity.num_threads = NumUsableCores();
  identity_ = std::move(identity);
  return &*identity_;
}

void LocalCompileService::CountCompile(const Task& task, double begin, double end, int worker,
                                       bool ok) {
  MutexLock lock(mutex_);
  ++stats_.compiles;
  stats_.compile_seconds += end - begin;
  if (events_.size() < kMaxEvents) events_.push_back({task.label, begin, end, worker, ok});
}

void LocalCompileService::CountHit(const std::string& level) {
  MutexLock lock(mutex_);
  if (level == "disk") {
    ++stats_.hits_disk;
  } else if (level == "job") {
    ++stats_.hits_job;
  } else {
    ++stats_.hits_shared;
  }
}

CompileStats LocalCompileService::stats() const {
  const int64_t corrupt = cache_.corrupt_entries();
  const int64_t running = pool_ ? pool_->running() : 0;
  const int64_t started = pool_ ? pool_->workers_started() : 0;
  MutexLock lock(mutex_);
  CompileStats stats = stats_;
  stats.corrupt_entries = corrupt - corrupt_at_reset_;
  stats.workers_started = started - workers_at_reset_;
  stats.running = running + running_inline_;
  stats.queued = std::max<int64_t>(0, active_ - stats.running);
  return stats;
}

void LocalCompileService::ResetStats() {
  const int64_t corrupt = cache_.corrupt_entries();
  const int64_t started = pool_ ? pool_->workers_started() : 0;
  MutexLock lock(mutex_);
  stats_ = {};
  corrupt_at_reset_ = corrupt;
  workers_at_reset_ = started;
}

std::vector<CompileEvent> LocalCompileService::TakeEvents() {
  MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

bool LocalCompileService::WaitIdle(double seconds) {
  const double deadline = NowSeconds() + seconds;
  MutexLock lock(mutex_);
  while (active_ > 0) {
    const double left = deadline - NowSeconds();
    if (left <= 0) return false;
    idle_.WaitFor(lock, left);
  }
  return true;
}

}  // namespace dendrite::compiler
