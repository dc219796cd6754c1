// csrc/interpreter/scratch.h - what CPU kernels allocate while they run for the device comes from
// csrc/engine/scratch.h.
#pragma once

#include <cstddef>

namespace dendrite::interpreter {

// While one lives, large allocations of PyTorch's CPU allocator on its thread are scratch. Nests.
class ScratchScope {
 public:
  ScratchScope();
  ~ScratchScope();
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;
};

// The allocator's side (csrc/interpreter/placement.cc). Null: not in a scope, or too small.
void* TakeScratch(size_t nbytes);
// From any thread, in a scope or not. False: not scratch.
bool GiveBackScratch(void* data);

}  // namespace dendrite::interpreter
