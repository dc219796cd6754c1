#include "csrc/lowering/matrix.h"

#include <algorithm>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"

namespace dendrite::lowering {
namespace {

// Above this size LAPACK wins over a loop over columns, by far.
constexpr int64_t kLargestBesideHost = 64;

}  // namespace

Dims LeadingDims(const Dims& dims, size_t n) {
  return Dims(dims.begin(), dims.end() - static_cast<ptrdiff_t>(std::min(n, dims.size())));
}

Value Stack(Builder& b, const Value& x) {
  const int64_t rank = x.rank();
  return b.Reshape(x, {tape::NumElements(LeadingDims(x.dims)), x.dims[rank - 2], x.dims[rank - 1]});
}

Value Unstack(Builder& b, const Value& x, const Dims& lead) {
  Dims dims = lead;
  dims.insert(dims.end(), x.dims.begin() + 1, x.dims.end());
  return b.Reshape(x, dims);
}

Value MatTranspose(Builder& b, const Value& x) { return b.Transpose(x, {0, 2, 1}); }

Value Conjugate(Builder& b, const Value& x) {
  if (!tape::IsComplex(x.dtype)) return x;
  return b.Complex(b.Real(x), b.Unary("negate", b.Imag(x)));
}

Value Adjoint(Builder& b, const Value& x) { return Conjugate(b, MatTranspose(b, x)); }

Value MatProduct(Builder& b, const Value& x, const Value& y) {
  stablehlo::DotDims d;
  d.lhs_batch = d.rhs_batch = {0};
  d.lhs_contract = {2};
  d.rhs_contract = {1};
  return b.DotGeneral(x, y, d, x.dtype);
}

Value RowNumbers(Builder& b, const Dims& dims) { return b.Iota(DType::kI32, dims, 1); }
Value ColumnNumbers(Builder& b, const Dims& dims) { return b.Iota(DType::kI32, dims, 2); }

Value KeepTriangle(Builder& b, const Value& x, stablehlo::Cmp keep, int64_t diagonal) {
  const Value offset = b.Sub(ColumnNumbers(b, x.dims), RowNumbers(b, x.dims));
  const Value kept = b.Compare(keep, offset, b.ConstantInt(DType::kI32, x.dims, diagonal));
  return b.Select(kept, x, Like(b, x, 0));
}

Value Identity(Builder& b, DType dtype, const Dims& dims) {
  return KeepTriangle(b, b.Constant(dtype, dims, 1), stablehlo::Cmp::kEq, 0);
}

Value DiagonalOf(Builder& b, const Value& x) {
  const int64_t k = std::min(x.dims[1], x.dims[2]);
  const Value square = b.Slice(x, {0, 0, 0}, {x.dims[0], k, k}, {1, 1, 1});
  return Sum(b, KeepTriangle(b, square, stablehlo::Cmp::kEq, 0), {2});
}

Value ColumnAt(Builder& b, const Value& x, const Value& j) {
  const Value zero = b.ConstantInt(DType::kI32, {}, 0);
  const Dims dims = {x.dims[0], x.dims[1]};
  return b.Reshape(b.DynamicSlice(x, {zero, zero, j}, {dims[0], dims[1], 1}), dims);
}

Value RowAt(Builder& b, const Value& x, const Value& j) {
  const Value zero = b.ConstantInt(DType::kI32, {}, 0);
  const Dims dims = {x.dims[0], x.dims[2]};
  return b.Reshape(b.DynamicSlice(x, {zero, j, zero}, {dims[0], 1, dims[1]}), dims);
}

Value StretchAlong(Builder& b, const Value& v, const Dims& dims, int64_t dim) {
  return b.BroadcastInDim(v, dims, {0, dim});
}

Value PermuteRows(Builder& b, const Value& x, const Value& order) {
  const int64_t batch = x.dims[0], m = x.dims[1], n = x.dims[2];
  const Value base =
      b.Mul(b.Iota(DType::kI64, order.dims, 0), b.ConstantInt(DType::kI64, order.dims, m));
  const Value flat = b.Reshape(b.Add(base, order), {batch * order.dims[1]});
  const Value rows = GatherAlong(b, b.Reshape(x, {batch * m, n}), 0, flat);
  return b.Reshape(rows, {batch, order.dims[1], n});
}

void OutIdentity(Emitter& e, int k) {
  if (!e.Wanted(k)) return;
  const tape::View& view = e.OutView(k);
  if (tape::NumElements(view.sizes) == 0) {
    return e.Out(k, e.b().Constant(view.dtype, view.sizes, 0));
  }
  const Value flat = e.b().Constant(view.dtype, view.sizes, 0);
  const Value unit = Identity(e.b(), view.dtype, Stack(e.b(), flat).dims);
  e.Out(k, e.b().Reshape(unit, view.sizes));
}

void OutZeros(Emitter& e) {
  for (int k = 0; k < e.num_results(); ++k) {
    if (e.Wanted(k)) e.Out(k, e.b().Constant(e.OutView(k).dtype, e.OutView(k).sizes, 0));
  }
}

DType WidestType(Emitter& e, DType t) {
  if (!e.traits().has_f64) return tape::OpMath(t);
  return tape::IsComplex(t) ? DType::kC128 : DType::kF64;
}

bool RefuseMatrix(Emitter& e, const Value& x) {
  const bool precise = x.dtype == DType::kF32 || x.dtype == DType::kF64 || tape::IsComplex(x.dtype);
  if (x.rank() < 2 || !precise) {
    e.Fail(Unimplemented(e.sig().op + " of this dtype"));
    return true;
  }
  const int64_t size = std::min(x.dims[x.rank() - 1], x.dims[x.rank() - 2]);
  if (e.traits().kernels_by_name && size > kLargestBesideHost) {
    e.Fail(Unimplemented(e.sig().op + " of large matrices beside a host kernel"));
    return true;
  }
  return e.failed();
}

}  // namespace dendrite::lowering
