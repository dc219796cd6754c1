// csrc/lowering/compaction.cc - operators that number the elements which data select:
// masked_scatter and its gradient, repeat_interleave by a tensor, nonzero_static.
//
// Each needs a running count or one scatter over the flattened tensor. Result sizes come from the
// results' views; where they depend on the data, the caller has found them out already.
#include <vector>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

Value Flatten(Builder& b, const Value& x) { return b.Reshape(x, {tape::NumElements(x.dims)}); }

Value IntLike(Builder& b, const Value& x, int64_t v) {
  return b.ConstantInt(DType::kI64, x.dims, v);
}

// Running sums of an i64 vector, by the lowering of aten.cumsum.
Value RunningSum(Emitter& e, const Value& x) {
  const LowerFn cumsum = Lookup("aten.cumsum.default");
  if (cumsum == nullptr) {
    e.Fail(Unimplemented(e.sig().op + " needs aten.cumsum"));
    return x;
  }
  tape::OperandType type;
  type.view.dtype = DType::kI64;
  type.view.sizes = x.dims;
  type.view.strides = tape::ContiguousStrides(x.dims);
  tape::Signature sig;
  sig.op = "aten.cumsum.default";
  sig.operands = {type, type};
  Arg self, dim;
  self.kind = Arg::Kind::kTensor;
  self.ints = {0};
  dim.kind = Arg::Kind::kInt;
  sig.args = {self, dim, Arg{}};
  sig.results = {1};
  Emitter inner(sig, e.b(), e.traits(), {x, Value{}}, {});
  cumsum(inner);
  return e.failed() ? x : e.To(inner.results()[0], DType::kI64);
}

// For each element under the flat mask, how many are under it before.
Value Rank(Emitter& e, const Value& mask) {
  Builder& b = e.b();
  const Value counts = RunningSum(e, b.Convert(mask, DType::kI64));
  return b.Sub(counts, IntLike(b, mask, 1));
}

// (self, mask, source)
void MaskedScatter(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Dims out = e.OutView(0).sizes;
  const Value self = b.BroadcastTo(e.In(0), out);
  const Value source = Flatten(b, e.To(e.In(2), self.dtype));
  if (tape::NumElements(out) == 0 || source.dims[0] == 0) return e.Out(0, self);
  const Value mask = Flatten(b, b.BroadcastTo(e.To(e.In(1), DType::kBool), out));
  const Value at = b.Select(mask, Rank(e, mask), IntLike(b, mask, 0));
  if (e.failed()) return;
  e.CheckIndices(at, 0, source.dims[0]);
  const Value picked = b.Select(mask, GatherFlat(b, source, at), Flatten(b, self));
  e.Out(0, b.Reshape(picked, out));
}

// (grad_output, mask, sizes): the gradient's elements under the mask, then zeros.
void MaskedScatterBackward(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value grad = e.In(0);
  const Dims out = e.OutView(0).sizes;
  const int64_t n = tape::NumElements(out);
  if (n == 0 || tape::NumElements(grad.dims) == 0) {
    return e.Out(0, b.Constant(grad.dtype, out, 0));
  }
  const Value mask = Flatten(b, b.BroadcastTo(e.To(e.In(1), DType::kBool), grad.dims));
  // What is not under the mask goes to one slot more, which is cut off.
  const Value at = b.Select(mask, Rank(e, mask), IntLike(b, mask, n));
  if (e.failed()) return;
  const Value slots =
      ScatterFlat(b, b.Constant(grad.dtype, {n + 1}, 0), at, Flatten(b, grad), Assign);
  e.Out(0, b.Reshape(b.Slice(slots, {0}, {n}, {1}), out));
}

// (repeats, output_size): index i as often as repeats[i] says. Each group's start is marked; the
// running sum of the marks numbers the groups.
void RepeatInterleave(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value repeats = e.To(e.In(0), DType::kI64);
  const int64_t n = e.OutView(0).numel();
  if (n == 0) return e.Out(0, b.Constant(DType::kI64, {0}, 0));
  if (repeats.rank() != 1 || repeats.dims[0] == 0) {
    return e.Fail(InvalidArgument("repeat_interleave: repeats"));
  }
  const Value ends = RunningSum(e, repeats);
  if (e.failed()) return;
  const int64_t groups = repeats.dims[0];
  e.CheckIndices(repeats, 0, INT64_MAX);
  e.CheckIndices(b.Slice(ends, {groups - 1}, {groups}, {1}), n, n + 1);
  // The end of one group is the start of the next; the last end (and those of empty tails) is n.
  const Value marks =
      ScatterFlat(b, b.Constant(DType::kI64, {n + 1}, 0), ends, IntLike(b, ends, 1), Accumulate);
  e.Out(0, RunningSum(e, b.Slice(marks, {0}, {n}, {1})));
}

// (self, size, fill_value): the coordinates of the first `size` elements that are not zero, one row
// each; rows of the fill value where there are fewer.
void NonzeroStatic(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value x = e.In(0);
  const int64_t size = e.Int(1), rank = x.rank();
  const Value fill = b.BroadcastTo(e.Scalar(2, DType::kI64), {size, 1});
  const Dims out = {size, rank};
  if (tape::NumElements(out) == 0 || tape::NumElements(x.dims) == 0) {
    return e.Out(0, b.BroadcastTo(e.Scalar(2, DType::kI64), out));
  }
  const Value mask = Flatten(b, IsNonzero(b, x));
  const Value order = Rank(e, mask);
  if (e.failed()) return;
  // Those beyond `size` share one place more, which is cut off.
  const Value counts = b.Binary("and", mask, b.Compare(Cmp::kLt, order, IntLike(b, order, size)));
  const Value place = b.Select(counts, order, IntLike(b, order, size));
  const Value none = b.ConstantInt(DType::kI64, {size + 1}, -1);
  const Value all = ScatterFlat(b, none, place, b.Iota(DType::kI64, mask.dims, 0), Assign);
  const Value at = b.Reshape(b.Slice(all, {0}, {size}, {1}), {size, 1});
  const Value found = b.Compare(Cmp::kGe, at, IntLike(b, at, 0));
  std::vector<Value> columns;
  const Dims strides = tape::ContiguousStrides(x.dims);
  for (int64_t d = 0; d < rank; ++d) {
    const Value whole = b.Div(at, IntLike(b, at, strides[d]));
    const Value coordinate = b.Binary("remainder", whole, IntLike(b, at, x.dims[d]));
    columns.push_back(b.Select(found, coordinate, fill));
  }
  e.Out(0, b.Concatenate(columns, 1));
}

DENDRITE_LOWERING("aten.nonzero_static.default", NonzeroStatic);
DENDRITE_LOWERING("aten.masked_scatter.default", MaskedScatter);
DENDRITE_LOWERING("aten.masked_scatter_backward.default", MaskedScatterBackward);
DENDRITE_LOWERING("aten.repeat_interleave.Tensor", RepeatInterleave);

}  // namespace
}  // namespace dendrite::lowering
