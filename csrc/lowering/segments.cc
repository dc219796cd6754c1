// csrc/lowering/segments.cc - reductions over segments of a dimension (segment_reduce) and their
// gradients.
//
// Elements learn the number of their segment by counting the segments that end before them; the
// reduction is a scatter. Elements outside of all segments fall into one beyond the last.
#include <cmath>
#include <limits>
#include <string>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// Comparisons of elements with segments, beyond which counting costs more than the host.
constexpr int64_t kMostComparisons = int64_t{1} << 28;

struct Segments {
  int64_t outer = 1, n = 1, inner = 1,
          count = 0;  // data [outer, n, inner], segments [outer, count]
  Value number;       // i64 [outer, n]: 0 .. count, count being none
  Value length;       // i64 [outer, count]
};

// Lengths (argument `lengths`) or offsets (argument `offsets`) of the segments of `data`'s
// dimension `axis`, which is the last of theirs.
bool ReadSegments(Emitter& e, const Dims& data, int lengths, int offsets, Segments* s) {
  Builder& b = e.b();
  const bool by_length = !e.IsNone(lengths);
  if (!by_length && e.IsNone(offsets)) {
    e.Fail(Unimplemented("segment_reduce by indices"));
    return false;
  }
  const Value raw = e.To(e.In(by_length ? lengths : offsets), DType::kI64);
  const int64_t axis = raw.rank() - 1;
  if (axis < 0 || axis >= static_cast<int64_t>(data.size())) {
    e.Fail(InvalidArgument("segment_reduce: lengths do not fit the data"));
    return false;
  }
  for (int64_t d = 0; d < static_cast<int64_t>(data.size()); ++d) {
    (d < axis ? s->outer : d == axis ? s->n : s->inner) *= data[d];
  }
  s->count = raw.dims[axis] - (by_length ? 0 : 1);
  if (s->outer * s->count * std::max(s->count, s->n) > kMostComparisons || s->count < 1 ||
      tape::NumElements(data) == 0) {
    e.Fail(Unimplemented("segment_reduce of so many segments, or of nothing"));
    return false;
  }
  const Value flat = b.Reshape(raw, {s->outer, raw.dims[axis]});
  Value first, end;
  const Dims per = {s->outer, s->count};
  if (by_length) {
    s->length = flat;
    e.CheckIndices(flat, 0, s->n + 1);
    const Dims square = {s->outer, s->count, s->count};  // [outer, segment, one up to it]
    const Value up_to =
        b.Compare(Cmp::kLe, b.Iota(DType::kI64, square, 2), b.Iota(DType::kI64, square, 1));
    const Value each = b.BroadcastInDim(flat, square, {0, 2});
    end = Sum(b, b.Select(up_to, each, Like(b, each, 0)), {2});
    first = b.ConstantInt(DType::kI64, {s->outer}, 0);
  } else {
    const Value start = b.Slice(flat, {0, 0}, per, {1, 1});
    end = b.Slice(flat, {0, 1}, {s->outer, s->count + 1}, {1, 1});
    s->length = b.Sub(end, start);
    e.CheckIndices(s->length, 0, s->n + 1);
    first = b.Reshape(b.Slice(flat, {0, 0}, {s->outer, 1}, {1, 1}), {s->outer});
  }
  const Dims grid = {s->outer, s->n, s->count};
  const Value place = b.Iota(DType::kI64, grid, 1);
  const Value passed = b.Compare(Cmp::kLe, b.BroadcastInDim(end, grid, {0, 2}), place);
  const Value number = Sum(b, b.Convert(passed, DType::kI64), {2});
  const Value before = b.Compare(Cmp::kLt, b.Iota(DType::kI64, number.dims, 1),
                                 b.BroadcastInDim(first, number.dims, {0}));
  s->number = b.Select(before, Like(b, number, static_cast<double>(s->count)), number);
  return !e.failed();
}

// Flat place of every element's segment in [outer, count + 1, inner], as [outer, n, inner].
Value Places(Builder& b, const Segments& s) {
  const Dims dims = {s.outer, s.n, s.inner};
  const auto times = [&](const Value& v, int64_t k) {
    return b.Mul(v, b.ConstantInt(DType::kI64, dims, k));
  };
  const Value row = b.Add(times(b.Iota(DType::kI64, dims, 0), s.count + 1),
                          b.BroadcastInDim(s.number, dims, {0, 1}));
  return b.Add(times(row, s.inner), b.Iota(DType::kI64, dims, 2));
}

// Reduces x [outer, n, inner] over its segments, from `start`: [outer, count, inner].
Value ReduceSegments(Builder& b, const Segments& s, const Value& x, const Value& start,
                     const std::string& how) {
  const Value all = b.BroadcastTo(start, {s.outer, s.count + 1, s.inner});
  const Value sums = ScatterFlat(b, all, Places(b, s), x, ReductionBody(how));
  return b.Slice(sums, {0, 0, 0}, {s.outer, s.count, s.inner}, {1, 1, 1});
}

// What stands in each element's segment, of v [outer, count, inner]; anything for elements of none.
Value PerElement(Builder& b, const Segments& s, const Value& v) {
  const Value padded = b.Pad(v, b.Constant(v.dtype, {}, 0), {0, 0, 0}, {0, 1, 0}, {0, 0, 0});
  return GatherFlat(b, padded, Places(b, s));
}

// ReductionBody's name of PyTorch's reduction, or "" if there is none.
std::string BodyName(const std::string& reduce) {
  if (reduce == "max") return "amax";
  if (reduce == "min") return "amin";
  return reduce == "sum" || reduce == "mean" || reduce == "prod" ? reduce : "";
}

Value LengthAs(Emitter& e, const Segments& s, DType type) {
  return e.b().BroadcastInDim(e.To(s.length, type), {s.outer, s.count, s.inner}, {0, 1});
}

// (data, reduce, lengths, indices, offsets, axis, unsafe, initial)
void SegmentReduce(Emitter& e) {
  Builder& b = e.b();
  const Value data = e.In(0);
  const std::string reduce = e.String(1), body = BodyName(reduce);
  Segments s;
  if (body.empty() || !tape::IsFloat(data.dtype)) {
    return e.Fail(Unimplemented("segment_reduce " + reduce));
  }
  if (!ReadSegments(e, data.dims, 2, 4, &s)) return;
  if (!e.Bool(6)) {  // what PyTorch refuses otherwise
    const Value total = Sum(b, s.length, {1});
    const Value off = b.Compare(Cmp::kNe, total, Like(b, total, static_cast<double>(s.n)));
    e.CheckIndices(b.Convert(off, DType::kI64), 0, 1);
  }
  const DType type = tape::OpMath(data.dtype);
  const Value x = b.Reshape(e.To(data, type), {s.outer, s.n, s.inner});
  Value start;
  if (!e.IsNone(7)) {
    start = e.Scalar(7, type);
  } else {
    const double infinity = std::numeric_limits<double>::infinity();
    start = b.Constant(type, {},
                       reduce == "max"    ? -infinity
                       : reduce == "min"  ? infinity
                       : reduce == "prod" ? 1
                                          : 0);
  }
  Value v = ReduceSegments(b, s, x, start, body);
  if (reduce == "mean") {
    const Value length = LengthAs(e, s, type), zero = Like(b, length, 0);
    const Value empty = b.Compare(Cmp::kEq, length, zero);
    v = b.Select(empty, e.IsNone(7) ? Like(b, v, NAN) : v, b.Div(v, length));
  }
  e.Out(0, b.Reshape(v, e.OutView(0).sizes));
}

// d(product) / d(element): the product of the others, taken by division where that can be.
Value ProductGradient(Builder& b, const Segments& s, const Value& x, const Value& grad,
                      const Value& product, const Value& start) {
  const Value zero = Like(b, x, 0), one = Like(b, x, 1);
  const Value nan = IsNan(b, x), special = b.Binary("or", nan, b.Compare(Cmp::kEq, x, zero));
  const Value none = b.Constant(x.dtype, {}, 0);
  const auto count = [&](const Value& mask) {
    return PerElement(b, s, ReduceSegments(b, s, b.Convert(mask, x.dtype), none, "sum"));
  };
  const Value rest =
      PerElement(b, s, ReduceSegments(b, s, b.Select(special, one, x), start, "prod"));
  const Value other_nans = b.Sub(count(nan), b.Convert(nan, x.dtype));
  const Value alone = b.Compare(Cmp::kEq, count(special), one);
  const Value others =
      b.Select(alone, rest, b.Select(b.Compare(Cmp::kGt, other_nans, zero), Like(b, x, NAN), zero));
  return b.Select(special, b.Mul(grad, others), b.Div(b.Mul(grad, product), x));
}

// (grad, output, data, reduce, lengths, offsets, axis, initial)
void SegmentReduceBackward(Emitter& e) {
  Builder& b = e.b();
  const Value data = e.In(2);
  const std::string reduce = e.String(3);
  Segments s;
  if (BodyName(reduce).empty() || !tape::IsFloat(data.dtype)) {
    return e.Fail(Unimplemented("gradient of segment_reduce " + reduce));
  }
  if (!ReadSegments(e, data.dims, 4, 5, &s)) return;
  const DType type = tape::OpMath(data.dtype);
  const Dims per = {s.outer, s.count, s.inner};
  const Value x = b.Reshape(e.To(data, type), {s.outer, s.n, s.inner});
  Value each_grad = b.Reshape(e.To(e.In(0), type), per);
  if (reduce == "mean") each_grad = b.Div(each_grad, LengthAs(e, s, type));
  const Value grad = PerElement(b, s, each_grad), zero = Like(b, grad, 0);
  Value v = grad;
  if (reduce == "max" || reduce == "min" || reduce == "prod") {
    const Value output = PerElement(b, s, b.Reshape(e.To(e.In(1), type), per));
    if (reduce == "prod") {
      const Value start = e.IsNone(7) ? b.Constant(type, {}, 1) : e.Scalar(7, type);
      v = ProductGradient(b, s, x, grad, output, start);
    } else {
      // Several extremes share a positive gradient, as the kernel has it; a negative one each
      // takes.
      const Value extreme = b.Binary("or", IsNan(b, x), b.Compare(Cmp::kEq, x, output));
      const Value counts = PerElement(
          b, s, ReduceSegments(b, s, b.Convert(extreme, type), b.Constant(type, {}, 0), "sum"));
      const Value shared = b.Select(b.Compare(Cmp::kGt, grad, zero), b.Div(grad, counts), grad);
      v = b.Select(extreme, shared, zero);
    }
  }
  const Value inside =
      b.Compare(Cmp::kLt, s.number, Like(b, s.number, static_cast<double>(s.count)));
  v = b.Select(b.BroadcastInDim(inside, v.dims, {0, 1}), v, zero);
  e.Out(0, b.Reshape(v, data.dims));
}

DENDRITE_LOWERING("aten.segment_reduce.default", SegmentReduce);
DENDRITE_LOWERING("aten._segment_reduce_backward.default", SegmentReduceBackward);

}  // namespace
}  // namespace dendrite::lowering
