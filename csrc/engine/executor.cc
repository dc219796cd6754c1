// The executor's side of Stream: running chunks in order, at tier 0 or as snippets; errors and
// poison.
#include <cstring>
#include <exception>

#include "csrc/engine/stream.h"
#include "csrc/engine/temporaries.h"

namespace dendrite::engine {
namespace {

std::string ShapeText(const tape::Dims& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(dims[i]);
  }
  return text + "]";
}

// Counts as operators in ops_by_tier: all records are, views and bare allocations are not recorded.
void CountTier(Counters& counters, int tier, size_t calls) {
  counters.ops_by_tier[static_cast<size_t>(tier)].fetch_add(static_cast<int64_t>(calls),
                                                            std::memory_order_relaxed);
}

}  // namespace

Status Stream::Describe(const Call& call, const Status& error) const {
  const auto& sig = call.op->sig;
  std::string text = error.message() + "\n  in operator " + sig.op + "(";
  bool first = true;
  for (const auto& operand : sig.operands) {
    if (operand.lifted_slot >= 0) continue;
    if (!first) text += ", ";
    first = false;
    text += std::string(tape::Name(operand.view.dtype)) + ShapeText(operand.view.sizes);
  }
  text += ")";
  const tape::SourceSite site = options_.site(call.site);
  if (!site.file.empty()) {
    text += ", called at " + site.file + ":" + std::to_string(site.line);
    if (!site.function.empty()) text += " (" + site.function + ")";
  }
  return Status(error.code(), text);
}

void Stream::Poison(Chunk& chunk, const Call& call, const Status& error) {
  auto shared = std::make_shared<const Status>(error);
  const auto& sig = call.op->sig;
  for (size_t i = 0; i < sig.operands.size(); ++i) {
    Block* block = chunk.slots[call.slot + i].block;
    if (block != nullptr && sig.operands[i].written) block->poison = shared;
  }
}

void Stream::RunDispatched(Chunk& chunk) {
  if (!chunk.placed.ok()) {
    auto shared = std::make_shared<const Status>(chunk.placed);
    for (size_t i = 0; i < chunk.blocks.size(); ++i) {
      if (i >= chunk.written.size() || chunk.written[i]) chunk.blocks[i]->poison = shared;
    }
    ReportError(chunk.placed);
    return;
  }
  if (chunk.temporaries) CountUses(chunk);
  RunChunk(chunk);
  // What a snippet of several chunks kept to itself, or an error left.
  if (chunk.temporaries) {
    for (Block* block : chunk.blocks) DropTemporary(block, options_.destroy_host_storage);
  }
}

void Stream::RunChunk(Chunk& chunk) {
  switch (chunk.how) {
    case How::kHost: {
      if (Status status = chunk.host(); !status.ok()) {
        auto shared = std::make_shared<const Status>(status);
        for (Block* block : chunk.blocks) {
          // A reader may hold an older one, which stays true.
          if (block->poison == nullptr) block->poison = shared;
        }
      }
      return;
    }
    case How::kMerged:
      if (!RunSnippet(chunk)) RunChildren(chunk);
      return;
    case How::kSnippet:
      if (RunSnippet(chunk)) return;
      [[fallthrough]];
    case How::kTier0:
      RunTier0(chunk);
      return;
  }
}

void Stream::RunTier0(Chunk& chunk) {
  const double begin = NowSeconds();
  for (const Call& call : chunk.calls) {
    RunCall(chunk, call);
    UsesDone(chunk, call, options_.destroy_host_storage);
  }
  const double end = NowSeconds();
  if (chunk.plan != nullptr && chunk.dispatched_calls == 0) chunk.plan->Sample(0, end - begin);
  if (options_.trace->on() && !chunk.calls.empty()) {
    const tape::SourceSite site = options_.site(chunk.calls.front().site);
    options_.trace->Add(
        {"stream", Label(chunk), begin, end, site.file + ":" + std::to_string(site.line), 0});
  }
}

// Each as its own plan says: what the merged snippet is compared with.
void Stream::RunChildren(Chunk& chunk) {
  const double begin = NowSeconds();
  for (const auto& child : chunk.children) RunChunk(*child);
  chunk.plan->Sample(0, NowSeconds() - begin);
}

void Stream::RunCall(Chunk& chunk, const Call& call) {
  const auto& sig = call.op->sig;
  const Slot* slots = chunk.slots.data() + call.slot;
  std::shared_ptr<const Status> poison;
  bool clears = true;
  for (size_t i = 0; i < sig.operands.size(); ++i) {
    if (slots[i].block == nullptr || slots[i].block->poison == nullptr) continue;
    if (sig.operands[i].read) poison = slots[i].block->poison;
    // A write of part of a poisoned storage leaves the rest unmade.
    if (sig.operands[i].written &&
        sig.operands[i].view.numel() * tape::ItemSize(sig.operands[i].view.dtype) <
            static_cast<int64_t>(slots[i].block->nbytes)) {
      clears = false;
    }
  }
  if (poison != nullptr) {
    for (size_t i = 0; i < sig.operands.size(); ++i) {
      if (slots[i].block != nullptr && sig.operands[i].written) slots[i].block->poison = poison;
    }
    return;
  }
  if (!options_.host_visible) {
    RunCallOnHost(chunk, call);
    return;
  }
  Status status;
  for (size_t i = 0; i < sig.operands.size() && status.ok(); ++i) {
    if (slots[i].block != nullptr) status = TakeTemporary(slots[i].block);
  }
  if (status.ok()) {
    status = options_.interpreter->Run(*call.op, slots, chunk.lifted.data() + call.lifted);
  }
  CountTier(*options_.counters, 0, 1);
  if (options_.tier == TierPolicy::kCompiled) options_.counters->CountFallback(sig.op);
  if (!status.ok()) {
    status = Describe(call, status);
    Poison(chunk, call, status);
    ReportError(status);
  } else if (clears) {
    for (size_t i = 0; i < sig.operands.size(); ++i) {
      if (slots[i].block != nullptr && sig.operands[i].written) slots[i].block->poison = nullptr;
    }
  }
}

// An opaque target's operator that has no lowering: its storages are staged on the host, PyTorch's
// CPU kernel runs there, and what it wrote goes back.
void Stream::RunCallOnHost(Chunk& chunk, const Call& call) {
  const auto& sig = call.op->sig;
  const Slot* slots = chunk.slots.data() + call.slot;
  Status status;
  std::vector<Block*> staged;
  for (size_t i = 0; i < sig.operands.size() && status.ok(); ++i) {
    Block* block = slots[i].block;
    if (block == nullptr || block->host_data != nullptr) continue;
    // 64 bytes more: kernels may take the address of an empty storage.
    block->host_data = std::aligned_alloc(64, (block->nbytes + 127) / 64 * 64);
    staged.push_back(block);
    if (block->host_data == nullptr) {
      status = Status(Code::kResourceExhausted, "out of host memory for a staging copy");
    } else if (block->buffer.defined()) {
      status = block->buffer.ToHost(block->host_data, block->nbytes);
    } else {
      std::memset(block->host_data, 0, block->nbytes);
    }
  }
  if (status.ok())
    status = options_.interpreter->Run(*call.op, slots, chunk.lifted.data() + call.lifted);
  if (status.ok()) {
    for (size_t i = 0; i < sig.operands.size() && status.ok(); ++i) {
      Block* block = slots[i].block;
      if (block == nullptr || !sig.operands[i].written || block->nbytes == 0) continue;
      const auto form = static_cast<uint8_t>(block->form_dtype);
      const int64_t count = static_cast<int64_t>(block->nbytes) / tape::ItemSize(block->form_dtype);
      auto buffer = options_.client->FromHost(block->host_data, pjrt::ElementTypeFromDType(form),
                                              {count}, pjrt::HostBuffer::kCopy);
      if (buffer.ok()) {
        block->buffer = std::move(*buffer);
        block->poison = nullptr;
      } else {
        status = buffer.status();
      }
    }
  }
  for (Block* block : staged) {
    // The interpreter's cached CPU storage points at the staging copy.
    if (block->host_storage != nullptr) {
      options_.destroy_host_storage(block->host_storage);
      block->host_storage = nullptr;
    }
    std::free(block->host_data);
    block->host_data = nullptr;
  }
  options_.counters->ops_host.fetch_add(1, std::memory_order_relaxed);
  options_.counters->CountFallback(sig.op);
  if (!status.ok()) {
    status = Describe(call, status);
    Poison(chunk, call, status);
    ReportError(status);
  }
}

bool Stream::RunSnippet(Chunk& chunk) {
  if (chunk.job == nullptr) return false;
  using State = compiler::CompileJob::State;
  if (!chunk.job->done()) {
    if (!chunk.wait_for_compile) return false;
    const double begin = NowSeconds();
    chunk.job->Wait();
    const auto waited = static_cast<int64_t>((NowSeconds() - begin) * 1e9);
    options_.counters->compile_wait_ns.fetch_add(waited, std::memory_order_relaxed);
  }
  if (chunk.job->state() == State::kFailed) {
    bool warn = false;
    {
      std::lock_guard lock(mu_);
      chunk.plan->broken = true;
      warn = !std::exchange(chunk.plan->warned, true);
    }
    if (warn && options_.warn != nullptr) {
      options_.warn("a snippet could not be compiled and runs at a lower tier (" + Label(chunk) +
                    "): " + chunk.job->error().ToString());
    }
    return false;
  }
  // A poisoned storage makes the snippet's precise effect unknown: operator by operator keeps it
  // exact.
  for (Block* block : chunk.blocks) {
    if (block->poison != nullptr) return false;
  }
  if (!chunk.wait_for_compile && chunk.plan->choice.Choose() == 0) return false;
  const double begin = NowSeconds();
  Status status = Launch(chunk, *chunk.job->loaded());
  const double end = NowSeconds();
  if (status.code() == Code::kFailedPrecondition) return false;  // nothing was launched
  if (!status.ok()) {                                            // no argument could be made
    status = Describe(chunk.calls.front(), status);
    auto shared = std::make_shared<const Status>(status);
    for (size_t i = 0; i < chunk.blocks.size(); ++i) {
      if (chunk.written[i]) chunk.blocks[i]->poison = shared;
    }
    options_.counters->launch_errors.fetch_add(1, std::memory_order_relaxed);
    ReportError(status);
  }
  chunk.plan->Sample(1, end - begin);
  for (const Call& call : chunk.calls) UsesDone(chunk, call, options_.destroy_host_storage);
  if (options_.trace->on()) {
    const tape::SourceSite site = options_.site(chunk.calls.front().site);
    options_.trace->Add({"stream", Label(chunk), begin, end,
                         site.file + ":" + std::to_string(site.line), chunk.tier});
  }
  CountTier(*options_.counters, chunk.tier, chunk.calls.size());
  options_.counters->snippets_launched.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace dendrite::engine
