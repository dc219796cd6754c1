// csrc/tape/window.h - which bytes of each storage a tape touches.
//
// A snippet sees a storage through its window only, so that a parameter inside of a large bucket
// gives the same snippet wherever it lies, and the storage's size reaches no key. Windows begin at
// multiples of 64 bytes (plugins alias only aligned memory) and are rounded up to whole rows where
// the storage has them. Stateless; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "csrc/tape/record.h"

namespace dendrite::tape {

struct Window {
  int64_t begin = 0;  // bytes
  int64_t end = 0;
  int64_t bytes() const { return end - begin; }
};

inline constexpr int64_t kWindowAlignment = 64;

// One window per storage of the tape; empty where nothing but empty views touch it. A lifted offset
// may point anywhere, so its storage's window is all of it.
std::vector<Window> TouchedWindows(const Tape& tape);

}  // namespace dendrite::tape
