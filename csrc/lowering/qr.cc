// csrc/lowering/qr.cc - QR factorisation by Householder's reflections, as LAPACK's geqrf: signs
// and scales included.
#include <algorithm>

#include "csrc/lowering/matrix.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

struct Reflections {
  Value packed;  // [batch, m, n]: R above, the reflections' vectors without their 1 below
  Value scales;  // tau: [batch, k]
};

Value RealPart(Builder& b, const Value& x) { return tape::IsComplex(x.dtype) ? b.Real(x) : x; }

// v v^H x, scaled per matrix: what a reflection takes away from x.
Value Reflected(Builder& w, const Value& v, const Value& x, const Value& scale) {
  const Value column = w.Reshape(v, {v.dims[0], v.dims[1], 1});
  const Value row = MatProduct(w, Adjoint(w, column), x);
  const Value outer =
      w.Mul(StretchAlong(w, v, x.dims, 1), w.BroadcastInDim(row, x.dims, {0, 1, 2}));
  return w.Mul(outer, w.BroadcastInDim(scale, x.dims, {0}));
}

// Vector j of packed reflections: 0 above row j, 1 there.
Value VectorAt(Builder& w, const Value& packed, const Value& j) {
  const Value column = ColumnAt(w, packed, j);
  const Value rows = w.Iota(DType::kI32, column.dims, 1), here = w.BroadcastTo(j, column.dims);
  const Value at =
      w.Select(w.Compare(Cmp::kEq, rows, here), Like(w, column, 1), Like(w, column, 0));
  return w.Select(w.Compare(Cmp::kGt, rows, here), column, at);
}

Reflections Factorise(Builder& b, const Value& a) {
  const Dims dims = a.dims;
  const int64_t batch = dims[0], m = dims[1], k = std::min(m, dims[2]);
  const std::vector<Value> done = b.While(
      {b.ConstantInt(DType::kI32, {}, 0), a, b.Constant(a.dtype, {batch, k}, 0)},
      [k](Builder& w, const std::vector<Value>& c) {
        return std::vector<Value>{w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, k))};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value j = c[0], zero_index = w.ConstantInt(DType::kI32, {}, 0);
        const Value column = ColumnAt(w, c[1], j);
        const Value rows = w.Iota(DType::kI32, column.dims, 1), here = w.BroadcastTo(j, rows.dims);
        const Value below = w.Compare(Cmp::kGt, rows, here);
        const Value alpha = w.Reshape(w.DynamicSlice(column, {zero_index, j}, {batch, 1}), {batch});
        const Value size = w.Unary("abs", column);
        const Value tail = Sum(w, w.Select(below, w.Mul(size, size), Like(w, size, 0)), {1});
        const Value real = RealPart(w, alpha), alpha_size = w.Unary("abs", alpha);
        const Value norm = w.Unary("sqrt", w.Add(tail, w.Mul(alpha_size, alpha_size)));
        const Value zero = Like(w, real, 0);
        const Value beta = w.Select(w.Compare(Cmp::kLt, real, zero), norm, w.Unary("negate", norm));
        // Nothing to reflect: the rest is zero, and alpha real.
        Value trivial = w.Compare(Cmp::kEq, tail, zero);
        if (tape::IsComplex(alpha.dtype)) {
          trivial = w.Binary("and", trivial, w.Compare(Cmp::kEq, w.Imag(alpha), zero));
        }
        const Value beta_full = w.Convert(beta, alpha.dtype);
        const Value tau =
            w.Select(trivial, Like(w, alpha, 0), w.Div(w.Sub(beta_full, alpha), beta_full));
        const Value divisor = w.Select(trivial, Like(w, alpha, 1), w.Sub(alpha, beta_full));
        const Value tail_vector = w.Div(column, w.BroadcastInDim(divisor, column.dims, {0}));
        const Value one =
            w.Select(w.Compare(Cmp::kEq, rows, here), Like(w, column, 1), Like(w, column, 0));
        const Value v = w.Select(below, tail_vector, one);
        // The columns on the right are reflected, this one becomes beta and the vector.
        const Value taken = Reflected(w, v, c[1], Conjugate(w, tau));
        const Value place = ColumnNumbers(w, dims), at = w.BroadcastTo(j, dims);
        const Value right = w.Compare(Cmp::kGt, place, at);
        const Value top = w.Select(trivial, alpha, beta_full);
        const Value own = w.Select(below, tail_vector,
                                   w.Select(w.Compare(Cmp::kEq, rows, here),
                                            w.BroadcastInDim(top, column.dims, {0}), column));
        const Value rest = w.Select(right, w.Sub(c[1], taken), c[1]);
        const Value packed =
            w.Select(w.Compare(Cmp::kEq, place, at), StretchAlong(w, own, dims, 1), rest);
        return std::vector<Value>{
            w.Add(j, w.ConstantInt(DType::kI32, {}, 1)), packed,
            w.DynamicUpdateSlice(c[2], w.Reshape(tau, {batch, 1}), {zero_index, j})};
      });
  return {done[1], done[2]};
}

// The product of the reflections, or of their adjoints in reverse, times x.
Value ApplyReflections(Builder& b, const Reflections& r, const Value& x, bool adjoint) {
  const int64_t batch = x.dims[0], k = r.scales.dims[1];
  return b.While(
      {b.ConstantInt(DType::kI32, {}, 0), x, r.packed, r.scales},
      [k](Builder& w, const std::vector<Value>& c) {
        return std::vector<Value>{w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, k))};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value zero = w.ConstantInt(DType::kI32, {}, 0);
        // Innermost first: the last reflection, or, of the adjoint, the first.
        const Value j = adjoint ? c[0] : w.Sub(w.ConstantInt(DType::kI32, {}, k - 1), c[0]);
        const Value tau = w.Reshape(w.DynamicSlice(c[3], {zero, j}, {batch, 1}), {batch});
        const Value v = VectorAt(w, c[2], j);
        const Value taken = Reflected(w, v, c[1], adjoint ? Conjugate(w, tau) : tau);
        return std::vector<Value>{w.Add(c[0], w.ConstantInt(DType::kI32, {}, 1)),
                                  w.Sub(c[1], taken), c[2], c[3]};
      })[1];
}

Value Columns(Builder& b, const Value& x, int64_t n) {
  return b.Slice(x, {0, 0, 0}, {x.dims[0], x.dims[1], n}, {1, 1, 1});
}

// (self) -> (a, tau)
void Geqrf(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (tape::NumElements(a.dims) == 0) return OutZeros(e);
  const Reflections r = Factorise(b, Stack(b, a));
  e.Out(0, Unstack(b, r.packed, LeadingDims(a.dims)));
  e.Out(1, Unstack(b, r.scales, LeadingDims(a.dims)));
}

// (input, tau)
void HouseholderProduct(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0), tau = e.In(1);
  if (RefuseMatrix(e, a)) return;
  const Dims lead = LeadingDims(a.dims);
  const Value stacked = Stack(b, a);
  const Value unit = Identity(b, a.dtype, stacked.dims);
  if (tape::NumElements(a.dims) == 0 || tau.dims.back() == 0) {
    return e.Out(0, Unstack(b, unit, lead));
  }
  const Value scales = b.Reshape(tau, {stacked.dims[0], tau.dims.back()});
  e.Out(0, Unstack(b, ApplyReflections(b, {stacked, scales}, unit, false), lead));
}

// (self, input2: reflections, ...) in PyTorch's order: (input, tau, other, left, transpose)
void Ormqr(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0), tau = e.In(1), other = e.In(2);
  if (RefuseMatrix(e, a)) return;
  if (tape::NumElements(a.dims) == 0 || tape::NumElements(other.dims) == 0) {
    return e.Fail(Unimplemented("ormqr of nothing"));
  }
  const bool left = e.Bool(3, true), adjoint = e.Bool(4);
  const Value packed = Stack(b, a);
  const Reflections r = {packed, b.Reshape(tau, {packed.dims[0], tau.dims.back()})};
  const Value x = Stack(b, other);
  // x Q = (Q^H x^H)^H
  const Value v = left ? ApplyReflections(b, r, x, adjoint)
                       : Adjoint(b, ApplyReflections(b, r, Adjoint(b, x), !adjoint));
  e.Out(0, Unstack(b, v, LeadingDims(other.dims)));
}

// (A, mode) -> (Q, R)
void LinalgQr(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (tape::NumElements(a.dims) == 0) {
    OutZeros(e);
    return OutIdentity(e, 0);
  }
  const std::string mode = e.String(1);
  const bool complete = mode == "complete";
  const Dims lead = LeadingDims(a.dims);
  const Value stacked = Stack(b, a);
  const int64_t batch = stacked.dims[0], m = stacked.dims[1], n = stacked.dims[2];
  const int64_t k = std::min(m, n), rows = complete ? m : k;
  const Reflections r = Factorise(b, stacked);
  const Value top = b.Slice(r.packed, {0, 0, 0}, {batch, rows, n}, {1, 1, 1});
  e.Out(1, Unstack(b, KeepTriangle(b, top, Cmp::kGe, 0), lead));
  if (!e.Wanted(0)) return;
  if (mode == "r") return e.Out(0, b.Constant(a.dtype, e.OutView(0).sizes, 0));
  const Reflections left = {Columns(b, r.packed, k), r.scales};
  const Value unit = Identity(b, a.dtype, {batch, m, rows});
  e.Out(0, Unstack(b, ApplyReflections(b, left, unit, false), lead));
}

DENDRITE_LOWERING("aten.geqrf.default", Geqrf);
DENDRITE_LOWERING("aten.linalg_householder_product.default", HouseholderProduct);
DENDRITE_LOWERING("aten.ormqr.default", Ormqr);
DENDRITE_LOWERING("aten.linalg_qr.default", LinalgQr);

}  // namespace
}  // namespace dendrite::lowering
