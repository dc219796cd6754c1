// csrc/lowering/unfold.cc - sliding windows as columns: unfold_copy, im2col and col2im.
#include <algorithm>
#include <vector>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

// Beyond this many elements a window is no longer unrolled.
constexpr int64_t kMaxWindow = 1024;

// (self, dimension, size, step): windows along `dimension`, their elements last.
void UnfoldCopy(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value x = e.In(0);
  const Dims out = e.OutView(0).sizes;
  if (x.rank() == 0) return e.Out(0, b.Reshape(x, out));
  if (tape::NumElements(out) == 0) return e.Out(0, b.Constant(x.dtype, out, 0));
  const int64_t dim = WrapDim(e.Int(1), x.rank()), size = e.Int(2), step = e.Int(3, 1);
  const Dims grid = {out[dim], size};
  const Value start = b.Mul(b.Iota(DType::kI64, grid, 0), b.ConstantInt(DType::kI64, grid, step));
  const Value index = b.Reshape(b.Add(start, b.Iota(DType::kI64, grid, 1)), {out[dim] * size});
  Dims split = x.dims, perm;
  split[dim] = out[dim];
  split.insert(split.begin() + dim + 1, size);
  for (int64_t d = 0; d <= x.rank(); ++d) {
    if (d != dim + 1) perm.push_back(d);
  }
  perm.push_back(dim + 1);
  e.Out(0, b.Transpose(b.Reshape(GatherAlong(b, x, dim, index), split), perm));
}

struct Plane {  // geometry of im2col and col2im; arrays are (height, width)
  int64_t kernel[2], dilation[2], padding[2], stride[2], in[2], out[2];
};

bool ReadPlane(Emitter& e, int first, const Dims& in, Plane* p) {
  int64_t* lists[] = {p->kernel, p->dilation, p->padding, p->stride};
  for (int i = 0; i < 4; ++i) {
    const Dims v = e.Ints(first + i);
    if (v.empty() || v.size() > 2) {
      e.Fail(InvalidArgument(e.sig().op + ": window"));
      return false;
    }
    lists[i][0] = v[0];
    lists[i][1] = v.back();
  }
  for (int d = 0; d < 2; ++d) {
    p->in[d] = in[d];
    p->out[d] =
        (in[d] + 2 * p->padding[d] - p->dilation[d] * (p->kernel[d] - 1) - 1) / p->stride[d] + 1;
  }
  if (p->kernel[0] * p->kernel[1] > kMaxWindow) {
    e.Fail(Unimplemented(e.sig().op + " with a large window"));
    return false;
  }
  return !e.failed();
}

// (self, kernel, dilation, padding, stride): [N, C, H, W] -> [N, C * kh * kw, L]
void Im2Col(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value raw = e.In(0);
  const Dims out = e.OutView(0).sizes;
  if (raw.rank() < 3 || tape::NumElements(out) == 0) {
    return e.Out(0, b.Constant(raw.dtype, out, 0));
  }
  const bool batched = raw.rank() == 4;
  Dims dims = raw.dims;
  if (!batched) dims.insert(dims.begin(), 1);
  Plane p;
  if (!ReadPlane(e, 1, {dims[2], dims[3]}, &p)) return;
  const Dims pad = {0, 0, p.padding[0], p.padding[1]};
  const Value x = b.Pad(b.Reshape(raw, dims), b.Constant(raw.dtype, {}, 0), pad, pad, {0, 0, 0, 0});
  std::vector<Value> columns;
  for (int64_t i = 0; i < p.kernel[0]; ++i) {
    for (int64_t j = 0; j < p.kernel[1]; ++j) {
      const int64_t top = i * p.dilation[0], left = j * p.dilation[1];
      const Value v = b.Slice(x, {0, 0, top, left},
                              {dims[0], dims[1], top + (p.out[0] - 1) * p.stride[0] + 1,
                               left + (p.out[1] - 1) * p.stride[1] + 1},
                              {1, 1, p.stride[0], p.stride[1]});
      columns.push_back(b.Reshape(v, {dims[0], dims[1], 1, p.out[0] * p.out[1]}));
    }
  }
  e.Out(0, b.Reshape(b.Concatenate(columns, 2), out));
}

// (self, output_size, kernel, dilation, padding, stride): the adjoint of im2col.
void Col2Im(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value raw = e.In(0);
  const Dims out = e.OutView(0).sizes, size = e.Ints(1);
  if (raw.rank() < 2 || size.empty()) return e.Fail(InvalidArgument("col2im: sizes"));
  const Value x = e.To(raw, tape::OpMath(raw.dtype));
  if (tape::NumElements(raw.dims) == 0) return e.Out(0, b.Constant(x.dtype, out, 0));
  Plane p;
  if (!ReadPlane(e, 2, {size[0], size.back()}, &p)) return;
  const int64_t window = p.kernel[0] * p.kernel[1];
  const int64_t n = raw.rank() == 3 ? raw.dims[0] : 1;
  const int64_t channels = raw.dims[raw.rank() - 2] / window;
  const Value columns = b.Reshape(x, {n, channels, window, p.out[0], p.out[1]});
  Value sum;
  for (int64_t k = 0; k < window; ++k) {
    const Value part = b.Reshape(b.Slice(columns, {0, 0, k, 0, 0},
                                         {n, channels, k + 1, p.out[0], p.out[1]}, {1, 1, 1, 1, 1}),
                                 {n, channels, p.out[0], p.out[1]});
    Dims low = {0, 0, 0, 0}, high = low, interior = low;
    const int64_t offset[2] = {k / p.kernel[1], k % p.kernel[1]};
    for (int d = 0; d < 2; ++d) {
      low[d + 2] = offset[d] * p.dilation[d] - p.padding[d];
      interior[d + 2] = p.stride[d] - 1;
      high[d + 2] = p.in[d] - low[d + 2] - ((p.out[d] - 1) * p.stride[d] + 1);
    }
    const Value placed = b.Pad(part, b.Constant(x.dtype, {}, 0), low, high, interior);
    sum = sum.defined() ? b.Add(sum, placed) : placed;
  }
  e.Out(0, b.Reshape(sum, out));
}

DENDRITE_LOWERING("aten.unfold_copy.default", UnfoldCopy);
DENDRITE_LOWERING("aten.im2col.default", Im2Col);
DENDRITE_LOWERING("aten.col2im.default", Col2Im);

}  // namespace
}  // namespace dendrite::lowering
