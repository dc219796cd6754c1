// csrc/lowering/unpooling.cc - max unpooling, and pooling with windows that random numbers place.
#include <vector>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/pooling.h"
#include "csrc/lowering/reduce_math.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// (self, indices, output_size, ...): values put at flat indices within each plane; where several
// name a place, the last stays.
template <size_t kSpatial>
void MaxUnpool(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value x = e.In(0);
  const Dims out = e.OutView(0).sizes;
  if (tape::NumElements(x.dims) == 0 || tape::NumElements(out) == 0) {
    return e.Out(0, b.Constant(x.dtype, out, 0));
  }
  int64_t plane = 1;
  for (size_t d = out.size() - kSpatial; d < out.size(); ++d) plane *= out[d];
  const int64_t planes = tape::NumElements(out) / plane, n = tape::NumElements(x.dims) / planes;
  const Value index = b.Reshape(CheckedIndex(e, e.In(1), plane), {planes, n});
  const Value first =
      b.Mul(b.Iota(DType::kI64, {planes, n}, 0), b.ConstantInt(DType::kI64, {planes, n}, plane));
  const Value empty = b.Constant(x.dtype, out, 0);
  e.Out(0, ScatterFlat(b, empty, b.Add(first, index), x, Assign));
}

// Where windows begin along one dimension, per plane: i64 [planes, out].
Value Starts(Emitter& e, const Value& samples, int64_t which, int64_t in, int64_t out,
             int64_t window) {
  Builder& b = e.b();
  const int64_t planes = samples.dims[0];
  const Dims dims = {planes, out};
  const Value sample =
      b.Reshape(b.Slice(samples, {0, which}, {planes, which + 1}, {1, 1}), {planes});
  const Value last = b.ConstantInt(DType::kI64, dims, in - window);
  if (out == 1) return last;
  const Value place = b.Iota(samples.dtype, dims, 1), shift = b.BroadcastInDim(sample, dims, {0});
  // A quotient of two numbers of the samples' type, as the kernel divides.
  const Value alpha = b.Div(Like(b, place, static_cast<double>(in - window)),
                            Like(b, place, static_cast<double>(out - 1)));
  const Value at = b.Convert(b.Mul(b.Add(place, shift), alpha), DType::kI64);
  const Value start = b.Sub(at, b.Convert(b.Mul(shift, alpha), DType::kI64));
  const Value number = b.Iota(DType::kI64, dims, 1);
  return b.Select(b.Compare(Cmp::kEq, number, b.ConstantInt(DType::kI64, dims, out - 1)), last,
                  start);
}

// (self, kernel_size, output_size, random_samples [N, C, dims]) -> (values, indices)
template <size_t kSpatial>
void FractionalMaxPool(Emitter& e) {
  Builder& b = e.b();
  const Value x = e.In(0), raw = e.In(3);
  if (!e.Wanted(0) || !e.Wanted(1)) return e.Fail(Unimplemented("fractional pooling in part"));
  const Dims window = e.Ints(1), out = e.OutView(0).sizes;
  const size_t lead = x.dims.size() - kSpatial;
  if (window.size() != kSpatial || tape::NumElements(window) > kMaxUnrolledWindow ||
      tape::NumElements(x.dims) == 0) {
    return e.Fail(Unimplemented("fractional pooling with large windows, or of nothing"));
  }
  int64_t planes = 1, plane = 1;
  Dims result = {1}, strides(kSpatial, 1);
  for (size_t d = 0; d < lead; ++d) planes *= x.dims[d];
  for (size_t d = kSpatial; d-- > 0;) {
    strides[d] = plane;
    plane *= x.dims[lead + d];
  }
  result[0] = planes;
  result.insert(result.end(), out.begin() + static_cast<ptrdiff_t>(lead), out.end());
  const Value samples = b.Reshape(raw, {planes, static_cast<int64_t>(kSpatial)});
  // Samples are in the order of the innermost dimension first in two dimensions, last in three.
  Value first;
  for (size_t d = 0; d < kSpatial; ++d) {
    const auto which = static_cast<int64_t>(kSpatial == 2 ? kSpatial - 1 - d : d);
    const Value start = Starts(e, samples, which, x.dims[lead + d], result[d + 1], window[d]);
    const Value flat = b.Mul(start, b.ConstantInt(DType::kI64, start.dims, strides[d]));
    const Value term = b.BroadcastInDim(flat, result, {0, static_cast<int64_t>(d) + 1});
    first = first.defined() ? b.Add(first, term) : term;
  }
  const Value base =
      b.Mul(b.Iota(DType::kI64, result, 0), b.ConstantInt(DType::kI64, result, plane));
  Value best = b.Infinity(x.dtype, result, true), index = first;
  Dims offset(kSpatial, 0);
  for (int64_t i = 0; i < tape::NumElements(window); ++i) {
    int64_t flat = 0;
    for (size_t d = 0; d < kSpatial; ++d) flat += offset[d] * strides[d];
    const Value here = b.Add(first, b.ConstantInt(DType::kI64, result, flat));
    const Value v = GatherFlat(b, x, b.Add(base, here));
    const Value take = ReplacesMax(b, v, best);
    best = b.Select(take, v, best);
    index = b.Select(take, here, index);
    for (size_t d = kSpatial; d-- > 0;) {
      if (++offset[d] < window[d]) break;
      offset[d] = 0;
    }
  }
  e.Out(0, b.Reshape(best, out));
  e.Out(1, b.Reshape(index, out));
}

// (grad_output, self, kernel_size, output_size, indices)
template <size_t kSpatial>
void FractionalMaxPoolBackward(Emitter& e) {
  if (!e.Wanted(0)) return;
  const Dims in = e.OutView(0).sizes;
  const Value grad = e.To(e.In(0), tape::OpMath(e.In(0).dtype));
  if (tape::NumElements(in) == 0) return e.Out(0, e.b().Constant(grad.dtype, in, 0));
  e.Out(0, ScatterPlanes(e, grad, e.In(4), in, in.size() - kSpatial));
}

DENDRITE_LOWERING("aten.max_unpool2d.default", MaxUnpool<2>);
DENDRITE_LOWERING("aten.max_unpool3d.default", MaxUnpool<3>);
DENDRITE_LOWERING("aten.fractional_max_pool2d.default", FractionalMaxPool<2>);
DENDRITE_LOWERING("aten.fractional_max_pool3d.default", FractionalMaxPool<3>);
DENDRITE_LOWERING("aten.fractional_max_pool2d_backward.default", FractionalMaxPoolBackward<2>);
DENDRITE_LOWERING("aten.fractional_max_pool3d_backward.default", FractionalMaxPoolBackward<3>);

}  // namespace
}  // namespace dendrite::lowering
