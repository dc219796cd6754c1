#include "csrc/engine/chunk.h"

#include <unordered_map>

namespace dendrite::engine {

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
