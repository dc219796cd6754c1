// csrc/lowering/linalg.cc - triangles, traces, cross products.

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

DENDRITE_LOWERING("aten.tril.default", Tril);
DENDRITE_LOWERING("aten.triu.default", Triu);
DENDRITE_LOWERING("aten.trace.default", Trace);
DENDRITE_LOWERING("aten.linalg_cross.default", LinalgCross);
DENDRITE_LOWERING("aten.cross.default", CrossOp);

}  // namespace
}  // namespace dendrite::lowering
