// csrc/lowering/view_access.h - reading and writing strided views of a window's value.
//
// A window's value is any SSA value whose row-major order is the order of the window's elements.
// Views whose strides nest become reshape + slice + transpose + broadcast, written by
// dynamic_update_slice in the view's own form; the rest gathers and scatters. Pure functions on a
// Builder; mistakes go to its status.
#pragma once

#include "csrc/lowering/snippet.h"
#include "csrc/stablehlo/builder.h"
#include "csrc/tape/record.h"

namespace dendrite::lowering {

struct ViewAt {
  const tape::View& view;
  int64_t offset = 0;        // elements of the view's dtype from the window's first
  Value lifted_offset = {};  // rank-0 i64; defined: takes the place of `offset`
};

// The view's logical value: its sizes, conj and neg applied. REQUIRES: window.dtype == view.dtype.
Value ReadView(Builder& b, const Value& window, const ViewAt& at);

// The window's value after the view was overwritten with `logical` (of the view's sizes and dtype).
Value WriteView(Builder& b, const Value& window, const ViewAt& at, const Value& logical);

// True if the view, at a known offset, is every element of a window of `window` elements, each
// once.
bool CoversWindow(const tape::View& view, int64_t offset, int64_t window);

// The window's value when a view that covers it holds `logical`.
Value WindowFromWholeView(Builder& b, const tape::View& view, const Value& logical);

// The dimensions that WindowFromWholeView gives.
Dims WholeViewForm(const tape::View& view);

// What a lifted offset of this view must satisfy in a window of `window` elements.
Snippet::OffsetCheck OffsetCheckFor(const tape::View& view, int64_t window);

// Views that do not nest: view_irregular.cc.
Value GatherView(Builder& b, const Value& window, const ViewAt& at);
Value ScatterView(Builder& b, const Value& window, const ViewAt& at, const Value& stored);

}  // namespace dendrite::lowering
