#include "csrc/interpreter/recurrent_layer.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "csrc/interpreter/recurrent_cells.h"

namespace dendrite::interpreter {
namespace {

using at::Tensor;
using lowering::RecurrentKind;

// Elements of a step's gates that are worth a thread.
constexpr int64_t kGrain = 16384;

// The steps in the order in which a direction takes them.
struct Step {
  int64_t row = 0;     // first row in the sequence
  int64_t rows = 0;    // sequences that are still (or already) running
  int64_t before = 0;  // first row of the step taken before
  int64_t known = 0;   // rows that have a step before; the others begin with hx
};

std::vector<Step> StepsOf(const RecurrentLayer& layer) {
  std::vector<Step> steps;
  if (layer.batch_sizes.empty()) {
    const int64_t n = layer.input.size(1);
    for (int64_t t = 0; t < layer.input.size(0); ++t) steps.push_back({t * n, n});
  } else {
    int64_t row = 0;
    for (const int64_t n : layer.batch_sizes) {
      steps.push_back({row, n});
      row += n;
    }
  }
  if (layer.reverse) std::reverse(steps.begin(), steps.end());
  for (size_t i = 1; i < steps.size(); ++i) {
    steps[i].before = steps[i - 1].row;
    steps[i].known = std::min(steps[i].rows, steps[i - 1].rows);
  }
  return steps;
}

Tensor Rows(const Tensor& t) { return t.reshape({-1, t.size(-1)}).contiguous(); }

// Both biases as the cells want them (CellRow::bias).
Tensor BiasOf(const RecurrentLayer& layer, int64_t hidden) {
  const bool gru = layer.kind == RecurrentKind::kGru;
  if (!layer.b_ih.defined()) {
    return at::zeros({(gru ? 4 : lowering::GatesOf(layer.kind)) * hidden}, layer.w_ih.options());
  }
  if (!gru) return layer.b_ih + layer.b_hh;
  return at::cat({layer.b_ih.narrow(0, 0, 2 * hidden) + layer.b_hh.narrow(0, 0, 2 * hidden),
                  layer.b_ih.narrow(0, 2 * hidden, hidden),
                  layer.b_hh.narrow(0, 2 * hidden, hidden)});
}

CellActivation ActivationOf(RecurrentKind kind) {
  return kind == RecurrentKind::kTanh ? CellActivation::kTanh : CellActivation::kRelu;
}

template <typename T>
void RunCell(RecurrentKind kind, const CellRow<T>& row, int64_t hidden) {
  if (kind == RecurrentKind::kLstm) return LstmCell(row, hidden);
  if (kind == RecurrentKind::kGru) return GruCell(row, hidden);
  PlainCell(row, ActivationOf(kind), hidden);
}

template <typename T>
void RunCellGrad(RecurrentKind kind, const CellGradRow<T>& row, int64_t hidden) {
  if (kind == RecurrentKind::kLstm) return LstmCellGrad(row, hidden);
  if (kind == RecurrentKind::kGru) return GruCellGrad(row, hidden);
  PlainCellGrad(row, ActivationOf(kind), hidden);
}

template <typename T>
void Forward(const RecurrentLayer& layer, const RecurrentOutputs& results) {
  const RecurrentKind kind = layer.kind;
  const int64_t hidden = layer.hx.size(1), batch = layer.hx.size(0);
  const int64_t gates = lowering::GatesOf(kind) * hidden;
  const Tensor input = Rows(layer.input);
  const int64_t rows = input.size(0);
  // Gates are activated in place; without a workspace of its own a plain layer makes its output so.
  const int64_t width = std::max<int64_t>(lowering::WorkspaceOf(kind), 1) * hidden;
  Tensor buffer = results.workspace.defined() ? results.workspace.view({rows, width})
                  : width == hidden           ? results.output.view({rows, width})
                                              : at::empty({rows, width}, input.options());
  Tensor input_gates = buffer.narrow(1, 0, gates);
  at::mm_out(input_gates, input, layer.w_ih.t());

  const Tensor bias = BiasOf(layer, hidden);
  // Row-major, the product reads it faster: it is read once a step.
  const Tensor weight = layer.w_hh.t().contiguous();
  Tensor h = results.hy, c = results.cy;
  h.copy_(layer.hx);
  if (c.defined()) c.copy_(layer.cx);
  Tensor all_hidden_gates = at::empty({batch, gates}, input.options());
  Tensor hidden_gates = all_hidden_gates, state = h;

  T* out = results.output.data_ptr<T>();
  T* buffer_rows = buffer.data_ptr<T>();
  T* h_rows = h.data_ptr<T>();
  T* c_rows = c.defined() ? c.data_ptr<T>() : nullptr;
  const T* hidden_rows = all_hidden_gates.const_data_ptr<T>();
  const T* bias_row = bias.const_data_ptr<T>();
  for (const Step& step : StepsOf(layer)) {
    if (hidden_gates.size(0) != step.rows) {
      hidden_gates = all_hidden_gates.narrow(0, 0, step.rows);
      state = h.narrow(0, 0, step.rows);
    }
    at::mm_out(hidden_gates, state, weight);
    at::parallel_for(0, step.rows, std::max<int64_t>(1, kGrain / gates), [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) {
        const int64_t row = step.row + i;
        RunCell<T>(
            kind,
            {buffer_rows + row * width, hidden_rows + i * gates, bias_row, h_rows + i * hidden,
             c_rows == nullptr ? nullptr : c_rows + i * hidden, out + row * hidden},
            hidden);
      }
    });
  }
}

template <typename T>
const T* DataOrNull(const Tensor& t) {
  return t.defined() ? t.const_data_ptr<T>() : nullptr;
}

template <typename T>
void Backward(const RecurrentLayer& layer, const RecurrentOutputs& done,
              const RecurrentGrads& grads, const RecurrentInputGrads& results) {
  const RecurrentKind kind = layer.kind;
  const bool lstm = kind == RecurrentKind::kLstm, gru = kind == RecurrentKind::kGru;
  const int64_t hidden = layer.hx.size(1);
  const int64_t gates = lowering::GatesOf(kind) * hidden;
  const int64_t width = lowering::WorkspaceOf(kind) * hidden;
  const Tensor input = Rows(layer.input), output = Rows(done.output);
  const int64_t rows = input.size(0);
  const Tensor hx = layer.hx.contiguous(), w_hh = layer.w_hh.contiguous();
  const Tensor cx = lstm ? layer.cx.contiguous() : Tensor();
  const Tensor workspace = width > 0 ? Rows(done.workspace) : Tensor();
  const Tensor grad_output = grads.output.defined() ? Rows(grads.output) : Tensor();
  const Tensor nothing = at::zeros({hidden}, input.options());

  // The carried gradients live where they end.
  Tensor grad_h = results.hx, grad_c = results.cx;
  grads.hy.defined() ? grad_h.copy_(grads.hy) : grad_h.zero_();
  if (lstm) grads.cy.defined() ? grad_c.copy_(grads.cy) : grad_c.zero_();

  Tensor grad_gates = at::empty({rows, gates}, input.options());
  Tensor grad_hidden = gru ? at::empty_like(grad_gates) : grad_gates;
  Tensor before = at::empty({rows, hidden}, input.options());  // each row's old state

  const T* hx_rows = hx.const_data_ptr<T>();
  const T* cx_rows = DataOrNull<T>(cx);
  const T* out_rows = output.const_data_ptr<T>();
  const T* workspace_rows = DataOrNull<T>(workspace);
  const T* grad_out_rows = DataOrNull<T>(grad_output);
  const T* no_grad = nothing.const_data_ptr<T>();
  T* grad_h_rows = grad_h.data_ptr<T>();
  T* grad_c_rows = lstm ? grad_c.data_ptr<T>() : nullptr;
  T* gate_rows = grad_gates.data_ptr<T>();
  T* hidden_rows = grad_hidden.data_ptr<T>();
  T* before_rows = before.data_ptr<T>();

  const std::vector<Step> steps = StepsOf(layer);
  Tensor carried = grad_h;
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
    const Step& step = *it;
    at::parallel_for(0, step.rows, std::max<int64_t>(1, kGrain / gates), [&](int64_t a, int64_t b) {
      for (int64_t i = a; i < b; ++i) {
        const int64_t row = step.row + i, old = step.before + i;
        T* old_state = before_rows + row * hidden;
        std::copy_n(i < step.known ? out_rows + old * hidden : hx_rows + i * hidden, hidden,
                    old_state);
        CellGradRow<T> cell{};
        cell.workspace = workspace_rows + row * width;
        cell.out = out_rows + row * hidden;
        cell.before = old_state;
        if (lstm) {
          cell.before =
              i < step.known ? workspace_rows + old * width + 4 * hidden : cx_rows + i * hidden;
          cell.grad_c = grad_c_rows + i * hidden;
        }
        cell.grad_out = grad_out_rows == nullptr ? no_grad : grad_out_rows + row * hidden;
        cell.grad_h = grad_h_rows + i * hidden;
        cell.grad_gates = gate_rows + row * gates;
        cell.grad_hidden = hidden_rows + row * gates;
        RunCellGrad<T>(kind, cell, hidden);
      }
    });
    if (carried.size(0) != step.rows) carried = grad_h.narrow(0, 0, step.rows);
    const Tensor through = grad_hidden.narrow(0, step.row, step.rows);
    gru ? at::addmm_out(carried, carried, through, w_hh) : at::mm_out(carried, through, w_hh);
  }

  if (results.input.defined()) {
    Tensor grad_input = results.input.view({rows, input.size(1)});
    at::mm_out(grad_input, grad_gates, layer.w_ih);
  }
  if (results.w_ih.defined()) {
    Tensor w_ih_grad = results.w_ih, w_hh_grad = results.w_hh;
    at::mm_out(w_ih_grad, grad_gates.t(), input);
    at::mm_out(w_hh_grad, grad_hidden.t(), before);
  }
  Tensor b_ih = results.b_ih, b_hh = results.b_hh;
  if (b_ih.defined()) at::sum_out(b_ih, grad_gates, at::IntArrayRef{0});
  if (b_hh.defined()) at::sum_out(b_hh, grad_hidden, at::IntArrayRef{0});
}

// float or double of what may be half or bfloat16.
Tensor Wide(const Tensor& t) {
  return t.defined() && at::isReducedFloatingType(t.scalar_type()) ? t.to(at::kFloat) : t;
}
RecurrentLayer Wide(const RecurrentLayer& layer) {
  RecurrentLayer wide = layer;
  for (Tensor* t :
       {&wide.input, &wide.hx, &wide.cx, &wide.w_ih, &wide.w_hh, &wide.b_ih, &wide.b_hh})
    *t = Wide(*t);
  return wide;
}

// Wide memory for narrow results, copied to them at the end.
class Narrowing {
 public:
  void Add(Tensor* result) {
    if (!result->defined() || !at::isReducedFloatingType(result->scalar_type())) return;
    const Tensor wide = at::empty(result->sizes(), result->options().dtype(at::kFloat));
    copies_.emplace_back(*result, wide);
    *result = wide;
  }
  void Finish() {
    for (auto& [narrow, wide] : copies_) narrow.copy_(wide);
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> copies_;
};

}  // namespace

void RunRecurrentLayer(const RecurrentLayer& layer, const RecurrentOutputs& results) {
  if (layer.input.scalar_type() == at::kFloat) return Forward<float>(layer, results);
  if (layer.input.scalar_type() == at::kDouble) return Forward<double>(layer, results);
  RecurrentOutputs wide = results;
  Narrowing narrowing;
  for (Tensor* t : {&wide.output, &wide.hy, &wide.cy, &wide.workspace}) narrowing.Add(t);
  Forward<float>(Wide(layer), wide);
  narrowing.Finish();
}

void RunRecurrentLayerBackward(const RecurrentLayer& layer, const RecurrentOutputs& done,
                               const RecurrentGrads& grads, const RecurrentInputGrads& results) {
  const auto type = layer.input.scalar_type();
  if (type == at::kFloat) return Backward<float>(layer, done, grads, results);
  if (type == at::kDouble) return Backward<double>(layer, done, grads, results);
  RecurrentInputGrads wide = results;
  Narrowing narrowing;
  for (Tensor* t :
       {&wide.input, &wide.hx, &wide.cx, &wide.w_ih, &wide.w_hh, &wide.b_ih, &wide.b_hh})
    narrowing.Add(t);
  Backward<float>(Wide(layer), {Wide(done.output), {}, {}, Wide(done.workspace)},
                  {Wide(grads.output), Wide(grads.hy), Wide(grads.cy)}, wide);
  narrowing.Finish();
}

}  // namespace dendrite::interpreter
