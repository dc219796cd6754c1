// csrc/device/hooks.h - registration of the PrivateUse1 hooks, and pinned host memory.
#pragma once

#include <c10/core/Allocator.h>

namespace dendrite::device {

// Once, at import.
void RegisterHooks();

// Page-aligned host memory that isPinned knows. Thread safe.
c10::Allocator* PinnedAllocator();
bool IsPinned(const void* data);

}  // namespace dendrite::device
