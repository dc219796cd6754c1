// csrc/lowering/embedding_bag.cc - sums, means and maxima of bags of a table's rows, and their
// gradients.
//
// Bags are runs of indices that begin at given offsets. What is handed to the gradient is what
// PyTorch's CPU kernel hands over: each index's bag (or nothing), the bags' sizes without padding
// (zeros for sums), and, of maxima, the index that won.
#include <limits>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

// Comparisons of indices with offsets, beyond which counting costs more than the host.
constexpr int64_t kMostComparisons = int64_t{1} << 28;

struct Bags {
  int64_t n = 0, count = 0;
  Value index;  // i64 [n], in range
  Value bag;    // i64 [n], in range: the bag of each index
  Value used;   // mask [n]: no padding
};

// The number of offsets up to each of n places, less one: i64 [n].
Value BagOfEach(Builder& b, const Value& offsets, int64_t n) {
  const Dims grid = {n, offsets.dims[0]};
  const Value passed =
      b.Compare(Cmp::kLe, b.BroadcastInDim(offsets, grid, {1}), b.Iota(DType::kI64, grid, 0));
  const Value count = Sum(b, b.Convert(passed, DType::kI64), {1});
  return b.Sub(count, b.ConstantInt(DType::kI64, {n}, 1));
}

// Arguments: indices, offsets; offset2bag < 0 if there is none yet. `count`: the number of bags.
bool ReadBags(Emitter& e, int indices, int offsets, int offset2bag, int64_t rows, int64_t padding,
              int64_t count, Bags* g) {
  Builder& b = e.b();
  const Value index = e.In(indices);
  const Value starts = e.To(e.In(offsets), DType::kI64);
  if (index.rank() != 1 || starts.rank() != 1) {
    e.Fail(Unimplemented("bags of other than a list of indices"));
    return false;
  }
  g->n = index.dims[0];
  g->count = count;
  if (g->n * starts.dims[0] > kMostComparisons || g->n == 0 || count == 0) {
    e.Fail(Unimplemented("so many bags, or none"));
    return false;
  }
  g->index = CheckedIndex(e, index, rows);
  g->used = b.Compare(Cmp::kNe, g->index, b.ConstantInt(DType::kI64, {g->n}, padding));
  const bool known = offset2bag >= 0 && tape::NumElements(e.In(offset2bag).dims) == g->n;
  if (known) {
    g->bag = e.To(e.In(offset2bag), DType::kI64);
  } else {
    const Value own = b.Slice(starts, {0}, {std::min(count, starts.dims[0])}, {1});
    e.CheckIndices(starts, 0, g->n + 1);
    e.CheckIndices(b.Slice(starts, {0}, {1}, {1}), 0, 1);  // the first bag begins at the start
    g->bag = BagOfEach(b, own, g->n);
  }
  return !e.failed();
}

// Per bag, how many indices are no padding: in `type`, [count].
Value SizesOf(Builder& b, const Bags& g, DType type) {
  return ScatterFlat(b, b.Constant(type, {g.count}, 0), g.bag, b.Convert(g.used, type), Accumulate);
}

Value SumOfBags(Builder& b, const Bags& g, const Value& rows) {
  const Value none = b.Constant(rows.dtype, {g.count, rows.dims[1]}, 0);
  const Value kept = b.Select(Along(b, g.used, rows.dims, 0), rows, Like(b, rows, 0));
  return ScatterAlong(b, none, 0, g.bag, kept, Accumulate);
}

struct Maxima {
  Value values;   // [count, d]; 0 of empty bags
  Value winners;  // i64 [count, d]: an index of the table
};

Maxima MaximaOfBags(Builder& b, const Bags& g, const Value& rows) {
  const Dims out = {g.count, rows.dims[1]};
  const Value lowest = b.Infinity(rows.dtype, out, true);
  const Value used = Along(b, g.used, rows.dims, 0);
  const Value kept = b.Select(used, rows, b.Infinity(rows.dtype, rows.dims, true));
  const auto larger = [](Builder& r, const Value& x, const Value& y) {
    return r.Select(r.Compare(Cmp::kGt, y, x), y, x);
  };
  const Value best = ScatterAlong(b, lowest, 0, g.bag, kept, larger);
  // The first place in each bag that has the maximum.
  const Value wins =
      b.Binary("and", used, b.Compare(Cmp::kEq, kept, GatherAlong(b, best, 0, g.bag)));
  const Value nowhere = b.ConstantInt(DType::kI64, rows.dims, g.n);
  const Value place = b.Select(wins, b.Iota(DType::kI64, rows.dims, 0), nowhere);
  const Value first = ScatterAlong(
      b, b.ConstantInt(DType::kI64, out, g.n), 0, g.bag, place,
      [](Builder& r, const Value& x, const Value& y) { return r.Binary("minimum", x, y); });
  const Value found = b.Compare(Cmp::kLt, first, b.ConstantInt(DType::kI64, out, g.n));
  const Value at = b.Select(found, first, Like(b, first, 0));
  return {b.Select(found, best, Like(b, best, 0)),
          b.Select(found, GatherFlat(b, g.index, at), Like(b, at, 0))};
}

// `v` [count] in the size of result k, which some modes leave longer: zeros beyond.
void OutSized(Emitter& e, int k, const Value& v) {
  if (!e.Wanted(k)) return;
  const Dims& out = e.OutView(k).sizes;
  if (out.size() != 1 || out[0] < v.dims[0]) {
    return e.Fail(Unimplemented("embedding_bag: sizes of its results"));
  }
  e.Out(k, e.b().Pad(v, e.b().Constant(v.dtype, {}, 0), {0}, {out[0] - v.dims[0]}, {0}));
}

// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
// include_last_offset, padding_idx) -> (output, offset2bag, bag_size, max_indices)
void EmbeddingBag(Emitter& e) {
  Builder& b = e.b();
  const Value weight = e.In(0);
  if (!e.Wanted(0) || weight.rank() != 2 || !tape::IsFloat(weight.dtype)) {
    return e.Fail(Unimplemented("embedding_bag of other than a table of floats"));
  }
  const auto mode = static_cast<Mode>(e.Int(4));
  Bags g;
  if (!ReadBags(e, 1, 2, -1, weight.dims[0], e.Int(8, -1), e.OutView(0).sizes[0], &g)) return;
  const Value table = e.To(weight, tape::OpMath(weight.dtype));
  Value rows = GatherAlong(b, table, 0, g.index);
  if (!e.IsNone(6)) rows = b.Mul(rows, Along(b, e.To(e.In(6), rows.dtype), rows.dims, 0));
  if (e.Wanted(1)) {
    const bool empty = tape::NumElements(e.OutView(1).sizes) == 0;
    e.Out(1, empty ? b.ConstantInt(DType::kI64, e.OutView(1).sizes, 0) : g.bag);
  }
  const Value sizes = SizesOf(b, g, DType::kI64);
  if (mode == kMax) {
    const Maxima m = MaximaOfBags(b, g, rows);
    e.Out(0, m.values);
    OutSized(e, 2, sizes);
    if (e.Wanted(3)) e.Out(3, b.Reshape(m.winners, e.OutView(3).sizes));
    return;
  }
  Value sum = SumOfBags(b, g, rows);
  if (mode == kMean) {
    const Value least = b.Binary("maximum", sizes, Like(b, sizes, 1));
    sum = b.Div(sum, Along(b, e.To(least, sum.dtype), sum.dims, 0));
  }
  e.Out(0, sum);
  const Value shown = mode == kSum ? Like(b, sizes, 0) : sizes;
  OutSized(e, 2, shown);
  OutSized(e, 3, shown);
}

// Where the arguments of the two gradients stand.
struct GradArgs {
  int offsets, offset2bag, bag_size, max_indices, num_weights, by_frequency, mode, weights, padding;
};

void TableGradient(Emitter& e, const GradArgs& at) {
  Builder& b = e.b();
  const Value raw = e.In(0);
  const int64_t rows = e.Int(at.num_weights), count = raw.dims[0], d = raw.dims[1];
  const auto mode = static_cast<Mode>(e.Int(at.mode));
  if (e.Bool(at.by_frequency)) {
    // PyTorch's CPU kernel divides by other elements' frequencies.
    return e.Fail(Unimplemented("embedding_bag's gradient scaled by frequency"));
  }
  const Value grad = e.To(raw, tape::OpMath(raw.dtype));
  const Value none = b.Constant(grad.dtype, {rows, d}, 0);
  if (tape::NumElements(e.In(1).dims) == 0) return e.Out(0, none);
  if (mode == kMax) {
    const Value winners =
        b.Slice(e.To(e.In(at.max_indices), DType::kI64), {0, 0}, {count, d}, {1, 1});
    const Value sizes = b.Slice(e.To(e.In(at.bag_size), DType::kI64), {0}, {count}, {1});
    const Value filled = b.Compare(Cmp::kNe, sizes, Like(b, sizes, 0));
    const Value kept = b.Select(Along(b, filled, grad.dims, 0), grad, Like(b, grad, 0));
    const Value flat = b.Add(b.Mul(winners, b.ConstantInt(DType::kI64, winners.dims, d)),
                             b.Iota(DType::kI64, winners.dims, 1));
    return e.Out(0, ScatterFlat(b, none, flat, kept, Accumulate));
  }
  Bags g;
  if (!ReadBags(e, 1, at.offsets, at.offset2bag, rows, e.Int(at.padding, -1), count, &g)) return;
  Value scale = b.Convert(g.used, grad.dtype);
  if (!e.IsNone(at.weights)) scale = b.Mul(scale, e.To(e.In(at.weights), scale.dtype));
  if (mode == kMean) {
    const Value size = GatherFlat(b, e.To(e.In(at.bag_size), scale.dtype), g.bag);
    const Value least = b.Binary("maximum", size, Like(b, size, 1));
    scale = b.Div(scale, least);
  }
  const Value each = GatherAlong(b, grad, 0, g.bag);
  const Value shares = b.Select(Along(b, g.used, each.dims, 0),
                                b.Mul(each, Along(b, scale, each.dims, 0)), Like(b, each, 0));
  e.Out(0, ScatterAlong(b, none, 0, g.index, shares, Accumulate));
}

// (grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
// mode, sparse, per_sample_weights, padding_idx)
void EmbeddingBagBackward(Emitter& e) {
  if (e.Bool(9)) return e.Fail(Unimplemented("a sparse gradient of embedding_bag"));
  TableGradient(e, {2, 3, 4, 5, 6, 7, 8, 10, 11});
}

// The same without offsets and `sparse`.
void EmbeddingBagDenseBackward(Emitter& e) { TableGradient(e, {2, 2, 3, 4, 5, 6, 7, 8, 9}); }

// (grad, weight, indices, offsets, offset2bag, mode, padding_idx)
void WeightsGradient(Emitter& e) {
  Builder& b = e.b();
  const Value table = e.To(e.In(1), tape::OpMath(e.In(1).dtype));
  const Value grad = e.To(e.In(0), table.dtype);
  if (tape::NumElements(e.In(2).dims) == 0) return e.Out(0, b.Constant(table.dtype, {0}, 0));
  Bags g;
  if (!ReadBags(e, 2, 3, 4, table.dims[0], e.Int(6, -1), grad.dims[0], &g)) return;
  const Value rows = GatherAlong(b, table, 0, g.index);
  const Value product = Sum(b, b.Mul(rows, GatherAlong(b, grad, 0, g.bag)), {1});
  e.Out(0, b.Select(g.used, product, Like(b, product, 0)));
}

DENDRITE_LOWERING("aten._embedding_bag.default", EmbeddingBag);
DENDRITE_LOWERING("aten._embedding_bag_forward_only.default", EmbeddingBag);
DENDRITE_LOWERING("aten._embedding_bag_backward.default", EmbeddingBagBackward);
DENDRITE_LOWERING("aten._embedding_bag_dense_backward.default", EmbeddingBagDenseBackward);
DENDRITE_LOWERING("aten._embedding_bag_per_sample_weights_backward.default", WeightsGradient);

}  // namespace
}  // namespace dendrite::lowering
