// csrc/aten/capture.h - from PyTorch's dispatcher to a record on the tape.
//
// Capture(info, stack) is the boxed kernel of every operator that the device owns: it looks the
// argument metadata up in the operator's memo, makes the result tensors, and appends one record to
// the stream. The first call with new metadata runs the operator's Meta kernel (so that errors rise
// here, on the user's line, in PyTorch's words) and interns a signature.
//
// Any thread. No lock is held while a Meta kernel, Python or a destructor runs.
#pragma once

#include <ATen/core/stack.h>

#include "csrc/aten/op_info.h"

namespace dendrite::aten {

void Capture(OpInfo& info, torch::jit::Stack* stack);

// Builds the memo entry for the call on the stack: runs Meta, makes the signature and the replay.
std::unique_ptr<MemoEntry> MakeEntry(OpInfo& info, const torch::jit::Stack& stack,
                                     size_t first_arg);

// The synchronous path: waits for the device, runs the operator's CPU kernel on host tensors on the
// calling thread, and brings the results to the device. For data-dependent shapes, operators
// without Meta kernel, Python kernels.
void RunSynchronously(OpInfo& info, torch::jit::Stack* stack);

// Numbers for Python source sites: set by csrc/python; 0 means unknown.
using SiteHook = int32_t (*)();
void SetSiteHook(SiteHook hook);
int32_t CurrentSite();

}  // namespace dendrite::aten
