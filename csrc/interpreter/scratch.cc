#include "csrc/interpreter/scratch.h"

#include "csrc/engine/scratch.h"

namespace dendrite::interpreter {
namespace {

constexpr size_t kLeast = size_t{64} << 10;  // below, malloc's heap loses little

thread_local int t_depth = 0;

}  // namespace

ScratchScope::ScratchScope() { ++t_depth; }
ScratchScope::~ScratchScope() { --t_depth; }

void* TakeScratch(size_t nbytes) {
  return t_depth > 0 && nbytes >= kLeast ? engine::GetScratch().Take(nbytes) : nullptr;
}

bool GiveBackScratch(void* data) { return engine::GetScratch().GiveBack(data); }

}  // namespace dendrite::interpreter
