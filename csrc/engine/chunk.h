// csrc/engine/chunk.h - a contiguous run of recorded calls: the open tape while it grows, then the
// unit that is dispatched, and, if every operator in it lowers, a snippet.
//
// While open it belongs to the stream's tape lock; once dispatched, to the executor alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "csrc/compiler/compile_service.h"
#include "csrc/engine/op.h"
#include "csrc/engine/plan.h"

namespace dendrite::engine {

enum class How : uint8_t {
  kTier0,    // operator by operator: CPU kernels, or single-operator NEFFs on opaque targets
  kSnippet,  // as the plan says
  kMerged,   // as one snippet if it is ready, or else by its children
  kHost,     // runs `host`
};

struct Call {
  const Op* op = nullptr;
  uint32_t slot = 0;    // first of its slots
  uint32_t lifted = 0;  // first of its lifted values
  int32_t site = 0;     // csrc/aten's source site
};

struct Chunk {
  std::vector<Call> calls;
  std::vector<Slot> slots;
  std::vector<tape::Lifted> lifted;
  std::vector<Block*> blocks;      // by first appearance; a memory reference each while open
  std::vector<uint8_t> written;    // parallel to blocks
  std::vector<uint8_t> live;       // parallel to blocks; decided when it closes
  std::vector<uint8_t> had_value;  // parallel to blocks: Block::initialized before the chunk
  std::vector<uint64_t> key;       // in-process key: signature ids, local numbers, offsets
  std::vector<int64_t> offsets;    // of slots, in key order: lifted where they vary
  int64_t bytes_written = 0;
  uint64_t content_hash = 0;  // of its operators, equal in all processes
  uint64_t epoch = 0;
  uint64_t seq = 0;
  size_t dispatched_calls = 0;  // prefix that already went out (the caller had gone silent)
  How how = How::kTier0;
  int tier = 1;  // of its snippet
  bool wait_for_compile = false;
  bool temporaries = false;  // some of its blocks have no memory of their own
  Status placed;             // not OK: there was no memory for one of them
  std::shared_ptr<Plan> plan;
  std::shared_ptr<compiler::CompileJob> job;
  std::shared_ptr<const tape::Tape> tape;  // set with job
  std::function<Status()> host;
  std::vector<std::unique_ptr<Chunk>> children;  // of a merged chunk, in order
};

// An empty chunk with an epoch of its own.
std::unique_ptr<Chunk> NewChunk();

// Numbers `block` in `chunk` (retaining it on first sight) and returns its local index.
int32_t NumberBlock(Chunk& chunk, Block* block);

// One chunk made of neighbours that are closed and not yet dispatched; they become its children.
// Its blocks are renumbered, and it holds their memory instead of them.
std::unique_ptr<Chunk> Merge(std::vector<std::unique_ptr<Chunk>> children);

// Drops the references of a chunk that was dispatched.
void ReleaseBlocks(const Chunk& chunk);

// The torch-free form of the chunk for key and lowering. `lift_offset[i]`: slot i's offset is
// lifted.
std::shared_ptr<const tape::Tape> MakeTape(const Chunk& chunk, const std::vector<bool>& lift_offset,
                                           bool host_visible,
                                           const std::vector<tape::SourceSite>& sites);

}  // namespace dendrite::engine
