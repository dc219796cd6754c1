// csrc/pjrt/plugin_memory.h - large memory that a plugin takes from the C library, given by us.
//
// An executable's buffers are allocated anew in each launch. From malloc, large ones are mapped and
// unmapped each time, and the kernel clears their pages each time: a sixth of a training step of
// the demo's GPT. PJRT has no way to lend a plugin memory for them, so the plugin's references to
// the C library's aligned allocation are pointed at functions of ours: the entries of its global
// offset table (System V ABI, chapter 5.2), which the loader filled in the same way.
#pragma once

#include <cstddef>
#include <string>

#include "csrc/base/status.h"

namespace dendrite::pjrt {

// Callable from any thread, at any time until the process ends.
struct PluginMemory {
  void* (*take)(size_t nbytes);      // aligned to kPluginMemoryAlignment; null: use malloc
  size_t (*size)(const void* data);  // of what `take` returned and nobody gave back; else 0
  bool (*give_back)(void* data);     // false, and nothing done: not from `take`
};
inline constexpr size_t kPluginMemoryAlignment = 4096;
// Smaller allocations are left to malloc.
inline constexpr size_t kLeastPluginMemory = size_t{64} << 10;

// From now on the plugin at `path`, which must be loaded, takes large aligned allocations from
// `memory`, one for the process that must outlive it: another one later is an error. What the
// plugin allocated before stays valid. UNIMPLEMENTED, and nothing changed, if it does not refer to
// the C library for this (linked statically, an allocator of its own, an unknown architecture).
Status ServePluginMemory(const std::string& path, const PluginMemory& memory);

}  // namespace dendrite::pjrt
