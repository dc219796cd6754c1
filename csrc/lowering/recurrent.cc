// csrc/lowering/recurrent.cc - the fused LSTM and GRU cells and their gradients.
//
// PyTorch has these kernels for accelerators only. Workspaces hold what the gradients need, in the
// layout of PyTorch's kernels: the four activated gates; r, z, n, the old state, and the hidden
// part of n before the reset gate.
#include "csrc/lowering/recurrent_math.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

// gates + bias, bias absent or along the last dimension.
Value WithBias(Emitter& e, const Value& gates, int bias_arg) {
  if (e.IsNone(bias_arg)) return gates;
  return e.b().Add(gates, e.ToSized(e.In(bias_arg), gates.dtype, gates.dims));
}

Value Load(Emitter& e, int i) {
  const Value x = e.In(i);
  return e.To(x, tape::OpMath(x.dtype));
}

// (input_gates, hidden_gates, cx, input_bias?, hidden_bias?) -> (hy, cy, workspace)
void LstmCell(Emitter& e) {
  Builder& b = e.b();
  const Value gates = WithBias(e, WithBias(e, b.Add(Load(e, 0), Load(e, 1)), 3), 4);
  const LstmStep step = StepLstm(b, gates, Load(e, 2));
  e.Out(0, step.h);
  e.Out(1, step.c);
  if (e.Wanted(2)) {
    e.Out(2, b.Reshape(Joined(b, {step.i, step.f, step.g, step.o}), e.OutView(2).sizes));
  }
}

// (grad_hy?, grad_cy?, cx, cy, workspace, has_bias) -> (grad_gates, grad_cx, grad_bias)
void LstmCellBackward(Emitter& e) {
  Builder& b = e.b();
  const Value cx = Load(e, 2), cy = Load(e, 3);
  Dims gate_dims = cx.dims;
  gate_dims.back() *= 4;
  const Value workspace = b.Reshape(Load(e, 4), gate_dims);
  const LstmStep step{Piece(b, workspace, 0, 4),
                      Piece(b, workspace, 1, 4),
                      Piece(b, workspace, 2, 4),
                      Piece(b, workspace, 3, 4),
                      cy,
                      {}};
  const Value grad_hy = e.IsNone(0) ? Like(b, cx, 0) : Load(e, 0);
  const Value grad_cy = e.IsNone(1) ? Like(b, cx, 0) : Load(e, 1);
  const LstmStepGrad grad = StepLstmGrad(b, SlopesOfLstm(b, step, cx), grad_hy, grad_cy);
  e.Out(0, grad.gates);
  e.Out(1, grad.c);
  if (e.Wanted(2)) e.Out(2, Sum(b, grad.gates, {0}));
}

// (input_gates, hidden_gates, hx, input_bias?, hidden_bias?) -> (hy, workspace)
void GruCell(Emitter& e) {
  Builder& b = e.b();
  const Value input = WithBias(e, Load(e, 0), 3), hidden = WithBias(e, Load(e, 1), 4);
  const Value hx = Load(e, 2);
  const GruStep step = StepGru(b, input, hidden, hx);
  e.Out(0, step.h);
  if (e.Wanted(1)) {
    e.Out(1, b.Reshape(Joined(b, {step.r, step.z, step.n, hx, step.hidden_n}), e.OutView(1).sizes));
  }
}

// (grad_hy, workspace, has_bias)
//   -> (grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias)
void GruCellBackward(Emitter& e) {
  Builder& b = e.b();
  const Value grad = Load(e, 0);
  Dims dims = grad.dims;
  dims.back() *= 5;
  const Value workspace = b.Reshape(Load(e, 1), dims);
  const GruStep step{Piece(b, workspace, 0, 5),
                     Piece(b, workspace, 1, 5),
                     Piece(b, workspace, 2, 5),
                     Piece(b, workspace, 4, 5),
                     {}};
  const GruStepGrad out = StepGruGrad(b, step, Piece(b, workspace, 3, 5), grad);
  e.Out(0, out.input);
  e.Out(1, out.hidden);
  e.Out(2, out.h);
  if (e.Wanted(3)) e.Out(3, Sum(b, out.input, {0}));
  if (e.Wanted(4)) e.Out(4, Sum(b, out.hidden, {0}));
}

// What capture records: csrc/aten/recurrent.cc.
DENDRITE_LOWERING("dendrite.lstm_cell.default", LstmCell);
DENDRITE_LOWERING("dendrite.lstm_cell_backward.default", LstmCellBackward);
DENDRITE_LOWERING("dendrite.gru_cell.default", GruCell);
DENDRITE_LOWERING("dendrite.gru_cell_backward.default", GruCellBackward);

}  // namespace
}  // namespace dendrite::lowering
