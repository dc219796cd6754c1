// csrc/lowering/matrix.h - batches of matrices, as the linear algebra lowerings see them: values
// of shape [batch, rows, columns], the leading dimensions of PyTorch's tensors being merged.
//
// Factorisations are loops over columns that update the whole batch at once: a few operations
// whatever the size. Pure functions on a Builder.
#pragma once

#include <cstdint>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

// [..., m, n] as [batch, m, n], and back with the given leading dimensions. REQUIRES: rank >= 2.
Value Stack(Builder& b, const Value& x);
Value Unstack(Builder& b, const Value& x, const Dims& lead);
// All but the last `n` dimensions.
Dims LeadingDims(const Dims& dims, size_t n = 2);

Value MatTranspose(Builder& b, const Value& x);
Value Adjoint(Builder& b, const Value& x);
Value Conjugate(Builder& b, const Value& x);
Value MatProduct(Builder& b, const Value& x, const Value& y);
Value Identity(Builder& b, DType dtype, const Dims& dims);
// Zero where column - row does not compare so with `diagonal`.
Value KeepTriangle(Builder& b, const Value& x, stablehlo::Cmp keep, int64_t diagonal);
// [batch, min(m, n)]
Value DiagonalOf(Builder& b, const Value& x);
// Row and column numbers of [batch, m, n], i32.
Value RowNumbers(Builder& b, const Dims& dims);
Value ColumnNumbers(Builder& b, const Dims& dims);
// Column and row `j` (i32, rank 0), as [batch, m] and [batch, n].
Value ColumnAt(Builder& b, const Value& x, const Value& j);
Value RowAt(Builder& b, const Value& x, const Value& j);
// A vector per matrix, stretched: v[batch, m] along the rows' dimension (1) or the columns' (2).
Value StretchAlong(Builder& b, const Value& v, const Dims& dims, int64_t dim);
// Rows in the order of `order` [batch, m], i64.
Value PermuteRows(Builder& b, const Value& x, const Value& order);

// Results without a matrix to compute them from: result `k` as identities (or nothing at all), all
// wanted results as zeros.
void OutIdentity(Emitter& e, int k);
void OutZeros(Emitter& e);

// The widest type of t's kind that the target has: what iterations are computed in.
DType WidestType(Emitter& e, DType t);

// True, and fails the lowering, where a host kernel stands by that is faster than a loop over the
// columns of matrices of this size, and for other than f32, f64 and their complex types.
bool RefuseMatrix(Emitter& e, const Value& x);

}  // namespace dendrite::lowering
