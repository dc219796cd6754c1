// csrc/lowering/reduce_math.h - reductions and broadcasts that several operator families share.
//
// Plain functions over a Builder: no state, no errors of their own (a mistake becomes the Builder's
// status). "dims" are sorted, unique, non-negative: what NormalizeDims returns.
#pragma once

#include <cstdint>
#include <optional>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

// Wraps negative dimensions, sorts, drops duplicates. A tensor of rank 0 has no dimension to name:
// PyTorch accepts 0 and -1 there, and the result is {}.
Dims NormalizeDims(const Dims& dims, int64_t rank);
Dims AllDims(int64_t rank);
// One dimension, wrapped. Rank 0 gives 0: reshape the value with AtLeast1d first.
int64_t WrapDim(int64_t dim, int64_t rank);
// The value itself, or {1} of a rank-0 one.
Value AtLeast1d(Builder& b, const Value& x);
// Product of x's sizes over `dims`.
int64_t Count(const Value& x, const Dims& dims);

// Splat constant of x's type and shape.
Value Like(Builder& b, const Value& x, double v);
// A rank-0 value stretched to x's shape.
Value Stretch(Builder& b, const Value& scalar, const Value& x);
// Undoes the shape effect of a reduction: `reduced` has x's dimensions without `dims`; the result
// has all of x's.
Value Spread(Builder& b, const Value& reduced, const Dims& x_dims, const Dims& dims);
// A vector stretched along dimension `dim` of a tensor of shape `dims`.
Value Along(Builder& b, const Value& vector, const Dims& dims, int64_t dim);

// x != x, as a mask.
Value IsNan(Builder& b, const Value& x);
// x != 0, complex included, as a mask.
Value IsNonzero(Builder& b, const Value& x);

Value Sum(Builder& b, const Value& x, const Dims& dims);
Value Product(Builder& b, const Value& x, const Dims& dims);
Value AnyOf(Builder& b, const Value& mask, const Dims& dims);
Value AllOf(Builder& b, const Value& mask, const Dims& dims);
// Largest and smallest element; NaN wins, as in PyTorch. (XLA's maximum drops NaN when it reduces.)
Value Max(Builder& b, const Value& x, const Dims& dims);
Value Min(Builder& b, const Value& x, const Dims& dims);
// The same, but NaN may get lost: for callers in whom NaN comes back on another way (softmax).
Value MaxIgnoringNan(Builder& b, const Value& x, const Dims& dims);
Value MinIgnoringNan(Builder& b, const Value& x, const Dims& dims);
// Mean over dims in x's own dtype; 0/0 when nothing is reduced over.
Value Mean(Builder& b, const Value& x, const Dims& dims);

// Sums a gradient of a broadcast result down to `dims` (the shape before the broadcast).
Value SumToShape(Builder& b, const Value& x, const Dims& dims);

// PyTorch's loss reductions: 0 none, 1 mean, 2 sum.
Value ReduceLoss(Builder& b, const Value& loss, int64_t reduction);

}  // namespace dendrite::lowering
