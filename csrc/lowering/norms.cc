// csrc/lowering/norms.cc - layer, group, RMS and weight normalisation, and their gradients.
//
// Statistics are computed in opmath, in two passes. Batch normalisation: batch_norm.cc.

#include <limits>

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

// (x - mean) and 1 / sqrt(var + eps) over `dims`, the latter without them.
struct Centered {
  Value x, mean, rstd;
};

Centered Center(Emitter& e, const Value& x, const Dims& dims, int eps_arg) {
  Builder& b = e.b();
  Value mean = Mean(b, x, dims);
  Value d = b.Sub(x, Spread(b, mean, x.dims, dims));
  Value var = Mean(b, b.Mul(d, d), dims);
  Value eps = Stretch(b, e.Scalar(eps_arg, var.dtype), var);
  return {d, mean, b.Unary("rsqrt", b.Add(var, eps))};
}

// The trailing `count` of `rank` dimensions.
Dims Trailing(int64_t rank, int64_t count) {
  Dims dims;
  for (int64_t i = rank - count; i < rank; ++i) dims.push_back(i);
  return dims;
}

void OutShaped(Emitter& e, int k, const Value& v) {
  if (e.Wanted(k)) e.Out(k, e.b().Reshape(v, e.OutView(k).sizes));
}

Value Opmath(Emitter& e, int i) {
  Value x = e.In(i);
  return e.To(x, tape::OpMath(x.dtype));
}

// --- layer norm: (input, normalized_shape, weight?, bias?, eps) -> out, mean, rstd
void LayerNorm(Emitter& e) {
  Builder& b = e.b();
  Value x = Opmath(e, 0);
  const Dims dims = Trailing(x.rank(), static_cast<int64_t>(e.Ints(1).size()));
  const Centered c = Center(e, x, dims, 4);
  Value y = b.Mul(c.x, Spread(b, c.rstd, x.dims, dims));
  if (!e.IsNone(2)) y = b.Mul(y, e.ToSized(e.In(2), x.dtype, x.dims));
  if (!e.IsNone(3)) y = b.Add(y, e.ToSized(e.In(3), x.dtype, x.dims));
  e.Out(0, y);
  OutShaped(e, 1, c.mean);
  OutShaped(e, 2, c.rstd);
}

// (grad_out, input, normalized_shape, mean, rstd, weight?, bias?, output_mask)
void LayerNormBackward(Emitter& e) {
  Builder& b = e.b();
  Value grad = Opmath(e, 0), x = Opmath(e, 1);
  if (e.failed()) return;
  const int64_t count = static_cast<int64_t>(e.Ints(2).size());
  const Dims dims = Trailing(x.rank(), count);
  Dims lead(x.rank() - count);
  for (size_t i = 0; i < lead.size(); ++i) lead[i] = static_cast<int64_t>(i);
  // mean and rstd have x's leading dimensions and ones: they stretch by themselves.
  Value rstd = e.ToSized(e.In(4), x.dtype, x.dims);
  Value xhat = b.Mul(b.Sub(x, e.ToSized(e.In(3), x.dtype, x.dims)), rstd);
  if (e.Wanted(0)) {
    Value g = e.IsNone(5) ? grad : b.Mul(grad, e.ToSized(e.In(5), x.dtype, x.dims));
    Value mean_g = Spread(b, Mean(b, g, dims), x.dims, dims);
    Value mean_gx = Spread(b, Mean(b, b.Mul(g, xhat), dims), x.dims, dims);
    e.Out(0, b.Mul(rstd, b.Sub(b.Sub(g, mean_g), b.Mul(xhat, mean_gx))));
  }
  if (e.Wanted(1)) e.Out(1, Sum(b, b.Mul(grad, xhat), lead));
  if (e.Wanted(2)) e.Out(2, Sum(b, grad, lead));
}

// --- group norm: (input, weight?, bias?, N, C, HxW, group, eps) -> out, mean, rstd
struct Groups {
  int64_t n, c, hw, g;
  Dims grouped() const { return {n, g, c / g, hw}; }
};

Groups GroupsAt(Emitter& e, int i) {
  Groups s{e.Int(i), e.Int(i + 1), e.Int(i + 2), e.Int(i + 3)};
  if (s.g < 1) e.Fail(Unimplemented("group norm without groups"));
  s.g = std::max<int64_t>(s.g, 1);
  return s;
}

// A per-channel vector stretched over the grouped shape.
Value Channels(Emitter& e, int arg, DType dtype, const Groups& s) {
  Value v = e.b().Reshape(e.To(e.In(arg), dtype), {s.g, s.c / s.g});
  return e.b().BroadcastInDim(v, s.grouped(), {1, 2});
}

void GroupNorm(Emitter& e) {
  Builder& b = e.b();
  const Groups s = GroupsAt(e, 3);
  Value x = b.Reshape(Opmath(e, 0), s.grouped());
  const Centered c = Center(e, x, {2, 3}, 7);
  Value y = b.Mul(c.x, Spread(b, c.rstd, x.dims, {2, 3}));
  if (!e.IsNone(1)) y = b.Mul(y, Channels(e, 1, x.dtype, s));
  if (!e.IsNone(2)) y = b.Add(y, Channels(e, 2, x.dtype, s));
  OutShaped(e, 0, y);
  OutShaped(e, 1, c.mean);
  OutShaped(e, 2, c.rstd);
}

// (grad_out, input, mean, rstd, weight?, N, C, HxW, group, output_mask)
void GroupNormBackward(Emitter& e) {
  Builder& b = e.b();
  const Groups s = GroupsAt(e, 5);
  const Dims dims = {2, 3};
  Value grad = b.Reshape(Opmath(e, 0), s.grouped());
  Value x = b.Reshape(Opmath(e, 1), s.grouped());
  auto per_group = [&](int arg) {
    return Spread(b, b.Reshape(e.To(e.In(arg), x.dtype), {s.n, s.g}), x.dims, dims);
  };
  Value rstd = per_group(3);
  Value xhat = b.Mul(b.Sub(x, per_group(2)), rstd);
  if (e.Wanted(0)) {
    Value g = e.IsNone(4) ? grad : b.Mul(grad, Channels(e, 4, x.dtype, s));
    Value mean_g = Spread(b, Mean(b, g, dims), x.dims, dims);
    Value mean_gx = Spread(b, Mean(b, b.Mul(g, xhat), dims), x.dims, dims);
    OutShaped(e, 0, b.Mul(rstd, b.Sub(b.Sub(g, mean_g), b.Mul(xhat, mean_gx))));
  }
  if (e.Wanted(1)) OutShaped(e, 1, Sum(b, b.Mul(grad, xhat), {0, 3}));
  if (e.Wanted(2)) OutShaped(e, 2, Sum(b, grad, {0, 3}));
}

// --- RMS norm: (input, normalized_shape, weight?, eps?) -> out, rstd
double Epsilon(DType t) {
  if (t == DType::kF64) return std::numeric_limits<double>::epsilon();
  return std::numeric_limits<float>::epsilon();
}

void RmsNorm(Emitter& e) {
  Builder& b = e.b();
  Value input = e.In(0);
  Value x = e.To(input, tape::OpMath(input.dtype));
  const Dims dims = Trailing(x.rank(), static_cast<int64_t>(e.Ints(1).size()));
  Value square = Mean(b, b.Mul(x, x), dims);
  Value eps =
      e.IsNone(3) ? Like(b, square, Epsilon(x.dtype)) : Stretch(b, e.Scalar(3, x.dtype), square);
  Value rstd = b.Unary("rsqrt", b.Add(square, eps));
  Value y = b.Mul(x, Spread(b, rstd, x.dims, dims));
  if (!e.IsNone(2)) y = b.Mul(y, e.ToSized(e.In(2), x.dtype, x.dims));
  e.Out(0, y);
  OutShaped(e, 1, rstd);
}

// (grad_out, input, normalized_shape, rstd, weight?, output_mask)
void RmsNormBackward(Emitter& e) {
  Builder& b = e.b();
  Value grad = Opmath(e, 0), x = Opmath(e, 1);
  if (e.failed()) return;
  const int64_t count = static_cast<int64_t>(e.Ints(2).size());
  const Dims dims = Trailing(x.rank(), count);
  Value rstd = e.ToSized(e.In(3), x.dtype, x.dims);
  Value xhat = b.Mul(x, rstd);
  if (e.Wanted(0)) {
    Value g = e.IsNone(4) ? grad : b.Mul(grad, e.ToSized(e.In(4), x.dtype, x.dims));
    Value mean_gx = Spread(b, Mean(b, b.Mul(g, xhat), dims), x.dims, dims);
    e.Out(0, b.Mul(rstd, b.Sub(g, b.Mul(xhat, mean_gx))));
  }
  Dims lead(x.rank() - count);
  for (size_t i = 0; i < lead.size(); ++i) lead[i] = static_cast<int64_t>(i);
  if (e.Wanted(1)) e.Out(1, Sum(b, b.Mul(grad, xhat), lead));
}

// --- weight norm: (v, g, dim) -> w, norms; the norm runs over all dimensions but dim
Dims AllBut(int64_t rank, int64_t dim) {
  Dims dims;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != dim) dims.push_back(i);
  }
  return dims;
}

void WeightNorm(Emitter& e) {
  Builder& b = e.b();
  Value v = Opmath(e, 0);
  const Dims dims = AllBut(v.rank(), WrapDim(e.Int(2), v.rank()));
  Value norms = b.Unary("sqrt", Sum(b, b.Mul(v, v), dims));
  Value scale = b.Div(b.Reshape(e.To(e.In(1), v.dtype), norms.dims), norms);
  e.Out(0, b.Mul(v, Spread(b, scale, v.dims, dims)));
  OutShaped(e, 1, norms);
}

// (grad_w, saved_v, saved_g, saved_norms, dim) -> grad_v, grad_g
void WeightNormBackward(Emitter& e) {
  Builder& b = e.b();
  Value grad = Opmath(e, 0), v = Opmath(e, 1);
  const Dims dims = AllBut(v.rank(), WrapDim(e.Int(4), v.rank()));
  Value per_dim = Sum(b, b.Mul(grad, v), dims);
  Value g = b.Reshape(e.To(e.In(2), v.dtype), per_dim.dims);
  Value norms = b.Reshape(e.To(e.In(3), v.dtype), per_dim.dims);
  Value grad_g = b.Div(per_dim, norms);
  Value pull = Spread(b, b.Div(grad_g, norms), v.dims, dims);
  Value scale = Spread(b, b.Div(g, norms), v.dims, dims);
  e.Out(0, b.Mul(scale, b.Sub(grad, b.Mul(v, pull))));
  OutShaped(e, 1, grad_g);
}

DENDRITE_LOWERING("aten.native_layer_norm.default", LayerNorm);
DENDRITE_LOWERING("aten.native_layer_norm_backward.default", LayerNormBackward);
DENDRITE_LOWERING("aten.native_group_norm.default", GroupNorm);
DENDRITE_LOWERING("aten.native_group_norm_backward.default", GroupNormBackward);
DENDRITE_LOWERING("aten._fused_rms_norm.default", RmsNorm);
DENDRITE_LOWERING("aten._fused_rms_norm_backward.default", RmsNormBackward);
DENDRITE_LOWERING("aten._weight_norm_interface.default", WeightNorm);
DENDRITE_LOWERING("aten._weight_norm_interface_backward.default", WeightNormBackward);

}  // namespace
}  // namespace dendrite::lowering
