// csrc/lowering/view_scatter.cc - writes through a view as a function: gradients of slice, select,
// diagonal and unfold, and the *_scatter operators.
#include <algorithm>
#include <vector>

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// Above this many windows or positions an unrolled sum is no longer worth its program text.
constexpr int64_t kMaxUnrolled = 128;

bool IsLifted(Emitter& e, int i) { return e.arg(i).kind == Arg::Kind::kLifted; }

int64_t ClampBound(int64_t v, int64_t size) {
  return std::min(std::max<int64_t>(v < 0 ? v + size : v, 0), size);
}

// `update` written over `x` at `start` of dimension `dim`.
Value Update(Builder& b, const Value& x, const Value& update, int64_t dim, const Value& start) {
  std::vector<Value> starts(x.dims.size(), b.ConstantInt(DType::kI64, {}, 0));
  if (!starts.empty()) starts[dim] = start;
  return b.DynamicUpdateSlice(x, update, starts);
}

// Argument i as a start in a dimension of `size` elements: a constant, or a lifted number wrapped
// here.
Value Start(Emitter& e, int i, int64_t size) {
  Builder& b = e.b();
  if (!IsLifted(e, i)) return b.ConstantInt(DType::kI64, {}, ClampBound(e.Int(i, 0), size));
  const Value v = e.Scalar(i, DType::kI64);
  const Value wrapped = b.Add(v, b.ConstantInt(DType::kI64, {}, size));
  return b.Select(b.Compare(Cmp::kLt, v, b.ConstantInt(DType::kI64, {}, 0)), wrapped, v);
}

// v at start, start + step, ... of a dimension of `size` elements, `fill` elsewhere.
Value SpreadDim(Builder& b, const Value& v, const Value& fill, int64_t dim, int64_t start,
                int64_t step, int64_t size) {
  Dims low(v.dims.size(), 0), high(v.dims.size(), 0), interior(v.dims.size(), 0);
  low[dim] = start;
  interior[dim] = step - 1;
  const int64_t extent = v.dims[dim] == 0 ? 0 : (v.dims[dim] - 1) * step + 1;
  high[dim] = size - start - extent;
  return b.Pad(v, fill, low, high, interior);
}

Value Zeros(Builder& b, const Value& like, const Dims& dims) {
  return b.Constant(like.dtype, dims, 0);
}

// (grad_output, input_sizes, dim, start, end, step)
void SliceBackward(Emitter& e) {
  Builder& b = e.b();
  const Value grad = e.In(0);
  const Dims sizes = e.Ints(1);
  const int64_t dim = WrapDim(e.Int(2), static_cast<int64_t>(sizes.size()));
  const int64_t step = e.Int(5, 1);
  if (tape::NumElements(grad.dims) == 0) return e.Out(0, Zeros(b, grad, sizes));
  if (IsLifted(e, 3)) {
    if (step != 1) return e.Fail(Unimplemented("slice_backward: a lifted start with a step"));
    return e.Out(0, Update(b, Zeros(b, grad, sizes), grad, dim, Start(e, 3, sizes[dim])));
  }
  const int64_t start = ClampBound(e.Int(3, 0), sizes[dim]);
  e.Out(0, SpreadDim(b, grad, Zeros(b, grad, {}), dim, start, step, sizes[dim]));
}

// (grad_output, input_sizes, dim, index)
void SelectBackward(Emitter& e) {
  Builder& b = e.b();
  const Dims sizes = e.Ints(1);
  const int64_t dim = WrapDim(e.Int(2), static_cast<int64_t>(sizes.size()));
  Dims one = sizes;
  one[dim] = 1;
  const Value grad = b.Reshape(e.In(0), one);
  if (tape::NumElements(one) == 0) return e.Out(0, Zeros(b, grad, sizes));
  if (IsLifted(e, 3)) {
    return e.Out(0, Update(b, Zeros(b, grad, sizes), grad, dim, Start(e, 3, sizes[dim])));
  }
  const int64_t index = e.Int(3) < 0 ? e.Int(3) + sizes[dim] : e.Int(3);
  e.Out(0, SpreadDim(b, grad, Zeros(b, grad, {}), dim, index, 1, sizes[dim]));
}

// (self, src, dim, start, end, step)
void SliceScatter(Emitter& e) {
  Builder& b = e.b();
  const Value self = e.In(0), src = e.To(e.In(1), self.dtype);
  const int64_t dim = WrapDim(e.Int(2), self.rank()), step = e.Int(5, 1);
  const int64_t size = self.dims[dim];
  if (tape::NumElements(src.dims) == 0) return e.Out(0, self);
  if (step == 1) return e.Out(0, Update(b, self, src, dim, Start(e, 3, size)));
  const int64_t start = ClampBound(e.Int(3, 0), size);
  const Value spread = SpreadDim(b, src, Zeros(b, src, {}), dim, start, step, size);
  const Value yes = b.ConstantInt(DType::kBool, {src.dims[dim]}, 1);
  const Value mask = SpreadDim(b, yes, b.ConstantInt(DType::kBool, {}, 0), 0, start, step, size);
  e.Out(0, b.Select(Along(b, mask, self.dims, dim), spread, self));
}

// (self, src, dim, index)
void SelectScatter(Emitter& e) {
  const Value self = e.In(0);
  const int64_t dim = WrapDim(e.Int(2), self.rank());
  Dims one = self.dims;
  one[dim] = 1;
  if (tape::NumElements(one) == 0) return e.Out(0, self);
  const Value src = e.b().Reshape(e.To(e.In(1), self.dtype), one);
  e.Out(0, Update(e.b(), self, src, dim, Start(e, 3, self.dims[dim])));
}

struct Diagonal {
  int64_t dim1 = 0, dim2 = 0, offset = 0;
  Value mask;  // bool, true on the diagonal
};

Diagonal MakeDiagonal(Emitter& e, const Dims& sizes, int offset_arg, int64_t dim2_default) {
  Builder& b = e.b();
  const auto rank = static_cast<int64_t>(sizes.size());
  Diagonal d;
  d.offset = e.Int(offset_arg, 0);
  d.dim1 = WrapDim(e.Int(offset_arg + 1, 0), rank);
  d.dim2 = WrapDim(e.Int(offset_arg + 2, dim2_default), rank);
  const Value row = b.Iota(DType::kI32, sizes, d.dim1), column = b.Iota(DType::kI32, sizes, d.dim2);
  d.mask = b.Compare(Cmp::kEq, b.Add(row, b.ConstantInt(DType::kI32, sizes, d.offset)), column);
  return d;
}

// The diagonal's values ([..., length], other dimensions in order) at their rows, in every column.
Value SpreadDiagonal(Builder& b, const Value& v, const Diagonal& d, const Dims& sizes) {
  const int64_t last = v.rank() - 1;
  const Value rows =
      SpreadDim(b, v, Zeros(b, v, {}), last, std::max<int64_t>(-d.offset, 0), 1, sizes[d.dim1]);
  Dims map;
  for (int64_t i = 0; i < static_cast<int64_t>(sizes.size()); ++i) {
    if (i != d.dim1 && i != d.dim2) map.push_back(i);
  }
  map.push_back(d.dim1);
  return b.BroadcastInDim(rows, sizes, map);
}

// (grad_output, input_sizes, offset, dim1, dim2)
void DiagonalBackward(Emitter& e) {
  const Value grad = e.In(0);
  const Dims sizes = e.Ints(1);
  if (tape::NumElements(grad.dims) == 0) return e.Out(0, Zeros(e.b(), grad, sizes));
  const Diagonal d = MakeDiagonal(e, sizes, 2, 1);
  e.Out(0, e.b().Select(d.mask, SpreadDiagonal(e.b(), grad, d, sizes), Zeros(e.b(), grad, sizes)));
}

// (self, src, offset, dim1, dim2)
void DiagonalScatter(Emitter& e) {
  const Value self = e.In(0), src = e.To(e.In(1), self.dtype);
  if (tape::NumElements(src.dims) == 0) return e.Out(0, self);
  const Diagonal d = MakeDiagonal(e, self.dims, 2, 1);
  e.Out(0, e.b().Select(d.mask, SpreadDiagonal(e.b(), src, d, self.dims), self));
}

// (self, offset, dim1, dim2)
void DiagonalCopy(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value x = e.In(0);
  const Dims out = e.OutView(0).sizes;
  if (tape::NumElements(out) == 0) return e.Out(0, Zeros(b, x, out));
  const int64_t offset = e.Int(1, 0);
  const int64_t dim1 = WrapDim(e.Int(2, 0), x.rank()), dim2 = WrapDim(e.Int(3, 1), x.rank());
  const int64_t length = out.back();
  const auto position = [&](int64_t first) {
    return b.Add(b.Iota(DType::kI32, {length, 1}, 0),
                 b.ConstantInt(DType::kI32, {length, 1}, first));
  };
  Builder::GatherDims d;
  d.offset_dims = AllDims(x.rank() - 2);
  d.collapsed_slice_dims = {std::min(dim1, dim2), std::max(dim1, dim2)};
  d.start_index_map = {dim1, dim2};
  d.index_vector_dim = 1;
  d.slice_sizes = x.dims;
  d.slice_sizes[dim1] = d.slice_sizes[dim2] = 1;
  const Value index = b.Concatenate(
      {position(std::max<int64_t>(-offset, 0)), position(std::max<int64_t>(offset, 0))}, 1);
  e.Out(0, b.Gather(x, index, d));
}

// (grad_in, input_sizes, dim, size, step): windows lie along `dim`, their elements last.
void UnfoldBackward(Emitter& e) {
  Builder& b = e.b();
  const Value raw = e.In(0);
  const Dims sizes = e.Ints(1);
  const Value grad = e.To(raw, tape::OpMath(raw.dtype));
  if (sizes.empty()) return e.Out(0, b.Reshape(grad, {}));
  const int64_t dim = WrapDim(e.Int(2), static_cast<int64_t>(sizes.size()));
  const int64_t window = e.Int(3), step = e.Int(4, 1), last = grad.rank() - 1;
  const int64_t windows = grad.dims[dim];
  if (tape::NumElements(grad.dims) == 0) return e.Out(0, Zeros(b, grad, sizes));
  const Value zero = Zeros(b, grad, {});
  Value sum;
  const auto add = [&](const Value& v) { sum = sum.defined() ? b.Add(sum, v) : v; };
  const auto cut = [&](int64_t d, int64_t at) {
    Dims from(grad.dims.size(), 0), to = grad.dims;
    from[d] = at, to[d] = at + 1;
    return b.Slice(grad, from, to, Dims(grad.dims.size(), 1));
  };
  if (window <= kMaxUnrolled) {
    for (int64_t s = 0; s < window; ++s) {
      Dims dims(grad.dims.begin(), grad.dims.end() - 1);
      add(SpreadDim(b, b.Reshape(cut(last, s), dims), zero, dim, s, step, sizes[dim]));
    }
  } else if (windows <= kMaxUnrolled) {
    Dims perm = AllDims(last);
    perm[dim] = last;
    perm.push_back(dim);
    for (int64_t l = 0; l < windows; ++l) {
      Dims dims(sizes);
      dims[dim] = window;
      const Value one = b.Reshape(b.Transpose(cut(dim, l), perm), dims);
      add(SpreadDim(b, one, zero, dim, l * step, 1, sizes[dim]));
    }
  } else {
    return e.Fail(Unimplemented("unfold_backward: many large windows"));
  }
  e.Out(0, sum);
}

DENDRITE_LOWERING("aten.slice_backward.default", SliceBackward);
DENDRITE_LOWERING("aten.select_backward.default", SelectBackward);
DENDRITE_LOWERING("aten.diagonal_backward.default", DiagonalBackward);
DENDRITE_LOWERING("aten.unfold_backward.default", UnfoldBackward);
DENDRITE_LOWERING("aten.slice_scatter.default", SliceScatter);
DENDRITE_LOWERING("aten.select_scatter.default", SelectScatter);
DENDRITE_LOWERING("aten.diagonal_scatter.default", DiagonalScatter);
DENDRITE_LOWERING("aten.diagonal_copy.default", DiagonalCopy);

}  // namespace
}  // namespace dendrite::lowering
