// csrc/lowering/singular_values.cc - singular values, eigenvalues of Hermitian matrices, and
// pseudo-inverses, by one-sided Jacobi rotations.
//
// Singular and eigenvectors are unique up to a sign at best, and callers see which one LAPACK took:
// they are not handed out, and operators that want them are left to the host.
#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/lowering/matrix.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// Sweeps over all pairs; quadratic convergence needs about ten.
constexpr int64_t kMostSweeps = 30;

double Epsilon(DType t) {
  return t == DType::kF64 || t == DType::kC128 ? std::numeric_limits<double>::epsilon()
                                               : std::numeric_limits<float>::epsilon();
}

Value Columns(Builder& b, const Value& x, int64_t from, int64_t to) {
  return b.Slice(x, {0, 0, from}, {x.dims[0], x.dims[1], to}, {1, 1, 1});
}

Value SquaredNorms(Builder& b, const Value& x) {  // of columns: real [batch, n]
  const Value size = b.Unary("abs", x);
  return Sum(b, b.Mul(size, size), {1});
}

// A round robin: pair i is (first[i], second[i]); the next round's pairs follow from a rotation of
// all columns but first[0]. After 2 h - 1 rounds everyone is back in his place.
void NextRound(Builder& w, Value* first, Value* second) {
  const int64_t h = first->dims[2];
  if (h == 1) return;
  const Value fixed = Columns(w, *first, 0, 1), up = Columns(w, *second, 0, 1);
  std::vector<Value> top = {fixed, up};
  if (h > 2) top.push_back(Columns(w, *first, 1, h - 1));
  const Value bottom = w.Concatenate({Columns(w, *second, 1, h), Columns(w, *first, h - 1, h)}, 2);
  *first = w.Concatenate(top, 2);
  *second = bottom;
}

// Columns [batch, m, n] made orthogonal by rotations of pairs.
struct Orthogonal {
  Value columns;    // A V
  Value rotations;  // V: [batch, n, n], unitary
};

Orthogonal Orthogonalise(Builder& b, const Value& a) {
  const int64_t batch = a.dims[0], m = a.dims[1], n = a.dims[2], h = (n + 1) / 2;
  const Value zero = b.Constant(a.dtype, {}, 0);
  const auto split = [&](const Value& x, Value* first, Value* second) {
    const Value even = b.Pad(x, zero, {0, 0, 0}, {0, 0, 2 * h - n}, {0, 0, 0});
    *first = Columns(b, even, 0, h);
    *second = Columns(b, even, h, 2 * h);
  };
  // The vectors of V hang below those of A: both are rotated alike.
  const Value unit = Identity(b, a.dtype, {batch, n, n});
  Value first, second;
  split(b.Concatenate({a, unit}, 1), &first, &second);
  const double tolerance = Epsilon(a.dtype);
  // round, largest cosine of this sweep, first, second
  const Value none = b.Unary("abs", b.Constant(a.dtype, {}, 0));
  const std::vector<Value> done = b.While(
      {b.ConstantInt(DType::kI32, {}, 0), Like(b, none, 1), first, second},
      [&](Builder& w, const std::vector<Value>& c) {
        const Value few = w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, kMostSweeps));
        const Value far = w.Compare(Cmp::kGt, c[1], Like(w, c[1], tolerance));
        return std::vector<Value>{w.Binary("and", few, far)};
      },
      [&](Builder& w, const std::vector<Value>& sweep) {
        const std::vector<Value> rounds = w.While(
            {w.ConstantInt(DType::kI32, {}, 0), Like(w, sweep[1], 0), sweep[2], sweep[3]},
            [&](Builder& v, const std::vector<Value>& c) {
              return std::vector<Value>{
                  v.Compare(Cmp::kLt, c[0], v.ConstantInt(DType::kI32, {}, 2 * h - 1))};
            },
            [&](Builder& v, const std::vector<Value>& c) {
              Value x = c[2], y = c[3];
              const auto upper = [&](const Value& q) {
                return v.Slice(q, {0, 0, 0}, {batch, m, h}, {1, 1, 1});
              };
              const Value ax = upper(x), ay = upper(y);
              const Value alpha = SquaredNorms(v, ax), beta = SquaredNorms(v, ay);
              const Value inner = Sum(v, v.Mul(Conjugate(v, ax), ay), {1});
              const Value size = v.Unary("abs", inner), zero_size = Like(v, size, 0);
              const Value still = v.Compare(Cmp::kEq, size, zero_size);
              const Value safe = v.Select(still, Like(v, size, 1), size);
              // The smaller of the two rotations that make the pair orthogonal.
              const Value zeta = v.Div(v.Sub(beta, alpha), v.Add(safe, safe));
              const Value root = v.Unary("sqrt", v.Add(Like(v, zeta, 1), v.Mul(zeta, zeta)));
              Value t = v.Div(Like(v, zeta, 1), v.Add(v.Unary("abs", zeta), root));
              t = v.Select(v.Compare(Cmp::kLt, zeta, zero_size), v.Unary("negate", t), t);
              t = v.Select(still, zero_size, t);
              const Value cosine =
                  v.Div(Like(v, t, 1), v.Unary("sqrt", v.Add(Like(v, t, 1), v.Mul(t, t))));
              const Value sine = v.Mul(cosine, t);
              const auto along = [&](const Value& q) {
                return v.BroadcastInDim(v.Convert(q, x.dtype), x.dims, {0, 2});
              };
              if (tape::IsComplex(x.dtype)) {  // turned so that the inner product is real
                const Value phase =
                    v.Select(still, Like(v, inner, 1), v.Div(inner, v.Convert(safe, inner.dtype)));
                y = v.Mul(y, v.BroadcastInDim(Conjugate(v, phase), y.dims, {0, 2}));
              } else {
                const Value negative = v.Compare(Cmp::kLt, inner, zero_size);
                const Value sign = v.Select(negative, Like(v, inner, -1), Like(v, inner, 1));
                y = v.Mul(y, v.BroadcastInDim(sign, y.dims, {0, 2}));
              }
              Value next_x = v.Sub(v.Mul(along(cosine), x), v.Mul(along(sine), y));
              Value next_y = v.Add(v.Mul(along(sine), x), v.Mul(along(cosine), y));
              NextRound(v, &next_x, &next_y);
              const Value scale = v.Unary("sqrt", v.Mul(alpha, beta));
              const Value nothing = v.Compare(Cmp::kEq, scale, zero_size);
              const Value angle = v.Select(nothing, zero_size,
                                           v.Div(size, v.Select(nothing, Like(v, size, 1), scale)));
              const Value worst = MaxIgnoringNan(v, angle, {0, 1});
              return std::vector<Value>{v.Add(c[0], v.ConstantInt(DType::kI32, {}, 1)),
                                        v.Binary("maximum", c[1], worst), next_x, next_y};
            });
        return std::vector<Value>{w.Add(sweep[0], w.ConstantInt(DType::kI32, {}, 1)), rounds[1],
                                  rounds[2], rounds[3]};
      });
  const Value all = Columns(b, b.Concatenate({done[2], done[3]}, 2), 0, n);
  return {b.Slice(all, {0, 0, 0}, {batch, m, n}, {1, 1, 1}),
          b.Slice(all, {0, m, 0}, {batch, m + n, n}, {1, 1, 1})};
}

Value Sorted(Builder& b, const Value& x, bool descending) {
  return b.Sort({x}, 1, true, [descending](Builder& r, const std::vector<Value>& v) {
    return std::vector<Value>{r.Compare(descending ? Cmp::kGt : Cmp::kLt, v[0], v[1])};
  })[0];
}

// (A, full_matrices, compute_uv, driver) -> (U, S, Vh)
void Svd(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (e.Bool(2, true) || tape::NumElements(a.dims) == 0) {
    return e.Fail(Unimplemented("singular vectors, which are unique up to a sign only"));
  }
  const Value stacked = e.To(Stack(b, a), WidestType(e, a.dtype));
  const bool wide = stacked.dims[2] > stacked.dims[1];
  const Orthogonal o = Orthogonalise(b, wide ? MatTranspose(b, stacked) : stacked);
  const Value values = Sorted(b, b.Unary("sqrt", SquaredNorms(b, o.columns)), true);
  for (int k : {0, 2}) {
    if (e.Wanted(k)) e.Out(k, b.Constant(a.dtype, e.OutView(k).sizes, 0));  // empty
  }
  if (e.Wanted(1)) e.Out(1, b.Reshape(values, e.OutView(1).sizes));
}

// The Hermitian matrix of which one triangle is given.
Value FromTriangle(Builder& b, const Value& x, bool lower) {
  const Value kept = KeepTriangle(b, x, lower ? Cmp::kLt : Cmp::kGt, 0);
  Value diagonal = KeepTriangle(b, x, Cmp::kEq, 0);
  if (tape::IsComplex(x.dtype)) diagonal = b.Convert(b.Real(diagonal), x.dtype);
  return b.Add(b.Add(kept, Adjoint(b, kept)), diagonal);
}

// (A, UPLO, compute_v) -> (eigenvalues, eigenvectors)
void Eigh(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (e.Bool(2, true) || tape::NumElements(a.dims) == 0 || !e.Wanted(0)) {
    return e.Fail(Unimplemented("eigenvectors, which are unique up to a sign only"));
  }
  const Value stacked = e.To(Stack(b, a), WidestType(e, a.dtype));
  const Value x = FromTriangle(b, stacked, e.String(1) != "U");
  // Shifted by a bound of the norm there are no negative eigenvalues: they are the singular values.
  const Value bound = Max(b, Sum(b, b.Unary("abs", x), {2}), {1});
  const Value shift = b.BroadcastInDim(b.Convert(bound, x.dtype), x.dims, {0});
  const Value shifted = b.Add(x, b.Mul(Identity(b, x.dtype, x.dims), shift));
  const Orthogonal o = Orthogonalise(b, shifted);
  const Value lengths = b.Unary("sqrt", SquaredNorms(b, o.columns));
  const Value values = b.Sub(lengths, b.BroadcastInDim(bound, lengths.dims, {0}));
  if (e.Wanted(1)) e.Out(1, b.Constant(a.dtype, e.OutView(1).sizes, 0));
  e.Out(0, b.Reshape(Sorted(b, values, false), e.OutView(0).sizes));
}

// A tolerance per matrix: [batch] in `type`.
Value Tolerance(Emitter& e, int arg, DType type, const Dims& lead) {
  return e.b().Reshape(e.ToSized(e.In(arg), type, lead), {tape::NumElements(lead)});
}

// (self, atol, rtol, hermitian)
void Pinv(Emitter& e) {
  Builder& b = e.b();
  const Value a = e.In(0);
  if (RefuseMatrix(e, a)) return;
  if (tape::NumElements(a.dims) == 0) return OutZeros(e);
  const Dims lead = LeadingDims(a.dims);
  const DType wide = WidestType(e, a.dtype);
  Value x = e.To(Stack(b, a), wide);
  if (e.Bool(3)) x = FromTriangle(b, x, true);
  // Of a wide matrix, by that of its adjoint.
  const bool turn = x.dims[2] > x.dims[1];
  if (turn) x = Adjoint(b, x);
  const Orthogonal o = Orthogonalise(b, x);
  const Value squares = SquaredNorms(b, o.columns), sizes = b.Unary("sqrt", squares);
  const double usual = Epsilon(a.dtype) * static_cast<double>(std::max(x.dims[1], x.dims[2]));
  const Dims per = {sizes.dims[0]};
  const Value zero = b.Constant(sizes.dtype, per, 0);
  const Value absolute = e.IsNone(1) ? zero : Tolerance(e, 1, sizes.dtype, lead);
  Value relative = b.Constant(sizes.dtype, per, usual);
  if (!e.IsNone(2)) {
    relative = Tolerance(e, 2, sizes.dtype, lead);
  } else if (!e.IsNone(1)) {
    relative = b.Select(b.Compare(Cmp::kGt, absolute, zero), zero, relative);
  }
  const Value scaled = b.Mul(relative, MaxIgnoringNan(b, sizes, {1}));
  const Value least = b.Select(b.Compare(Cmp::kGt, absolute, scaled), absolute, scaled);
  const Value counts = b.Compare(Cmp::kGt, sizes, b.BroadcastInDim(least, sizes.dims, {0}));
  const Value inverse = b.Select(counts, b.Div(Like(b, squares, 1), squares), Like(b, squares, 0));
  // V S^-2 (A V)^H
  const Value left =
      b.Mul(o.rotations, b.BroadcastInDim(b.Convert(inverse, wide), o.rotations.dims, {0, 2}));
  Value v = MatProduct(b, left, Adjoint(b, o.columns));
  if (turn) v = Adjoint(b, v);
  e.Out(0, Unstack(b, v, lead));
}

DENDRITE_LOWERING("aten._linalg_svd.default", Svd);
DENDRITE_LOWERING("aten._linalg_eigh.default", Eigh);
DENDRITE_LOWERING("aten.linalg_pinv.atol_rtol_tensor", Pinv);

}  // namespace
}  // namespace dendrite::lowering
