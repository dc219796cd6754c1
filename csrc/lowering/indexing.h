// csrc/lowering/indexing.h - what the indexing operators share: checked indices, gathers and
// scatters along one dimension or over the flat tensor.
//
// Out-of-range indices are reported through Emitter::CheckIndices; what is computed then is
// discarded, so none of these functions guards against them. Indices are i64 throughout.
#pragma once

#include <cstdint>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

// Indices as i64, checked: [0, size), or [-size, size) with negative ones wrapped.
Value CheckedIndex(Emitter& e, const Value& index, int64_t size);
Value WrappedIndex(Emitter& e, const Value& index, int64_t size);

// x at index[i] of dimension `dim`; index has rank 1.
Value GatherAlong(Builder& b, const Value& x, int64_t dim, const Value& index);
// x with updates[..., i, ...] combined into position index[i] of dimension `dim`.
Value ScatterAlong(Builder& b, const Value& x, int64_t dim, const Value& index,
                   const Value& updates, const stablehlo::Region& body);

// Row-major positions in a tensor of shape `dims`: the coordinate in `dim` is `index`, the others
// are the element's own coordinates in index.
Value FlatIndex(Builder& b, const Value& index, int64_t dim, const Dims& dims);
// Elements of the flattened x, in the shape of `flat`.
Value GatherFlat(Builder& b, const Value& x, const Value& flat);
Value ScatterFlat(Builder& b, const Value& x, const Value& flat, const Value& updates,
                  const stablehlo::Region& body);

// Bodies for Scatter. Assign keeps the last write, as a sequential scatter does.
Value Assign(Builder& b, const Value& current, const Value& update);
Value Accumulate(Builder& b, const Value& current, const Value& update);
// The body of "sum"/"add", "prod"/"multiply", "amax" and "amin"; nullptr for other names. NaN wins
// in the last two.
stablehlo::Region ReductionBody(const std::string& name);

}  // namespace dendrite::lowering
