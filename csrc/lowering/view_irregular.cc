// Views whose strides do not nest (overlapping windows, diagonals of odd shapes): flat indices.
#include "csrc/lowering/view_access.h"

namespace dendrite::lowering {
namespace {

// [numel, 1]: the flat position of every element of the view.
Value FlatIndices(Builder& b, const Value& window, const ViewAt& at) {
  const int64_t count = tape::NumElements(window.dims);
  const DType type = count <= INT32_MAX ? DType::kI32 : DType::kI64;
  const Dims& sizes = at.view.sizes;
  Value sum = b.ConstantInt(type, sizes, at.offset);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] <= 1) continue;
    const Value step = b.ConstantInt(type, sizes, at.view.strides[d]);
    sum = b.Add(sum, b.Mul(b.Iota(type, sizes, static_cast<int64_t>(d)), step));
  }
  if (at.lifted_offset.defined()) {
    sum = b.Add(sum, b.BroadcastTo(b.Convert(at.lifted_offset, type), sizes));
  }
  return b.Reshape(sum, {at.view.numel(), 1});
}

}  // namespace

Value GatherView(Builder& b, const Value& window, const ViewAt& at) {
  const Value flat = b.Reshape(window, {tape::NumElements(window.dims)});
  Builder::GatherDims dims;
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = 1;
  dims.slice_sizes = {1};
  return b.Reshape(b.Gather(flat, FlatIndices(b, flat, at), dims), at.view.sizes);
}

Value ScatterView(Builder& b, const Value& window, const ViewAt& at, const Value& stored) {
  const Value flat = b.Reshape(window, {tape::NumElements(window.dims)});
  Builder::ScatterDims dims;
  dims.inserted_window_dims = {0};
  dims.scatter_dims_to_operand_dims = {0};
  dims.index_vector_dim = 1;
  // PyTorch refuses writes through views that overlap themselves, so the indices are distinct.
  return b.Scatter(
      flat, FlatIndices(b, flat, at), b.Reshape(stored, {at.view.numel()}), dims,
      [](Builder&, const Value&, const Value& update) { return update; }, false, true);
}

}  // namespace dendrite::lowering
