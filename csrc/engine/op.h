// csrc/engine/op.h - one operator call as the engine sees it: an interned operator signature, the
// blocks it touches and its lifted values.
#pragma once

#include <atomic>
#include <cstdint>

#include "csrc/base/status.h"
#include "csrc/engine/block.h"
#include "csrc/tape/record.h"

namespace dendrite::engine {

// Interned by csrc/aten; immutable (but for the memo) and never freed.
struct Op {
  tape::Signature sig;
  uint64_t content_hash = 0;  // of what CanonicalKey says of it: equal in every process
  int64_t bytes_written = 0;
  const void* replay = nullptr;  // csrc/interpreter's side: how to call the PyTorch kernel
  mutable std::atomic<int8_t> lowerable{-1};  // memo of lowering::CanLower: -1 unknown, 0, 1
};

// Of everything but ids; equal in every process and run.
uint64_t ContentHash(const tape::Signature& sig);

struct Slot {
  Block* block = nullptr;  // nullptr: a lifted operand
  int64_t offset = 0;      // in elements of the operand's view
};

// Runs one call on PyTorch's CPU kernels, on memory at block->host_data. Called on the executor
// thread, one call at a time. Never throws.
class Interpreter {
 public:
  virtual ~Interpreter() = default;
  virtual Status Run(const Op& op, const Slot* slots, const tape::Lifted* lifted) = 0;
};

}  // namespace dendrite::engine
