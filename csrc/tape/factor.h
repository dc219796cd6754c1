// csrc/tape/factor.h - a strided view written as a slice of nested dimensions.
//
// A window of N consecutive elements, reshaped to `form` (row-major), holds the view as the block
// that begins at `start` and takes `extent` elements of each dimension. A [4, 8] tensor's second
// column has form [4, 8], start [0, 1], extent [4, 1]. Views whose strides do not nest have no such
// form. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "csrc/tape/record.h"

namespace dendrite::tape {

struct Factored {
  Dims form;
  Dims start;        // all zero where the offset is not known yet
  Dims extent;       // in elements; with a step, of what the strided slice takes
  Dims view_dim;     // the view's dimension that lies here; -1: none (extent 1)
  int64_t step = 1;  // stride of the slice in the last dimension
  // Elements that `form` covers: more than the window where the last row is cut short.
  int64_t covered = 0;
};

enum class Step : uint8_t {
  kNested,   // a step of the innermost dimension becomes one more dimension: good for updates
  kStrided,  // it stays a strided slice: needs no divisibility
};

// `offset` in elements from the window's first; nullopt: known at run time only, and then the form
// never covers more than the window. nullopt if the view is empty or its strides do not nest.
std::optional<Factored> Factor(const View& view, std::optional<int64_t> offset, int64_t window,
                               Step step);

// Elements from one index of the outermost dimension to the next, as Factor sees it; 1 where there
// is none.
int64_t OuterStride(const View& view);

// The view without repeated elements: dimensions of stride 0 get size 1.
View WithoutBroadcast(const View& view);

}  // namespace dendrite::tape
