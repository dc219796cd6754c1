// csrc/lowering/recurrent_math.h - one time step of an LSTM or GRU and its gradient, as StableHLO:
// what the cells (recurrent.cc) and whole layers (recurrent_layer.cc) share.
//
// Gates lie side by side along the last dimension, biases already in: i, f, g, o for LSTM, r, z, n
// for GRU. All values in the type that is computed in. Plain functions over a Builder.
#pragma once

#include <vector>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

// Piece k of n equal pieces of the last dimension.
Value Piece(Builder& b, const Value& x, int64_t k, int64_t n);
// Side by side along the last dimension.
Value Joined(Builder& b, const std::vector<Value>& pieces);

struct LstmStep {
  Value i, f, g, o;  // activated
  Value c, h;        // the new states
};
LstmStep StepLstm(Builder& b, const Value& gates, const Value& c);

struct GruStep {
  Value r, z, n;   // activated
  Value hidden_n;  // the hidden part of n, before the reset gate
  Value h;         // the new state
};
GruStep StepGru(Builder& b, const Value& input, const Value& hidden, const Value& h);

Value StepPlain(Builder& b, const Value& gates, bool relu);

// What an LSTM step's gradients are multiplied with. It does not depend on them, so a layer makes
// it for all steps at once: what is left for the loop over the steps is a few products.
struct LstmSlopes {
  Value gates;   // [4H]: of the gates before their activation
  Value cell;    // what of grad_h reaches the new cell state
  Value forget;  // what of the new cell state's gradient reaches the old one
};
// `step`: i, f, g, o and the new c, of any rank.
LstmSlopes SlopesOfLstm(Builder& b, const LstmStep& step, const Value& old_c);

struct LstmStepGrad {
  Value gates;  // [4H]
  Value c;      // of the old cell state
};
// All [N,H], slopes.gates [N,4H]. grad_h holds all that reaches the new state, grad_c what reaches
// the new cell state from later steps.
LstmStepGrad StepLstmGrad(Builder& b, const LstmSlopes& slopes, const Value& grad_h,
                          const Value& grad_c);

struct GruStepGrad {
  Value input, hidden;  // [3H]
  Value h;              // of the old state, but for what goes through the hidden gates
};
// `step`: all but the new state.
GruStepGrad StepGruGrad(Builder& b, const GruStep& step, const Value& old_h, const Value& grad_h);

// `h`: the new state.
Value StepPlainGrad(Builder& b, const Value& h, const Value& grad_h, bool relu);

}  // namespace dendrite::lowering
