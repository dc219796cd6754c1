// Stream::Launch: one compiled snippet on a target: arguments from blocks, results back into them.
#include <cstring>
#include <unordered_map>

#include "csrc/engine/stream.h"
#include "csrc/engine/temporaries.h"
#include "csrc/lowering/check_failure.h"

namespace dendrite::engine {
namespace {

using lowering::Snippet;
using lowering::SnippetArg;
using lowering::SnippetOut;

size_t CountOf(const Snippet& snippet, SnippetArg::Kind kind) {
  for (const auto& arg : snippet.args) {
    if (arg.kind == kind) return static_cast<size_t>(tape::NumElements(arg.dims));
  }
  return 0;
}

}  // namespace

Status Stream::Launch(Chunk& chunk, const compiler::LoadedSnippet& loaded) {
  const Snippet& snippet = loaded.snippet;
  const pjrt::Client& client = *options_.client;

  std::vector<double> floats(CountOf(snippet, SnippetArg::Kind::kLiftedFloat));
  std::vector<int64_t> ints(CountOf(snippet, SnippetArg::Kind::kLiftedInt));
  std::vector<double> complexes(2 * CountOf(snippet, SnippetArg::Kind::kLiftedComplex));
  size_t place = 0;
  for (const Call& call : chunk.calls) {
    for (int32_t k = 0; k < call.op->sig.num_lifted; ++k) {
      const tape::Lifted& value = chunk.lifted[call.lifted + static_cast<uint32_t>(k)];
      const auto& to = snippet.lifted[place++];
      if (to.index < 0) continue;
      const auto index = static_cast<size_t>(to.index);
      if (to.kind == SnippetArg::Kind::kLiftedFloat) floats[index] = value.d;
      if (to.kind == SnippetArg::Kind::kLiftedInt) ints[index] = value.i;
      if (to.kind == SnippetArg::Kind::kLiftedComplex) {
        complexes[2 * index] = value.d;
        complexes[2 * index + 1] = value.im;
      }
    }
  }
  size_t offset_slot = 0;
  for (size_t s = 0; s < chunk.plan->lift_offset.size(); ++s) {
    if (!chunk.plan->lift_offset[s] || chunk.slots[s].block == nullptr) continue;
    const int64_t offset = chunk.slots[s].offset;
    if (!CheckLiftedOffset(snippet.offset_checks[offset_slot], offset)) {
      return FailedPrecondition("a moved view does not fit the shape it was compiled for");
    }
    if (snippet.lifted_offsets[offset_slot] >= 0) {
      ints[static_cast<size_t>(snippet.lifted_offsets[offset_slot])] = offset;
    }
    ++offset_slot;
  }

  std::vector<pjrt::Buffer> made;
  made.reserve(snippet.args.size());
  std::vector<pjrt::Buffer*> args;
  args.reserve(snippet.args.size());
  std::vector<float> floats32;
  for (const SnippetArg& arg : snippet.args) {
    const void* data = nullptr;
    pjrt::HostBuffer semantics = pjrt::HostBuffer::kCopy;
    switch (arg.kind) {
      case SnippetArg::Kind::kStorage: {
        Block* block = chunk.blocks[static_cast<size_t>(arg.storage)];
        if (!options_.host_visible) {
          if (!block->buffer.defined()) return Internal("an argument of a snippet has no buffer");
          args.push_back(&block->buffer);
          continue;
        }
        if (Status taken = TakeTemporary(block); !taken.ok()) return taken;
        data = static_cast<char*>(block->host_data) + arg.byte_offset;
        semantics =
            arg.donated ? pjrt::HostBuffer::kMutableZeroCopy : pjrt::HostBuffer::kImmutableZeroCopy;
        break;
      }
      case SnippetArg::Kind::kLiftedFloat:
        data = floats.data();
        if (arg.dtype == tape::DType::kF32) {
          floats32.assign(floats.begin(), floats.end());
          data = floats32.data();
        }
        break;
      case SnippetArg::Kind::kLiftedInt:
        data = ints.data();
        break;
      case SnippetArg::Kind::kLiftedComplex:
        data = complexes.data();
        break;
    }
    auto buffer = client.FromHost(data, pjrt::ElementTypeFromDType(static_cast<uint8_t>(arg.dtype)),
                                  arg.dims, semantics);
    if (!buffer.ok()) return buffer.status();
    made.push_back(std::move(*buffer));
    args.push_back(&made.back());
  }

  std::vector<pjrt::Buffer> outputs;
  auto event = loaded.executable.Execute(args, &outputs);
  Status status = event.ok() ? event->Await() : event.status();
  int32_t failed_record = -1;
  for (size_t k = 0; status.ok() && k < snippet.outs.size(); ++k) {
    const SnippetOut& out = snippet.outs[k];
    if (out.kind == SnippetOut::Kind::kIndexError) {
      status = outputs[k].ToHost(&failed_record, sizeof failed_record);
      continue;
    }
    Block* block = chunk.blocks[static_cast<size_t>(out.storage)];
    if (!options_.host_visible) {
      block->buffer = std::move(outputs[k]);
      continue;
    }
    // The plugin may refuse an alias without saying so; the result is then elsewhere and is copied.
    const SnippetArg& arg = snippet.args[static_cast<size_t>(out.aliased_arg)];
    char* want = static_cast<char*>(block->host_data) + arg.byte_offset;
    auto have = outputs[k].UnsafePointer();
    if (!have.ok()) {
      status = have.status();
    } else if (*have != want) {
      std::memcpy(want, *have,
                  static_cast<size_t>(tape::NumElements(out.dims) * tape::ItemSize(out.dtype)));
    }
  }
  if (!status.ok()) {
    // What was donated is gone: everything that the snippet writes.
    status = Describe(chunk.calls.front(), status);
    auto shared = std::make_shared<const Status>(status);
    for (size_t i = 0; i < chunk.blocks.size(); ++i) {
      if (chunk.written[i]) chunk.blocks[i]->poison = shared;
    }
  } else if (failed_record >= 0) {
    const auto failed = static_cast<size_t>(failed_record);
    const Call& call = chunk.calls[failed];
    status = Describe(call, lowering::CheckFailure(call.op->sig.op));
    PoisonAfterFailedCheck(chunk, failed, status);
  }
  if (!status.ok()) {
    options_.counters->launch_errors.fetch_add(1, std::memory_order_relaxed);
    ReportError(status);
  }
  return status.code() == Code::kFailedPrecondition ? Internal(status.message()) : Status();
}

// Spoiled is what the failed record wrote, what was made from it, and what later records with a
// check of their own wrote, for only the first failure is reported. The rest of the snippet's
// results stand.
void Stream::PoisonAfterFailedCheck(Chunk& chunk, size_t failed, const Status& error) {
  std::unordered_map<const Block*, bool> spoiled;
  for (size_t c = failed; c < chunk.calls.size(); ++c) {
    const Call& call = chunk.calls[c];
    const tape::Signature& sig = call.op->sig;
    bool bad = c == failed || lowering::ChecksAtRunTime(sig, options_.traits);
    for (size_t i = 0; i < sig.operands.size(); ++i) {
      const Block* block = chunk.slots[call.slot + i].block;
      if (block != nullptr && sig.operands[i].read) bad |= spoiled[block];
    }
    for (size_t i = 0; i < sig.operands.size(); ++i) {
      const Block* block = chunk.slots[call.slot + i].block;
      if (block == nullptr || !sig.operands[i].written) continue;
      const tape::View& view = sig.operands[i].view;
      const bool whole =
          view.numel() * tape::ItemSize(view.dtype) >= static_cast<int64_t>(block->nbytes);
      if (bad || whole) spoiled[block] = bad;
    }
  }
  auto shared = std::make_shared<const Status>(error);
  for (Block* block : chunk.blocks) {
    if (spoiled[block]) block->poison = shared;
  }
}

Status Stream::ReadBlock(Block* block, void* dst) {
  return RunOnHost(
      [block, dst]() -> Status {
        if (block->poison != nullptr) return *block->poison;
        if (block->nbytes == 0) return {};
        if (!block->buffer.defined()) {
          std::memset(dst, 0, block->nbytes);
          return {};
        }
        return block->buffer.ToHost(dst, block->nbytes);
      },
      {block}, /*wait=*/true);
}

}  // namespace dendrite::engine
