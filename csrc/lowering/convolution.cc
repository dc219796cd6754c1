// csrc/lowering/convolution.cc - convolutions and their gradients.
//
// A transposed convolution is the input gradient of a plain one, and each gradient is again a
// convolution, so three functions over Builder::Convolution serve all cases. Where the target has
// kernels by name, f32 goes to PyTorch's own kernels (conv_kernels.h): XLA's CPU code is up to 50
// times slower.
#include <algorithm>
#include <string>
#include <vector>

#include "csrc/lowering/conv_kernels.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"
#include "csrc/stablehlo/text.h"

namespace dendrite::lowering {
namespace {

struct Geometry {
  Dims stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
  size_t spatial = 0;
};

// Arguments first..first+5 of the schema. A list of one element stands for all dimensions.
bool ReadGeometry(Emitter& e, int first, int64_t rank, Geometry* g) {
  if (rank < 3 || rank > 5) {
    e.Fail(Unimplemented(e.sig().op + ": one to three spatial dimensions expected"));
    return false;
  }
  g->spatial = static_cast<size_t>(rank - 2);
  Dims* lists[] = {&g->stride, &g->padding, &g->dilation, nullptr, &g->output_padding};
  for (int i = 0; i < 5; ++i) {
    if (lists[i] == nullptr) continue;
    Dims v = e.Ints(first + i);
    if (v.size() == 1) v.assign(g->spatial, v[0]);
    if (v.size() != g->spatial) {
      e.Fail(InvalidArgument(e.sig().op + ": geometry does not fit the input"));
      return false;
    }
    *lists[i] = std::move(v);
  }
  g->transposed = e.Bool(first + 3);
  g->groups = e.Int(first + 5, 1);
  return !e.failed();
}

bool IsEmpty(const Value& v) { return tape::NumElements(v.dims) == 0; }

stablehlo::ConvDims PlainDims(const Geometry& g) {
  stablehlo::ConvDims d;
  d.stride = g.stride;
  d.pad_low = d.pad_high = g.padding;
  d.lhs_dilate = Dims(g.spatial, 1);
  d.rhs_dilate = g.dilation;
  d.feature_groups = g.groups;
  return d;
}

Dims Spatial(const Value& v) { return Dims(v.dims.begin() + 2, v.dims.end()); }

bool AllAre(const Dims& v, int64_t n) {
  return std::all_of(v.begin(), v.end(), [n](int64_t i) { return i == n; });
}

// A window of one element, every place once: a matrix product for each picture.
bool IsProduct(const Geometry& g, const Value& w) {
  return g.groups == 1 && AllAre(Spatial(w), 1) && AllAre(g.stride, 1) && AllAre(g.padding, 0);
}

// Channels that have nothing to do with each other, every place once.
bool IsDepthwise(const Geometry& g, const Value& w) {
  constexpr int64_t kMaxWindow = 64;
  return g.groups > 1 && g.groups == w.dims[0] && w.dims[1] == 1 && AllAre(g.stride, 1) &&
         AllAre(g.dilation, 1) && tape::NumElements(w.dims) <= kMaxWindow * w.dims[0];
}

// [N, C, ...] as [N, C, places].
Value Places(Builder& b, const Value& x) {
  return b.Reshape(x, {x.dims[0], x.dims[1], tape::NumElements(x.dims) / (x.dims[0] * x.dims[1])});
}

// m [P, Q] times x [N, Q, ...] for each of N.
Value Product(Builder& b, const Value& m, const Value& x) {
  Dims dims = x.dims;
  dims[1] = m.dims[0];
  const Value each = b.BroadcastInDim(m, {x.dims[0], m.dims[0], m.dims[1]}, {1, 2});
  return b.Reshape(b.DotGeneral(each, Places(b, x), {{0}, {0}, {2}, {1}}, x.dtype), dims);
}

// Each channel of x [N, C, ...] with its own window of w [C, 1, ...]: a sum over the window of
// shifted products. XLA's convolution with as many groups as channels took ten times as long.
Value Depthwise(Builder& b, const Value& x, const Value& w, const Dims& low, const Dims& high) {
  Dims before = {0, 0}, after = {0, 0}, size = {x.dims[0], x.dims[1]}, window;
  for (size_t i = 0; i < low.size(); ++i) {
    before.push_back(low[i]);
    after.push_back(high[i]);
    window.push_back(w.dims[i + 2]);
    size.push_back(x.dims[i + 2] + low[i] + high[i] - window[i] + 1);
  }
  // Made once, instead of asking at every place of every shift whether it lies outside.
  const Value padded = b.Unary("optimization_barrier", b.Pad(x, b.Constant(x.dtype, {}, 0), before,
                                                             after, Dims(before.size(), 0)));
  // A loop over the window's first dimension, for readers cannot be fused with a loop: a plain sum
  // would be made again for each of them.
  const int64_t rows = window[0], row = tape::NumElements(window) / rows;
  const Value factors = b.Transpose(b.Reshape(w, {w.dims[0], rows, row}), {1, 2, 0});
  const Value zero = b.ConstantInt(DType::kI32, {}, 0);
  const auto cond = [&](Builder& l, const std::vector<Value>& carry) {
    return std::vector<Value>{
        l.Compare(stablehlo::Cmp::kLt, carry[0], l.ConstantInt(DType::kI32, {}, rows))};
  };
  const auto add_row = [&](Builder& l, const std::vector<Value>& carry) {
    std::vector<Value> starts(size.size(), l.ConstantInt(DType::kI32, {}, 0));
    starts[2] = carry[0];
    Dims band = padded.dims;
    band[2] = size[2];
    const Value x_rows = l.DynamicSlice(padded, starts, band);
    const Value w_row =
        l.Reshape(l.DynamicSlice(factors, {carry[0], starts[0], starts[1]}, {1, row, w.dims[0]}),
                  {row, w.dims[0]});
    Value sum = carry[1];
    for (int64_t k = 0; k < row; ++k) {
      Dims start(size.size(), 0), limit = size;
      int64_t rest = k;
      for (size_t i = window.size(); i-- > 1; rest /= window[i]) {
        start[i + 2] = rest % window[i];
        limit[i + 2] += start[i + 2];
      }
      const Value factor =
          l.Reshape(l.Slice(w_row, {k, 0}, {k + 1, w.dims[0]}, {1, 1}), {w.dims[0]});
      sum = l.Add(sum, l.Mul(l.Slice(x_rows, start, limit, Dims(size.size(), 1)),
                             l.BroadcastInDim(factor, size, {1})));
    }
    return std::vector<Value>{l.Add(carry[0], l.ConstantInt(DType::kI32, {}, 1)), sum};
  };
  return b.While({zero, b.Constant(x.dtype, size, 0)}, cond, add_row)[1];
}

// x [N, C, ...] with w [O, C / groups, ...].
Value Forward(Builder& b, const Value& x, const Value& w, const Geometry& g) {
  if (IsProduct(g, w)) return Product(b, b.Reshape(w, {w.dims[0], w.dims[1]}), x);
  if (IsDepthwise(g, w)) return Depthwise(b, x, w, g.padding, g.padding);
  return b.Convolution(x, w, PlainDims(g), x.dtype);
}

// The adjoint of Forward in x: y [N, O, ...] with w [O, C / groups, ...] gives [N, C, size...].
Value Transposed(Builder& b, const Value& y, const Value& w, const Geometry& g, const Dims& size) {
  const int64_t groups = g.groups, o = w.dims[0] / groups, c = w.dims[1];
  if (IsProduct(g, w) && size == Spatial(y)) {
    return Product(b, b.Transpose(b.Reshape(w, {w.dims[0], c}), {1, 0}), y);
  }
  // [groups, o, c, window] -> [groups, c, o, window] -> [groups * c, o, window], window reversed.
  Dims split = {groups, o, c}, perm = {0, 2, 1}, merged = {groups * c, o}, window;
  for (size_t i = 0; i < g.spatial; ++i) {
    split.push_back(w.dims[i + 2]);
    perm.push_back(static_cast<int64_t>(i) + 3);
    merged.push_back(w.dims[i + 2]);
    window.push_back(static_cast<int64_t>(i) + 2);
  }
  const Value kernel = b.Reverse(b.Reshape(b.Transpose(b.Reshape(w, split), perm), merged), window);
  stablehlo::ConvDims d = PlainDims(g);
  d.lhs_dilate = g.stride;
  d.stride = Dims(g.spatial, 1);
  for (size_t i = 0; i < g.spatial; ++i) {
    const int64_t reach = g.dilation[i] * (w.dims[i + 2] - 1);
    const int64_t dilated = (y.dims[i + 2] - 1) * g.stride[i] + 1;
    d.pad_low[i] = reach - g.padding[i];
    d.pad_high[i] = size[i] + reach - dilated - d.pad_low[i];
  }
  if (IsDepthwise(g, w)) return Depthwise(b, y, kernel, d.pad_low, d.pad_high);
  return b.Convolution(y, kernel, d, y.dtype);
}

// The adjoint of Forward in w: x [N, C, ...] with y [N, O, ...] gives [O, C / groups, window...].
Value WeightGradient(Builder& b, const Value& x, const Value& y, const Geometry& g,
                     const Dims& window) {
  if (g.groups == 1 && AllAre(window, 1) && AllAre(g.stride, 1) && AllAre(g.padding, 0) &&
      Spatial(x) == Spatial(y)) {
    const Value each =
        b.DotGeneral(Places(b, y), Places(b, x), {{0}, {0}, {2}, {2}}, x.dtype);  // [N, O, C]
    Dims dims = {y.dims[1], x.dims[1]};
    dims.insert(dims.end(), window.begin(), window.end());
    return b.Reshape(Sum(b, each, {0}), dims);
  }
  stablehlo::ConvDims d;
  d.stride = g.dilation;
  d.rhs_dilate = g.stride;
  d.lhs_dilate = Dims(g.spatial, 1);
  d.pad_low = g.padding;
  d.pad_high = Dims(g.spatial);
  d.batch_groups = g.groups;
  // Batch and features change places in all three tensors.
  d.lhs_order = d.rhs_order = d.out_order = {1, 0};
  for (size_t i = 0; i < g.spatial; ++i) {
    const int64_t needed = (window[i] - 1) * g.dilation[i] + (y.dims[i + 2] - 1) * g.stride[i] + 1;
    d.pad_high[i] = needed - x.dims[i + 2] - d.pad_low[i];
    for (Dims* order : {&d.lhs_order, &d.rhs_order, &d.out_order}) {
      order->push_back(static_cast<int64_t>(i) + 2);
    }
  }
  return b.Convolution(x, y, d, x.dtype);
}

// v cut to `size` in its spatial dimensions.
Value CutTo(Builder& b, const Value& v, const Dims& size) {
  Dims limit = v.dims;
  for (size_t i = 0; i < size.size(); ++i) limit[i + 2] = std::min(limit[i + 2], size[i]);
  return b.Slice(v, Dims(limit.size(), 0), limit, Dims(limit.size(), 1));
}

std::string ArrayAttribute(const char* name, const Dims& v) {
  return std::string(name) + " = " + stablehlo::ArrayText(v);
}

std::string Attributes(const Geometry& g) {
  return ArrayAttribute("stride", g.stride) + ", " + ArrayAttribute("padding", g.padding) + ", " +
         ArrayAttribute("dilation", g.dilation) + ", " +
         ArrayAttribute("output_padding", g.output_padding) +
         ", transposed = " + (g.transposed ? "true" : "false") +
         ", groups = " + std::to_string(g.groups) + " : i64";
}

bool UseKernel(Emitter& e, std::initializer_list<Value> values) {
  if (!e.traits().kernels_by_name) return false;
  for (const Value& v : values) {
    if (v.dtype != DType::kF32 || IsEmpty(v)) return false;
  }
  return true;
}

bool SupportedType(Emitter& e, const Value& v) {
  if (tape::IsFloat(v.dtype) || tape::IsIntegral(v.dtype)) return true;
  e.Fail(Unimplemented(e.sig().op + " of this dtype"));
  return false;
}

// (input, weight, bias?, stride, padding, dilation, transposed, output_padding, groups)
void Convolution(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  Geometry g;
  const Value input = e.In(0), weight = e.In(1);
  if (!ReadGeometry(e, 3, input.rank(), &g) || !SupportedType(e, input)) return;
  const Dims& out = e.OutView(0).sizes;
  const bool empty_out = tape::NumElements(out) == 0;
  if (!empty_out && UseKernel(e, {input, weight})) {
    std::vector<Value> operands = {input, weight};
    if (!e.IsNone(2)) operands.push_back(e.To(e.In(2), DType::kF32));
    e.Out(0, b.CustomCall(kConvolutionKernel, operands, {{DType::kF32, out}},
                          "{" + Attributes(g) + "}")[0]);
    return;
  }
  const DType math = tape::OpMath(input.dtype);
  Value result;
  if (empty_out || IsEmpty(input) || IsEmpty(weight)) {
    result = b.Constant(math, out, 0);
  } else if (g.transposed) {
    result =
        Transposed(b, e.To(input, math), e.To(weight, math), g, Dims(out.begin() + 2, out.end()));
  } else {
    result = Forward(b, e.To(input, math), e.To(weight, math), g);
  }
  if (!e.IsNone(2)) result = b.Add(result, Along(b, e.To(e.In(2), math), result.dims, 1));
  e.Out(0, result);
}

// (grad_output, input, weight, ...geometry from `first`): gradients of input, weight and bias.
void Backward(Emitter& e, int first) {
  Builder& b = e.b();
  Geometry g;
  const Value grad = e.In(0), input = e.In(1), weight = e.In(2);
  if (!ReadGeometry(e, first, input.rank(), &g) || !SupportedType(e, input)) return;
  if (UseKernel(e, {grad, input, weight})) {
    std::vector<std::pair<DType, Dims>> results;
    Dims mask;
    for (int k = 0; k < 3; ++k) {
      mask.push_back(e.Wanted(k) ? 1 : 0);
      if (e.Wanted(k)) results.push_back({DType::kF32, e.OutView(k).sizes});
    }
    if (results.empty()) return;
    const auto values =
        b.CustomCall(kConvolutionBackwardKernel, {grad, input, weight}, results,
                     "{" + Attributes(g) + ", " + ArrayAttribute("output_mask", mask) + "}");
    size_t next = 0;
    for (int k = 0; k < 3; ++k) {
      if (e.Wanted(k)) e.Out(k, values[next++]);
    }
    return;
  }
  const DType math = tape::OpMath(input.dtype);
  const Value y = e.To(grad, math), x = e.To(input, math), w = e.To(weight, math);
  const bool empty = IsEmpty(y) || IsEmpty(x) || IsEmpty(w);
  if (e.Wanted(0)) {
    if (empty) {
      e.Out(0, b.Constant(math, x.dims, 0));
    } else if (g.transposed) {
      e.Out(0, CutTo(b, Forward(b, y, w, g), Spatial(x)));
    } else {
      e.Out(0, Transposed(b, y, w, g, Spatial(x)));
    }
  }
  if (e.Wanted(1)) {
    if (empty) {
      e.Out(1, b.Constant(math, w.dims, 0));
    } else if (g.transposed) {
      e.Out(1, WeightGradient(b, y, x, g, Spatial(w)));
    } else {
      e.Out(1, WeightGradient(b, x, y, g, Spatial(w)));
    }
  }
  if (e.Wanted(2)) {
    Dims others;
    for (int64_t d = 0; d < y.rank(); ++d) {
      if (d != 1) others.push_back(d);
    }
    e.Out(2, Sum(b, y, others));
  }
}

void ConvolutionBackward(Emitter& e) { Backward(e, 4); }
void ConvolutionBackwardOverrideable(Emitter& e) { Backward(e, 3); }

DENDRITE_LOWERING("aten.convolution.default", Convolution);
DENDRITE_LOWERING("aten.convolution_overrideable.default", Convolution);
DENDRITE_LOWERING("aten.convolution_backward.default", ConvolutionBackward);
DENDRITE_LOWERING("aten.convolution_backward_overrideable.default",
                  ConvolutionBackwardOverrideable);

}  // namespace
}  // namespace dendrite::lowering
