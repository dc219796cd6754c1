// csrc/lowering/recurrent.cc - the fused LSTM and GRU cells and their gradients.
//
// PyTorch has these kernels for accelerators only. Gates lie side by side along the last dimension:
// i, f, g, o for LSTM, r, z, n for GRU. Workspaces hold what the gradients need, in the layout of
// PyTorch's kernels: the four activated gates; r, z, n, the old state, and the hidden part of n
// before the reset gate.
#include <vector>

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

// Piece k of n equal pieces of the last dimension.
Value Piece(Builder& b, const Value& x, int64_t k, int64_t n) {
  const int64_t last = x.rank() - 1, size = x.dims[last] / n;
  Dims start(x.dims.size(), 0), limit = x.dims;
  start[last] = k * size, limit[last] = (k + 1) * size;
  return b.Slice(x, start, limit, Dims(x.dims.size(), 1));
}

Value Joined(Builder& b, const std::vector<Value>& pieces) {
  return b.Concatenate(pieces, pieces[0].rank() - 1);
}

// gates + bias, bias absent or along the last dimension.
Value WithBias(Emitter& e, const Value& gates, int bias_arg) {
  if (e.IsNone(bias_arg)) return gates;
  return e.b().Add(gates, e.ToSized(e.In(bias_arg), gates.dtype, gates.dims));
}

Value Sigmoid(Builder& b, const Value& x) { return b.Unary("logistic", x); }
Value Tanh(Builder& b, const Value& x) { return b.Unary("tanh", x); }
Value OneMinus(Builder& b, const Value& x) { return b.Sub(Like(b, x, 1), x); }
// The derivatives of both activations, from their results.
Value SigmoidSlope(Builder& b, const Value& y) { return b.Mul(OneMinus(b, y), y); }
Value TanhSlope(Builder& b, const Value& y) { return OneMinus(b, b.Mul(y, y)); }

Value Load(Emitter& e, int i) {
  const Value x = e.In(i);
  return e.To(x, tape::OpMath(x.dtype));
}

// (input_gates, hidden_gates, cx, input_bias?, hidden_bias?) -> (hy, cy, workspace)
void LstmCell(Emitter& e) {
  Builder& b = e.b();
  const Value gates = WithBias(e, WithBias(e, b.Add(Load(e, 0), Load(e, 1)), 3), 4);
  const Value i = Sigmoid(b, Piece(b, gates, 0, 4)), f = Sigmoid(b, Piece(b, gates, 1, 4)),
              g = Tanh(b, Piece(b, gates, 2, 4)), o = Sigmoid(b, Piece(b, gates, 3, 4));
  const Value cy = b.Add(b.Mul(f, Load(e, 2)), b.Mul(i, g));
  e.Out(0, b.Mul(o, Tanh(b, cy)));
  e.Out(1, cy);
  if (e.Wanted(2)) e.Out(2, b.Reshape(Joined(b, {i, f, g, o}), e.OutView(2).sizes));
}

// (grad_hy?, grad_cy?, cx, cy, workspace, has_bias) -> (grad_gates, grad_cx, grad_bias)
void LstmCellBackward(Emitter& e) {
  Builder& b = e.b();
  const Value cx = Load(e, 2), cy = Load(e, 3);
  Dims gate_dims = cx.dims;
  gate_dims.back() *= 4;
  const Value workspace = b.Reshape(Load(e, 4), gate_dims);
  const Value i = Piece(b, workspace, 0, 4), f = Piece(b, workspace, 1, 4),
              g = Piece(b, workspace, 2, 4), o = Piece(b, workspace, 3, 4);
  const Value grad_hy = e.IsNone(0) ? Like(b, cx, 0) : Load(e, 0);
  const Value grad_cy = e.IsNone(1) ? Like(b, cx, 0) : Load(e, 1);
  const Value shown = Tanh(b, cy);
  const Value cell = b.Add(b.Mul(b.Mul(grad_hy, o), TanhSlope(b, shown)), grad_cy);
  const Value grad_i = b.Mul(b.Mul(cell, g), SigmoidSlope(b, i));
  const Value grad_f = b.Mul(b.Mul(cell, cx), SigmoidSlope(b, f));
  const Value grad_g = b.Mul(b.Mul(cell, i), TanhSlope(b, g));
  const Value grad_o = b.Mul(b.Mul(grad_hy, shown), SigmoidSlope(b, o));
  const Value gates = Joined(b, {grad_i, grad_f, grad_g, grad_o});
  e.Out(0, gates);
  e.Out(1, b.Mul(cell, f));
  if (e.Wanted(2)) e.Out(2, Sum(b, gates, {0}));
}

// (input_gates, hidden_gates, hx, input_bias?, hidden_bias?) -> (hy, workspace)
void GruCell(Emitter& e) {
  Builder& b = e.b();
  const Value input = WithBias(e, Load(e, 0), 3), hidden = WithBias(e, Load(e, 1), 4);
  const Value hx = Load(e, 2);
  const auto sum = [&](int64_t k) { return b.Add(Piece(b, input, k, 3), Piece(b, hidden, k, 3)); };
  const Value r = Sigmoid(b, sum(0)), z = Sigmoid(b, sum(1));
  const Value hidden_n = Piece(b, hidden, 2, 3);
  const Value n = Tanh(b, b.Add(Piece(b, input, 2, 3), b.Mul(r, hidden_n)));
  e.Out(0, b.Add(n, b.Mul(z, b.Sub(hx, n))));
  if (e.Wanted(1)) e.Out(1, b.Reshape(Joined(b, {r, z, n, hx, hidden_n}), e.OutView(1).sizes));
}

// (grad_hy, workspace, has_bias)
//   -> (grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias)
void GruCellBackward(Emitter& e) {
  Builder& b = e.b();
  const Value grad = Load(e, 0);
  Dims dims = grad.dims;
  dims.back() *= 5;
  const Value workspace = b.Reshape(Load(e, 1), dims);
  const Value r = Piece(b, workspace, 0, 5), z = Piece(b, workspace, 1, 5),
              n = Piece(b, workspace, 2, 5), hx = Piece(b, workspace, 3, 5),
              hidden_n = Piece(b, workspace, 4, 5);
  const Value grad_z = b.Mul(b.Mul(grad, b.Sub(hx, n)), SigmoidSlope(b, z));
  const Value grad_n = b.Mul(b.Mul(grad, OneMinus(b, z)), TanhSlope(b, n));
  const Value grad_r = b.Mul(b.Mul(grad_n, hidden_n), SigmoidSlope(b, r));
  const Value input = Joined(b, {grad_r, grad_z, grad_n});
  const Value hidden = Joined(b, {grad_r, grad_z, b.Mul(grad_n, r)});
  e.Out(0, input);
  e.Out(1, hidden);
  e.Out(2, b.Mul(grad, z));
  if (e.Wanted(3)) e.Out(3, Sum(b, input, {0}));
  if (e.Wanted(4)) e.Out(4, Sum(b, hidden, {0}));
}

// What capture records: csrc/aten/recurrent.cc.
DENDRITE_LOWERING("dendrite.lstm_cell.default", LstmCell);
DENDRITE_LOWERING("dendrite.lstm_cell_backward.default", LstmCellBackward);
DENDRITE_LOWERING("dendrite.gru_cell.default", GruCell);
DENDRITE_LOWERING("dendrite.gru_cell_backward.default", GruCellBackward);
DENDRITE_LOWERING("aten._thnn_fused_lstm_cell.default", LstmCell);
DENDRITE_LOWERING("aten._thnn_fused_lstm_cell_backward_impl.default", LstmCellBackward);
DENDRITE_LOWERING("aten._thnn_fused_gru_cell.default", GruCell);
DENDRITE_LOWERING("aten._thnn_fused_gru_cell_backward.default", GruCellBackward);

}  // namespace
}  // namespace dendrite::lowering
