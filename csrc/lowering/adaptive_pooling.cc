// csrc/lowering/adaptive_pooling.cc - adaptive average and max pooling, and their gradients.
//
// Window o of `out` covers [o * in / out, ceil((o + 1) * in / out)): sums are linear maps, maxima
// of unequal windows are scanned to the largest one with a mask.
#include <algorithm>
#include <vector>

#include "csrc/lowering/linear_map.h"
#include "csrc/lowering/pooling.h"
#include "csrc/lowering/reduce_math.h"

namespace dendrite::lowering {
namespace {

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

// Positions `offset` after the start of each window along one dimension, and whether they lie
// inside.
struct Positions {
  std::vector<int64_t> at, inside;
};

Positions PositionsAt(int64_t in, int64_t out, int64_t offset) {
  Positions p;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t i = AdaptiveStart(o, in, out) + offset;
    p.inside.push_back(i < AdaptiveEnd(o, in, out) ? 1 : 0);
    p.at.push_back(std::min(i, in - 1));
  }
  return p;
}

// Windows that differ in size: each is scanned to the largest, elements beyond its end being
// masked.
void MaxPoolUnequal(Emitter& e, const Value& x, const Dims& out, size_t lead) {
  Builder& b = e.b();
  const size_t spatial = out.size() - lead;
  Dims most(spatial, 0), offset(spatial, 0);
  const Dims strides =
      tape::ContiguousStrides(Dims(x.dims.begin() + static_cast<ptrdiff_t>(lead), x.dims.end()));
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t in = x.dims[lead + d];
    for (int64_t o = 0; o < out[lead + d]; ++o) {
      most[d] = std::max(most[d],
                         AdaptiveEnd(o, in, out[lead + d]) - AdaptiveStart(o, in, out[lead + d]));
    }
  }
  if (tape::NumElements(most) > kMaxUnrolledWindow || strides[0] * x.dims[lead] > INT32_MAX) {
    return e.Fail(Unimplemented("adaptive max pooling with large windows"));
  }
  const auto along = [&](const std::vector<int64_t>& v, DType dtype, size_t d) {
    return Along(b, b.ConstantInts(dtype, v), out, static_cast<int64_t>(lead + d));
  };
  Value best, index;
  for (int64_t i = 0; i < tape::NumElements(most); ++i) {
    Value v = x, here, inside;
    for (size_t d = 0; d < spatial; ++d) {
      const Positions p = PositionsAt(x.dims[lead + d], out[lead + d], offset[d]);
      v = Take(b, v, static_cast<int64_t>(lead + d), p.at);
      std::vector<int64_t> flat;
      for (int64_t at : p.at) flat.push_back(at * strides[d]);
      const Value place = along(flat, DType::kI32, d), in = along(p.inside, DType::kBool, d);
      here = here.defined() ? b.Add(here, place) : place;
      inside = inside.defined() ? b.Binary("and", inside, in) : in;
    }
    if (!best.defined()) {
      // The scan starts at minus infinity, standing on the first element.
      best = b.Infinity(x.dtype, out, true);
      index = here;
    }
    const Value take = b.Binary("and", ReplacesMax(b, v, best), inside);
    best = b.Select(take, v, best);
    index = b.Select(take, here, index);
    for (size_t d = spatial; d-- > 0;) {
      if (++offset[d] < most[d]) break;
      offset[d] = 0;
    }
  }
  e.Out(0, best);
  e.Out(1, e.To(index, DType::kI64));
}

// (self, output_size) -> (values, indices)
template <size_t kSpatial>
void AdaptiveMaxPool(Emitter& e) {
  if (!e.Wanted(0) && !e.Wanted(1)) return;
  Builder& b = e.b();
  const Value x = e.In(0);
  const Dims out = e.OutView(e.Wanted(0) ? 0 : 1).sizes;
  const size_t lead = out.size() - kSpatial;
  if (tape::NumElements(out) == 0) {
    e.Out(0, b.Constant(x.dtype, out, 0));
    e.Out(1, b.Constant(DType::kI64, out, 0));
    return;
  }
  PoolWindow w;
  w.lead = lead;
  w.padding.assign(kSpatial, 0);
  w.dilation.assign(kSpatial, 1);
  bool equal = true;
  for (size_t d = lead; d < out.size(); ++d) {
    equal = equal && x.dims[d] % out[d] == 0;
    w.in.push_back(x.dims[d]);
    w.out.push_back(out[d]);
    w.size.push_back(x.dims[d] / out[d]);
  }
  w.stride = w.size;
  if (equal) return MaxPoolWindows(e, x, out, w);
  MaxPoolUnequal(e, x, out, lead);
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

DENDRITE_LOWERING("aten._adaptive_avg_pool2d.default", AdaptiveAvgPool<2>);
DENDRITE_LOWERING("aten._adaptive_avg_pool3d.default", AdaptiveAvgPool<3>);
DENDRITE_LOWERING("aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPoolBackward<2>);
DENDRITE_LOWERING("aten._adaptive_avg_pool3d_backward.default", AdaptiveAvgPoolBackward<3>);
DENDRITE_LOWERING("aten.adaptive_max_pool2d.default", AdaptiveMaxPool<2>);
DENDRITE_LOWERING("aten.adaptive_max_pool3d.default", AdaptiveMaxPool<3>);
DENDRITE_LOWERING("aten.adaptive_max_pool2d_backward.default", AdaptiveMaxPoolBackward<2>);
DENDRITE_LOWERING("aten.adaptive_max_pool3d_backward.default", AdaptiveMaxPoolBackward<3>);

}  // namespace
}  // namespace dendrite::lowering
