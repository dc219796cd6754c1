// csrc/lowering/pooling.cc - max and average pooling with windows, and their gradients.
//
// A window of up to kMaxUnrolledWindow elements is unrolled: one strided slice per element of the
// window, which fuses into one vector loop; larger ones use reduce_window. Indices are PyTorch's:
// flat within a plane, of the first maximum, or of the last NaN, as the scanning CPU kernel leaves
// them.
#include <algorithm>
#include <functional>
#include <vector>

#include "csrc/lowering/linear_map.h"
#include "csrc/lowering/pooling.h"
#include "csrc/lowering/reduce_math.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

Dims Expand(Dims v, size_t n, int64_t if_empty) {
  if (v.empty()) v.assign(1, if_empty);
  if (v.size() == 1) v.assign(n, v[0]);
  return v;
}

// `in` and `out`: shapes of the pooling's operand and result, whatever direction is lowered.
bool MakeWindow(Emitter& e, size_t spatial, const Dims& in, const Dims& out, int first,
                bool dilated, PoolWindow* w) {
  w->size = Expand(e.Ints(first), spatial, 1);
  const Dims stride = e.Ints(first + 1);
  w->stride = stride.empty() ? w->size : Expand(stride, spatial, 1);
  w->padding = Expand(e.Ints(first + 2), spatial, 0);
  w->dilation = dilated ? Expand(e.Ints(first + 3), spatial, 1) : Dims(spatial, 1);
  if (in.size() < spatial || in.size() != out.size() || w->size.size() != spatial ||
      w->stride.size() != spatial || w->padding.size() != spatial ||
      w->dilation.size() != spatial) {
    e.Fail(InvalidArgument(e.sig().op + ": window does not fit the input"));
    return false;
  }
  w->lead = in.size() - spatial;
  w->in.assign(in.begin() + static_cast<int64_t>(w->lead), in.end());
  w->out.assign(out.begin() + static_cast<int64_t>(w->lead), out.end());
  return !e.failed();
}

// x with its spatial dimensions padded so that every window lies inside.
Value PadForWindows(Builder& b, const Value& x, const PoolWindow& w, const Value& value) {
  Dims low(x.dims.size(), 0), high(x.dims.size(), 0);
  bool any = false;
  for (size_t d = 0; d < w.spatial(); ++d) {
    const int64_t needed = (w.out[d] - 1) * w.stride[d] + w.dilation[d] * (w.size[d] - 1) + 1;
    low[w.lead + d] = w.padding[d];
    high[w.lead + d] = std::max<int64_t>(0, needed - w.in[d] - w.padding[d]);
    any = any || low[w.lead + d] > 0 || high[w.lead + d] > 0;
  }
  return any ? b.Pad(x, value, low, high, Dims(x.dims.size(), 0)) : x;
}

// Calls f(offset) for each element of the window, row-major.
void ForOffsets(const PoolWindow& w, const std::function<void(const Dims&)>& f) {
  Dims offset(w.spatial(), 0);
  for (int64_t i = 0; i < w.count(); ++i) {
    f(offset);
    for (size_t d = w.spatial(); d-- > 0;) {
      if (++offset[d] < w.size[d]) break;
      offset[d] = 0;
    }
  }
}

// The elements that stand at `offset` of every window of the padded operand.
Value AtOffset(Builder& b, const Value& padded, const PoolWindow& w, const Dims& offset) {
  Dims start(padded.dims.size(), 0), limit = padded.dims, stride(padded.dims.size(), 1);
  for (size_t d = 0; d < w.spatial(); ++d) {
    start[w.lead + d] = offset[d] * w.dilation[d];
    limit[w.lead + d] = start[w.lead + d] + (w.out[d] - 1) * w.stride[d] + 1;
    stride[w.lead + d] = w.stride[d];
  }
  return b.Slice(padded, start, limit, stride);
}

Dims WithLead(size_t lead, const Dims& spatial, int64_t fill) {
  Dims v(lead, fill);
  v.insert(v.end(), spatial.begin(), spatial.end());
  return v;
}

// i32 of `dims`: sum over spatial dimensions of positions[d][coordinate] * row-major stride of the
// input.
Value FlatPositions(Builder& b, const PoolWindow& w, const Dims& dims,
                    const std::vector<std::vector<int64_t>>& positions) {
  const Dims strides = tape::ContiguousStrides(w.in);
  Value sum;
  for (size_t d = 0; d < w.spatial(); ++d) {
    std::vector<int64_t> flat;
    for (int64_t p : positions[d]) flat.push_back(p * strides[d]);
    const Value term =
        Along(b, b.ConstantInts(DType::kI32, flat), dims, static_cast<int64_t>(w.lead + d));
    sum = sum.defined() ? b.Add(sum, term) : term;
  }
  return sum;
}

// Where each window begins: on the padded plane, or at its first element that exists.
std::vector<std::vector<int64_t>> WindowStarts(const PoolWindow& w, bool first_real) {
  std::vector<std::vector<int64_t>> starts(w.spatial());
  for (size_t d = 0; d < w.spatial(); ++d) {
    for (int64_t o = 0; o < w.out[d]; ++o) {
      int64_t s = o * w.stride[d] - w.padding[d];
      while (first_real && s < 0) s += w.dilation[d];
      starts[d].push_back(s);
    }
  }
  return starts;
}

int64_t FlatOffset(const PoolWindow& w, const Dims& offset) {
  const Dims strides = tape::ContiguousStrides(w.in);
  int64_t flat = 0;
  for (size_t d = 0; d < w.spatial(); ++d) flat += offset[d] * w.dilation[d] * strides[d];
  return flat;
}

}  // namespace

// True where `x` replaces the maximum so far, as PyTorch's kernels decide.
Value ReplacesMax(Builder& b, const Value& x, const Value& best) {
  const Value greater = b.Compare(Cmp::kGt, x, best);
  return tape::IsFloat(x.dtype) ? b.Binary("or", greater, IsNan(b, x)) : greater;
}

// Results 0 and 1: the windows' maxima and their positions.
void MaxPoolWindows(Emitter& e, const Value& x, const Dims& out, const PoolWindow& w) {
  Builder& b = e.b();
  if (tape::NumElements(w.in) > INT32_MAX) return e.Fail(Unimplemented("pooling a huge plane"));
  if (tape::NumElements(out) == 0) {
    e.Out(0, b.Constant(x.dtype, out, 0));
    e.Out(1, b.Constant(DType::kI64, out, 0));
    return;
  }
  const Value lowest = b.Infinity(x.dtype, {}, true);
  const Value padded = PadForWindows(b, x, w, lowest);
  const Value first = FlatPositions(b, w, out, WindowStarts(w, true));
  if (w.count() <= kMaxUnrolledWindow) {
    const Value base = FlatPositions(b, w, out, WindowStarts(w, false));
    Value best = b.BroadcastTo(lowest, out), index = first;
    ForOffsets(w, [&](const Dims& offset) {
      const Value v = AtOffset(b, padded, w, offset);
      const Value here = b.Add(base, b.ConstantInt(DType::kI32, out, FlatOffset(w, offset)));
      const Value take = ReplacesMax(b, v, best);
      best = b.Select(take, v, best);
      index = b.Select(take, here, index);
    });
    e.Out(0, best);
    e.Out(1, e.To(index, DType::kI64));
    return;
  }
  // Pairs (value, flat index or -1 in the padding) through reduce_window.
  std::vector<std::vector<int64_t>> own(w.spatial());
  for (size_t d = 0; d < w.spatial(); ++d) {
    for (int64_t i = 0; i < w.in[d]; ++i) own[d].push_back(i);
  }
  const Value none = b.ConstantInt(DType::kI32, {}, -1);
  const Value index = PadForWindows(b, FlatPositions(b, w, x.dims, own), w, none);
  const Dims ones(x.dims.size(), 1), zeros(x.dims.size(), 0);
  Dims limit = padded.dims;
  for (size_t d = 0; d < w.spatial(); ++d) {
    limit[w.lead + d] = (w.out[d] - 1) * w.stride[d] + w.dilation[d] * (w.size[d] - 1) + 1;
  }
  const auto best = b.ReduceWindowN(
      {b.Slice(padded, zeros, limit, ones), b.Slice(index, zeros, limit, ones)}, {lowest, none},
      WithLead(w.lead, w.size, 1), WithLead(w.lead, w.stride, 1), WithLead(w.lead, w.dilation, 1),
      zeros, zeros, [](Builder& r, const std::vector<Value>& v) {
        const Value take = ReplacesMax(r, v[2], v[0]);
        return std::vector<Value>{r.Select(take, v[2], v[0]), r.Select(take, v[3], v[1])};
      });
  e.Out(0, best[0]);
  const Value missing = b.Compare(Cmp::kLt, best[1], b.ConstantInt(DType::kI32, out, 0));
  e.Out(1, e.To(b.Select(missing, first, best[1]), DType::kI64));
}

// grad scattered by flat indices within each plane of `dims`.
Value ScatterPlanes(Emitter& e, const Value& grad, const Value& indices, const Dims& dims,
                    size_t lead) {
  Builder& b = e.b();
  int64_t planes = 1, plane = 1, n = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    (d < lead ? planes : plane) *= dims[d];
    if (d >= lead) n *= grad.dims[d];
  }
  const Value column = b.Reshape(e.To(indices, DType::kI64), {planes, n, 1});
  e.CheckIndices(column, 0, plane);
  const Value row = b.Iota(DType::kI64, {planes, n, 1}, 0);
  Builder::ScatterDims d;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {0, 1};
  d.index_vector_dim = 2;
  const Value sum =
      b.Scatter(b.Constant(grad.dtype, {planes, plane}, 0), b.Concatenate({row, column}, 2),
                b.Reshape(grad, {planes, n}), d,
                [](Builder& r, const Value& x, const Value& y) { return r.Add(x, y); });
  return b.Reshape(sum, dims);
}

namespace {

template <size_t kSpatial>
void MaxPool(Emitter& e) {
  if (!e.Wanted(0) && !e.Wanted(1)) return;
  const Value x = e.In(0);
  const Dims out = e.OutView(e.Wanted(0) ? 0 : 1).sizes;
  PoolWindow w;
  if (MakeWindow(e, kSpatial, x.dims, out, 1, true, &w)) MaxPoolWindows(e, x, out, w);
}

// v spread over the input plane: element o of v at position o * stride + offset - padding, zero
// elsewhere.
Value SpreadAt(Builder& b, const Value& v, const PoolWindow& w, const Dims& offset) {
  Dims low(v.dims.size(), 0), high(v.dims.size(), 0), interior(v.dims.size(), 0);
  for (size_t d = 0; d < w.spatial(); ++d) {
    low[w.lead + d] = offset[d] * w.dilation[d] - w.padding[d];
    interior[w.lead + d] = w.stride[d] - 1;
    const int64_t extent = (w.out[d] - 1) * w.stride[d] + 1;
    high[w.lead + d] = w.in[d] - extent - low[w.lead + d];
  }
  return b.Pad(v, b.Constant(v.dtype, {}, 0), low, high, interior);
}

// (grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices)
template <size_t kSpatial>
void MaxPoolBackward(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value raw = e.In(0), indices = e.In(7);
  const Dims in = e.OutView(0).sizes;
  PoolWindow w;
  if (!MakeWindow(e, kSpatial, in, raw.dims, 2, true, &w)) return;
  const Value grad = e.To(raw, tape::OpMath(raw.dtype));
  if (tape::NumElements(in) == 0 || tape::NumElements(raw.dims) == 0) {
    e.Out(0, b.Constant(grad.dtype, in, 0));
    return;
  }
  if (w.count() > kMaxUnrolledWindow || tape::NumElements(w.in) > INT32_MAX) {
    e.Out(0, ScatterPlanes(e, grad, indices, in, w.lead));
    return;
  }
  // For each offset: the gradients of the windows whose maximum stood there, put in their places.
  const Value index = e.To(indices, DType::kI32);
  const Value base = FlatPositions(b, w, raw.dims, WindowStarts(w, false));
  const Value zero = Like(b, grad, 0);
  Value sum;
  ForOffsets(w, [&](const Dims& offset) {
    const Value here = b.Add(base, b.ConstantInt(DType::kI32, raw.dims, FlatOffset(w, offset)));
    const Value share = b.Select(b.Compare(Cmp::kEq, index, here), grad, zero);
    const Value part = SpreadAt(b, share, w, offset);
    sum = sum.defined() ? b.Add(sum, part) : part;
  });
  e.Out(0, sum);
}

// What each window's sum is divided by, [out...] spatial, as a tensor of `dims`.
Value Divisor(Emitter& e, const PoolWindow& w, DType dtype, const Dims& dims, bool include_pad,
              int divisor_arg) {
  Builder& b = e.b();
  if (!e.IsNone(divisor_arg)) {
    return b.Constant(dtype, dims, static_cast<double>(e.Int(divisor_arg)));
  }
  Value product;
  for (size_t d = 0; d < w.spatial(); ++d) {
    std::vector<int64_t> counts;
    for (int64_t o = 0; o < w.out[d]; ++o) {
      const int64_t start = o * w.stride[d] - w.padding[d];
      const int64_t end = std::min(start + w.size[d], w.in[d] + w.padding[d]);
      const int64_t inside = std::min(end, w.in[d]) - std::max<int64_t>(start, 0);
      counts.push_back(include_pad ? end - start : inside);
    }
    const bool equal =
        std::all_of(counts.begin(), counts.end(), [&](int64_t c) { return c == counts[0]; });
    const Value list =
        tape::IsFloat(dtype)
            ? b.ConstantFloats(dtype, std::vector<double>(counts.begin(), counts.end()))
            : b.ConstantInts(dtype, counts);
    const Value term = equal ? b.ConstantInt(dtype, dims, counts[0])
                             : Along(b, list, dims, static_cast<int64_t>(w.lead + d));
    product = product.defined() ? b.Mul(product, term) : term;
  }
  return product;
}

// (self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
template <size_t kSpatial>
void AvgPool(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value in = e.In(0);
  const Dims out = e.OutView(0).sizes;
  PoolWindow w;
  if (!MakeWindow(e, kSpatial, in.dims, out, 1, false, &w)) return;
  if (!tape::IsFloat(in.dtype) && !tape::IsIntegral(in.dtype)) {
    return e.Fail(Unimplemented("average pooling of this dtype"));
  }
  const Value x = e.To(in, tape::OpMath(in.dtype));
  if (tape::NumElements(out) == 0) return e.Out(0, b.Constant(x.dtype, out, 0));
  const Value zero = b.Constant(x.dtype, {}, 0);
  const Value padded = PadForWindows(b, x, w, zero);
  Value sum;
  if (w.count() <= kMaxUnrolledWindow) {
    ForOffsets(w, [&](const Dims& offset) {
      const Value v = AtOffset(b, padded, w, offset);
      sum = sum.defined() ? b.Add(sum, v) : v;
    });
  } else if (w.out == Dims(kSpatial, 1) && w.size == w.in && w.padding == Dims(kSpatial, 0)) {
    Dims spatial;
    for (size_t d = 0; d < kSpatial; ++d) spatial.push_back(static_cast<int64_t>(w.lead + d));
    sum = b.Reshape(Sum(b, x, spatial), out);
  } else {
    const Dims ones(x.dims.size(), 1), zeros(x.dims.size(), 0);
    Dims limit = padded.dims;
    for (size_t d = 0; d < kSpatial; ++d) {
      limit[w.lead + d] = (w.out[d] - 1) * w.stride[d] + w.size[d];
    }
    sum = b.ReduceWindow(b.Slice(padded, zeros, limit, ones), zero, WithLead(w.lead, w.size, 1),
                         WithLead(w.lead, w.stride, 1), ones, zeros, zeros,
                         [](Builder& r, const Value& a, const Value& v) { return r.Add(a, v); });
  }
  e.Out(0, b.Div(sum, Divisor(e, w, x.dtype, out, e.Bool(5, true), 6)));
}

// (grad_output, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
template <size_t kSpatial>
void AvgPoolBackward(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value raw = e.In(0);
  const Dims in = e.OutView(0).sizes;
  PoolWindow w;
  if (!MakeWindow(e, kSpatial, in, raw.dims, 2, false, &w)) return;
  Value v = e.To(raw, tape::OpMath(raw.dtype));
  if (tape::NumElements(in) == 0 || tape::NumElements(raw.dims) == 0) {
    return e.Out(0, b.Constant(v.dtype, in, 0));
  }
  v = b.Div(v, Divisor(e, w, v.dtype, raw.dims, e.Bool(6, true), 7));
  // A box window is separable: one map per dimension, from the plane to windows, transposed.
  for (size_t d = 0; d < kSpatial; ++d) {
    LinearMap sums;
    sums.in_size = w.in[d];
    for (int64_t o = 0; o < w.out[d]; ++o) {
      std::vector<LinearMap::Term> row;
      for (int64_t i = 0; i < w.size[d]; ++i) {
        const int64_t at = o * w.stride[d] - w.padding[d] + i;
        if (at >= 0 && at < w.in[d]) row.push_back({at, 1});
      }
      sums.rows.push_back(std::move(row));
    }
    v = Apply(e, v, static_cast<int64_t>(w.lead + d), sums.Transposed());
  }
  e.Out(0, v);
}

DENDRITE_LOWERING("aten.max_pool2d_with_indices.default", MaxPool<2>);
DENDRITE_LOWERING("aten.max_pool3d_with_indices.default", MaxPool<3>);
DENDRITE_LOWERING("aten.max_pool2d_with_indices_backward.default", MaxPoolBackward<2>);
DENDRITE_LOWERING("aten.max_pool3d_with_indices_backward.default", MaxPoolBackward<3>);
DENDRITE_LOWERING("aten.avg_pool2d.default", AvgPool<2>);
DENDRITE_LOWERING("aten.avg_pool3d.default", AvgPool<3>);
DENDRITE_LOWERING("aten.avg_pool2d_backward.default", AvgPoolBackward<2>);
DENDRITE_LOWERING("aten.avg_pool3d_backward.default", AvgPoolBackward<3>);

}  // namespace
}  // namespace dendrite::lowering
