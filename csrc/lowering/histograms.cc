// csrc/lowering/histograms.cc - counting elements into bins: histc, histogram, histogramdd; the
// most frequent element.
#include <vector>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

bool IsPrecise(Emitter& e, const Value& x) {
  if (x.dtype == DType::kF32 || x.dtype == DType::kF64) return true;
  e.Fail(Unimplemented(e.sig().op + " of this dtype"));
  return false;
}

Value Flatten(Builder& b, const Value& x) { return b.Reshape(x, {tape::NumElements(x.dims)}); }

struct Range {
  Value low, high;  // rank 0
};

// The data's own range.
Range RangeOf(Builder& b, const Value& x) {
  if (x.dims[0] == 0) return {b.Constant(x.dtype, {}, 0), b.Constant(x.dtype, {}, 1)};
  return {Min(b, x, {0}), Max(b, x, {0})};
}

// Some way to either side of a single value.
Range Widened(Builder& b, const Range& r, double by) {
  const Value same = b.Compare(Cmp::kEq, r.low, r.high), width = Like(b, r.low, by);
  return {b.Select(same, b.Sub(r.low, width), r.low), b.Select(same, b.Add(r.high, width), r.high)};
}

// (self, bins, min, max)
void Histc(Emitter& e) {
  Builder& b = e.b();
  const Value x = Flatten(b, e.In(0));
  const int64_t bins = e.Int(1, 100);
  const double low = e.Float(2, 0), high = e.Float(3, 0);
  if (!IsPrecise(e, x)) return;
  if (low > high) return e.Fail(Unimplemented("histc over an empty range"));
  if (x.dims[0] == 0) return e.Out(0, b.Constant(x.dtype, {bins}, 0));
  Range r = {b.Constant(x.dtype, {}, low), b.Constant(x.dtype, {}, high)};
  if (low == high) {
    r = Widened(b, RangeOf(b, x), 1);
    // PyTorch refuses a range that is not finite.
    const Value finite = b.Binary("and", b.Unary("is_finite", r.low), b.Unary("is_finite", r.high));
    e.CheckIndices(b.Convert(b.Unary("not", finite), DType::kI64), 0, 1);
  }
  const Value first = Stretch(b, r.low, x), last = Stretch(b, r.high, x);
  const Value inside = b.Binary("and", b.Compare(Cmp::kGe, x, first), b.Compare(Cmp::kLe, x, last));
  // The order of operations decides which bin a border falls into.
  const Value scaled =
      b.Div(b.Mul(b.Sub(x, first), Like(b, x, static_cast<double>(bins))), b.Sub(last, first));
  const Value bin = b.Convert(b.Select(inside, scaled, Like(b, x, 0)), DType::kI64);
  const Value at = b.Binary("minimum", bin, b.ConstantInt(DType::kI64, bin.dims, bins - 1));
  const Value one = b.Select(inside, Like(b, x, 1), Like(b, x, 0));
  e.Out(0, ScatterFlat(b, b.Constant(x.dtype, {bins}, 0), at, one, Accumulate));
}

// n equal steps between the ends, from either end inwards, as PyTorch's linspace rounds them.
Value Edges(Builder& b, const Range& r, int64_t bins) {
  const Dims dims = {bins + 1};
  const DType type = r.low.dtype;
  const Value width = b.Div(b.Sub(r.high, r.low), b.Constant(type, {}, static_cast<double>(bins)));
  const Value step = b.BroadcastTo(width, dims), place = b.Iota(type, dims, 0);
  const Value up = b.Add(b.BroadcastTo(r.low, dims), b.Mul(step, place));
  const Value rest = b.Sub(b.Constant(type, dims, static_cast<double>(bins)), place);
  const Value down = b.Sub(b.BroadcastTo(r.high, dims), b.Mul(step, rest));
  const Value half = b.ConstantInt(DType::kI64, dims, (bins + 1) / 2);
  return b.Select(b.Compare(Cmp::kLt, b.Iota(DType::kI64, dims, 0), half), up, down);
}

// Which bin each of x's elements falls into, i64; -1 or `bins` and more for none. The last bin is
// closed.
Value BinOf(Builder& b, const Value& x, const Value& edges) {
  const Dims grid = {x.dims[0], edges.dims[0]};
  const Value value = b.BroadcastInDim(x, grid, {0}), edge = b.BroadcastInDim(edges, grid, {1});
  const Value passed = b.Convert(b.Compare(Cmp::kGe, value, edge), DType::kI64);
  const Value count = Sum(b, passed, {1});
  const int64_t bins = edges.dims[0] - 1;
  const Value last = b.Slice(edges, {bins}, {bins + 1}, {1});
  const Value at_end = b.Compare(Cmp::kEq, x, b.BroadcastTo(last, x.dims));
  const Value one = b.ConstantInt(DType::kI64, x.dims, 1);
  return b.Select(at_end, b.ConstantInt(DType::kI64, x.dims, bins - 1), b.Sub(count, one));
}

// Weights (or ones) of points counted into the cells of a grid; per[d] is dimension d's bin.
Value CountCells(Builder& b, const std::vector<Value>& per, const Dims& cells,
                 const Value& weight) {
  Value flat, inside;
  for (size_t d = 0; d < per.size(); ++d) {
    const Value& at = per[d];
    const Value low = b.Compare(Cmp::kGe, at, Like(b, at, 0));
    const Value high = b.Compare(Cmp::kLt, at, b.ConstantInt(DType::kI64, at.dims, cells[d]));
    const Value in = b.Binary("and", low, high);
    inside = inside.defined() ? b.Binary("and", inside, in) : in;
    flat =
        flat.defined() ? b.Add(b.Mul(flat, b.ConstantInt(DType::kI64, at.dims, cells[d])), at) : at;
  }
  const Value zero = Like(b, flat, 0);
  const Value counted = b.Select(inside, weight, Like(b, weight, 0));
  return ScatterFlat(b, b.Constant(weight.dtype, cells, 0), b.Select(inside, flat, zero), counted,
                     Accumulate);
}

// Counts as a density: divided by their sum and by the cells' volumes.
Value Density(Builder& b, const Value& counts, const std::vector<Value>& edges) {
  const Value total = Sum(b, counts, AllDims(counts.rank()));
  Value v = b.Div(counts, Stretch(b, total, counts));
  for (size_t d = 0; d < edges.size(); ++d) {
    const int64_t n = edges[d].dims[0];
    const Value width =
        b.Sub(b.Slice(edges[d], {1}, {n}, {1}), b.Slice(edges[d], {0}, {n - 1}, {1}));
    v = b.Div(v, Along(b, width, v.dims, static_cast<int64_t>(d)));
  }
  return v;
}

Value WeightsOf(Emitter& e, int arg, const Value& like) {
  Builder& b = e.b();
  return e.IsNone(arg) ? b.Constant(like.dtype, {like.dims[0]}, 1)
                       : Flatten(b, e.To(e.In(arg), like.dtype));
}

void OutHistogram(Emitter& e, const Value& x, const Value& edges, int weight, bool density) {
  Builder& b = e.b();
  const Dims cells = {edges.dims[0] - 1};
  Value counts = b.Constant(x.dtype, cells, 0);
  if (x.dims[0] > 0) counts = CountCells(b, {BinOf(b, x, edges)}, cells, WeightsOf(e, weight, x));
  e.Out(0, density ? Density(b, counts, {edges}) : counts);
  e.Out(1, edges);
}

// (self, bins, weight, density)
void HistogramByEdges(Emitter& e) {
  const Value x = Flatten(e.b(), e.In(0));
  if (!IsPrecise(e, x)) return;
  OutHistogram(e, x, e.To(e.In(1), x.dtype), 2, e.Bool(3));
}

// (self, bins, range, weight, density)
void HistogramByCount(Emitter& e) {
  Builder& b = e.b();
  const Value x = Flatten(b, e.In(0));
  if (!IsPrecise(e, x)) return;
  Range r;
  if (e.IsNone(2)) {
    r = RangeOf(b, x);
    const Value finite = b.Binary("and", b.Unary("is_finite", r.low), b.Unary("is_finite", r.high));
    e.CheckIndices(b.Convert(b.Unary("not", finite), DType::kI64), 0, 1);
  } else {
    r = {e.ScalarAt(2, 0, x.dtype), e.ScalarAt(2, 1, x.dtype)};
  }
  OutHistogram(e, x, Edges(b, Widened(b, r, 0.5), e.Int(1, 100)), 3, e.Bool(4));
}

// (self [..., D], bins: D edges, weight, density)
void HistogramDd(Emitter& e) {
  Builder& b = e.b();
  const Value raw = e.In(0);
  const std::vector<Value> edges = e.InList(1);
  const auto d = static_cast<int64_t>(edges.size());
  if (!IsPrecise(e, raw)) return;
  if (raw.rank() == 0 || raw.dims.back() != d || tape::NumElements(raw.dims) == 0) {
    return e.Fail(Unimplemented("histogramdd of nothing"));
  }
  const int64_t n = tape::NumElements(raw.dims) / d;
  const Value points = b.Reshape(raw, {n, d});
  std::vector<Value> per;
  Dims cells;
  for (int64_t k = 0; k < d; ++k) {
    const Value column = b.Reshape(b.Slice(points, {0, k}, {n, k + 1}, {1, 1}), {n});
    per.push_back(BinOf(b, column, edges[static_cast<size_t>(k)]));
    cells.push_back(edges[static_cast<size_t>(k)].dims[0] - 1);
  }
  const Value weight = WeightsOf(e, 2, points);
  const Value counts = CountCells(b, per, cells, weight);
  e.Out(0, e.Bool(3) ? Density(b, counts, edges) : counts);
}

// (self, dim, keepdim): the most frequent element, of several the smallest, and where it stands
// last. NaN equals nothing, not even itself elsewhere.
void Mode(Emitter& e) {
  Builder& b = e.b();
  const Value x = AtLeast1d(b, e.In(0));
  const int64_t dim = WrapDim(e.Int(1, -1), x.rank()), n = x.dims[dim];
  if (tape::NumElements(x.dims) == 0 || !e.Wanted(0) || !e.Wanted(1)) {
    return e.Fail(Unimplemented("mode of nothing"));
  }
  // [..., n, n]: each element against all of its row.
  Dims pair = x.dims, mine, others;
  pair.insert(pair.begin() + dim + 1, n);
  for (int64_t d = 0; d < x.rank(); ++d) {
    mine.push_back(d <= dim ? d : d + 1);
    others.push_back(d < dim ? d : d + 1);
  }
  const Value own = b.BroadcastInDim(x, pair, mine), other = b.BroadcastInDim(x, pair, others);
  const Value itself =
      b.Compare(Cmp::kEq, b.Iota(DType::kI64, pair, dim), b.Iota(DType::kI64, pair, dim + 1));
  const Value same = b.Binary("or", b.Compare(Cmp::kEq, own, other), itself);
  const Value count = Sum(b, b.Convert(same, DType::kI64), {dim + 1});
  const Value place = b.Iota(DType::kI64, x.dims, dim);
  const bool has_nan = tape::IsFloat(x.dtype);
  const auto best = b.ReduceN(
      {count, x, place},
      {b.ConstantInt(DType::kI64, {}, 0), b.Constant(x.dtype, {}, 0),
       b.ConstantInt(DType::kI64, {}, -1)},
      {dim}, [has_nan](Builder& r, const std::vector<Value>& v) {
        Value smaller = r.Compare(Cmp::kLt, v[4], v[1]), equal = r.Compare(Cmp::kEq, v[4], v[1]);
        if (has_nan) {  // NaN is the largest
          const Value was = IsNan(r, v[1]), is = IsNan(r, v[4]);
          smaller = r.Binary("or", smaller, r.Binary("and", was, r.Unary("not", is)));
          equal = r.Binary("or", equal, r.Binary("and", was, is));
        }
        const Value later = r.Binary("and", equal, r.Compare(Cmp::kGt, v[5], v[2]));
        const Value as_often =
            r.Binary("and", r.Compare(Cmp::kEq, v[3], v[0]), r.Binary("or", smaller, later));
        const Value take = r.Binary("or", r.Compare(Cmp::kGt, v[3], v[0]), as_often);
        return std::vector<Value>{r.Select(take, v[3], v[0]), r.Select(take, v[4], v[1]),
                                  r.Select(take, v[5], v[2])};
      });
  e.Out(0, b.Reshape(best[1], e.OutView(0).sizes));
  e.Out(1, b.Reshape(best[2], e.OutView(1).sizes));
}

DENDRITE_LOWERING("aten.histc.default", Histc);
DENDRITE_LOWERING("aten.histogram.bins_tensor", HistogramByEdges);
DENDRITE_LOWERING("aten.histogram.bin_ct", HistogramByCount);
DENDRITE_LOWERING("aten._histogramdd_from_bin_tensors.default", HistogramDd);
DENDRITE_LOWERING("aten.mode.default", Mode);

}  // namespace
}  // namespace dendrite::lowering
