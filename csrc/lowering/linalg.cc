// csrc/lowering/linalg.cc - triangles, diagonals, traces, cross products, triangular systems.
#include <algorithm>

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// column - row over the last two dimensions of `dims`, compared with `diagonal`.
Value AgainstDiagonal(Builder& b, const Dims& dims, Cmp cmp, int64_t diagonal) {
  const auto rank = static_cast<int64_t>(dims.size());
  const Dims matrix = {dims[rank - 2], dims[rank - 1]};
  Value offset = b.Sub(b.Iota(DType::kI64, matrix, 1), b.Iota(DType::kI64, matrix, 0));
  Value mask = b.Compare(cmp, offset, b.ConstantInt(DType::kI64, matrix, diagonal));
  return b.BroadcastInDim(mask, dims, {rank - 2, rank - 1});
}

void Triangle(Emitter& e, Cmp keep) {
  Builder& b = e.b();
  Value x = e.In(0);
  if (x.rank() < 2) return e.Fail(Unimplemented("triangle of fewer than 2 dimensions"));
  e.Out(0, b.Select(AgainstDiagonal(b, x.dims, keep, e.Int(1)), x, Like(b, x, 0)));
}

void Tril(Emitter& e) { Triangle(e, Cmp::kLe); }
void Triu(Emitter& e) { Triangle(e, Cmp::kGe); }

void Trace(Emitter& e) {
  Builder& b = e.b();
  Value x = e.In(0);
  if (x.rank() != 2) return e.Fail(Unimplemented("trace of other than a matrix"));
  x = e.To(x, tape::OpMath(e.OutView(0).dtype));
  e.Out(0, Sum(b, b.Select(AgainstDiagonal(b, x.dims, Cmp::kEq, 0), x, Like(b, x, 0)), {0, 1}));
}

// Component i of x along dim.
Value Component(Builder& b, const Value& x, int64_t dim, int64_t i) {
  Dims start(x.rank(), 0), limit = x.dims, stride(x.rank(), 1);
  start[dim] = i;
  limit[dim] = i + 1;
  return b.Slice(x, start, limit, stride);
}

void Cross(Emitter& e, int64_t dim) {
  Builder& b = e.b();
  const Dims& dims = e.OutView(0).sizes;
  const DType type = tape::OpMath(e.In(0).dtype);
  Value x = e.ToSized(e.In(0), type, dims), y = e.ToSized(e.In(1), type, dims);
  dim = WrapDim(dim, x.rank());
  if (dims.empty() || dims[dim] != 3) return e.Fail(Unimplemented("cross: not three components"));
  std::vector<Value> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(b.Sub(b.Mul(Component(b, x, dim, j), Component(b, y, dim, k)),
                          b.Mul(Component(b, x, dim, k), Component(b, y, dim, j))));
  }
  e.Out(0, b.Concatenate(parts, dim));
}

void LinalgCross(Emitter& e) { Cross(e, e.Int(2, -1)); }

// Without a dimension: the first of size 3.
void CrossOp(Emitter& e) {
  if (!e.IsNone(2)) return Cross(e, e.Int(2));
  const Dims& dims = e.OutView(0).sizes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 3) return Cross(e, static_cast<int64_t>(i));
  }
  e.Fail(Unimplemented("cross: not three components"));
}

// (self, offset, dim1, dim2): the last dimension of self becomes a diagonal.
void DiagEmbed(Emitter& e) {
  Builder& b = e.b();
  const Value x = e.In(0);
  const Dims& dims = e.OutView(0).sizes;
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t offset = e.Int(1), row = WrapDim(e.Int(2, -2), rank),
          column = WrapDim(e.Int(3, -1), rank);
  if (row > column) {
    std::swap(row, column);
    offset = -offset;
  }
  // Row r holds element r, from the first row that has one.
  Dims low(x.rank(), 0), high(x.rank(), 0);
  low.back() = std::max<int64_t>(-offset, 0);
  high.back() = dims[row] - x.dims.back() - low.back();
  const Value zero = b.Constant(x.dtype, {}, 0);
  const Value padded = b.Pad(x, zero, low, high, Dims(x.rank(), 0));
  Dims map;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != row && d != column) map.push_back(d);
  }
  map.push_back(row);
  const Value spread = b.BroadcastInDim(padded, dims, map);
  const Value distance = b.Sub(b.Iota(DType::kI64, dims, column), b.Iota(DType::kI64, dims, row));
  const Value on = b.Compare(Cmp::kEq, distance, b.ConstantInt(DType::kI64, dims, offset));
  e.Out(0, b.Select(on, spread, b.Constant(x.dtype, dims, 0)));
}

// (A, B, upper, left, unitriangular)
void SolveTriangular(Emitter& e) {
  Builder& b = e.b();
  const Dims& dims = e.OutView(0).sizes;
  const bool left = e.Bool(3, true);
  Value a = e.In(0), rhs = e.In(1);
  const bool number = tape::IsFloat(a.dtype) || tape::IsComplex(a.dtype);
  if (!number || a.dtype != rhs.dtype) {
    return e.Fail(Unimplemented("a triangular system of other than floats"));
  }
  if (tape::NumElements(dims) == 0) return e.Out(0, b.Constant(a.dtype, dims, 0));
  // Matrices that are shared by the batch are repeated.
  Dims a_dims(dims.begin(), dims.end() - 2);
  a_dims.insert(a_dims.end(), a.dims.end() - 2, a.dims.end());
  a = b.BroadcastTo(a, a_dims);
  rhs = b.BroadcastTo(rhs, dims);
  e.Out(0, b.TriangularSolve(a, rhs, left, !e.Bool(2), e.Bool(4)));
}

// (self, A, upper, transpose, unitriangular) -> (solution, A), the leading dimensions broadcast
void TriangularSolveOp(Emitter& e) {
  Builder& b = e.b();
  if (!e.Wanted(0)) return e.Fail(Unimplemented("triangular_solve without its solution"));
  const Dims& dims = e.OutView(0).sizes;
  const DType type = e.In(0).dtype;
  if (!(tape::IsFloat(type) || tape::IsComplex(type)) || e.In(1).dtype != type) {
    return e.Fail(Unimplemented("a triangular system of other than floats"));
  }
  Dims a_dims(dims.begin(), dims.end() - 1);
  a_dims.push_back(dims[dims.size() - 2]);
  const Value a = b.BroadcastTo(e.In(1), a_dims), rhs = b.BroadcastTo(e.In(0), dims);
  e.Out(1, a);
  if (tape::NumElements(dims) == 0) return e.Out(0, b.Constant(type, dims, 0));
  Dims swap = AllDims(a.rank());
  std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
  const bool upper = e.Bool(2, true), transposed = e.Bool(3);
  const Value matrix = transposed ? b.Transpose(a, swap) : a;
  e.Out(0, b.TriangularSolve(matrix, rhs, true, upper == transposed, e.Bool(4)));
}

DENDRITE_LOWERING("aten.diag_embed.default", DiagEmbed);
DENDRITE_LOWERING("aten.triangular_solve.default", TriangularSolveOp);
DENDRITE_LOWERING("aten.linalg_solve_triangular.default", SolveTriangular);
DENDRITE_LOWERING("aten.tril.default", Tril);
DENDRITE_LOWERING("aten.triu.default", Triu);
DENDRITE_LOWERING("aten.trace.default", Trace);
DENDRITE_LOWERING("aten.linalg_cross.default", LinalgCross);
DENDRITE_LOWERING("aten.cross.default", CrossOp);

}  // namespace
}  // namespace dendrite::lowering
