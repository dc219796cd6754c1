// csrc/python/site.h - the Python line that called an operator, as a small number.
//
// The interpreter's frames are read directly (CPython 3.11's layout), without Python's lock: a
// thread's own frames cannot change while it is inside of a call. A line seen for the first time
// takes the lock once, to pin its code object. Lines inside of torch's own Python files are skipped
// in favour of their caller. Backward operators run on threads without frames: they take the line
// of the forward operator that made the autograd node, found by its sequence number.
#pragma once

#include <cstdint>

#include "csrc/tape/record.h"

namespace dendrite::python {

int32_t CurrentSite();
tape::SourceSite SiteOf(int32_t id);

}  // namespace dendrite::python
