// csrc/python/profiler.h - what torch.autograd.profiler asks of a device: events in its stream.
#pragma once

namespace dendrite::python {

void RegisterProfiler();

}  // namespace dendrite::python
