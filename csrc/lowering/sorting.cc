// csrc/lowering/sorting.cc - sort, topk, kthvalue, medians, searchsorted and bucketize.
//
// One stable sort of (value, position) pairs serves all of them. NaN is the largest value, as in
// PyTorch: last in ascending order, first in descending order.
#include <string>
#include <vector>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

struct Sorted {
  Value values, indices;  // i64 indices
  int64_t dim = 0;
};

// x sorted along `dim`; a rank-0 x counts as one element.
Sorted SortPairs(Builder& b, const Value& x, int64_t dim, bool descending) {
  Sorted s;
  const Value v = AtLeast1d(b, x);
  s.dim = WrapDim(dim, v.rank());
  if (tape::NumElements(v.dims) == 0) {
    s.values = v;
    s.indices = b.Constant(DType::kI64, v.dims, 0);
    return s;
  }
  const DType index_type = v.dims[s.dim] <= INT32_MAX ? DType::kI32 : DType::kI64;
  const Cmp before = descending ? Cmp::kGt : Cmp::kLt;
  const bool has_nan = tape::IsFloat(v.dtype);
  const auto sorted =
      b.Sort({v, b.Iota(index_type, v.dims, s.dim)}, s.dim, /*stable=*/true,
             [&](Builder& r, const std::vector<Value>& p) {
               Value first = r.Compare(before, p[0], p[1]);
               if (has_nan) {
                 // The side that is NaN alone comes first (descending) or last.
                 const Value nan0 = IsNan(r, p[0]), nan1 = IsNan(r, p[1]);
                 const Value& wins = descending ? nan0 : nan1;
                 const Value& loses = descending ? nan1 : nan0;
                 first = r.Binary("or", first, r.Binary("and", wins, r.Unary("not", loses)));
               }
               return std::vector<Value>{first};
             });
  s.values = sorted[0];
  s.indices = b.Convert(sorted[1], DType::kI64);
  return s;
}

Value SliceDim(Builder& b, const Value& x, int64_t dim, int64_t start, int64_t limit) {
  Dims from(x.dims.size(), 0), to = x.dims;
  from[dim] = start, to[dim] = limit;
  return b.Slice(x, from, to, Dims(x.dims.size(), 1));
}

// Values and indices as results 0 and 1, in the results' shapes.
void OutPair(Emitter& e, const Value& values, const Value& indices) {
  if (e.Wanted(0)) e.Out(0, e.b().Reshape(values, e.OutView(0).sizes));
  if (e.Wanted(1)) e.Out(1, e.b().Reshape(indices, e.OutView(1).sizes));
}

bool Sortable(Emitter& e, const Value& x) {
  if (!tape::IsComplex(x.dtype)) return true;
  e.Fail(Unimplemented(e.sig().op + " of complex numbers"));
  return false;
}

void SortAt(Emitter& e, int dim_arg) {
  const Value x = e.In(0);
  if (!Sortable(e, x)) return;
  const Sorted s = SortPairs(e.b(), x, e.Int(dim_arg, -1), e.Bool(dim_arg + 1));
  OutPair(e, s.values, s.indices);
}

// (self, dim, descending) and (self, stable, dim, descending)
void Sort(Emitter& e) { SortAt(e, 1); }
void SortStable(Emitter& e) { SortAt(e, 2); }

void ArgSort(Emitter& e, int dim_arg) {
  const Value x = e.In(0);
  if (!Sortable(e, x)) return;
  const Sorted s = SortPairs(e.b(), x, e.Int(dim_arg, -1), e.Bool(dim_arg + 1));
  e.Out(0, e.b().Reshape(s.indices, x.dims));
}

void ArgSortDefault(Emitter& e) { ArgSort(e, 1); }
void ArgSortStable(Emitter& e) { ArgSort(e, 2); }

// (self, k, dim, largest, sorted)
void TopK(Emitter& e) {
  const Value x = e.In(0);
  if (!Sortable(e, x)) return;
  const Sorted s = SortPairs(e.b(), x, e.Int(2, -1), e.Bool(3, true));
  const int64_t k = e.Int(1);
  OutPair(e, SliceDim(e.b(), s.values, s.dim, 0, k), SliceDim(e.b(), s.indices, s.dim, 0, k));
}

// (self, k, dim, keepdim)
void KthValue(Emitter& e) {
  const Value x = e.In(0);
  if (!Sortable(e, x)) return;
  const Sorted s = SortPairs(e.b(), x, e.Int(2, -1), false);
  const int64_t k = e.Int(1);
  OutPair(e, SliceDim(e.b(), s.values, s.dim, k - 1, k),
          SliceDim(e.b(), s.indices, s.dim, k - 1, k));
}

// The lower median's place among `size` sorted elements, `nans` of them NaN (i64, kept dimension).
// A median that does not ignore NaN is the first NaN where there is one.
Value MedianPlace(Builder& b, const Value& nans, int64_t size, bool ignore_nan) {
  const auto constant = [&](int64_t v) { return b.ConstantInt(DType::kI64, nans.dims, v); };
  const Value zero = constant(0);
  const Value real = b.Sub(constant(size), nans);
  if (ignore_nan) {
    const Value last = b.Binary("maximum", b.Sub(real, constant(1)), zero);
    return b.Div(last, constant(2));
  }
  return b.Select(b.Compare(Cmp::kGt, nans, zero), real, constant((size - 1) / 2));
}

void MedianAlong(Emitter& e, const Value& x, int64_t dim, bool ignore_nan) {
  Builder& b = e.b();
  if (!Sortable(e, x)) return;
  const Sorted s = SortPairs(b, x, dim, false);
  const int64_t size = s.values.dims[s.dim];
  Dims one = s.values.dims;
  one[s.dim] = 1;
  if (size == 0 || tape::NumElements(one) == 0) {
    return e.Fail(Unimplemented(e.sig().op + " of an empty tensor"));
  }
  Value nans = b.Constant(DType::kI64, one, 0);
  if (tape::IsFloat(s.values.dtype)) {
    const Value flags = b.Convert(IsNan(b, s.values), DType::kI64);
    nans = b.Reshape(Sum(b, flags, {s.dim}), one);
  }
  const Value at = FlatIndex(b, MedianPlace(b, nans, size, ignore_nan), s.dim, s.values.dims);
  OutPair(e, GatherFlat(b, s.values, at), GatherFlat(b, s.indices, at));
}

template <bool kIgnoreNan>
void MedianDim(Emitter& e) {
  MedianAlong(e, e.In(0), e.Int(1), kIgnoreNan);
}

template <bool kIgnoreNan>
void Median(Emitter& e) {
  const Value x = e.In(0);
  MedianAlong(e, e.b().Reshape(x, {tape::NumElements(x.dims)}), 0, kIgnoreNan);
}

// For each x: how many elements of its row of the sorted sequence come before it. `row` gives, per
// element of x, where its row begins in the flattened sequence.
Value SearchRows(Builder& b, const Value& sequence, const Value& x, const Value& row, int64_t size,
                 bool right) {
  const Dims& dims = x.dims;
  const auto constant = [&](int64_t v) { return b.ConstantInt(DType::kI64, dims, v); };
  Value found = constant(0);
  int64_t step = 1;
  while (step * 2 <= size) step *= 2;
  for (; step > 0; step /= 2) {
    const Value next = b.Add(found, constant(step));
    const Value fits = b.Compare(Cmp::kLe, next, constant(size));
    const Value last = b.Binary("minimum", next, constant(size));
    const Value probe = GatherFlat(b, sequence, b.Add(row, b.Sub(last, constant(1))));
    // Negated, so that NaN in x goes to the end.
    const Value stops = b.Compare(right ? Cmp::kGt : Cmp::kGe, probe, x);
    found = b.Select(b.Binary("and", fits, b.Unary("not", stops)), next, found);
  }
  return found;
}

void Search(Emitter& e, const Value& sequence, const Value& x, bool right) {
  Builder& b = e.b();
  if (!Sortable(e, x)) return;
  if (sequence.dtype != x.dtype) return e.Fail(Unimplemented(e.sig().op + " of mixed dtypes"));
  const int64_t size = sequence.rank() == 0 ? 1 : sequence.dims.back();
  if (size == 0 || tape::NumElements(x.dims) == 0) {
    return e.Out(0, b.Constant(DType::kI64, x.dims, 0));
  }
  // Each element's row: its position over all but the last dimension.
  Value row = b.Constant(DType::kI64, x.dims, 0);
  if (sequence.rank() > 1) {
    Dims rows = sequence.dims;
    rows.pop_back();
    const int64_t count = tape::NumElements(rows);
    const Value number = b.Iota(DType::kI64, {count, x.dims.back()}, 0);
    row = b.Reshape(b.Mul(number, b.ConstantInt(DType::kI64, number.dims, size)), x.dims);
  }
  e.Out(0, SearchRows(b, sequence, x, row, size, right));
}

// (sorted_sequence, self, out_int32, right, side, sorter)
void SearchSorted(Emitter& e) {
  Builder& b = e.b();
  Value sequence = e.In(0);
  if (!e.IsNone(5)) {
    const int64_t last = sequence.rank() - 1;
    const Value order = CheckedIndex(e, e.In(5), sequence.dims[last]);
    sequence = GatherFlat(b, sequence, FlatIndex(b, order, last, sequence.dims));
  }
  Search(e, sequence, e.In(1), e.Bool(3) || e.String(4) == "right");
}

// (self, boundaries, out_int32, right)
void Bucketize(Emitter& e) { Search(e, e.In(1), e.In(0), e.Bool(3)); }

DENDRITE_LOWERING("aten.sort.default", Sort);
DENDRITE_LOWERING("aten.sort.stable", SortStable);
DENDRITE_LOWERING("aten.argsort.default", ArgSortDefault);
DENDRITE_LOWERING("aten.argsort.stable", ArgSortStable);
DENDRITE_LOWERING("aten.topk.default", TopK);
DENDRITE_LOWERING("aten.kthvalue.default", KthValue);
DENDRITE_LOWERING("aten.median.default", Median<false>);
DENDRITE_LOWERING("aten.median.dim", MedianDim<false>);
DENDRITE_LOWERING("aten.nanmedian.default", Median<true>);
DENDRITE_LOWERING("aten.nanmedian.dim", MedianDim<true>);
DENDRITE_LOWERING("aten.searchsorted.Tensor", SearchSorted);
DENDRITE_LOWERING("aten.bucketize.Tensor", Bucketize);

// (elements, test_elements, assume_unique, invert): every element is compared with every other.
void IsIn(Emitter& e) {
  Builder& b = e.b();
  const Value elements = e.In(0), tests = e.In(1);
  const int64_t n = tape::NumElements(elements.dims), m = tape::NumElements(tests.dims);
  if (elements.dtype != tests.dtype || n * m > (int64_t{1} << 24)) {
    return e.Fail(Unimplemented("membership in a large set, or of another type"));
  }
  const Value rows = b.BroadcastInDim(b.Reshape(elements, {n}), {n, m}, {0});
  const Value columns = b.BroadcastInDim(b.Reshape(tests, {m}), {n, m}, {1});
  Value found = AnyOf(b, b.Compare(Cmp::kEq, rows, columns), {1});
  if (e.Bool(3)) found = b.Unary("not", found);
  e.Out(0, b.Reshape(found, elements.dims));
}

DENDRITE_LOWERING("aten.isin.Tensor_Tensor", IsIn);

}  // namespace
}  // namespace dendrite::lowering
