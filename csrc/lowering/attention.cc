// csrc/lowering/attention.cc - scaled dot product attention and its gradient, as plain products.
//
// Query [B, H, S, D], key and value [B, Hkv, T, D]; H is a multiple of Hkv (grouped queries).
// Computed in f32 for f16 and bf16. The causal mask is aligned at the top left. A row that is
// masked throughout gives zeros. Dropout is refused: its random numbers belong to the device's
// generator.

#include <cmath>

#include "csrc/lowering/kernels_by_name.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

struct Problem {
  Value q, k, v;  // opmath, [B*H, S|T, D]
  int64_t batch = 0, heads = 0, kv_heads = 0, s = 0, t = 0;
  double scale = 1;
  Dims grid() const { return {batch * heads, s, t}; }
};

// Stretches [B, Hkv, T, D] to one head per query head and flattens the batch.
Value Heads(Emitter& e, const Value& x, int64_t heads, DType type) {
  Builder& b = e.b();
  Value v = e.To(x, type);
  const int64_t n = x.dims[0], h = x.dims[1], t = x.dims[2], d = x.dims[3];
  if (h != heads) v = b.BroadcastInDim(v, {n, h, heads / h, t, d}, {0, 1, 3, 4});
  return b.Reshape(v, {n * heads, t, d});
}

// Arguments `first`..`first`+2 are query, key, value.
bool Read(Emitter& e, int first, int scale_arg, Problem* p) {
  Value q = e.In(first), k = e.In(first + 1), v = e.In(first + 2);
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4 || k.dims[1] < 1 ||
      q.dims[1] % k.dims[1] != 0 || k.dims[1] != v.dims[1]) {
    e.Fail(Unimplemented("attention over other than [batch, heads, length, width]"));
    return false;
  }
  p->batch = q.dims[0];
  p->heads = q.dims[1];
  p->kv_heads = k.dims[1];
  p->s = q.dims[2];
  p->t = k.dims[2];
  if (tape::NumElements(q.dims) == 0 || tape::NumElements(k.dims) == 0 ||
      tape::NumElements(v.dims) == 0) {
    e.Fail(Unimplemented("attention over nothing"));
    return false;
  }
  const DType type = tape::OpMath(q.dtype);
  p->q = Heads(e, q, p->heads, type);
  p->k = Heads(e, k, p->heads, type);
  p->v = Heads(e, v, p->heads, type);
  p->scale =
      e.IsNone(scale_arg) ? 1 / std::sqrt(static_cast<double>(q.dims[3])) : e.Float(scale_arg);
  return !e.failed();
}

// Scaled, masked scores [B*H, S, T].
Value Scores(Emitter& e, const Problem& p, int mask_arg, bool causal) {
  Builder& b = e.b();
  Value scores = MatMul(e, {p.q}, {p.k, true});
  scores = b.Mul(scores, Like(b, scores, p.scale));
  const Value hidden = b.Infinity(scores.dtype, scores.dims, true);
  if (!e.IsNone(mask_arg)) {
    Value mask = b.BroadcastTo(e.In(mask_arg), {p.batch, p.heads, p.s, p.t});
    mask = b.Reshape(mask, p.grid());
    if (mask.dtype == DType::kBool) {
      scores = b.Select(mask, scores, hidden);
    } else {
      scores = b.Add(scores, e.To(mask, scores.dtype));
    }
  }
  if (causal) {
    Value row = b.Iota(DType::kI32, {p.s, p.t}, 0), col = b.Iota(DType::kI32, {p.s, p.t}, 1);
    Value seen = b.BroadcastInDim(b.Compare(Cmp::kLe, col, row), p.grid(), {1, 2});
    scores = b.Select(seen, scores, hidden);
  }
  return scores;
}

void OutShaped(Emitter& e, int k, const Value& v) {
  if (e.Wanted(k)) e.Out(k, e.b().Reshape(v, e.OutView(k).sizes));
}

void Forward(Emitter& e, int mask_arg, int dropout_arg, int causal_arg, int scale_arg) {
  Builder& b = e.b();
  if (e.Float(dropout_arg) != 0) return e.Fail(Unimplemented("attention with dropout"));
  Problem p;
  if (!Read(e, 0, scale_arg, &p)) return;
  Value scores = Scores(e, p, mask_arg, e.Bool(causal_arg));
  Value peak = MaxIgnoringNan(b, scores, {2});
  peak = b.Select(b.Unary("is_finite", peak), peak, Like(b, peak, 0));
  Value w = b.Unary("exponential", b.Sub(scores, Spread(b, peak, scores.dims, {2})));
  Value sum = Sum(b, w, {2});
  const Value zero = Like(b, sum, 0), one = Like(b, sum, 1);
  Value divisor = b.Select(b.Compare(Cmp::kEq, sum, zero), one, sum);
  Value out = MatMul(e, {w}, {p.v});
  out = b.Div(out, Spread(b, divisor, out.dims, {2}));
  OutShaped(e, 0, out);
  // 0 for a row masked throughout, as in PyTorch; its weights are exp(-inf - 0) in the gradient.
  OutShaped(e, 1, b.Add(b.Unary("log", divisor), peak));
}

// What the backward pass reads, by argument position.
struct BackwardArgs {
  int grad, query, out, logsumexp, mask, dropout, causal, scale;
};

// Sums a gradient per query head over the heads that share a key head.
void OutHeads(Emitter& e, int k, const Value& grad, const Problem& p) {
  Builder& b = e.b();
  if (!e.Wanted(k)) return;
  if (p.heads == p.kv_heads) return OutShaped(e, k, grad);
  const int64_t share = p.heads / p.kv_heads;
  Value g = b.Reshape(grad, {p.batch, p.kv_heads, share, grad.dims[1], grad.dims[2]});
  e.Out(k, Sum(b, g, {2}));
}

void Backward(Emitter& e, const BackwardArgs& at, int bias_result) {
  Builder& b = e.b();
  if (e.Float(at.dropout) != 0) return e.Fail(Unimplemented("attention with dropout"));
  Problem p;
  if (!Read(e, at.query, at.scale, &p)) return;
  const DType type = p.q.dtype;
  Value grad = Heads(e, e.In(at.grad), p.heads, type);
  Value out = Heads(e, e.In(at.out), p.heads, type);
  Value scores = Scores(e, p, at.mask, e.Bool(at.causal));
  Value lse = b.Reshape(e.To(e.In(at.logsumexp), type), {p.batch * p.heads, p.s});
  // Other kernels give a row masked throughout -inf, which must not become inf - inf.
  Value hidden = b.Compare(Cmp::kEq, lse, b.Infinity(type, lse.dims, true));
  Value w = b.Unary("exponential", b.Sub(scores, Spread(b, lse, scores.dims, {2})));
  w = b.Select(Spread(b, hidden, w.dims, {2}), Like(b, w, 0), w);
  if (e.Wanted(2)) OutHeads(e, 2, MatMul(e, {w, true}, {grad}), p);
  Value delta = Sum(b, b.Mul(grad, out), {2});
  Value dw = MatMul(e, {grad}, {p.v, true});
  Value ds = b.Mul(w, b.Sub(dw, Spread(b, delta, dw.dims, {2})));
  if (bias_result >= 0 && e.Wanted(bias_result)) {
    Value full = b.Reshape(ds, {p.batch, p.heads, p.s, p.t});
    e.Out(bias_result, SumToShape(b, full, e.OutView(bias_result).sizes));
  }
  ds = b.Mul(ds, Like(b, ds, p.scale));
  if (e.Wanted(0)) OutShaped(e, 0, MatMul(e, {ds}, {p.k}));
  if (e.Wanted(1)) OutHeads(e, 1, MatMul(e, {ds, true}, {p.q}), p);
}

// (query, key, value, dropout_p, is_causal, attn_mask?, scale?) -> out, logsumexp
void FlashForCpu(Emitter& e) { Forward(e, 5, 3, 4, 6); }

// (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask?, scale?)
void FlashForCpuBackward(Emitter& e) { Backward(e, {0, 1, 4, 5, 8, 6, 7, 9}, -1); }

// (query, key, value, attn_bias?, dropout_p, is_causal, return_debug_mask, scale?) -> out,
// logsumexp, and what only dropout and ragged batches need: zeros.
void Overrideable(Emitter& e) {
  if (e.Bool(6)) return e.Fail(Unimplemented("attention with a debug mask"));
  Forward(e, 3, 4, 5, 7);
  for (int k = 2; k < e.num_results() && !e.failed(); ++k) {
    if (e.Wanted(k)) e.Out(k, e.b().Constant(e.OutView(k).dtype, e.OutView(k).sizes, 0));
  }
}

// (grad_out, query, key, value, attn_bias, grad_input_mask, out, logsumexp, cum_seq_q, cum_seq_k,
// max_q, max_k, dropout_p, is_causal, philox_seed, philox_offset, scale?)
void OverrideableBackward(Emitter& e) { Backward(e, {0, 1, 6, 7, 4, 12, 13, 16}, 3); }

DENDRITE_LOWERING("aten._scaled_dot_product_flash_attention_for_cpu.default", FlashForCpu);
DENDRITE_LOWERING("aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
                  FlashForCpuBackward);
DENDRITE_LOWERING("aten._scaled_dot_product_fused_attention_overrideable.default", Overrideable);
DENDRITE_LOWERING("aten._scaled_dot_product_fused_attention_overrideable_backward.default",
                  OverrideableBackward);

}  // namespace
}  // namespace dendrite::lowering
