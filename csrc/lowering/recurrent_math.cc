#include "csrc/lowering/recurrent_math.h"

#include "csrc/lowering/reduce_math.h"

namespace dendrite::lowering {
namespace {

Value Sigmoid(Builder& b, const Value& x) { return b.Unary("logistic", x); }
Value Tanh(Builder& b, const Value& x) { return b.Unary("tanh", x); }
Value OneMinus(Builder& b, const Value& x) { return b.Sub(Like(b, x, 1), x); }
// The derivatives of both activations, from their results.
Value SigmoidSlope(Builder& b, const Value& y) { return b.Mul(OneMinus(b, y), y); }
Value TanhSlope(Builder& b, const Value& y) { return OneMinus(b, b.Mul(y, y)); }

}  // namespace

Value Piece(Builder& b, const Value& x, int64_t k, int64_t n) {
  const int64_t last = x.rank() - 1, size = x.dims[last] / n;
  Dims start(x.dims.size(), 0), limit = x.dims;
  start[last] = k * size, limit[last] = (k + 1) * size;
  return b.Slice(x, start, limit, Dims(x.dims.size(), 1));
}

Value Joined(Builder& b, const std::vector<Value>& pieces) {
  return b.Concatenate(pieces, pieces[0].rank() - 1);
}

LstmStep StepLstm(Builder& b, const Value& gates, const Value& c) {
  LstmStep step;
  step.i = Sigmoid(b, Piece(b, gates, 0, 4));
  step.f = Sigmoid(b, Piece(b, gates, 1, 4));
  step.g = Tanh(b, Piece(b, gates, 2, 4));
  step.o = Sigmoid(b, Piece(b, gates, 3, 4));
  step.c = b.Add(b.Mul(step.f, c), b.Mul(step.i, step.g));
  step.h = b.Mul(step.o, Tanh(b, step.c));
  return step;
}

GruStep StepGru(Builder& b, const Value& input, const Value& hidden, const Value& h) {
  const auto sum = [&](int64_t k) { return b.Add(Piece(b, input, k, 3), Piece(b, hidden, k, 3)); };
  GruStep step;
  step.r = Sigmoid(b, sum(0));
  step.z = Sigmoid(b, sum(1));
  step.hidden_n = Piece(b, hidden, 2, 3);
  step.n = Tanh(b, b.Add(Piece(b, input, 2, 3), b.Mul(step.r, step.hidden_n)));
  step.h = b.Add(step.n, b.Mul(step.z, b.Sub(h, step.n)));
  return step;
}

Value StepPlain(Builder& b, const Value& gates, bool relu) {
  if (!relu) return Tanh(b, gates);
  const Value zero = Like(b, gates, 0);
  return b.Select(b.Compare(stablehlo::Cmp::kLe, gates, zero), zero, gates);  // keeps NaN
}

LstmSlopes SlopesOfLstm(Builder& b, const LstmStep& step, const Value& old_c) {
  const Value shown = Tanh(b, step.c);
  const Value i = b.Mul(step.g, SigmoidSlope(b, step.i));
  const Value f = b.Mul(old_c, SigmoidSlope(b, step.f));
  const Value g = b.Mul(step.i, TanhSlope(b, step.g));
  const Value o = b.Mul(shown, SigmoidSlope(b, step.o));
  return {Joined(b, {i, f, g, o}), b.Mul(step.o, TanhSlope(b, shown)), step.f};
}

LstmStepGrad StepLstmGrad(Builder& b, const LstmSlopes& slopes, const Value& grad_h,
                          const Value& grad_c) {
  const Value cell = b.Add(b.Mul(grad_h, slopes.cell), grad_c);
  // The output gate is reached by grad_h, the three others through the cell. A choice by position
  // stays one loop over all gates, which four pieces side by side would not.
  const Dims wide = {cell.dims[0], 4, cell.dims[1]};
  const Value is_output = b.Compare(stablehlo::Cmp::kEq, b.Iota(DType::kI32, wide, 1),
                                    b.ConstantInt(DType::kI32, wide, 3));
  const Value reached = b.Select(is_output, b.BroadcastInDim(grad_h, wide, {0, 2}),
                                 b.BroadcastInDim(cell, wide, {0, 2}));
  return {b.Mul(b.Reshape(reached, slopes.gates.dims), slopes.gates), b.Mul(cell, slopes.forget)};
}

GruStepGrad StepGruGrad(Builder& b, const GruStep& step, const Value& old_h, const Value& grad_h) {
  const Value z = b.Mul(b.Mul(grad_h, b.Sub(old_h, step.n)), SigmoidSlope(b, step.z));
  const Value n = b.Mul(b.Mul(grad_h, OneMinus(b, step.z)), TanhSlope(b, step.n));
  const Value r = b.Mul(b.Mul(n, step.hidden_n), SigmoidSlope(b, step.r));
  return {Joined(b, {r, z, n}), Joined(b, {r, z, b.Mul(n, step.r)}), b.Mul(grad_h, step.z)};
}

Value StepPlainGrad(Builder& b, const Value& h, const Value& grad_h, bool relu) {
  if (!relu) return b.Mul(grad_h, TanhSlope(b, h));
  const Value zero = Like(b, h, 0);
  return b.Select(b.Compare(stablehlo::Cmp::kLe, h, zero), zero, grad_h);
}

}  // namespace dendrite::lowering
