// csrc/engine/temporaries.h - scratch for the storages of a dispatched chunk that have no memory of
// their own (see block.h): from the first call that touches one to the last.
//
// The executor's; what they count is in the Block.
#pragma once

#include "csrc/base/status.h"
#include "csrc/engine/chunk.h"

namespace dendrite::engine {

// How often the chunk's calls, those of merged chunks included, use each block without memory.
void CountUses(const Chunk& chunk);
// Gives `block` scratch if it has no bytes yet. RESOURCE_EXHAUSTED if there is none.
Status TakeTemporary(Block* block);
// A call is over: what it used last goes back.
void UsesDone(const Chunk& chunk, const Call& call, void (*destroy_host_storage)(void*));
// Gives scratch back, if `block` has any.
void DropTemporary(Block* block, void (*destroy_host_storage)(void*));

}  // namespace dendrite::engine
