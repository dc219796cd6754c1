// csrc/lowering/cholesky.cc - Cholesky factors and the systems that they solve.
#include "csrc/lowering/matrix.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

struct Factor {
  Value lower;  // [batch, n, n]
  Value info;   // i32 [batch]: order of the first minor that is not positive definite, or 0
};

Value RealPart(Builder& b, const Value& x) { return tape::IsComplex(x.dtype) ? b.Real(x) : x; }

// Column by column, to find out where it fails, and what came before. Runs only if `needed`.
Factor FactoriseUntilFailure(Builder& b, const Value& a, const Value& needed) {
  const Dims dims = a.dims;
  const int64_t batch = dims[0], n = dims[1];
  const std::vector<Value> done = b.While(
      {b.ConstantInt(DType::kI32, {}, 0), a, b.ConstantInt(DType::kI32, {batch}, 0), needed},
      [n](Builder& w, const std::vector<Value>& c) {
        const Value more = w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, n));
        return std::vector<Value>{w.Binary("and", more, c[3])};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value zero = w.ConstantInt(DType::kI32, {}, 0);
        const Value next = w.Add(c[0], w.ConstantInt(DType::kI32, {}, 1));
        const Value column = ColumnAt(w, c[1], c[0]);
        const Value corner = w.Reshape(w.DynamicSlice(column, {zero, c[0]}, {batch, 1}), {batch});
        const Value pivot = RealPart(w, corner);
        const Value good = w.Compare(Cmp::kGt, pivot, Like(w, pivot, 0));
        const Value running = w.Compare(Cmp::kEq, c[2], Like(w, c[2], 0));
        const Value root = w.Convert(w.Unary("sqrt", pivot), column.dtype);
        const Value scaled = w.Div(column, w.BroadcastInDim(root, column.dims, {0}));
        const Value here = w.BroadcastTo(c[0], dims);
        const Value below = w.Compare(Cmp::kGt, RowNumbers(w, dims), here);
        const Value right = w.Compare(Cmp::kGt, ColumnNumbers(w, dims), here);
        const Value at = w.Compare(Cmp::kEq, ColumnNumbers(w, dims), here);
        const Value outer =
            w.Mul(StretchAlong(w, scaled, dims, 1), StretchAlong(w, Conjugate(w, scaled), dims, 2));
        const Value reduced = w.Select(w.Binary("and", below, right), w.Sub(c[1], outer), c[1]);
        const Value in_column = w.Binary("and", at, w.Compare(Cmp::kGe, RowNumbers(w, dims), here));
        const Value updated = w.Select(in_column, StretchAlong(w, scaled, dims, 1), reduced);
        const Value advances = w.BroadcastInDim(w.Binary("and", good, running), dims, {0});
        const Value fails = w.Binary("and", w.Unary("not", good), running);
        return std::vector<Value>{next, w.Select(advances, updated, c[1]),
                                  w.Select(fails, w.BroadcastTo(next, {batch}), c[2]), c[3]};
      });
  return {done[1], done[2]};
}

Factor Factorise(Builder& b, const Value& a, bool upper) {
  // The upper triangle's factor is the adjoint of its mirror image's.
  const Value lower = KeepTriangle(b, upper ? Adjoint(b, a) : a, Cmp::kLe, 0);
  const Value factor = KeepTriangle(b, b.Cholesky(lower, true), Cmp::kLe, 0);
  const Value diagonal = RealPart(b, DiagonalOf(b, factor));
  // Not a number, or not positive, where it failed.
  const Value good = AllOf(b, b.Compare(Cmp::kGt, diagonal, Like(b, diagonal, 0)), {1});
  const Value needed = b.Unary("not", AllOf(b, good, {0}));
  const Factor partial = FactoriseUntilFailure(b, lower, needed);
  const Value failed = b.Unary("not", good);
  return {b.Select(b.BroadcastInDim(failed, a.dims, {0}), partial.lower, factor),
          b.Select(failed, partial.info, Like(b, partial.info, 0))};
}

// (self, upper, check_errors) -> (L, info)
void CholeskyEx(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (e.Bool(2)) return e.Fail(Unimplemented("linalg_cholesky_ex with errors"));
  const Dims lead = LeadingDims(a.dims);
  if (tape::NumElements(a.dims) == 0) {
    e.Out(0, b.Constant(a.dtype, a.dims, 0));
    return e.Out(1, b.ConstantInt(DType::kI32, lead, 0));
  }
  const Factor f = Factorise(b, Stack(b, a), e.Bool(1));
  e.Out(0, Unstack(b, e.Bool(1) ? Adjoint(b, f.lower) : f.lower, lead));
  e.Out(1, b.Reshape(f.info, lead));
}

// x with (L L^H) x = rhs, or (U^H U) x = rhs.
Value SolveWithFactor(Builder& b, const Value& factor, const Value& rhs, bool upper) {
  const Value lower = upper ? Adjoint(b, factor) : factor;
  const Value y = b.TriangularSolve(lower, rhs, true, true, false);
  return b.TriangularSolve(Adjoint(b, lower), y, true, false, false);
}

// (self, A, upper): both with the same leading dimensions.
void CholeskySolve(Emitter& e) {
  Builder& b = e.b();
  const Value rhs = e.In(0), factor = e.In(1);
  if (RefuseMatrix(e, factor)) return;
  if (tape::NumElements(rhs.dims) == 0) return e.Out(0, b.Constant(rhs.dtype, rhs.dims, 0));
  const Value x = SolveWithFactor(b, Stack(b, factor), Stack(b, rhs), e.Bool(2));
  e.Out(0, Unstack(b, x, LeadingDims(rhs.dims)));
}

// (self, upper)
void CholeskyInverse(Emitter& e) {
  Builder& b = e.b();
  const Value factor = e.In(0);
  if (RefuseMatrix(e, factor)) return;
  if (tape::NumElements(factor.dims) == 0) return e.Out(0, factor);
  const Value stacked = Stack(b, factor);
  const Value unit = Identity(b, factor.dtype, stacked.dims);
  e.Out(0, Unstack(b, SolveWithFactor(b, stacked, unit, e.Bool(1)), LeadingDims(factor.dims)));
}

DENDRITE_LOWERING("aten.linalg_cholesky_ex.default", CholeskyEx);
DENDRITE_LOWERING("aten._cholesky_solve_helper.default", CholeskySolve);
DENDRITE_LOWERING("aten.cholesky_inverse.default", CholeskyInverse);

}  // namespace
}  // namespace dendrite::lowering
