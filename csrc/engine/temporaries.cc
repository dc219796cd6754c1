#include "csrc/engine/temporaries.h"

#include "csrc/engine/scratch.h"

namespace dendrite::engine {

void CountUses(const Chunk& chunk) {
  for (const Slot& slot : chunk.slots) {
    if (slot.block != nullptr && slot.block->host_data == nullptr) ++slot.block->uses;
  }
}

Status TakeTemporary(Block* block) {
  if (block->host_data != nullptr) return {};
  block->host_data = GetScratch().Take(block->capacity);
  if (block->host_data == nullptr) {
    return Status(Code::kResourceExhausted, "out of memory: tried to allocate " +
                                                std::to_string(block->nbytes) +
                                                " bytes for a temporary");
  }
  block->temporary = true;
  return {};
}

void UsesDone(const Chunk& chunk, const Call& call, void (*destroy_host_storage)(void*)) {
  const size_t count = call.op->sig.operands.size();
  for (size_t i = 0; i < count; ++i) {
    Block* block = chunk.slots[call.slot + i].block;
    if (block != nullptr && block->uses > 0 && --block->uses == 0) {
      DropTemporary(block, destroy_host_storage);
    }
  }
}

void DropTemporary(Block* block, void (*destroy_host_storage)(void*)) {
  if (!block->temporary) return;
  // The interpreter's cached CPU storage points there.
  if (block->host_storage != nullptr && destroy_host_storage != nullptr) {
    destroy_host_storage(block->host_storage);
    block->host_storage = nullptr;
  }
  GetScratch().GiveBack(block->host_data);
  block->host_data = nullptr;
  block->temporary = false;
}

}  // namespace dendrite::engine
