// csrc/lowering/matmul.cc - matrix and vector products.
//
// All go through MatMul (kernels_by_name.h), which picks a kernel by name or a dot. Results stay in
// opmath until the snippet builder narrows them, so alpha and beta apply before the rounding.

#include <algorithm>

#include "csrc/lowering/kernels_by_name.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

bool IsNumber(const Arg& a, double v) {
  if (a.kind == Arg::Kind::kInt || a.kind == Arg::Kind::kBool) return static_cast<double>(a.i) == v;
  return a.kind == Arg::Kind::kFloat && a.d == v;
}

// x times the number in argument `i`; None and 1 leave it alone.
Value Scaled(Emitter& e, const Value& x, int i) {
  if (e.IsNone(i) || IsNumber(e.arg(i), 1)) return x;
  return e.b().Mul(x, Stretch(e.b(), e.Scalar(i, x.dtype), x));
}

// beta * self + alpha * product, where beta == 0 drops self, NaN and all. `beta` and `alpha` are
// argument positions.
Value Blend(Emitter& e, const Value& self, const Value& product, int beta, int alpha) {
  Builder& b = e.b();
  Value r = Scaled(e, product, alpha);
  if (IsNumber(e.arg(beta), 0)) return r;
  Value s = b.BroadcastTo(e.To(self, r.dtype), r.dims);
  if (e.arg(beta).kind == Arg::Kind::kLifted) {
    const Value factor = Stretch(b, e.Scalar(beta, r.dtype), r);
    const Value zero = Like(b, r, 0);
    s = b.Select(b.Compare(Cmp::kEq, factor, zero), zero, b.Mul(factor, s));
  } else {
    s = Scaled(e, s, beta);
  }
  return b.Add(s, r);
}

// Matrix times vector, as a product with a one-column matrix.
Value MatVec(Emitter& e, const Value& mat, const Value& vec) {
  Builder& b = e.b();
  const DType acc = tape::OpMath(mat.dtype);
  stablehlo::DotDims dims;
  dims.lhs_contract = {1};
  dims.rhs_contract = {0};
  if (mat.dims[0] == 0 || mat.dims[1] == 0) return b.Constant(acc, {mat.dims[0]}, 0);
  return b.DotGeneral(e.To(mat, acc), e.To(vec, acc), dims, acc);
}

Value InnerProduct(Emitter& e, const Value& x, const Value& y) {
  const DType acc = tape::OpMath(x.dtype);
  return Sum(e.b(), e.b().Mul(e.To(x, acc), e.To(y, acc)), {0});
}

Value OuterProduct(Emitter& e, const Value& x, const Value& y) {
  Builder& b = e.b();
  const DType acc = tape::OpMath(x.dtype);
  const Dims dims = {x.dims[0], y.dims[0]};
  return b.Mul(Along(b, e.To(x, acc), dims, 0), Along(b, e.To(y, acc), dims, 1));
}

void Mm(Emitter& e) { e.Out(0, MatMul(e, {e.In(0)}, {e.In(1)})); }

void AddMm(Emitter& e) { e.Out(0, Blend(e, e.In(0), MatMul(e, {e.In(1)}, {e.In(2)}), 3, 4)); }

// addmm.dtype has out_dtype between the matrices and beta.
void AddMmDtype(Emitter& e) { e.Out(0, Blend(e, e.In(0), MatMul(e, {e.In(1)}, {e.In(2)}), 4, 5)); }

void AddBmm(Emitter& e) {
  // The sum over the batch is part of the contraction: [B,m,k] [B,k,n] -> [m,Bk] [Bk,n].
  Builder& b = e.b();
  Value x = e.In(1), y = e.In(2);
  const int64_t batch = x.dims[0], m = x.dims[1], k = x.dims[2], n = y.dims[2];
  Value rows = b.Reshape(b.Transpose(x, {1, 0, 2}), {m, batch * k});
  Value product = MatMul(e, {rows}, {b.Reshape(y, {batch * k, n})});
  e.Out(0, Blend(e, e.In(0), product, 3, 4));
}

void Mv(Emitter& e) { e.Out(0, MatVec(e, e.In(0), e.In(1))); }
void AddMv(Emitter& e) { e.Out(0, Blend(e, e.In(0), MatVec(e, e.In(1), e.In(2)), 3, 4)); }
void Dot(Emitter& e) { e.Out(0, InnerProduct(e, e.In(0), e.In(1))); }

void Vdot(Emitter& e) {
  Builder& b = e.b();
  Value x = e.In(0);
  if (tape::IsComplex(x.dtype)) x = b.Complex(b.Real(x), b.Unary("negate", b.Imag(x)));
  e.Out(0, InnerProduct(e, x, e.In(1)));
}

void Outer(Emitter& e) { e.Out(0, OuterProduct(e, e.In(0), e.In(1))); }
void Addr(Emitter& e) { e.Out(0, Blend(e, e.In(0), OuterProduct(e, e.In(1), e.In(2)), 3, 4)); }

// x [..., k] as [rows, k].
Value Rows(Builder& b, const Value& x) {
  const int64_t k = x.dims.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < x.dims.size(); ++i) rows *= x.dims[i];
  return x.rank() == 2 ? x : b.Reshape(x, {rows, k});
}

void Linear(Emitter& e) {
  Builder& b = e.b();
  Value x = e.In(0), w = e.In(1);
  if (x.rank() == 0 || w.rank() != 2) return e.Fail(Unimplemented("linear: weight is no matrix"));
  Value y = MatMul(e, {Rows(b, x)}, {w, true});
  if (!e.IsNone(2)) y = b.Add(y, b.BroadcastTo(e.To(e.In(2), y.dtype), y.dims));
  e.Out(0, b.Reshape(y, e.OutView(0).sizes));
}

void LinearBackward(Emitter& e) {
  Builder& b = e.b();
  Value x = Rows(b, e.In(0)), grad = Rows(b, e.In(1)), w = e.In(2);
  if (e.Wanted(0)) e.Out(0, b.Reshape(MatMul(e, {grad}, {w}), e.OutView(0).sizes));
  if (e.Wanted(1)) e.Out(1, MatMul(e, {grad, true}, {x}));
  if (e.Wanted(2)) e.Out(2, Sum(b, e.To(grad, tape::OpMath(grad.dtype)), {0}));
}

// NumPy's matmul over the leading dimensions.
void MatMulOp(Emitter& e) {
  Builder& b = e.b();
  Value x = e.In(0), y = e.In(1);
  if (x.rank() == 0 || y.rank() == 0) return e.Fail(Unimplemented("matmul of a 0-dim tensor"));
  if (x.rank() == 1) x = b.Reshape(x, {1, x.dims[0]});
  if (y.rank() == 1) y = b.Reshape(y, {y.dims[0], 1});
  if (y.rank() == 2) {
    Value r = MatMul(e, {Rows(b, x)}, {y});
    return e.Out(0, b.Reshape(r, e.OutView(0).sizes));
  }
  // Broadcast the batch dimensions of both, then flatten them into one.
  const int64_t rank = std::max(x.rank(), y.rank());
  Dims batch(rank - 2, 1);
  int64_t count = 1;
  for (int64_t i = 0; i < rank - 2; ++i) {
    for (const Value* v : {&x, &y}) {
      const int64_t at = i - (rank - v->rank());
      if (at >= 0 && v->dims[at] != 1) batch[i] = v->dims[at];
    }
    count *= batch[i];
  }
  auto flatten = [&](const Value& v) {
    Dims dims = batch;
    dims.push_back(v.dims[v.rank() - 2]);
    dims.push_back(v.dims[v.rank() - 1]);
    return b.Reshape(b.BroadcastTo(v, dims), {count, dims[rank - 2], dims[rank - 1]});
  };
  Value r = MatMul(e, {flatten(x)}, {flatten(y)});
  e.Out(0, b.Reshape(r, e.OutView(0).sizes));
}

// Groups of rows (offs: their ends), each with its own matrix. Every group's product over all rows
// is computed and the row's own is kept, which suits compilers but not many experts.
void GroupedMm(Emitter& e) {
  constexpr int64_t kMaxGroups = 64;
  Builder& b = e.b();
  Value x = e.In(0), w = e.In(1);
  if (!e.IsNone(3)) return e.Fail(Unimplemented("_grouped_mm with a bias"));
  if (x.rank() == 3 && w.rank() == 3) return e.Out(0, MatMul(e, {x}, {w}));
  if (x.rank() != 2 || w.rank() != 3 || e.IsNone(2)) {
    return e.Fail(Unimplemented("_grouped_mm: only groups of rows"));
  }
  const int64_t groups = w.dims[0], rows = x.dims[0], k = x.dims[1], n = w.dims[2];
  if (groups > kMaxGroups) return e.Fail(Unimplemented("_grouped_mm of many groups"));
  Value ends = e.To(e.In(2), DType::kI64);
  Value all = MatMul(e, {b.BroadcastTo(x, {groups, rows, k})}, {w});
  const Dims grid = {groups, rows};
  Value row = b.Iota(DType::kI64, grid, 1);
  Value below_end = b.Compare(Cmp::kLt, row, Along(b, ends, grid, 0));
  // A row belongs to the first group whose end lies beyond it.
  Value earlier = b.Pad(below_end, b.Constant(DType::kBool, {}, 0), {1, 0}, {-1, 0}, {0, 0});
  Value mine = b.Binary("and", below_end, b.Unary("not", earlier));
  Value mask = b.BroadcastInDim(mine, {groups, rows, n}, {0, 1});
  e.Out(0, Sum(b, b.Select(mask, all, Like(b, all, 0)), {0}));
}

DENDRITE_LOWERING("aten.mm.default", Mm);
DENDRITE_LOWERING("aten.mm.dtype", Mm);
DENDRITE_LOWERING("aten.bmm.default", Mm);
DENDRITE_LOWERING("aten.bmm.dtype", Mm);
DENDRITE_LOWERING("aten.addmm.default", AddMm);
DENDRITE_LOWERING("aten.addmm.dtype", AddMmDtype);
DENDRITE_LOWERING("aten.baddbmm.default", AddMm);
DENDRITE_LOWERING("aten.baddbmm.dtype", AddMmDtype);
DENDRITE_LOWERING("aten.addbmm.default", AddBmm);
DENDRITE_LOWERING("aten.mv.default", Mv);
DENDRITE_LOWERING("aten.addmv.default", AddMv);
DENDRITE_LOWERING("aten.dot.default", Dot);
DENDRITE_LOWERING("aten.vdot.default", Vdot);
DENDRITE_LOWERING("aten.ger.default", Outer);
DENDRITE_LOWERING("aten.outer.default", Outer);
DENDRITE_LOWERING("aten.addr.default", Addr);
DENDRITE_LOWERING("aten.linear.default", Linear);
DENDRITE_LOWERING("aten.linear_backward.default", LinearBackward);
DENDRITE_LOWERING("aten.matmul.default", MatMulOp);
DENDRITE_LOWERING("aten._grouped_mm.default", GroupedMm);

}  // namespace
}  // namespace dendrite::lowering
