// csrc/lowering/lu.cc - LU factorisation with partial pivoting, and what is made of it: solutions,
// inverses, determinants.
#include <algorithm>

#include "csrc/lowering/matrix.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

struct Lu {
  Value factors;  // [batch, m, n]: U above, L without its unit diagonal below
  Value pivots;   // i32 [batch, k], from 1: the row that row j was swapped with
  Value order;    // i64 [batch, m]: the row of A that stands in row j of L U
  Value info;     // i32 [batch]: the first column with a zero pivot, from 1; 0 if none
};

// What LAPACK compares when it looks for a pivot.
Value Magnitude(Builder& b, const Value& x) {
  if (!tape::IsComplex(x.dtype)) return b.Unary("abs", x);
  return b.Add(b.Unary("abs", b.Real(x)), b.Unary("abs", b.Imag(x)));
}

// Per batch, the row at or below `j` with the largest magnitude: i32 [batch].
Value FindPivot(Builder& w, const Value& column, const Value& j) {
  const Value rows = w.Iota(DType::kI32, column.dims, 1);
  const Value size = Magnitude(w, column);
  const Value is_candidate = w.Compare(Cmp::kGe, rows, w.BroadcastTo(j, rows.dims));
  const Value masked = w.Select(is_candidate, size, Like(w, size, -1));
  const Value row =
      w.ReduceN({masked, rows}, {w.Constant(size.dtype, {}, -1), w.ConstantInt(DType::kI32, {}, 0)},
                {1}, [](Builder& r, const std::vector<Value>& v) {
                  // The first of equals, whatever the order of reduction.
                  const Value tie = r.Binary("and", r.Compare(Cmp::kEq, v[2], v[0]),
                                             r.Compare(Cmp::kLt, v[3], v[1]));
                  const Value take = r.Binary("or", r.Compare(Cmp::kGt, v[2], v[0]), tie);
                  return std::vector<Value>{r.Select(take, v[2], v[0]), r.Select(take, v[3], v[1])};
                })[1];
  return w.Binary("maximum", row, w.BroadcastTo(j, row.dims));  // a column of NaN has no largest
}

// x[batch, m, ...] with rows `j` and `p` swapped; `is_p` marks row p, [batch, m, ...].
Value SwapRows(Builder& w, const Value& x, const Value& j, const Value& is_p) {
  Dims one = x.dims;
  one[1] = 1;
  const Value zero = w.ConstantInt(DType::kI32, {}, 0);
  std::vector<Value> starts(x.dims.size(), zero);
  starts[1] = j;
  const Value row_j = w.DynamicSlice(x, starts, one);
  const Value row_p = w.Reshape(Sum(w, w.Select(is_p, x, Like(w, x, 0)), {1}), one);
  const Value swapped = w.Select(is_p, w.BroadcastInDim(row_j, x.dims, AllDims(x.rank())), x);
  return w.DynamicUpdateSlice(swapped, row_p, starts);
}

Lu Factorise(Builder& b, const Value& a) {
  const Dims dims = a.dims;
  const int64_t batch = dims[0], m = dims[1], k = std::min(m, dims[2]);
  const std::vector<Value> start = {
      b.ConstantInt(DType::kI32, {}, 0), a, b.Iota(DType::kI64, {batch, m}, 1),
      b.ConstantInt(DType::kI32, {batch, k}, 0), b.ConstantInt(DType::kI32, {batch}, 0)};
  const std::vector<Value> done = b.While(
      start,
      [k](Builder& w, const std::vector<Value>& c) {
        return std::vector<Value>{w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, k))};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value j = c[0], zero = w.ConstantInt(DType::kI32, {}, 0);
        const Value next = w.Add(j, w.ConstantInt(DType::kI32, {}, 1));
        const Value p = FindPivot(w, ColumnAt(w, c[1], j), j);
        const Dims vector = {batch, m};
        const Value is_p =
            w.Compare(Cmp::kEq, w.Iota(DType::kI32, vector, 1), w.BroadcastInDim(p, vector, {0}));
        const Value swapped = SwapRows(w, c[1], j, StretchAlong(w, is_p, dims, 1));
        const Value order = SwapRows(w, c[2], j, is_p);
        const Value from_one =
            w.Reshape(w.Add(p, w.ConstantInt(DType::kI32, {batch}, 1)), {batch, 1});
        const Value pivots = w.DynamicUpdateSlice(c[3], from_one, {zero, j});
        // Eliminate below the pivot; a zero pivot has nothing but zeros below.
        const Value row = RowAt(w, swapped, j), column = ColumnAt(w, swapped, j);
        const Value pivot = w.Reshape(w.DynamicSlice(row, {zero, j}, {batch, 1}), {batch});
        const Value singular = w.Compare(Cmp::kEq, pivot, Like(w, pivot, 0));
        const Value scaled = w.Select(w.BroadcastInDim(singular, vector, {0}), column,
                                      w.Div(column, w.BroadcastInDim(pivot, vector, {0})));
        const Value below = w.Compare(Cmp::kGt, RowNumbers(w, dims), w.BroadcastTo(j, dims));
        const Value place = ColumnNumbers(w, dims), here = w.BroadcastTo(j, dims);
        const Value factor = StretchAlong(w, scaled, dims, 1);
        const Value reduced = w.Sub(swapped, w.Mul(factor, StretchAlong(w, row, dims, 2)));
        const Value right = w.Select(w.Compare(Cmp::kGt, place, here), reduced, swapped);
        const Value updated = w.Select(w.Compare(Cmp::kEq, place, here), factor, right);
        const Value first = w.Binary("and", singular, w.Compare(Cmp::kEq, c[4], Like(w, c[4], 0)));
        return std::vector<Value>{next, w.Select(below, updated, swapped), order, pivots,
                                  w.Select(first, w.BroadcastTo(next, {batch}), c[4])};
      });
  return {done[1], done[3], done[2], done[4]};
}

// The order that row swaps amount to: i64 [batch, m].
Value OrderOf(Builder& b, const Value& pivots, int64_t m) {
  const int64_t batch = pivots.dims[0], k = pivots.dims[1];
  return b.While(
      {b.ConstantInt(DType::kI32, {}, 0), b.Iota(DType::kI64, {batch, m}, 1), pivots},
      [k](Builder& w, const std::vector<Value>& c) {
        return std::vector<Value>{w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, k))};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value zero = w.ConstantInt(DType::kI32, {}, 0),
                    one = w.ConstantInt(DType::kI32, {}, 1);
        const Value p = w.Reshape(w.DynamicSlice(c[2], {zero, c[0]}, {batch, 1}), {batch});
        const Value from_zero = w.Sub(p, w.ConstantInt(DType::kI32, {batch}, 1));
        const Value is_p = w.Compare(Cmp::kEq, w.Iota(DType::kI32, {batch, m}, 1),
                                     w.BroadcastInDim(from_zero, {batch, m}, {0}));
        return std::vector<Value>{w.Add(c[0], one), SwapRows(w, c[1], c[0], is_p), c[2]};
      })[1];
}

Value InverseOrder(Builder& b, const Value& order) {
  const Dims square = {order.dims[0], order.dims[1], order.dims[1]};  // [batch, place, row]
  const Value hit =
      b.Compare(Cmp::kEq, b.BroadcastInDim(order, square, {0, 1}), b.Iota(DType::kI64, square, 2));
  const Value place = b.Iota(DType::kI64, square, 1);
  return Sum(b, b.Select(hit, place, b.ConstantInt(DType::kI64, square, 0)), {1});
}

// P with A = P L U.
Value PermutationMatrix(Builder& b, const Value& order, DType dtype) {
  const Dims square = {order.dims[0], order.dims[1], order.dims[1]};  // [batch, row, place]
  const Value hit =
      b.Compare(Cmp::kEq, b.BroadcastInDim(order, square, {0, 2}), b.Iota(DType::kI64, square, 1));
  return b.Convert(hit, dtype);
}

// x with A x = rhs, or A^H x = rhs.
Value SolveLu(Builder& b, const Value& factors, const Value& order, const Value& rhs,
              bool adjoint) {
  if (!adjoint) {
    const Value y = b.TriangularSolve(factors, PermuteRows(b, rhs, order), true, true, true);
    return b.TriangularSolve(factors, y, true, false, false);
  }
  const Value turned = Adjoint(b, factors);
  const Value y = b.TriangularSolve(turned, rhs, true, true, false);
  return PermuteRows(b, b.TriangularSolve(turned, y, true, false, true), InverseOrder(b, order));
}

// The same on either side: with x A = rhs, A^H x^H = rhs^H.
Value SolveLu(Builder& b, const Value& factors, const Value& order, const Value& rhs, bool left,
              bool adjoint) {
  if (left) return SolveLu(b, factors, order, rhs, adjoint);
  return Adjoint(b, SolveLu(b, factors, order, Adjoint(b, rhs), !adjoint));
}

// A tensor of `rank` trailing dimensions with its leading ones stretched to `lead`, then merged.
Value StretchLead(Builder& b, const Value& x, const Dims& lead, size_t rank) {
  Dims dims = lead, merged = {tape::NumElements(lead)};
  dims.insert(dims.end(), x.dims.end() - static_cast<ptrdiff_t>(rank), x.dims.end());
  merged.insert(merged.end(), x.dims.end() - static_cast<ptrdiff_t>(rank), x.dims.end());
  return b.Reshape(b.BroadcastTo(x, dims), merged);
}

// For determinants PyTorch factorises the transpose of a contiguous real matrix, which spares it a
// copy; what it returns for the gradient shows that.
bool FactorisesTranspose(Emitter& e) {
  const tape::View& view = e.sig().operands[e.arg(0).ints[0]].view;
  if (tape::IsComplex(view.dtype)) return false;
  int64_t expected = 1;
  for (size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.sizes[d];
  }
  return true;
}

void OutLu(Emitter& e, const Lu& lu, const Dims& lead, int first) {
  Builder& b = e.b();
  e.Out(first, Unstack(b, lu.factors, lead));
  e.Out(first + 1, Unstack(b, lu.pivots, lead));
}

// (A, pivot, check_errors) -> (LU, pivots, info)
void LuFactorEx(Emitter& e) {
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (!e.Bool(1, true) || e.Bool(2)) {
    return e.Fail(Unimplemented("linalg_lu_factor_ex without pivots, or with errors"));
  }
  if (tape::NumElements(a.dims) == 0) return OutZeros(e);
  const Lu lu = Factorise(e.b(), Stack(e.b(), a));
  OutLu(e, lu, LeadingDims(a.dims), 0);
  e.Out(2, e.b().Reshape(lu.info, LeadingDims(a.dims)));
}

// Results 0, 1, 2: P, L, U, as far as they are asked for.
void OutUnpacked(Emitter& e, const Value& factors, const Value& order, const Dims& lead,
                 bool with_factors, bool with_order) {
  Builder& b = e.b();
  if (with_order) {
    e.Out(0, Unstack(b, PermutationMatrix(b, order, factors.dtype), lead));
  }
  if (!with_factors) return;
  const int64_t batch = factors.dims[0], m = factors.dims[1], n = factors.dims[2];
  const int64_t k = std::min(m, n);
  const Value left = b.Slice(factors, {0, 0, 0}, {batch, m, k}, {1, 1, 1});
  const Value upper = b.Slice(factors, {0, 0, 0}, {batch, k, n}, {1, 1, 1});
  const Value unit = Identity(b, factors.dtype, left.dims);
  e.Out(1, Unstack(b, b.Add(KeepTriangle(b, left, Cmp::kLt, 0), unit), lead));
  e.Out(2, Unstack(b, KeepTriangle(b, upper, Cmp::kGe, 0), lead));
}

// (A, pivot) -> (P, L, U)
void LinalgLu(Emitter& e) {
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (!e.Bool(1, true)) return e.Fail(Unimplemented("linalg_lu without pivots"));
  if (tape::NumElements(a.dims) == 0) {
    OutZeros(e);
    return OutIdentity(e, 0);
  }
  const Lu lu = Factorise(e.b(), Stack(e.b(), a));
  OutUnpacked(e, lu.factors, lu.order, LeadingDims(a.dims), true, true);
}

// (LU, pivots, unpack_data, unpack_pivots) -> (P, L, U)
void LuUnpack(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  OutZeros(e);  // of what is not asked for
  if (tape::NumElements(a.dims) == 0) {
    if (e.Bool(3, true)) OutIdentity(e, 0);
    return;
  }
  const Dims lead = LeadingDims(a.dims);
  Value order;
  if (e.Bool(3, true)) {
    const int64_t m = a.dims[a.rank() - 2];
    e.CheckIndices(e.In(1), 1, m + 1);
    order = OrderOf(b, StretchLead(b, e.In(1), lead, 1), m);
  }
  OutUnpacked(e, Stack(b, a), order, lead, e.Bool(2, true), order.defined());
}

// (LU, pivots, B, left, adjoint)
void LuSolve(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a) || !e.Wanted(0)) return;
  const Dims out = e.OutView(0).sizes, lead = LeadingDims(out);
  if (tape::NumElements(out) == 0) return OutZeros(e);
  const Value factors = StretchLead(b, a, lead, 2), rhs = StretchLead(b, e.In(2), lead, 2);
  const int64_t m = factors.dims[1];
  e.CheckIndices(e.In(1), 1, m + 1);
  const Value order = OrderOf(b, StretchLead(b, e.In(1), lead, 1), m);
  e.Out(0, Unstack(b, SolveLu(b, factors, order, rhs, e.Bool(3, true), e.Bool(4)), lead));
}

// (A, B, left, check_errors) -> (result, LU, pivots, info)
void SolveEx(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0), raw = e.In(1);
  if (RefuseMatrix(e, a)) return;
  if (e.Bool(3) || raw.dtype != a.dtype || !e.Wanted(0)) {
    return e.Fail(Unimplemented("_linalg_solve_ex with errors"));
  }
  if (tape::NumElements(a.dims) == 0) return OutZeros(e);
  const Dims own = LeadingDims(a.dims);
  const Lu lu = Factorise(b, Stack(b, a));
  OutLu(e, lu, own, 1);
  e.Out(3, b.Reshape(lu.info, own));
  if (tape::NumElements(raw.dims) == 0) return e.Out(0, b.Constant(a.dtype, e.OutView(0).sizes, 0));
  // A right side of one dimension less, with A's other sizes, is a vector.
  const bool is_vector =
      raw.rank() == 1 || (raw.rank() == a.rank() - 1 && raw.dims == LeadingDims(a.dims, 1));
  Value rhs = raw;
  Dims out = e.OutView(0).sizes;
  if (is_vector) {
    Dims column = raw.dims;
    column.push_back(1);
    rhs = b.Reshape(raw, column);
    out.push_back(1);
  }
  const Dims lead = LeadingDims(out);
  const Value factors = StretchLead(b, Unstack(b, lu.factors, own), lead, 2);
  const Value order = StretchLead(b, Unstack(b, lu.order, own), lead, 1);
  const Value x = SolveLu(b, factors, order, StretchLead(b, rhs, lead, 2), e.Bool(2, true), false);
  e.Out(0, b.Reshape(x, e.OutView(0).sizes));
}

// (A, check_errors) -> (inverse, info)
void InvEx(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (e.Bool(1)) return e.Fail(Unimplemented("linalg_inv_ex with errors"));
  if (tape::NumElements(a.dims) == 0) return OutZeros(e);
  const Value matrix = Stack(b, a);
  const Lu lu = Factorise(b, matrix);
  const Value unit = Identity(b, a.dtype, matrix.dims);
  e.Out(0, Unstack(b, SolveLu(b, lu.factors, lu.order, unit, false), LeadingDims(a.dims)));
  e.Out(1, b.Reshape(lu.info, LeadingDims(a.dims)));
}

// True per matrix where an odd number of rows was swapped.
Value IsOdd(Builder& b, const Value& pivots) {
  const Value own = b.Add(b.Iota(DType::kI32, pivots.dims, 1), Like(b, pivots, 1));
  const Value swaps = Sum(b, b.Convert(b.Compare(Cmp::kNe, pivots, own), DType::kI32), {1});
  const Value low = b.Binary("and", swaps, Like(b, swaps, 1));
  return b.Compare(Cmp::kNe, low, Like(b, low, 0));
}

// Factors A as the determinants do; results `first` and the next: LU and pivots. False if all
// results are there already.
bool FactoriseForDeterminant(Emitter& e, int first, Lu* lu) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return false;
  if (tape::NumElements(a.dims) == 0) {  // a product of no factors
    OutZeros(e);
    if (e.Wanted(0)) e.Out(0, b.Constant(a.dtype, e.OutView(0).sizes, 1));
    return false;
  }
  const Value matrix = Stack(b, a);
  *lu = Factorise(b, FactorisesTranspose(e) ? MatTranspose(b, matrix) : matrix);
  OutLu(e, *lu, LeadingDims(a.dims), first);
  return !e.failed();
}

// (A) -> (result, LU, pivots)
void Det(Emitter& e) {
  Builder& b = e.b();
  Lu lu;
  if (!FactoriseForDeterminant(e, 1, &lu)) return;
  const Value product = Product(b, DiagonalOf(b, lu.factors), {1});
  const Value v = b.Select(IsOdd(b, lu.pivots), b.Unary("negate", product), product);
  e.Out(0, b.Reshape(v, LeadingDims(e.In(0).dims)));
}

// (A) -> (sign, logabsdet, LU, pivots)
void SlogDet(Emitter& e) {
  Builder& b = e.b();
  Lu lu;
  if (!FactoriseForDeterminant(e, 2, &lu)) return;
  const Dims lead = LeadingDims(e.In(0).dims);
  const Value diagonal = DiagonalOf(b, lu.factors), size = b.Unary("abs", diagonal);
  const Value zero = b.Compare(Cmp::kEq, size, Like(b, size, 0));
  const Value unit = tape::IsComplex(diagonal.dtype)
                         ? b.Div(diagonal, b.Convert(size, diagonal.dtype))
                         : b.Div(diagonal, size);
  const Value sign = Product(b, b.Select(zero, Like(b, diagonal, 0), unit), {1});
  const Value turned = b.Select(IsOdd(b, lu.pivots), b.Unary("negate", sign), sign);
  e.Out(0, b.Reshape(turned, lead));
  e.Out(1, b.Reshape(Sum(b, b.Unary("log", size), {1}), lead));
}

DENDRITE_LOWERING("aten.linalg_lu_factor_ex.default", LuFactorEx);
DENDRITE_LOWERING("aten.linalg_lu.default", LinalgLu);
DENDRITE_LOWERING("aten.lu_unpack.default", LuUnpack);
DENDRITE_LOWERING("aten.linalg_lu_solve.default", LuSolve);
DENDRITE_LOWERING("aten._linalg_solve_ex.default", SolveEx);
DENDRITE_LOWERING("aten.linalg_inv_ex.default", InvEx);
DENDRITE_LOWERING("aten._linalg_det.default", Det);
DENDRITE_LOWERING("aten._linalg_slogdet.default", SlogDet);

}  // namespace
}  // namespace dendrite::lowering
