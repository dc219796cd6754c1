// The tape's side of Stream: closing chunks, choosing how they run, merging neighbours, handing
// them to the executor. Everything here REQUIRES mu_.
#include <algorithm>

#include "csrc/engine/stream.h"

namespace dendrite::engine {
namespace {

// Runs on a tier before its time says something: the first ones warm it up.
constexpr int64_t kRunsMeasured = 3;
// Merged snippets are compiled when nothing smaller waits.
constexpr double kMergedPriority = 0.5;

}  // namespace

void Stream::CloseChunk(bool ended_by_read) {
  cutter_.Reset();
  if (ended_by_read) eager_bound_ = 1;
  if (open_->calls.empty()) return;
  auto chunk = std::move(open_);
  open_ = NewChunk();
  chunk->live.resize(chunk->blocks.size());
  for (size_t i = 0; i < chunk->blocks.size(); ++i) {
    chunk->live[i] = chunk->blocks[i]->storage_alive.load(std::memory_order_acquire) ? 1 : 0;
  }
  const bool lowerable = chunk->how == How::kSnippet;
  if (lowerable) ChooseHow(*chunk);
  if (lowerable && MayMerge()) {
    Hold(std::move(chunk));
  } else {
    EndGroups();
    DispatchRest(std::move(chunk));
  }
  open_nonempty_.store(!held_.empty(), std::memory_order_release);
}

// A chunk whose beginning already ran operator by operator is finished likewise.
void Stream::DispatchRest(std::unique_ptr<Chunk> chunk) {
  if (chunk->dispatched_calls > 0) {
    chunk->how = How::kTier0;
    if (chunk->dispatched_calls == chunk->calls.size()) {
      for (Block* block : chunk->blocks) ReleaseMemory(block);
      return;
    }
    chunk->calls.erase(chunk->calls.begin(),
                       chunk->calls.begin() + static_cast<std::ptrdiff_t>(chunk->dispatched_calls));
  }
  Dispatch(std::move(chunk));
}

void Stream::ChooseHow(Chunk& chunk) {
  chunk.plan = plans_.Touch(chunk);
  const bool deterministic = open_mode_ == Mode::kDeterministic;
  const bool at_once = open_mode_ == Mode::kRegion || MustCompile();
  const bool must_wait = at_once || deterministic;
  if (chunk.plan->broken || options_.compiler == nullptr) {
    chunk.how = How::kTier0;
    return;
  }
  ExtendLive(chunk);
  if (at_once || chunk.plan->seen >= 2) {
    SubmitUnlessCovered(chunk, static_cast<double>(chunk.plan->seen));
  } else if (!deterministic && options_.compiler->WantsPrefetch()) {
    // Seen once is not worth a compile, but an earlier process may have left one.
    options_.compiler->Prefetch(MakeChunkTape(chunk), SnippetOptionsOf(*chunk.plan), Label(chunk));
  }
  if (chunk.plan->job == nullptr) {
    chunk.how = How::kTier0;
    return;
  }
  chunk.job = chunk.plan->job;
  if (in_region_) region_jobs_.push_back(chunk.job);
  chunk.tape = chunk.plan->tape;
  chunk.wait_for_compile = must_wait;
}

void Stream::ExtendLive(Chunk& chunk) {
  for (size_t i = 0; i < chunk.live.size(); ++i) {
    if (chunk.live[i] && chunk.written[i]) chunk.plan->live[i] = true;
  }
}

// An executable whose outputs are a superset of what lives is good enough.
void Stream::SubmitUnlessCovered(Chunk& chunk, double priority) {
  Plan& plan = *chunk.plan;
  bool covered = plan.job != nullptr;
  for (size_t i = 0; covered && i < chunk.live.size(); ++i) {
    if (chunk.written[i] && chunk.live[i] && !plan.job_live[i]) covered = false;
  }
  if (covered) return;
  plan.tape = MakeChunkTape(chunk);
  plan.job_live = plan.live;
  plan.label = Label(chunk);
  plan.job = options_.compiler->Submit(plan.tape, SnippetOptionsOf(plan), priority, plan.label);
}

std::shared_ptr<const tape::Tape> Stream::MakeChunkTape(const Chunk& chunk) const {
  std::vector<tape::SourceSite> sites;
  sites.reserve(chunk.calls.size());
  for (const Call& call : chunk.calls) sites.push_back(options_.site(call.site));
  return MakeTape(chunk, chunk.plan->lift_offset, options_.host_visible, sites);
}

lowering::SnippetOptions Stream::SnippetOptionsOf(const Plan& plan) const {
  lowering::SnippetOptions snippet;
  snippet.traits = options_.traits;
  snippet.host_visible = options_.host_visible;
  snippet.live = plan.live;
  snippet.fixed_choices = open_mode_ == Mode::kDeterministic;
  return snippet;
}

bool Stream::MayMerge() const {
  return open_mode_ == Mode::kAdaptive && !in_region_ && options_.tier == TierPolicy::kAuto;
}

void Stream::Hold(std::unique_ptr<Chunk> chunk) {
  PollGroups();
  const Plan& plan = *chunk->plan;
  planner::Merger::Unit unit;
  unit.id = plan.id;
  unit.content_hash = chunk->content_hash;
  unit.ops = static_cast<int64_t>(chunk->calls.size());
  unit.bytes_written = chunk->bytes_written;
  const int64_t runs0 = plan.runs[0].load(std::memory_order_relaxed);
  const int64_t runs1 = plan.runs[1].load(std::memory_order_relaxed);
  unit.settled =
      (plan.broken || runs1 >= kRunsMeasured) && (runs0 >= kRunsMeasured || MustCompile());
  unit.seconds = plan.best[runs0 > 0 ? 0 : 1].load(std::memory_order_relaxed);
  if (runs0 > 0 && runs1 > 0) {
    unit.seconds = std::min(unit.seconds, plan.best[1].load(std::memory_order_relaxed));
  }
  std::vector<planner::Merger::Release> releases;
  if (chunk->dispatched_calls > 0) {
    // It runs as it began, now; what recurs is recorded all the same.
    merger_.Pass(unit, &releases);
    Leave(releases);
    DispatchRest(std::move(chunk));
    return;
  }
  held_.push_back(std::move(chunk));
  merger_.Add(unit, &releases);
  Leave(releases);
  ForgetGroupsIfFull();
}

void Stream::EndGroups() {
  PollGroups();
  std::vector<planner::Merger::Release> releases;
  merger_.Border(&releases);
  Leave(releases);
  ForgetGroupsIfFull();
  open_nonempty_.store(!open_->calls.empty(), std::memory_order_release);
}

void Stream::Leave(const std::vector<planner::Merger::Release>& releases) {
  size_t next = 0;
  for (const auto& release : releases) {
    const auto begin = held_.begin() + static_cast<std::ptrdiff_t>(next);
    next += release.count;
    if (release.group < 0) {
      for (auto it = begin; it != begin + static_cast<std::ptrdiff_t>(release.count); ++it) {
        Dispatch(std::move(*it));
      }
      continue;
    }
    std::vector<std::unique_ptr<Chunk>> children(
        std::make_move_iterator(begin),
        std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(release.count)));
    DispatchMerged(std::move(children), release.group);
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(next));
}

void Stream::DispatchMerged(std::vector<std::unique_ptr<Chunk>> children, int32_t group) {
  std::vector<bool> varies;
  for (const auto& child : children) {
    const auto& lift = child->plan->lift_offset;
    varies.insert(varies.end(), lift.begin(), lift.end());
  }
  auto merged = Merge(std::move(children));
  merged->tier = 2;
  int64_t most = options_.merges.unit_ops * options_.merges.factor;
  for (; static_cast<int64_t>(merged->calls.size()) > most; most *= options_.merges.factor) {
    merged->tier = std::min(merged->tier + 1, kMaxTier - 1);
  }
  merged->live.resize(merged->blocks.size());
  for (size_t i = 0; i < merged->blocks.size(); ++i) {
    merged->live[i] = merged->blocks[i]->storage_alive.load(std::memory_order_acquire) ? 1 : 0;
  }
  merged->plan = plans_.Touch(*merged, &varies);
  ExtendLive(*merged);
  if (!merged->plan->broken) {
    const auto before = merged->plan->job;
    SubmitUnlessCovered(*merged, kMergedPriority);
    if (merged->plan->job != before) {
      merger_.SetActive(group, false);
      compiling_.push_back({group, merged->plan});
    }
    merged->job = merged->plan->job;
    merged->tape = merged->plan->tape;
  }
  if (group_plans_.size() <= static_cast<size_t>(group)) {
    group_plans_.resize(static_cast<size_t>(group) + 1);
  }
  group_plans_[static_cast<size_t>(group)] = merged->plan;
  // Merging numbered the blocks anew; the open chunk's own numbers hold.
  for (size_t i = 0; i < open_->blocks.size(); ++i) {
    open_->blocks[i]->tape_epoch = open_->epoch;
    open_->blocks[i]->tape_index = static_cast<int32_t>(i);
  }
  Dispatch(std::move(merged));
}

// Groups whose compile has ended are matched from now on; one that failed never is.
void Stream::PollGroups() {
  if (compiling_.empty()) return;
  std::erase_if(compiling_, [this](const Compiling& compiling) {
    const compiler::CompileJob& job = *compiling.plan->job;
    if (!job.done()) return false;
    const bool ready = job.state() == compiler::CompileJob::State::kReady;
    if (ready && job.loaded()->compile_seconds > 0) {
      merger_.Learn(static_cast<int64_t>(compiling.plan->tape->records.size()),
                    job.loaded()->compile_seconds);
    }
    merger_.SetActive(compiling.group, ready);
    return true;
  });
}

// Plans keep executables: what was kept by group goes with the groups.
void Stream::ForgetGroupsIfFull() {
  if (!merger_.full()) return;
  std::vector<planner::Merger::Release> releases;
  merger_.Flush(&releases);
  Leave(releases);
  merger_.Forget();
  group_plans_.clear();
  compiling_.clear();
}

planner::Merger::Saving Stream::SavingOf(int32_t group) const {
  if (static_cast<size_t>(group) >= group_plans_.size()) return {};
  const Plan* plan = group_plans_[static_cast<size_t>(group)].get();
  if (plan == nullptr) return {};
  for (const auto& runs : plan->runs) {
    if (runs.load(std::memory_order_relaxed) < kRunsMeasured) return {};
  }
  const double apart = plan->best[0].load(std::memory_order_relaxed);
  const double merged = plan->best[1].load(std::memory_order_relaxed);
  return {true, apart > 0 ? 1 - merged / apart : 0};
}

std::string Stream::Label(const Chunk& chunk) const {
  const tape::SourceSite begin = options_.site(chunk.calls.front().site);
  const tape::SourceSite end = options_.site(chunk.calls.back().site);
  const size_t slash = begin.file.rfind('/');
  std::string label = slash == std::string::npos ? begin.file : begin.file.substr(slash + 1);
  label += ":" + std::to_string(begin.line);
  if (end.line != begin.line || end.file != begin.file) label += ".." + std::to_string(end.line);
  return label + ", " + std::to_string(chunk.calls.size()) +
         (chunk.calls.size() == 1 ? " op" : " ops");
}

// What nothing but this chunk can see needs no memory of its own: see block.h.
void Stream::Place(Chunk& chunk) const {
  if (!options_.host_visible) return;
  for (Block* block : chunk.blocks) {
    if (block->host_data != nullptr) continue;
    if (chunk.how != How::kHost && block->memory_refs.load(std::memory_order_acquire) == 1) {
      chunk.temporaries = true;
      continue;
    }
    Status status = block->allocator->Place(block);
    if (!status.ok()) chunk.placed = std::move(status);
  }
}

void Stream::Dispatch(std::unique_ptr<Chunk> chunk) {
  Place(*chunk);
  ops_in_flight_.fetch_add(static_cast<int64_t>(chunk->calls.size()), std::memory_order_relaxed);
  std::vector<Block*> retained;
  bool wake = false;
  {
    std::lock_guard lock(queue_mu_);
    chunk->seq = submitted_.fetch_add(1, std::memory_order_relaxed) + 1;
    for (Block* block : chunk->blocks) {
      block->last_use.store(chunk->seq, std::memory_order_relaxed);
      // From here on the chunk holds the block, but not its memory: see block.h.
      Retain(block);
    }
    retained = chunk->blocks;
    queue_.push_back(std::move(chunk));
    wake = executor_asleep_;
  }
  for (Block* block : retained) ReleaseMemory(block);
  if (wake) queue_cv_.notify_one();
}

// The caller has gone silent: what is recorded starts now. That moves no cut.
void Stream::DispatchOpen() {
  std::vector<planner::Merger::Release> releases;
  merger_.Flush(&releases);
  Leave(releases);
  open_nonempty_.store(false, std::memory_order_release);
  Chunk& chunk = *open_;
  // Where operator by operator is no option, or would be chance, what is open waits for its
  // snippet.
  if (chunk.calls.empty() || open_mode_ == Mode::kRegion || MustCompile()) return;
  if (open_mode_ == Mode::kDeterministic) return;
  if (chunk.dispatched_calls >= chunk.calls.size()) return;
  auto prefix = NewChunk();
  prefix->calls.assign(chunk.calls.begin() + static_cast<std::ptrdiff_t>(chunk.dispatched_calls),
                       chunk.calls.end());
  prefix->slots = chunk.slots;
  prefix->lifted = chunk.lifted;
  prefix->blocks = chunk.blocks;
  for (Block* block : prefix->blocks) RetainMemory(block);
  chunk.dispatched_calls = chunk.calls.size();
  Dispatch(std::move(prefix));
}

}  // namespace dendrite::engine
