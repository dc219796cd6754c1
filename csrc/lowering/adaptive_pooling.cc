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
    PoolWindow w;
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
  if (most[0] * most[1] > kMaxUnrolledWindow || h * width > INT32_MAX) {
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
      const Value take = b.Binary("and", ReplacesMax(b, v, best), inside);
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

DENDRITE_LOWERING("aten._adaptive_avg_pool2d.default", AdaptiveAvgPool<2>);
DENDRITE_LOWERING("aten._adaptive_avg_pool3d.default", AdaptiveAvgPool<3>);
DENDRITE_LOWERING("aten._adaptive_avg_pool2d_backward.default", AdaptiveAvgPoolBackward<2>);
DENDRITE_LOWERING("aten._adaptive_avg_pool3d_backward.default", AdaptiveAvgPoolBackward<3>);
DENDRITE_LOWERING("aten.adaptive_max_pool2d.default", AdaptiveMaxPool2d);
DENDRITE_LOWERING("aten.adaptive_max_pool2d_backward.default", AdaptiveMaxPoolBackward<2>);

}  // namespace
}  // namespace dendrite::lowering
