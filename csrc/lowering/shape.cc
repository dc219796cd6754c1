// csrc/lowering/shape.cc - operators that only move elements: copies of views, joining, splitting,
// repeating, rolling, reordering.
//
// Where the result's shape says everything (splits, reshapes, expands), it is read from the
// result's view rather than computed again from the arguments.
#include <algorithm>
#include <vector>

#include "csrc/lowering/linear_map.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

void ReshapeLike(Emitter& e) {
  if (e.Wanted(0)) e.Out(0, e.b().Reshape(e.In(0), e.OutView(0).sizes));
}

void ExpandCopy(Emitter& e) {
  if (e.Wanted(0)) e.Out(0, e.b().BroadcastTo(e.In(0), e.OutView(0).sizes));
}

// view.dtype: the same bits as another type of the same size.
void ViewDtypeCopy(Emitter& e) {
  if (!e.Wanted(0)) return;
  const Value x = e.In(0);
  const DType to = e.OutView(0).dtype;
  const bool simple = x.dtype != DType::kBool && to != DType::kBool && !tape::IsComplex(x.dtype) &&
                      !tape::IsComplex(to);
  if (tape::ItemSize(x.dtype) != tape::ItemSize(to) || !simple) {
    return e.Fail(Unimplemented("view between these dtypes"));
  }
  e.Out(0, x.dtype == to ? x : e.b().BitcastConvert(x, to));
}

void PermuteCopy(Emitter& e) {
  const Value x = e.In(0);
  Dims perm = e.Ints(1);
  for (int64_t& d : perm) d = WrapDim(d, x.rank());
  e.Out(0, e.b().Transpose(x, perm));
}

Value SwapDims(Builder& b, const Value& x, int64_t i, int64_t j) {
  if (x.rank() == 0) return x;
  Dims perm = AllDims(x.rank());
  std::swap(perm[WrapDim(i, x.rank())], perm[WrapDim(j, x.rank())]);
  return b.Transpose(x, perm);
}

void TransposeCopy(Emitter& e) { e.Out(0, SwapDims(e.b(), e.In(0), e.Int(1), e.Int(2))); }

void TCopy(Emitter& e) {
  const Value x = e.In(0);
  e.Out(0, x.rank() < 2 ? x : SwapDims(e.b(), x, 0, 1));
}

Value SliceDim(Builder& b, const Value& x, int64_t dim, int64_t start, int64_t limit,
               int64_t step = 1) {
  Dims from(x.dims.size(), 0), to = x.dims, stride(x.dims.size(), 1);
  from[dim] = start, to[dim] = limit, stride[dim] = step;
  return b.Slice(x, from, to, stride);
}

// (self, dim, index)
void SelectCopy(Emitter& e) {
  if (!e.Wanted(0)) return;
  const Value x = e.In(0);
  const int64_t dim = WrapDim(e.Int(1), x.rank());
  int64_t index = e.Int(2);
  if (index < 0) index += x.dims[dim];
  e.Out(0, e.b().Reshape(SliceDim(e.b(), x, dim, index, index + 1), e.OutView(0).sizes));
}

int64_t ClampBound(int64_t v, int64_t size) {
  return std::min(std::max<int64_t>(v < 0 ? v + size : v, 0), size);
}

// (self, dim, start?, end?, step)
void SliceCopy(Emitter& e) {
  const Value x = e.In(0);
  const int64_t dim = WrapDim(e.Int(1), x.rank()), size = x.dims[dim];
  const int64_t start = ClampBound(e.Int(2, 0), size);
  const int64_t end = std::max(start, ClampBound(e.Int(3, size), size));
  e.Out(0, SliceDim(e.b(), x, dim, start, end, e.Int(4, 1)));
}

// (self, dim, start, length)
void NarrowCopy(Emitter& e) {
  const Value x = e.In(0);
  const int64_t dim = WrapDim(e.Int(1), x.rank());
  int64_t start = e.Int(2);
  if (start < 0) start += x.dims[dim];
  e.Out(0, SliceDim(e.b(), x, dim, start, start + e.Int(3)));
}

// Any kind of split: the results' own sizes along `dim` say where the borders are.
void Split(Emitter& e) {
  const Value x = e.In(0);
  const int64_t dim = WrapDim(e.Int(2), x.rank());
  int64_t start = 0;
  for (int k = 0; k < e.num_results(); ++k) {
    if (!e.Wanted(k)) return e.Fail(Unimplemented("split with unwanted pieces"));
    const int64_t size = e.OutView(k).sizes[dim];
    e.Out(k, SliceDim(e.b(), x, dim, start, start + size));
    start += size;
  }
}

void UnbindCopy(Emitter& e) {
  const Value x = e.In(0);
  const int64_t dim = WrapDim(e.Int(1), x.rank());
  for (int k = 0; k < e.num_results(); ++k) {
    if (!e.Wanted(k)) continue;
    e.Out(k, e.b().Reshape(SliceDim(e.b(), x, dim, k, k + 1), e.OutView(k).sizes));
  }
}

// (tensors, dim)
void Cat(Emitter& e) {
  if (!e.Wanted(0)) return;
  const DType dtype = e.OutView(0).dtype;
  const auto rank = static_cast<int64_t>(e.OutView(0).sizes.size());
  std::vector<Value> parts;
  for (const Value& v : e.InList(0)) {
    // PyTorch skips tensors of shape {0}, whatever the others' rank.
    if (v.dims != Dims{0} || rank == 1) parts.push_back(e.To(v, dtype));
  }
  if (parts.empty()) return e.Out(0, e.b().Constant(dtype, e.OutView(0).sizes, 0));
  e.Out(0, e.b().Concatenate(parts, WrapDim(e.Int(1), rank)));
}

void Stack(Emitter& e) {
  if (!e.Wanted(0)) return;
  const DType dtype = e.OutView(0).dtype;
  const int64_t dim = WrapDim(e.Int(1), static_cast<int64_t>(e.OutView(0).sizes.size()));
  std::vector<Value> parts;
  for (const Value& v : e.InList(0)) {
    Dims dims = v.dims;
    dims.insert(dims.begin() + dim, 1);
    parts.push_back(e.b().Reshape(e.To(v, dtype), dims));
  }
  e.Out(0, e.b().Concatenate(parts, dim));
}

// (self, shifts, dims)
void Roll(Emitter& e) {
  Builder& b = e.b();
  const Value x = e.In(0);
  Dims shifts = e.Ints(1), dims = e.Ints(2);
  if (tape::NumElements(x.dims) == 0 || x.rank() == 0) return e.Out(0, x);
  Value v = x;
  if (dims.empty()) {
    v = b.Reshape(x, {tape::NumElements(x.dims)});
    dims = {0};
  }
  for (size_t i = 0; i < dims.size() && i < shifts.size(); ++i) {
    const int64_t dim = WrapDim(dims[i], v.rank()), size = v.dims[dim];
    const int64_t cut = ((-shifts[i] % size) + size) % size;
    if (cut == 0) continue;
    v = b.Concatenate({SliceDim(b, v, dim, cut, size), SliceDim(b, v, dim, 0, cut)}, dim);
  }
  e.Out(0, b.Reshape(v, x.dims));
}

void Flip(Emitter& e) {
  const Value x = e.In(0);
  e.Out(0, e.b().Reverse(x, NormalizeDims(e.Ints(1), x.rank())));
}

// (self, k, dims)
void Rot90(Emitter& e) {
  Builder& b = e.b();
  const Value x = e.In(0);
  Dims dims = e.Ints(2);
  if (dims.empty()) dims = {0, 1};
  const int64_t first = WrapDim(dims[0], x.rank()), second = WrapDim(dims[1], x.rank());
  switch (((e.Int(1, 1) % 4) + 4) % 4) {
    case 1:
      return e.Out(0, SwapDims(b, b.Reverse(x, {second}), first, second));
    case 2:
      return e.Out(0, b.Reverse(x, NormalizeDims({first, second}, x.rank())));
    case 3:
      return e.Out(0, SwapDims(b, b.Reverse(x, {first}), first, second));
    default:
      return e.Out(0, x);
  }
}

// (self, repeats)
void Repeat(Emitter& e) {
  Builder& b = e.b();
  const Value x = e.In(0);
  const Dims repeats = e.Ints(1);
  const int64_t lead = static_cast<int64_t>(repeats.size()) - x.rank();
  if (lead < 0) return e.Fail(InvalidArgument("repeat: fewer repeats than dimensions"));
  // [r0, d0, r1, d1, ...]: every repeat in front of its dimension.
  Dims split, map, merged;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const int64_t size = static_cast<int64_t>(i) < lead ? 1 : x.dims[i - lead];
    split.push_back(repeats[i]);
    if (static_cast<int64_t>(i) >= lead) map.push_back(static_cast<int64_t>(split.size()));
    split.push_back(size);
    merged.push_back(repeats[i] * size);
  }
  e.Out(0, b.Reshape(b.BroadcastInDim(x, split, map), merged));
}

// The last three dimensions split into `split`, reordered by `perm` (relative to the first of
// them), merged to the result's shape.
void Shuffle(Emitter& e, size_t lead, const Dims& split, const Dims& perm) {
  if (!e.Wanted(0)) return;
  const Value x = e.In(0);
  Dims dims(x.dims.begin(), x.dims.begin() + static_cast<int64_t>(lead));
  Dims order = AllDims(static_cast<int64_t>(lead));
  dims.insert(dims.end(), split.begin(), split.end());
  for (int64_t p : perm) order.push_back(static_cast<int64_t>(lead) + p);
  Builder& b = e.b();
  e.Out(0, b.Reshape(b.Transpose(b.Reshape(x, dims), order), e.OutView(0).sizes));
}

void PixelShuffle(Emitter& e) {
  const Value x = e.In(0);
  const int64_t r = e.Int(1, 1);
  if (x.rank() < 3) return e.Fail(InvalidArgument("pixel_shuffle: rank"));
  const size_t n = x.dims.size();
  Shuffle(e, n - 3, {x.dims[n - 3] / (r * r), r, r, x.dims[n - 2], x.dims[n - 1]}, {0, 3, 1, 4, 2});
}

void PixelUnshuffle(Emitter& e) {
  const Value x = e.In(0);
  const int64_t r = e.Int(1, 1);
  if (x.rank() < 3) return e.Fail(InvalidArgument("pixel_unshuffle: rank"));
  const size_t n = x.dims.size();
  Shuffle(e, n - 3, {x.dims[n - 3], x.dims[n - 2] / r, r, x.dims[n - 1] / r, r}, {0, 2, 4, 1, 3});
}

void ChannelShuffle(Emitter& e) {
  const Value x = e.In(0);
  const int64_t groups = e.Int(1, 1);
  if (x.rank() < 3) return e.Fail(InvalidArgument("channel_shuffle: rank"));
  const int64_t rest = tape::NumElements(Dims(x.dims.begin() + 2, x.dims.end()));
  Shuffle(e, 1, {groups, x.dims[1] / groups, rest}, {1, 0, 2});
}

// (self, repeats, dim?, output_size)
void RepeatInterleave(Emitter& e) {
  Value x = e.In(0);
  const bool flat = e.IsNone(2);
  if (flat) x = e.b().Reshape(x, {tape::NumElements(x.dims)});
  const int64_t dim = flat ? 0 : WrapDim(e.Int(2), x.rank());
  std::vector<int64_t> sources;
  for (int64_t i = 0; i < x.dims[dim] * e.Int(1, 1); ++i) sources.push_back(i / e.Int(1, 1));
  e.Out(0, Apply(e, x, dim, Selection(x.dims[dim], sources)));
}

DENDRITE_LOWERING("aten._unsafe_view.default", ReshapeLike);
DENDRITE_LOWERING("aten.view_copy.default", ReshapeLike);
DENDRITE_LOWERING("aten._reshape_copy.default", ReshapeLike);
DENDRITE_LOWERING("aten.squeeze_copy.default", ReshapeLike);
DENDRITE_LOWERING("aten.squeeze_copy.dim", ReshapeLike);
DENDRITE_LOWERING("aten.squeeze_copy.dims", ReshapeLike);
DENDRITE_LOWERING("aten.unsqueeze_copy.default", ReshapeLike);
DENDRITE_LOWERING("aten.detach_copy.default", ReshapeLike);
DENDRITE_LOWERING("aten.alias_copy.default", ReshapeLike);
DENDRITE_LOWERING("aten.view_copy.dtype", ViewDtypeCopy);
DENDRITE_LOWERING("aten.expand_copy.default", ExpandCopy);
DENDRITE_LOWERING("aten.permute_copy.default", PermuteCopy);
DENDRITE_LOWERING("aten.transpose_copy.int", TransposeCopy);
DENDRITE_LOWERING("aten.t_copy.default", TCopy);
DENDRITE_LOWERING("aten.select_copy.int", SelectCopy);
DENDRITE_LOWERING("aten.slice_copy.Tensor", SliceCopy);
DENDRITE_LOWERING("aten.narrow_copy.default", NarrowCopy);
DENDRITE_LOWERING("aten.unsafe_split.Tensor", Split);
DENDRITE_LOWERING("aten.unsafe_split_with_sizes.default", Split);
DENDRITE_LOWERING("aten.split_copy.Tensor", Split);
DENDRITE_LOWERING("aten.split_with_sizes_copy.default", Split);
DENDRITE_LOWERING("aten.unbind_copy.int", UnbindCopy);
DENDRITE_LOWERING("aten.cat.default", Cat);
DENDRITE_LOWERING("aten.stack.default", Stack);
DENDRITE_LOWERING("aten.roll.default", Roll);
DENDRITE_LOWERING("aten.flip.default", Flip);
DENDRITE_LOWERING("aten.rot90.default", Rot90);
DENDRITE_LOWERING("aten.repeat.default", Repeat);
DENDRITE_LOWERING("aten.repeat_interleave.self_int", RepeatInterleave);
DENDRITE_LOWERING("aten.pixel_shuffle.default", PixelShuffle);
DENDRITE_LOWERING("aten.pixel_unshuffle.default", PixelUnshuffle);
DENDRITE_LOWERING("aten.channel_shuffle.default", ChannelShuffle);
DENDRITE_LOWERING("aten.native_channel_shuffle.default", ChannelShuffle);

}  // namespace
}  // namespace dendrite::lowering
