// csrc/lowering/pooling.cc - max and average pooling, adaptive pooling, and their gradients.
//
// A window of up to kMaxUnrolled elements is unrolled: one strided slice per element of the window,
// which fuses into one vector loop; larger ones use reduce_window. Indices are PyTorch's: flat
// within a plane, of the first maximum, or of the last NaN, as the scanning CPU kernel leaves them.
#include <algorithm>
#include <functional>
#include <vector>

#include "csrc/lowering/linear_map.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

constexpr int64_t kMaxUnrolled = 64;

struct Window {
  Dims size, stride, padding, dilation;  // one element per spatial dimension
  Dims in, out;                          // spatial sizes
  size_t lead = 0;                       // dimensions before the spatial ones
  size_t spatial() const { return size.size(); }
  int64_t count() const { return tape::NumElements(size); }
};

Dims Expand(Dims v, size_t n, int64_t if_empty) {
  if (v.empty()) v.assign(1, if_empty);
  if (v.size() == 1) v.assign(n, v[0]);
  return v;
}

// `in` and `out`: shapes of the pooling's operand and result, whatever direction is lowered.
bool MakeWindow(Emitter& e, size_t spatial, const Dims& in, const Dims& out, int first,
                bool dilated, Window* w) {
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
Value PadForWindows(Builder& b, const Value& x, const Window& w, const Value& value) {
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
void ForOffsets(const Window& w, const std::function<void(const Dims&)>& f) {
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
Value AtOffset(Builder& b, const Value& padded, const Window& w, const Dims& offset) {
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
Value FlatPositions(Builder& b, const Window& w, const Dims& dims,
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
std::vector<std::vector<int64_t>> WindowStarts(const Window& w, bool first_real) {
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

int64_t FlatOffset(const Window& w, const Dims& offset) {
  const Dims strides = tape::ContiguousStrides(w.in);
  int64_t flat = 0;
  for (size_t d = 0; d < w.spatial(); ++d) flat += offset[d] * w.dilation[d] * strides[d];
  return flat;
}

// True where `x` replaces the maximum so far, as PyTorch's kernels decide.
Value Replaces(Builder& b, const Value& x, const Value& best) {
  const Value greater = b.Compare(Cmp::kGt, x, best);
  return tape::IsFloat(x.dtype) ? b.Binary("or", greater, IsNan(b, x)) : greater;
}

// Results 0 and 1: the windows' maxima and their positions.
void MaxPoolWindows(Emitter& e, const Value& x, const Dims& out, const Window& w) {
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
  if (w.count() <= kMaxUnrolled) {
    const Value base = FlatPositions(b, w, out, WindowStarts(w, false));
    Value best = b.BroadcastTo(lowest, out), index = first;
    ForOffsets(w, [&](const Dims& offset) {
      const Value v = AtOffset(b, padded, w, offset);
      const Value here = b.Add(base, b.ConstantInt(DType::kI32, out, FlatOffset(w, offset)));
      const Value take = Replaces(b, v, best);
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
        const Value take = Replaces(r, v[2], v[0]);
        return std::vector<Value>{r.Select(take, v[2], v[0]), r.Select(take, v[3], v[1])};
      });
  e.Out(0, best[0]);
  const Value missing = b.Compare(Cmp::kLt, best[1], b.ConstantInt(DType::kI32, out, 0));
  e.Out(1, e.To(b.Select(missing, first, best[1]), DType::kI64));
}

template <size_t kSpatial>
void MaxPool(Emitter& e) {
  if (!e.Wanted(0) && !e.Wanted(1)) return;
  const Value x = e.In(0);
  const Dims out = e.OutView(e.Wanted(0) ? 0 : 1).sizes;
  Window w;
  if (MakeWindow(e, kSpatial, x.dims, out, 1, true, &w)) MaxPoolWindows(e, x, out, w);
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

// v spread over the input plane: element o of v at position o * stride + offset - padding, zero
// elsewhere.
Value SpreadAt(Builder& b, const Value& v, const Window& w, const Dims& offset) {
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
  Window w;
  if (!MakeWindow(e, kSpatial, in, raw.dims, 2, true, &w)) return;
  const Value grad = e.To(raw, tape::OpMath(raw.dtype));
  if (tape::NumElements(in) == 0 || tape::NumElements(raw.dims) == 0) {
    e.Out(0, b.Constant(grad.dtype, in, 0));
    return;
  }
  if (w.count() > kMaxUnrolled || tape::NumElements(w.in) > INT32_MAX) {
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
Value Divisor(Emitter& e, const Window& w, DType dtype, const Dims& dims, bool include_pad,
              int divisor_arg) {
  Builder& b = e.b();
  if (!e.IsNone(divisor_arg)) {
    return b.Constant(dtype, dims, static_cast<double>(e.Int(divisor_arg)));
  }
  Value product;
  for (size_t d = 0; d < w.spatial(); ++d) {
    std::vector<double> counts;
    for (int64_t o = 0; o < w.out[d]; ++o) {
      const int64_t start = o * w.stride[d] - w.padding[d];
      const int64_t end = std::min(start + w.size[d], w.in[d] + w.padding[d]);
      const int64_t inside = std::min(end, w.in[d]) - std::max<int64_t>(start, 0);
      counts.push_back(static_cast<double>(include_pad ? end - start : inside));
    }
    const bool equal =
        std::all_of(counts.begin(), counts.end(), [&](double c) { return c == counts[0]; });
    const Value term =
        equal ? b.Constant(dtype, dims, counts[0])
              : Along(b, b.ConstantFloats(dtype, counts), dims, static_cast<int64_t>(w.lead + d));
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
  Window w;
  if (!MakeWindow(e, kSpatial, in.dims, out, 1, false, &w)) return;
  if (!tape::IsFloat(in.dtype)) return e.Fail(Unimplemented("average pooling of this dtype"));
  const Value x = e.To(in, tape::OpMath(in.dtype));
  if (tape::NumElements(out) == 0) return e.Out(0, b.Constant(x.dtype, out, 0));
  const Value zero = b.Constant(x.dtype, {}, 0);
  const Value padded = PadForWindows(b, x, w, zero);
  Value sum;
  if (w.count() <= kMaxUnrolled) {
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
  Window w;
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

int64_t AdaptiveStart(int64_t o, int64_t in, int64_t out) { return o * in / out; }
int64_t AdaptiveEnd(int64_t o, int64_t in, int64_t out) { return ((o + 1) * in + out - 1) / out; }

LinearMap AdaptiveSums(int64_t in, int64_t out) {
  LinearMap map;
  map.in_size = in;
  for (int64_t o = 0; o < out; ++o) {
    std::vector<LinearMap::Term> row;
    for (int64_t i = AdaptiveStart(o, in, out); i < AdaptiveEnd(o, in, out); ++i) {
      row.push_back({i, 1});
    }
    map.rows.push_back(std::move(row));
  }
  return map;
}

// x divided by the sizes of the windows along its last `spatial` dimensions.
Value DivideByCounts(Builder& b, const Value& x, const Dims& in, const Dims& out, size_t spatial) {
  Value product;
  for (size_t d = in.size() - spatial; d < in.size(); ++d) {
    std::vector<double> counts;
    for (int64_t o = 0; o < out[d]; ++o) {
      counts.push_back(
          static_cast<double>(AdaptiveEnd(o, in[d], out[d]) - AdaptiveStart(o, in[d], out[d])));
    }
    const bool equal = in[d] % out[d] == 0;
    const Value term =
        equal ? Like(b, x, counts[0])
              : Along(b, b.ConstantFloats(x.dtype, counts), x.dims, static_cast<int64_t>(d));
    product = product.defined() ? b.Mul(product, term) : term;
  }
  return b.Div(x, product);
}

template <size_t kSpatial>
void AdaptiveAvgPool(Emitter& e) {
  if (!e.Wanted(0)) return;
  const Value raw = e.In(0);
  const Dims out = e.OutView(0).sizes;
  Value v = e.To(raw, tape::OpMath(raw.dtype));
  if (tape::NumElements(out) == 0) return e.Out(0, e.b().Constant(v.dtype, out, 0));
  for (size_t d = out.size() - kSpatial; d < out.size(); ++d) {
    v = Apply(e, v, static_cast<int64_t>(d), AdaptiveSums(raw.dims[d], out[d]));
  }
  e.Out(0, DivideByCounts(e.b(), v, raw.dims, out, kSpatial));
}

template <size_t kSpatial>
void AdaptiveAvgPoolBackward(Emitter& e) {
  if (!e.Wanted(0)) return;
  const Value raw = e.In(0);
  const Dims in = e.OutView(0).sizes;
  Value v = e.To(raw, tape::OpMath(raw.dtype));
  if (tape::NumElements(in) == 0 || tape::NumElements(raw.dims) == 0) {
    return e.Out(0, e.b().Constant(v.dtype, in, 0));
  }
  v = DivideByCounts(e.b(), v, in, raw.dims, kSpatial);
  for (size_t d = in.size() - kSpatial; d < in.size(); ++d) {
    v = Apply(e, v, static_cast<int64_t>(d), AdaptiveSums(in[d], raw.dims[d]).Transposed());
  }
  e.Out(0, v);
}

void AdaptiveMaxPool2d(Emitter& e) {
  if (!e.Wanted(0) && !e.Wanted(1)) return;
  Builder& b = e.b();
  const Value x = e.In(0);
  const Dims out = e.OutView(e.Wanted(0) ? 0 : 1).sizes;
  const size_t lead = out.size() - 2;
  const int64_t h = x.dims[lead], width = x.dims[lead + 1];
  if (tape::NumElements(out) == 0) {
    e.Out(0, b.Constant(x.dtype, out, 0));
    e.Out(1, b.Constant(DType::kI64, out, 0));
    return;
  }
  if (h % out[lead] == 0 && width % out[lead + 1] == 0) {
    Window w;
    w.size = w.stride = {h / out[lead], width / out[lead + 1]};
    w.padding = {0, 0};
    w.dilation = {1, 1};
    w.in = {h, width};
    w.out = {out[lead], out[lead + 1]};
    w.lead = lead;
    return MaxPoolWindows(e, x, out, w);
  }
  // Windows differ in size: each is scanned to the largest, elements beyond its end being masked.
  int64_t most[2] = {0, 0};
  for (int d = 0; d < 2; ++d) {
    for (int64_t o = 0; o < out[lead + d]; ++o) {
      const int64_t in = x.dims[lead + d];
      most[d] = std::max(most[d],
                         AdaptiveEnd(o, in, out[lead + d]) - AdaptiveStart(o, in, out[lead + d]));
    }
  }
  if (most[0] * most[1] > kMaxUnrolled || h * width > INT32_MAX) {
    return e.Fail(Unimplemented("adaptive max pooling with large windows"));
  }
  const auto positions = [&](int d, int64_t offset, std::vector<int64_t>* inside) {
    std::vector<int64_t> at;
    const int64_t in = x.dims[lead + d];
    for (int64_t o = 0; o < out[lead + d]; ++o) {
      const int64_t p = AdaptiveStart(o, in, out[lead + d]) + offset;
      inside->push_back(p < AdaptiveEnd(o, in, out[lead + d]) ? 1 : 0);
      at.push_back(std::min(p, in - 1));
    }
    return at;
  };
  const auto along = [&](const std::vector<int64_t>& v, DType dtype, int d) {
    return Along(b, b.ConstantInts(dtype, v), out, static_cast<int64_t>(lead) + d);
  };
  Value best, index;
  for (int64_t i = 0; i < most[0]; ++i) {
    std::vector<int64_t> row_inside;
    const auto rows = positions(0, i, &row_inside);
    const Value x_rows = Take(b, x, static_cast<int64_t>(lead), rows);
    std::vector<int64_t> flat_rows;
    for (int64_t r : rows) flat_rows.push_back(r * width);
    for (int64_t j = 0; j < most[1]; ++j) {
      std::vector<int64_t> column_inside;
      const auto columns = positions(1, j, &column_inside);
      const Value v = Take(b, x_rows, static_cast<int64_t>(lead) + 1, columns);
      const Value here = b.Add(along(flat_rows, DType::kI32, 0), along(columns, DType::kI32, 1));
      if (!best.defined()) {
        // The scan starts at minus infinity, standing on the first element.
        best = b.Infinity(x.dtype, out, true);
        index = here;
      }
      const Value inside = b.Binary("and", along(row_inside, DType::kBool, 0),
                                    along(column_inside, DType::kBool, 1));
      const Value take = b.Binary("and", Replaces(b, v, best), inside);
      best = b.Select(take, v, best);
      index = b.Select(take, here, index);
    }
  }
  e.Out(0, best);
  e.Out(1, e.To(index, DType::kI64));
}

// (grad_output, self, indices)
template <size_t kSpatial>
void AdaptiveMaxPoolBackward(Emitter& e) {
  if (!e.Wanted(0)) return;
  const Value raw = e.In(0);
  const Value grad = e.To(raw, tape::OpMath(raw.dtype));
  const Dims in = e.OutView(0).sizes;
  if (tape::NumElements(in) == 0 || tape::NumElements(raw.dims) == 0) {
    return e.Out(0, e.b().Constant(grad.dtype, in, 0));
  }
  e.Out(0, ScatterPlanes(e, grad, e.In(2), in, in.size() - kSpatial));
}

DENDRITE_LOWERING("aten.max_pool2d_with_indices.default", MaxPool<2>);
DENDRITE_LOWERING("aten.max_pool3d_with_indices.default", MaxPool<3>);
DENDRITE_LOWERING("aten.max_pool2d_with_indices_backward.default", MaxPoolBackward<2>);
DENDRITE_LOWERING("aten.max_pool3d_with_indices_backward.default", MaxPoolBackward<3>);
DENDRITE_LOWERING("aten.avg_pool2d.default", AvgPool<2>);
DENDRITE_LOWERING("aten.avg_pool3d.default", AvgPool<3>);
DENDRITE_LOWERING("aten.avg_pool2d_backward.default", AvgPoolBackward<2>);
DENDRITE_LOWERING("aten.avg_pool3d_backward.default", AvgPoolBackward<3>);
DENDRITE_LOWERING("aten._adaptive_avg_pool2d.default", AdaptiveAvgPool<2>);
DENDRITE_LOWERING("aten._adaptive_avg_pool3d.default", AdaptiveAvgPool<3>);
DENDRITE_LOWERING("aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPoolBackward<2>);
DENDRITE_LOWERING("aten._adaptive_avg_pool3d_backward.default", AdaptiveAvgPoolBackward<3>);
DENDRITE_LOWERING("aten.adaptive_max_pool2d.default", AdaptiveMaxPool2d);
DENDRITE_LOWERING("aten.adaptive_max_pool2d_backward.default", AdaptiveMaxPoolBackward<2>);

}  // namespace
}  // namespace dendrite::lowering
