#include "csrc/lowering/reduce_math.h"

#include <algorithm>
#include <cmath>

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// `extreme`, or NaN where x has one along dims. Two plain reductions vectorise, one whose reducer
// spells out NaN does not.
Value WithNan(Builder& b, const Value& x, const Value& extreme, const Dims& dims) {
  if (!tape::IsFloat(x.dtype)) return extreme;
  const Value nan = b.Constant(extreme.dtype, extreme.dims, std::nan(""));
  return b.Select(AnyOf(b, IsNan(b, x), dims), nan, extreme);
}

}  // namespace

Dims NormalizeDims(const Dims& dims, int64_t rank) {
  Dims out;
  if (rank == 0) return out;
  for (int64_t d : dims) out.push_back(WrapDim(d, rank));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Dims AllDims(int64_t rank) {
  Dims out(rank);
  for (int64_t i = 0; i < rank; ++i) out[i] = i;
  return out;
}

int64_t WrapDim(int64_t dim, int64_t rank) { return rank == 0 ? 0 : dim < 0 ? dim + rank : dim; }

Value AtLeast1d(Builder& b, const Value& x) { return x.rank() == 0 ? b.Reshape(x, {1}) : x; }

int64_t Count(const Value& x, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= x.dims[d];
  return n;
}

Value Like(Builder& b, const Value& x, double v) { return b.Constant(x.dtype, x.dims, v); }

Value Stretch(Builder& b, const Value& scalar, const Value& x) {
  return b.BroadcastTo(scalar, x.dims);
}

Value Spread(Builder& b, const Value& reduced, const Dims& x_dims, const Dims& dims) {
  Dims map;
  for (int64_t i = 0; i < static_cast<int64_t>(x_dims.size()); ++i) {
    if (!std::binary_search(dims.begin(), dims.end(), i)) map.push_back(i);
  }
  return b.BroadcastInDim(reduced, x_dims, map);
}

Value Along(Builder& b, const Value& vector, const Dims& dims, int64_t dim) {
  return b.BroadcastInDim(vector, dims, {dim});
}

Value IsNan(Builder& b, const Value& x) { return b.Compare(Cmp::kNe, x, x); }

Value IsNonzero(Builder& b, const Value& x) {
  if (x.dtype == DType::kBool) return x;
  if (tape::IsComplex(x.dtype)) {
    return b.Binary("or", IsNonzero(b, b.Real(x)), IsNonzero(b, b.Imag(x)));
  }
  return b.Compare(Cmp::kNe, x, Like(b, x, 0));
}

Value Sum(Builder& b, const Value& x, const Dims& dims) {
  const bool alone = std::all_of(dims.begin(), dims.end(),
                                 [&](int64_t d) { return x.dims[static_cast<size_t>(d)] == 1; });
  Value terms = x;
  if (alone && tape::IsFloat(x.dtype)) {
    // XLA drops the reduction and with it the zero that a sum begins with, which makes -0 into 0.
    const Value zero = Like(b, x, 0);
    terms = b.Select(b.Compare(Cmp::kEq, x, zero), zero, x);
  }
  return b.Reduce(terms, b.Constant(x.dtype, {}, 0), dims,
                  [](Builder& r, const Value& p, const Value& q) { return r.Add(p, q); });
}

Value Product(Builder& b, const Value& x, const Dims& dims) {
  return b.Reduce(x, b.Constant(x.dtype, {}, 1), dims,
                  [](Builder& r, const Value& p, const Value& q) { return r.Mul(p, q); });
}

Value AnyOf(Builder& b, const Value& mask, const Dims& dims) {
  return b.Reduce(mask, b.Constant(DType::kBool, {}, 0), dims,
                  [](Builder& r, const Value& p, const Value& q) { return r.Binary("or", p, q); });
}

Value AllOf(Builder& b, const Value& mask, const Dims& dims) {
  return b.Reduce(mask, b.Constant(DType::kBool, {}, 1), dims,
                  [](Builder& r, const Value& p, const Value& q) { return r.Binary("and", p, q); });
}

Value MaxIgnoringNan(Builder& b, const Value& x, const Dims& dims) {
  return b.Reduce(
      x, b.Infinity(x.dtype, {}, true), dims,
      [](Builder& r, const Value& p, const Value& q) { return r.Binary("maximum", p, q); });
}

Value MinIgnoringNan(Builder& b, const Value& x, const Dims& dims) {
  return b.Reduce(
      x, b.Infinity(x.dtype, {}, false), dims,
      [](Builder& r, const Value& p, const Value& q) { return r.Binary("minimum", p, q); });
}

Value Max(Builder& b, const Value& x, const Dims& dims) {
  if (x.dtype == DType::kBool) return AnyOf(b, x, dims);
  return WithNan(b, x, MaxIgnoringNan(b, x, dims), dims);
}

Value Min(Builder& b, const Value& x, const Dims& dims) {
  if (x.dtype == DType::kBool) return AllOf(b, x, dims);
  return WithNan(b, x, MinIgnoringNan(b, x, dims), dims);
}

Value Mean(Builder& b, const Value& x, const Dims& dims) {
  Value sum = Sum(b, x, dims);
  return b.Div(sum, Like(b, sum, static_cast<double>(Count(x, dims))));
}

Value SumToShape(Builder& b, const Value& x, const Dims& dims) {
  const int64_t lead = x.rank() - static_cast<int64_t>(dims.size());
  Dims reduced;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i < lead || (dims[i - lead] == 1 && x.dims[i] != 1)) reduced.push_back(i);
  }
  if (reduced.empty()) return x;
  return b.Reshape(Sum(b, x, reduced), dims);
}

Value ReduceLoss(Builder& b, const Value& loss, int64_t reduction) {
  const Dims all = AllDims(loss.rank());
  if (reduction == 1) return Mean(b, loss, all);
  if (reduction == 2) return Sum(b, loss, all);
  return loss;
}

}  // namespace dendrite::lowering
