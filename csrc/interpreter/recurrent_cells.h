// csrc/interpreter/recurrent_cells.h - the pointwise part of a recurrent layer's step, forward and
// backward, one row (one sequence) at a time.
//
// A product makes the hidden gates of all rows, then these make the new state: everything that is
// not a product in one pass over memory that the cache holds. Compiled for several instruction
// sets and chosen when the library is loaded; knows nothing of PyTorch.
//
// `n` is the hidden size. Gates lie side by side, n each: i, f, g, o (LSTM); r, z, n (GRU); one
// otherwise. Arguments never overlap, but a plain layer may put `out` where `gates` are. NaN and
// infinities come out as from PyTorch's kernels; values within two units in the last place.
// Thread safe: no state.
#pragma once

#include <cstdint>

namespace dendrite::interpreter {

enum class CellActivation : uint8_t { kTanh, kRelu };

// A row of a forward step. `gates` holds the input gates without bias and becomes what the gradient
// needs (csrc/lowering/recurrent_kernels.h: the workspace); `bias` is the sum of both biases, for
// GRU four pieces: r, z, the input's n, the hidden n.
template <typename T>
struct CellRow {
  T* gates;
  const T* hidden;  // hidden gates without bias: [4n], [3n] or [n]
  const T* bias;
  T* h;    // the state, updated
  T* c;    // LSTM: the cell state, updated
  T* out;  // the new state once more
};

// A row of a backward step. `grad_h` holds the gradient from the steps after this one, without this
// step's output; the product with the hidden weight that carries it on is the caller's.
template <typename T>
struct CellGradRow {
  const T* workspace;  // LSTM, GRU: as the forward step left it
  const T* out;        // otherwise: the new state
  const T* before;     // GRU: the state before; LSTM: the cell state before
  const T* grad_out;
  T* grad_h;       // GRU: becomes the part that does not go through the product
  T* grad_c;       // LSTM, updated
  T* grad_gates;   // gradient of the input gates
  T* grad_hidden;  // GRU: of the hidden gates; otherwise the same as grad_gates
};

void LstmCell(const CellRow<float>& row, int64_t n);
void LstmCell(const CellRow<double>& row, int64_t n);
void GruCell(const CellRow<float>& row, int64_t n);
void GruCell(const CellRow<double>& row, int64_t n);
void PlainCell(const CellRow<float>& row, CellActivation activation, int64_t n);
void PlainCell(const CellRow<double>& row, CellActivation activation, int64_t n);

void LstmCellGrad(const CellGradRow<float>& row, int64_t n);
void LstmCellGrad(const CellGradRow<double>& row, int64_t n);
void GruCellGrad(const CellGradRow<float>& row, int64_t n);
void GruCellGrad(const CellGradRow<double>& row, int64_t n);
void PlainCellGrad(const CellGradRow<float>& row, CellActivation activation, int64_t n);
void PlainCellGrad(const CellGradRow<double>& row, CellActivation activation, int64_t n);

}  // namespace dendrite::interpreter
