#include "csrc/engine/stream.h"

#include <algorithm>
#include <chrono>

namespace dendrite::engine {
namespace {

constexpr int64_t kMaxEagerBound = 64;
// Memory of temporaries returns at dispatch: what is recorded and not dispatched costs memory.
constexpr int64_t kMaxEagerBytes = int64_t{8} << 20;
constexpr auto kSilence = std::chrono::milliseconds(1);

}  // namespace

void Marker::Fire() {
  {
    std::lock_guard lock(mu);
    time = NowSeconds();
    done.store(true, std::memory_order_release);
  }
  cv.notify_all();
}

void Marker::Wait() {
  std::unique_lock lock(mu);
  cv.wait(lock, [&] { return done.load(std::memory_order_acquire); });
}

Stream::Stream(StreamOptions options)
    : options_(std::move(options)),
      cutter_(options_.cuts),
      plans_(options_.max_plans),
      merger_(options_.merges, [this](int32_t group) { return SavingOf(group); }) {
  open_ = NewChunk();
  executor_ = std::thread([this] { ExecutorLoop(); });
}

Stream::~Stream() {
  Flush();
  {
    std::lock_guard lock(queue_mu_);
    stop_ = true;
  }
  queue_cv_.notify_all();
  executor_.join();
}

bool Stream::Lowerable(const Op& op) {
  int8_t known = op.lowerable.load(std::memory_order_relaxed);
  if (known < 0) {
    known = options_.compiler != nullptr && lowering::CanLower(op.sig, options_.traits) ? 1 : 0;
    op.lowerable.store(known, std::memory_order_relaxed);
  }
  return known == 1;
}

void Stream::Append(const Op* op, const Slot* slots, const tape::Lifted* lifted, int32_t site,
                    Mode mode) {
  std::lock_guard lock(mu_);
  if (in_region_) mode = Mode::kRegion;
  // Without kernels of its own, tier 0 of an opaque target is made of single-operator NEFFs.
  if (!options_.host_visible && options_.tier == TierPolicy::kZero) mode = Mode::kEager;
  const bool keyed = options_.compiler != nullptr &&
                     (!options_.host_visible || options_.tier == TierPolicy::kCompiled ||
                      (options_.tier == TierPolicy::kAuto && mode != Mode::kEager));
  const bool lowerable = keyed && Lowerable(*op);
  if (!open_->calls.empty()) {
    const bool open_lowerable = open_->how == How::kSnippet;
    if (open_mode_ != mode || open_lowerable != lowerable) CloseChunk(false);
  }
  Chunk& chunk = *open_;
  const bool first = chunk.calls.empty();
  if (first) {
    open_mode_ = mode;
    chunk.how = lowerable ? How::kSnippet : How::kTier0;
    // Its plans are its own. No key of calls begins so: signature ids are small.
    if (lowerable && mode == Mode::kDeterministic) chunk.key.push_back(~uint64_t{1});
  }
  // Only ever written under the lock.
  appends_.store(appends_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  chunk.content_hash = (chunk.content_hash ^ op->content_hash) * 0x9e3779b97f4a7c15u;
  const auto& sig = op->sig;
  Call call{op, static_cast<uint32_t>(chunk.slots.size()),
            static_cast<uint32_t>(chunk.lifted.size()), site};
  if (lowerable) chunk.key.push_back(sig.id);
  for (size_t i = 0; i < sig.operands.size(); ++i) {
    const Slot& slot = slots[i];
    chunk.slots.push_back(slot);
    if (slot.block == nullptr) {
      if (lowerable) chunk.offsets.push_back(0);
      continue;
    }
    const tape::OperandType& operand = sig.operands[i];
    if (!options_.host_visible && slot.block->form_dtype == tape::DType::kUndefined) {
      slot.block->form_dtype = operand.view.dtype;
    }
    const size_t known = chunk.blocks.size();
    const int32_t local = NumberBlock(chunk, slot.block);
    if (lowerable) {
      uint64_t word = static_cast<uint64_t>(local) << 8;
      if (!options_.host_visible && static_cast<size_t>(local) == known) {
        word |=
            static_cast<uint64_t>(slot.block->form_dtype) << 1 | (slot.block->initialized ? 1 : 0);
        chunk.key.push_back(slot.block->nbytes);
      }
      chunk.key.push_back(word);
      chunk.offsets.push_back(slot.offset);
    }
    if (operand.written) {
      chunk.written[static_cast<size_t>(local)] = 1;
      slot.block->initialized = true;
    }
  }
  for (int32_t i = 0; i < sig.num_lifted; ++i) chunk.lifted.push_back(lifted[i]);
  chunk.calls.push_back(call);
  chunk.bytes_written += op->bytes_written;
  options_.counters->ops_captured.fetch_add(1, std::memory_order_relaxed);

  bool end = false;
  switch (mode) {
    case Mode::kEager:
      end = lowerable || static_cast<int64_t>(chunk.calls.size()) >= eager_bound_ ||
            chunk.bytes_written >= kMaxEagerBytes;
      break;
    case Mode::kAdaptive:
    case Mode::kDeterministic:
      end = cutter_.Add(op->content_hash, op->bytes_written);
      break;
    case Mode::kRegion:
      break;
  }
  if (end) {
    CloseChunk(false);
    eager_bound_ = std::min(eager_bound_ * 2, kMaxEagerBound);
    return;
  }
  if (first || chunk.dispatched_calls + 1 == chunk.calls.size()) {
    open_nonempty_.store(true, std::memory_order_release);
    bool wake = false;
    {
      std::lock_guard queue_lock(queue_mu_);
      wake = executor_asleep_;
    }
    if (wake) queue_cv_.notify_one();
  }
}

void Stream::Flush() {
  std::lock_guard lock(mu_);
  CloseChunk(true);
  EndGroups();
}

Status Stream::Synchronize() {
  Flush();
  std::unique_lock lock(queue_mu_);
  const uint64_t target = submitted_.load();
  done_cv_.wait(lock, [&] { return completed_.load() >= target; });
  return std::exchange(first_error_, Status());
}

void Stream::WaitForSequence(uint64_t seq) {
  if (completed_.load(std::memory_order_acquire) >= seq) return;
  std::unique_lock lock(queue_mu_);
  done_cv_.wait(lock, [&] { return completed_.load() >= seq; });
}

Status Stream::WaitForBlock(Block* block) {
  Flush();
  std::unique_lock lock(queue_mu_);
  const uint64_t target = block->last_use.load();
  done_cv_.wait(lock, [&] { return completed_.load() >= target; });
  if (block->poison == nullptr) return {};
  // Somebody reads the error now; the stream's next synchronisation need not repeat it.
  if (first_error_.message() == block->poison->message()) first_error_ = Status();
  return *block->poison;
}

Status Stream::RunOnHost(std::function<Status()> task, const std::vector<Block*>& blocks,
                         bool wait) {
  auto chunk = NewChunk();
  chunk->how = How::kHost;
  auto result = std::make_shared<Status>();
  chunk->host = [task = std::move(task), result] { return *result = task(); };
  for (Block* block : blocks) {
    RetainMemory(block);
    chunk->blocks.push_back(block);
  }
  uint64_t target = 0;
  {
    std::lock_guard lock(mu_);
    CloseChunk(wait);
    EndGroups();
    Dispatch(std::move(chunk));
    target = submitted_.load();
  }
  if (!wait) return {};
  std::unique_lock lock(queue_mu_);
  done_cv_.wait(lock, [&] { return completed_.load() >= target; });
  return *result;
}

std::shared_ptr<Marker> Stream::RecordMarker() {
  auto marker = std::make_shared<Marker>();
  auto status = RunOnHost(
      [marker] {
        marker->Fire();
        return Status();
      },
      {}, /*wait=*/false);
  (void)status;  // nothing was waited for
  return marker;
}

void Stream::BeginRegion() {
  std::lock_guard lock(mu_);
  CloseChunk(false);
  EndGroups();
  in_region_ = true;
}

Status Stream::EndRegion() {
  std::vector<std::shared_ptr<compiler::CompileJob>> jobs;
  {
    std::lock_guard lock(mu_);
    CloseChunk(false);
    in_region_ = false;
    jobs.swap(region_jobs_);
  }
  for (const auto& job : jobs) {
    job->Wait();
    if (job->state() == compiler::CompileJob::State::kFailed) return job->error();
  }
  return {};
}

void Stream::WaitForRoom() {
  std::unique_lock lock(queue_mu_);
  done_cv_.wait(lock, [&] { return ops_in_flight_.load() <= options_.max_ops_in_flight / 2; });
}

void Stream::ExecutorLoop() {
  std::unique_lock lock(queue_mu_);
  for (;;) {
    if (queue_.empty()) {
      if (stop_) return;
      executor_asleep_ = true;
      if (open_nonempty_.load(std::memory_order_acquire)) {
        const uint64_t before = appends_.load(std::memory_order_relaxed);
        queue_cv_.wait_for(lock, kSilence);
        executor_asleep_ = false;
        if (queue_.empty() && appends_.load(std::memory_order_relaxed) == before && !stop_) {
          lock.unlock();
          {
            // The caller holds the lock only while it appends: then it is not silent.
            std::unique_lock tape(mu_, std::try_to_lock);
            if (tape.owns_lock()) DispatchOpen();
          }
          lock.lock();
        }
      } else {
        queue_cv_.wait(lock);
        executor_asleep_ = false;
      }
      continue;
    }
    std::unique_ptr<Chunk> chunk = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const auto ops = static_cast<int64_t>(chunk->calls.size());
    const uint64_t seq = chunk->seq;
    RunDispatched(*chunk);
    ReleaseBlocks(*chunk);
    chunk.reset();
    lock.lock();
    ops_in_flight_.fetch_sub(ops, std::memory_order_relaxed);
    completed_.store(seq, std::memory_order_release);
    done_cv_.notify_all();
  }
}

void Stream::ReportError(const Status& error) {
  std::lock_guard lock(queue_mu_);
  if (first_error_.ok()) first_error_ = error;
}

std::string Stream::Explain() {
  std::lock_guard lock(mu_);  // plans change under it
  std::vector<std::shared_ptr<Plan>> plans = plans_.All();
  std::sort(plans.begin(), plans.end(),
            [](const auto& a, const auto& b) { return a->seen > b->seen; });
  std::string text = std::to_string(plans.size()) + " snippets known\n";
  for (const auto& plan : plans) {
    const char* state = plan->broken           ? "tier 0 (does not compile)"
                        : plan->job == nullptr ? "tier 0 (seen once)"
                        : !plan->job->done()   ? "compiling"
                                               : "compiled";
    double temporaries = 0;
    if (plan->job != nullptr && plan->job->state() == compiler::CompileJob::State::kReady) {
      temporaries = static_cast<double>(plan->job->loaded()->memory.temp_bytes) / (1 << 20);
    }
    char line[320];
    std::snprintf(
        line, sizeof line,
        "  seen %6lld  %-26s tier 0 %8.1f us  tier 1 %8.1f us  temporaries %6.1f MB  %s\n",
        static_cast<long long>(plan->seen), state, plan->best[0] * 1e6, plan->best[1] * 1e6,
        temporaries, plan->label.c_str());
    text += line;
  }
  return text;
}

}  // namespace dendrite::engine
