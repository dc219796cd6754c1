// csrc/lowering/pooling.h - what pooling with windows and adaptive pooling share.
#pragma once

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

// The largest window that is unrolled: one strided slice per element of the window.
inline constexpr int64_t kMaxUnrolledWindow = 64;

struct PoolWindow {
  Dims size, stride, padding, dilation;  // one element per spatial dimension
  Dims in, out;                          // spatial sizes
  size_t lead = 0;                       // dimensions before the spatial ones
  size_t spatial() const { return size.size(); }
  int64_t count() const { return tape::NumElements(size); }
};

// Results 0 and 1: the windows' maxima and their positions.
void MaxPoolWindows(Emitter& e, const Value& x, const Dims& out, const PoolWindow& w);

// True where `x` replaces the maximum so far, as PyTorch's kernels decide.
Value ReplacesMax(Builder& b, const Value& x, const Value& best);

// grad scattered by flat indices within each plane of `dims`.
Value ScatterPlanes(Emitter& e, const Value& grad, const Value& indices, const Dims& dims,
                    size_t lead);

}  // namespace dendrite::lowering
