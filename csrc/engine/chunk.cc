#include "csrc/engine/chunk.h"

#include <unordered_map>

namespace dendrite::engine {

std::unique_ptr<Chunk> NewChunk() {
  // Counted over all streams, so that a block's tape_epoch never matches by accident.
  static std::atomic<uint64_t> next_epoch{1};
  auto chunk = std::make_unique<Chunk>();
  chunk->epoch = next_epoch.fetch_add(1, std::memory_order_relaxed);
  return chunk;
}

int32_t NumberBlock(Chunk& chunk, Block* block) {
  if (block->tape_epoch != chunk.epoch) {
    block->tape_epoch = chunk.epoch;
    block->tape_index = static_cast<int32_t>(chunk.blocks.size());
    RetainMemory(block);
    chunk.blocks.push_back(block);
    chunk.written.push_back(0);
    chunk.had_value.push_back(block->initialized ? 1 : 0);
  }
  return block->tape_index;
}

std::unique_ptr<Chunk> Merge(std::vector<std::unique_ptr<Chunk>> children) {
  auto merged = NewChunk();
  merged->how = How::kMerged;
  size_t calls = 0, slots = 0, lifted = 0;
  for (const auto& child : children) {
    calls += child->calls.size();
    slots += child->slots.size();
    lifted += child->lifted.size();
  }
  merged->calls.reserve(calls);
  merged->slots.reserve(slots);
  merged->offsets.reserve(slots);
  merged->lifted.reserve(lifted);
  // No chunk of plain calls has a key that begins so: signature ids are small.
  merged->key.push_back(~uint64_t{0});
  for (const auto& child : children) {
    for (Call call : child->calls) {
      call.slot += static_cast<uint32_t>(merged->slots.size());
      call.lifted += static_cast<uint32_t>(merged->lifted.size());
      merged->calls.push_back(call);
    }
    merged->slots.insert(merged->slots.end(), child->slots.begin(), child->slots.end());
    merged->lifted.insert(merged->lifted.end(), child->lifted.begin(), child->lifted.end());
    merged->offsets.insert(merged->offsets.end(), child->offsets.begin(), child->offsets.end());
    merged->bytes_written += child->bytes_written;
    merged->key.push_back(static_cast<uint64_t>(child->plan->id));
    for (size_t i = 0; i < child->blocks.size(); ++i) {
      Block* block = child->blocks[i];
      const size_t known = merged->blocks.size();
      const auto number = static_cast<size_t>(NumberBlock(*merged, block));
      if (number == known) merged->had_value[number] = child->had_value[i];
      if (child->written[i]) merged->written[number] = 1;
      merged->key.push_back(number);
      // The memory is the merged chunk's to hold from here on.
      Retain(block);
      ReleaseMemory(block);
    }
  }
  merged->children = std::move(children);
  return merged;
}

void ReleaseBlocks(const Chunk& chunk) {
  for (const auto& child : chunk.children) ReleaseBlocks(*child);
  for (Block* block : chunk.blocks) Release(block);
}

std::shared_ptr<const tape::Tape> MakeTape(const Chunk& chunk, const std::vector<bool>& lift_offset,
                                           bool host_visible,
                                           const std::vector<tape::SourceSite>& sites) {
  auto tape = std::make_shared<tape::Tape>();
  tape->storages.resize(chunk.blocks.size());
  for (size_t i = 0; i < chunk.blocks.size(); ++i) {
    const Block& block = *chunk.blocks[i];
    tape->storages[i].nbytes = static_cast<int64_t>(block.nbytes);
    if (host_visible) continue;
    tape->storages[i].form_dtype = block.form_dtype;
    tape->storages[i].initialized = chunk.had_value[i] != 0;
    if (block.form_dtype != tape::DType::kUndefined) {
      tape->storages[i].form_dims = {static_cast<int64_t>(block.nbytes) /
                                     tape::ItemSize(block.form_dtype)};
    }
  }
  tape->sites = sites;
  tape->records.reserve(chunk.calls.size());
  int32_t num_lifted = 0;
  for (size_t c = 0; c < chunk.calls.size(); ++c) {
    const Call& call = chunk.calls[c];
    const tape::Signature& sig = call.op->sig;
    tape::Record record;
    record.sig = &sig;
    record.site = static_cast<int32_t>(c);
    record.first_lifted = num_lifted;
    num_lifted += sig.num_lifted;
    record.operands.resize(sig.operands.size());
    for (size_t k = 0; k < sig.operands.size(); ++k) {
      const size_t s = call.slot + k;
      const Slot& slot = chunk.slots[s];
      if (slot.block == nullptr) continue;
      record.operands[k].storage = slot.block->tape_index;
      record.operands[k].offset = slot.offset;
      if (lift_offset[s]) record.operands[k].offset_slot = tape->num_lifted_offsets++;
    }
    tape->records.push_back(std::move(record));
  }
  tape->num_lifted = num_lifted;
  return tape;
}

}  // namespace dendrite::engine
