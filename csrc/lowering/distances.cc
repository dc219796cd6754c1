// csrc/lowering/distances.cc - pairwise distances in a p-norm (cdist, pdist), renorm, and their
// gradients.
#include <cmath>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/matrix.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// The p-norm along the last dimension.
Value Norm(Builder& b, const Value& x, double p) {
  const Dims last = {x.rank() - 1};
  const Value size = b.Unary("abs", x);
  if (p == 0) {
    return Sum(b, b.Convert(b.Compare(Cmp::kNe, x, Like(b, x, 0)), x.dtype), last);
  }
  if (p == 1) return Sum(b, size, last);
  if (p == 2) return b.Unary("sqrt", Sum(b, b.Mul(x, x), last));
  if (std::isinf(p)) return Max(b, size, last);
  const Value sum = Sum(b, b.Binary("power", size, Like(b, x, p)), last);
  return b.Binary("power", sum, Like(b, sum, 1 / p));
}

// Derivative of the norm `distance` by x, times grad; all of x's shape. What PyTorch's kernels
// give where it does not exist is 0.
Value NormGradient(Builder& b, const Value& grad, const Value& x, const Value& distance, double p) {
  const Value zero = Like(b, x, 0), size = b.Unary("abs", x);
  const Value sign = b.Sub(b.Convert(b.Compare(Cmp::kGt, x, zero), x.dtype),
                           b.Convert(b.Compare(Cmp::kLt, x, zero), x.dtype));
  const Value none = b.Compare(Cmp::kEq, distance, zero);
  if (p == 0) return zero;
  if (p == 1) return b.Mul(grad, sign);
  if (p == 2) return b.Select(none, zero, b.Div(b.Mul(grad, x), distance));
  if (std::isinf(p)) {
    const Value share = b.Convert(b.Compare(Cmp::kEq, size, distance), x.dtype);
    return b.Mul(b.Mul(grad, sign), share);
  }
  const auto power = [&](const Value& v, double exponent) {
    return b.Binary("power", v, Like(b, v, exponent));
  };
  const Value scale = b.Div(grad, power(distance, p - 1));
  if (p < 2) {
    const Value v = b.Mul(b.Mul(sign, power(size, p - 1)), scale);
    const Value steep = b.Compare(Cmp::kEq, x, zero);  // infinitely so, for p < 1
    return b.Select(p < 1 ? b.Binary("or", none, steep) : none, zero, v);
  }
  return b.Select(none, zero, b.Mul(b.Mul(x, power(size, p - 2)), scale));
}

// x1 - x2 as [batch, P, R, M].
Value Differences(Builder& b, const Value& x1, const Value& x2) {
  const Dims dims = {x1.dims[0], x1.dims[1], x2.dims[1], x1.dims[2]};
  return b.Sub(b.BroadcastInDim(x1, dims, {0, 1, 3}), b.BroadcastInDim(x2, dims, {0, 2, 3}));
}

// |x|^2 - 2 x y + |y|^2: one product instead of P R M differences, and less exact.
Value EuclideanByProduct(Builder& b, const Value& x1, const Value& x2) {
  const Value product = MatProduct(b, x1, MatTranspose(b, x2));
  const Value n1 = Sum(b, b.Mul(x1, x1), {2}), n2 = Sum(b, b.Mul(x2, x2), {2});
  const Dims& dims = product.dims;
  Value square = b.Add(b.BroadcastInDim(n1, dims, {0, 1}), b.BroadcastInDim(n2, dims, {0, 2}));
  square = b.Sub(square, b.Add(product, product));
  const Value zero = Like(b, square, 0);
  return b.Unary("sqrt", b.Select(b.Compare(Cmp::kLt, square, zero), zero, square));
}

// A batch of sets of points with its leading dimensions stretched to `lead`.
Value Points(Emitter& e, int arg, const Dims& lead) {
  const Value x = e.In(arg);
  Dims dims = lead;
  dims.insert(dims.end(), x.dims.end() - 2, x.dims.end());
  return Stack(e.b(), e.ToSized(x, tape::OpMath(x.dtype), dims));
}

// (x1, x2, p, compute_mode)
void CdistForward(Emitter& e) {
  Builder& b = e.b();
  const Dims out = e.OutView(0).sizes;
  const DType type = tape::OpMath(e.In(0).dtype);
  if (!tape::IsFloat(type)) return e.Fail(Unimplemented("cdist of this dtype"));
  if (tape::NumElements(out) == 0 || e.In(0).dims.back() == 0) {
    return e.Out(0, b.Constant(type, out, 0));
  }
  const Dims lead = LeadingDims(out);
  const Value x1 = Points(e, 0, lead), x2 = Points(e, 1, lead);
  const double p = e.Float(2);
  // 0: by product if there are more than 25 points on a side, 1: always, 2: never.
  const int64_t mode = e.Int(3, 0);
  const bool many = x1.dims[1] > 25 || x2.dims[1] > 25;
  const bool by_product = p == 2 && (mode == 1 || (mode == 0 && many));
  const Value distance =
      by_product ? EuclideanByProduct(b, x1, x2) : Norm(b, Differences(b, x1, x2), p);
  e.Out(0, b.Reshape(distance, out));
}

// (grad, x1, x2, p, cdist) -> x1's
void CdistBackward(Emitter& e) {
  Builder& b = e.b();
  const Dims out = e.OutView(0).sizes;
  const DType type = tape::OpMath(e.In(1).dtype);
  const Dims sizes = e.In(4).dims;
  if (!tape::IsFloat(type)) return e.Fail(Unimplemented("cdist of this dtype"));
  if (tape::NumElements(out) == 0 || tape::NumElements(sizes) == 0) {
    return e.Out(0, b.Constant(type, out, 0));
  }
  const Dims lead = LeadingDims(sizes);
  const Value x = Differences(b, Points(e, 1, lead), Points(e, 2, lead));
  const auto per_pair = [&](int arg) {
    return b.BroadcastInDim(Stack(b, e.To(e.In(arg), type)), x.dims, {0, 1, 2});
  };
  const Value each = NormGradient(b, per_pair(0), x, per_pair(4), e.Float(3));
  e.Out(0, b.Reshape(Sum(b, each, {2}), out));
}

// The two points of every pair i < j of n, in PyTorch's order: i64 [n (n - 1) / 2] each.
struct Pairs {
  Value first, second;
};

Pairs AllPairs(Builder& b, int64_t n) {
  const Dims dims = {n * (n - 1) / 2};
  const Value k = b.Iota(DType::kI64, dims, 0);
  const auto integer = [&](int64_t v) { return b.ConstantInt(DType::kI64, dims, v); };
  // Pairs before those of i: i (2n - 1 - i) / 2. Its inverse is a root; rounding is made good.
  const auto before = [&](const Value& i) {
    return b.Div(b.Mul(i, b.Sub(integer(2 * n - 1), i)), integer(2));
  };
  const Value float_k = b.Convert(k, DType::kF32);
  const auto real = [&](double v) { return b.Constant(DType::kF32, dims, v); };
  const auto edge = static_cast<double>(2 * n - 1);
  const Value inside = b.Sub(real(edge * edge), b.Mul(real(8), float_k));
  const Value root = b.Unary("sqrt", b.Binary("maximum", inside, real(1)));
  Value i = b.Convert(b.Unary("floor", b.Div(b.Sub(real(edge), root), real(2))), DType::kI64);
  i = b.Clamp(integer(0), i, integer(n - 2));
  i = b.Select(b.Compare(Cmp::kGt, before(i), k), b.Sub(i, integer(1)), i);
  const Value next = b.Add(i, integer(1));
  i = b.Select(b.Compare(Cmp::kLe, before(next), k), next, i);
  return {i, b.Add(b.Add(b.Sub(k, before(i)), i), integer(1))};
}

// In f32, roots of numbers of pairs beyond this are off by more than one.
constexpr int64_t kMostPoints = 1500;

bool ReadPairs(Emitter& e, const Value& x, Pairs* pairs) {
  if (!tape::IsFloat(x.dtype) || x.dims[0] > kMostPoints) {
    e.Fail(Unimplemented("pdist of this dtype, or of so many points"));
    return false;
  }
  *pairs = AllPairs(e.b(), x.dims[0]);
  return true;
}

// (self, p)
void PdistForward(Emitter& e) {
  Builder& b = e.b();
  const Dims out = e.OutView(0).sizes;
  const Value x = e.To(e.In(0), tape::OpMath(e.In(0).dtype));
  if (tape::NumElements(out) == 0 || x.dims[1] == 0) {
    return e.Out(0, b.Constant(x.dtype, out, 0));
  }
  Pairs pairs;
  if (!ReadPairs(e, x, &pairs)) return;
  const Value difference =
      b.Sub(GatherAlong(b, x, 0, pairs.first), GatherAlong(b, x, 0, pairs.second));
  e.Out(0, Norm(b, difference, e.Float(1, 2)));
}

// (grad, self, p, pdist)
void PdistBackward(Emitter& e) {
  Builder& b = e.b();
  const Value x = e.To(e.In(1), tape::OpMath(e.In(1).dtype));
  Value sum = Like(b, x, 0);
  if (tape::NumElements(e.In(3).dims) == 0 || tape::NumElements(x.dims) == 0) return e.Out(0, sum);
  Pairs pairs;
  if (!ReadPairs(e, x, &pairs)) return;
  const Value difference =
      b.Sub(GatherAlong(b, x, 0, pairs.first), GatherAlong(b, x, 0, pairs.second));
  const auto per_pair = [&](int arg) {
    return b.BroadcastInDim(e.To(e.In(arg), x.dtype), difference.dims, {0});
  };
  const Value each = NormGradient(b, per_pair(0), difference, per_pair(3), e.Float(2));
  sum = ScatterAlong(b, sum, 0, pairs.first, each, Accumulate);
  e.Out(0, ScatterAlong(b, sum, 0, pairs.second, b.Unary("negate", each), Accumulate));
}

// (self, p, dim, maxnorm): slices along `dim` are scaled down to the norm.
void Renorm(Emitter& e) {
  Builder& b = e.b();
  const Value raw = e.In(0);
  if (!tape::IsFloat(raw.dtype)) return e.Fail(Unimplemented("renorm of this dtype"));
  if (tape::NumElements(raw.dims) == 0) return e.Out(0, raw);
  const Value x = e.To(raw, tape::OpMath(raw.dtype));
  const int64_t dim = WrapDim(e.Int(2), x.rank());
  Dims perm = {dim};
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) perm.push_back(d);
  }
  const int64_t n = x.dims[dim];
  const Value rows = b.Reshape(b.Transpose(x, perm), {n, tape::NumElements(x.dims) / n});
  const Value norm = Norm(b, rows, e.Float(1)), most = Like(b, norm, e.Float(3));
  const Value scale = b.Select(b.Compare(Cmp::kGt, norm, most),
                               b.Div(most, b.Add(norm, Like(b, norm, 1e-7))), Like(b, norm, 1));
  e.Out(0, b.Mul(x, Along(b, scale, x.dims, dim)));
}

// (self, indices, max_norm, norm_type): the rows of a table that `indices` names.
void EmbeddingRenorm(Emitter& e) {
  Builder& b = e.b();
  const Value raw = e.In(0);
  const int64_t n = tape::NumElements(e.In(1).dims);
  if (!tape::IsFloat(raw.dtype) || raw.rank() != 2) {
    return e.Fail(Unimplemented("embedding_renorm of other than a table of floats"));
  }
  if (n == 0 || tape::NumElements(raw.dims) == 0) return e.Out(0, raw);
  const Value x = e.To(raw, tape::OpMath(raw.dtype));
  const Value at = b.Reshape(CheckedIndex(e, e.In(1), x.dims[0]), {n});
  const Value named = ScatterAlong(b, b.ConstantInt(DType::kBool, {x.dims[0]}, 0), 0, at,
                                   b.ConstantInt(DType::kBool, {n}, 1), Assign);
  const Value norm = Norm(b, x, e.Float(3)), most = Like(b, norm, e.Float(2));
  const Value over = b.Binary("and", named, b.Compare(Cmp::kGt, norm, most));
  const Value scale =
      b.Select(over, b.Div(most, b.Add(norm, Like(b, norm, 1e-7))), Like(b, norm, 1));
  e.Out(0, b.Mul(x, Along(b, scale, x.dims, 0)));
}

DENDRITE_LOWERING("aten._cdist_forward.default", CdistForward);
DENDRITE_LOWERING("aten._cdist_backward.default", CdistBackward);
DENDRITE_LOWERING("aten._pdist_forward.default", PdistForward);
DENDRITE_LOWERING("aten._pdist_backward.default", PdistBackward);
DENDRITE_LOWERING("aten.renorm.default", Renorm);
DENDRITE_LOWERING("aten.embedding_renorm.default", EmbeddingRenorm);

}  // namespace
}  // namespace dendrite::lowering
