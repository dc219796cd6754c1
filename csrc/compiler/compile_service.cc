#include "csrc/compiler/compile_service.h"

#include <algorithm>

#include "csrc/base/config.h"
#include "csrc/base/log.h"
#include "csrc/base/mutex.h"
#include "csrc/cache/disk_store.h"
#include "csrc/compiler/compile_keys.h"
#include "csrc/compiler/local_compile_service.h"

namespace dendrite::compiler {

struct CompileJob::Sync {
  Mutex mutex;
  CondVar finished;
};

CompileJob::CompileJob() : sync_(std::make_shared<Sync>()) {}

void CompileJob::Wait() {
  if (done()) return;
  MutexLock lock(sync_->mutex);
  while (!done()) sync_->finished.Wait(lock);
}

std::shared_ptr<CompileJob> CompileService::MakeJob() {
  return std::shared_ptr<CompileJob>(new CompileJob);
}

void CompileService::SetRunning(CompileJob& job) {
  job.state_.store(CompileJob::State::kRunning, std::memory_order_release);
}

void CompileService::SetReady(CompileJob& job, std::shared_ptr<const LoadedSnippet> loaded) {
  job.loaded_ = std::move(loaded);
  {
    MutexLock lock(job.sync_->mutex);
    job.state_.store(CompileJob::State::kReady, std::memory_order_release);
  }
  job.sync_->finished.NotifyAll();
}

void CompileService::SetFailed(CompileJob& job, Status error) {
  job.error_ = std::move(error);
  {
    MutexLock lock(job.sync_->mutex);
    job.state_.store(CompileJob::State::kFailed, std::memory_order_release);
  }
  job.sync_->finished.NotifyAll();
}

void CompileService::Prefetch(std::shared_ptr<const tape::Tape> /*tape*/,
                              lowering::SnippetOptions /*options*/, std::string /*label*/) {}

Result<CompileServiceOptions> CompileServiceOptionsFromConfig() {
  CompileServiceOptions options;
  options.program = ProgramName(ProcessCommandLine());
  DENDRITE_ASSIGN_OR_RETURN(const int64_t workers, GetInt(Knob::kCompileWorkers));
  // Half of the cores: the other half runs what is compiled already.
  options.num_workers =
      workers == kAuto ? std::clamp(NumUsableCores() / 2, 1, 8) : static_cast<int>(workers);
  DENDRITE_ASSIGN_OR_RETURN(options.disk_limit_bytes, GetInt(Knob::kCacheDiskLimit));
  DENDRITE_ASSIGN_OR_RETURN(options.memory_limit_bytes, GetInt(Knob::kCacheMemoryLimit));
  Result<std::string> folder = cache::CacheFolderFromEnvironment();
  if (folder.ok()) {
    options.cache_dir = std::move(folder).value();
  } else {
    DENDRITE_LOG(kWarning) << folder.status().message();
  }
  return options;
}

Result<std::unique_ptr<CompileService>> CompileService::Create(CompileServiceOptions options) {
  if (!options.client) return InvalidArgument("CompileServiceOptions::client is null");
  return std::unique_ptr<CompileService>(std::make_unique<LocalCompileService>(std::move(options)));
}

}  // namespace dendrite::compiler
