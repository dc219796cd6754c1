#include "csrc/lowering/linear_map.h"

#include <algorithm>

#include "csrc/lowering/reduce_math.h"

namespace dendrite::lowering {
namespace {

using Rows = std::vector<std::vector<LinearMap::Term>>;

// Above this many terms a row, gathers lose to a matrix product.
constexpr size_t kMaxTerms = 8;

size_t MaxTerms(const Rows& rows) {
  size_t n = 0;
  for (const auto& row : rows) n = std::max(n, row.size());
  return n;
}

// r > 0 if result position o reads exactly o / r, unweighted.
int64_t RepeatCount(const LinearMap& map) {
  if (map.in_size == 0 || map.rows.empty() || map.out_size() % map.in_size != 0) return 0;
  const int64_t r = map.out_size() / map.in_size;
  for (int64_t o = 0; o < map.out_size(); ++o) {
    if (map.rows[o].size() != 1 || map.rows[o][0].index != o / r) return 0;
  }
  return map.IsUnweighted() ? r : 0;
}

// x[..., size, ...] -> [..., outer, inner, ...]
Dims SplitDim(const Dims& dims, int64_t dim, int64_t outer, int64_t inner) {
  Dims out = dims;
  out[dim] = outer;
  out.insert(out.begin() + dim + 1, inner);
  return out;
}

Value Repeat(Builder& b, const Value& x, int64_t dim, int64_t r) {
  const Dims split = SplitDim(x.dims, dim, x.dims[dim], r);
  Dims map;
  for (int64_t d = 0; d < static_cast<int64_t>(split.size()); ++d) {
    if (d != dim + 1) map.push_back(d);
  }
  Dims merged = x.dims;
  merged[dim] *= r;
  return b.Reshape(b.BroadcastInDim(x, split, map), merged);
}

Value SumGroups(Builder& b, const Value& x, int64_t dim, int64_t r) {
  return Sum(b, b.Reshape(x, SplitDim(x.dims, dim, x.dims[dim] / r, r)), {dim + 1});
}

// Term t of every row as a tensor: its weighted gather, zero where a row has fewer terms.
Value WeightedTerm(Builder& b, const Value& x, int64_t dim, const Rows& rows, size_t t) {
  std::vector<int64_t> index;
  std::vector<double> weight;
  std::vector<int64_t> present;
  bool unit = true, all = true;
  for (const auto& row : rows) {
    const bool has = t < row.size();
    // Absent terms repeat the row's first source, so that the indices stay regular.
    index.push_back(has ? row[t].index : row.empty() ? 0 : row[0].index);
    weight.push_back(has ? row[t].weight : 0);
    present.push_back(has ? 1 : 0);
    unit = unit && (!has || row[t].weight == 1);
    all = all && has;
  }
  Value v = Take(b, x, dim, index);
  if (!unit) v = b.Mul(v, Along(b, b.ConstantFloats(x.dtype, weight), v.dims, dim));
  if (all) return v;
  const Value mask = Along(b, b.ConstantInts(DType::kBool, present), v.dims, dim);
  return b.Select(mask, v, Like(b, v, 0));
}

// The map as a matrix [in, out], from the columns' terms, without spelling its elements out.
Value Matrix(Builder& b, DType dtype, const LinearMap& map, const LinearMap& transposed) {
  const Dims dims = {map.in_size, map.out_size()};
  const Value position = b.Iota(DType::kI32, dims, 1);
  Value sum = b.Constant(dtype, dims, 0);
  for (size_t t = 0; t < MaxTerms(transposed.rows); ++t) {
    std::vector<int64_t> index;
    std::vector<double> weight;
    for (const auto& row : transposed.rows) {
      index.push_back(t < row.size() ? row[t].index : -1);
      weight.push_back(t < row.size() ? row[t].weight : 0);
    }
    const Value hit = b.Compare(stablehlo::Cmp::kEq, position,
                                Along(b, b.ConstantInts(DType::kI32, index), dims, 0));
    const Value share = Along(b, b.ConstantFloats(dtype, weight), dims, 0);
    sum = b.Add(sum, b.Select(hit, share, b.Constant(dtype, dims, 0)));
  }
  return sum;
}

Value TimesMatrix(Builder& b, const Value& x, int64_t dim, const Value& matrix) {
  stablehlo::DotDims d;
  d.lhs_contract = {dim};
  d.rhs_contract = {0};
  const Value product = b.DotGeneral(x, matrix, d, x.dtype);
  // The mapped dimension comes out last: put it back.
  Dims perm;
  for (int64_t i = 0; i < x.rank(); ++i) {
    perm.push_back(i < dim ? i : i == dim ? x.rank() - 1 : i - 1);
  }
  return b.Transpose(product, perm);
}

}  // namespace

LinearMap LinearMap::Transposed() const {
  LinearMap t;
  t.in_size = out_size();
  t.rows.resize(static_cast<size_t>(in_size));
  for (int64_t o = 0; o < out_size(); ++o) {
    for (const Term& term : rows[o]) t.rows[term.index].push_back({o, term.weight});
  }
  return t;
}

bool LinearMap::IsUnweighted() const {
  for (const auto& row : rows) {
    for (const Term& term : row) {
      if (term.weight != 1) return false;
    }
  }
  return true;
}

LinearMap Selection(int64_t in_size, const std::vector<int64_t>& sources) {
  LinearMap map;
  map.in_size = in_size;
  for (int64_t s : sources) map.rows.push_back({{s, 1}});
  return map;
}

Value Take(Builder& b, const Value& x, int64_t dim, const std::vector<int64_t>& positions) {
  const auto n = static_cast<int64_t>(positions.size());
  Dims slice = x.dims;
  slice[dim] = n;
  if (tape::NumElements(slice) == 0) return b.Constant(x.dtype, slice, 0);
  const int64_t step = n > 1 ? positions[1] - positions[0] : 1;
  bool regular = step != 0;
  for (int64_t i = 1; regular && i < n; ++i) regular = positions[i] - positions[i - 1] == step;
  if (regular) {
    Dims start(x.dims.size(), 0), limit = x.dims, stride(x.dims.size(), 1);
    start[dim] = std::min(positions[0], positions[n - 1]);
    limit[dim] = std::max(positions[0], positions[n - 1]) + 1;
    stride[dim] = std::abs(step);
    const Value cut = b.Slice(x, start, limit, stride);
    return step < 0 ? b.Reverse(cut, {dim}) : cut;
  }
  Builder::GatherDims d;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != dim) d.offset_dims.push_back(i);
  }
  d.collapsed_slice_dims = d.start_index_map = {dim};
  d.index_vector_dim = 1;
  d.slice_sizes = x.dims;
  d.slice_sizes[dim] = 1;
  return b.Gather(x, b.Reshape(b.ConstantInts(DType::kI32, positions), {n, 1}), d,
                  std::is_sorted(positions.begin(), positions.end()));
}

Value Apply(Emitter& e, const Value& x, int64_t dim, const LinearMap& map) {
  Builder& b = e.b();
  Dims out = x.dims;
  out[dim] = map.out_size();
  if (tape::NumElements(out) == 0 || tape::NumElements(x.dims) == 0) {
    return b.Constant(x.dtype, out, 0);
  }
  if (const int64_t r = RepeatCount(map); r > 0) return r == 1 ? x : Repeat(b, x, dim, r);
  const LinearMap transposed = map.Transposed();
  if (const int64_t r = RepeatCount(transposed); r > 0) return SumGroups(b, x, dim, r);
  const size_t terms = MaxTerms(map.rows);
  const bool product =
      terms > kMaxTerms && tape::IsFloat(x.dtype) && MaxTerms(transposed.rows) <= kMaxTerms;
  if (product) return TimesMatrix(b, x, dim, Matrix(b, x.dtype, map, transposed));
  if (terms > 64) {
    e.Fail(Unimplemented(e.sig().op + ": a result reads too many elements"));
    return b.Constant(x.dtype, out, 0);
  }
  Value sum;
  for (size_t t = 0; t < terms; ++t) {
    const Value term = WeightedTerm(b, x, dim, map.rows, t);
    sum = sum.defined() ? b.Add(sum, term) : term;
  }
  return sum.defined() ? sum : b.Constant(x.dtype, out, 0);
}

}  // namespace dendrite::lowering
