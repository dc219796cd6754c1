// csrc/lowering/embedding.cc - rows of a table by index, and the gradient that adds rows back.

#include <string>

#include "csrc/lowering/kernels_by_name.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// (weight [v, d], indices, padding_idx, scale_grad_by_freq, sparse): the last three shape the
// gradient.
void Embedding(Emitter& e) {
  Builder& b = e.b();
  Value weight = e.In(0), indices = e.In(1);
  if (weight.rank() != 2) return e.Fail(Unimplemented("embedding: weight is no matrix"));
  if (tape::NumElements(e.OutView(0).sizes) == 0) {
    return e.Out(0, b.Constant(weight.dtype, e.OutView(0).sizes, 0));
  }
  e.CheckIndices(indices, 0, weight.dims[0]);
  Builder::GatherDims g;
  g.offset_dims = {indices.rank()};
  g.collapsed_slice_dims = {0};
  g.start_index_map = {0};
  g.index_vector_dim = indices.rank();
  g.slice_sizes = {1, weight.dims[1]};
  e.Out(0, b.Gather(weight, indices, g));
}

// (grad_output [..., d], indices, num_weights, padding_idx, scale_grad_by_freq) -> [num_weights, d]
void EmbeddingDenseBackward(Emitter& e) {
  Builder& b = e.b();
  if (e.Bool(4)) return e.Fail(Unimplemented("embedding gradient scaled by frequency"));
  Value grad = e.In(0), indices = e.In(1);
  if (e.failed() || grad.rank() == 0) return e.Fail(Unimplemented("embedding gradient"));
  const int64_t d = grad.dims.back(), v = e.Int(2), n = tape::NumElements(indices.dims);
  const int64_t padding = e.Int(3, -1);
  const DType acc = tape::OpMath(grad.dtype);
  const Dims out_dims = {v, d};
  if (n == 0 || d == 0 || v == 0) return e.Out(0, b.Constant(acc, out_dims, 0));
  grad = b.Reshape(e.To(grad, acc), {n, d});
  indices = b.Reshape(e.To(indices, DType::kI64), {n});
  e.CheckIndices(indices, 0, v);
  if (e.traits().kernels_by_name && acc == DType::kF32) {
    std::vector<Value> out =
        b.CustomCall(kEmbeddingBackwardKernel, {grad, indices}, {{acc, out_dims}},
                     "{padding_idx = " + std::to_string(padding) + " : i64}");
    if (!e.failed()) e.Out(0, out[0]);
    return;
  }
  Value skipped = b.Compare(Cmp::kEq, indices, b.ConstantInt(DType::kI64, {n}, padding));
  grad = b.Select(Along(b, skipped, grad.dims, 0), Like(b, grad, 0), grad);
  Builder::ScatterDims s;
  s.update_window_dims = {1};
  s.inserted_window_dims = {0};
  s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  e.Out(0, b.Scatter(b.Constant(acc, out_dims, 0), b.Reshape(indices, {n, 1}), grad, s,
                     [](Builder& r, const Value& p, const Value& q) { return r.Add(p, q); }));
}

DENDRITE_LOWERING("aten.embedding.default", Embedding);
DENDRITE_LOWERING("aten.embedding_dense_backward.default", EmbeddingDenseBackward);

}  // namespace
}  // namespace dendrite::lowering
