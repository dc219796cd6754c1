// csrc/python/region.h - regions of compiled mode: one per thread and device at a time.
//
// The calls of a region become one snippet, so regions of two threads on one device must not mix:
// the second waits for the first. It does not wait for ever, because the first may be waiting for
// it (an operator written in Python whose implementation runs a compiled function on another
// thread): then it runs outside of any region of its own, which costs speed and nothing else.
// Regions nest: the outermost counts.
#pragma once

namespace dendrite::python {

// Callers hold no Python lock.
void BeginRegion(int device);
// Waits for the region's compiles and throws the first failure.
void EndRegion(int device);
// Ends it after an exception, whose message matters more than a failed compile's.
void AbandonRegion(int device);

}  // namespace dendrite::python
