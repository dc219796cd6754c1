#include "csrc/aten/recurrent_unrolled.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace dendrite::aten {
namespace {

using at::Tensor;
using lowering::RecurrentKind;

struct State {
  Tensor h, c;
};

State Next(RecurrentKind kind, const Tensor& input_gates, const Tensor& hidden_gates,
           const State& old) {
  if (kind == RecurrentKind::kTanh) return {(input_gates + hidden_gates).tanh(), {}};
  if (kind == RecurrentKind::kRelu) return {(input_gates + hidden_gates).relu(), {}};
  if (kind == RecurrentKind::kGru) {
    const auto in = input_gates.chunk(3, 1), hidden = hidden_gates.chunk(3, 1);
    const Tensor r = (in[0] + hidden[0]).sigmoid(), z = (in[1] + hidden[1]).sigmoid();
    const Tensor n = (in[2] + r * hidden[2]).tanh();
    return {n + z * (old.h - n), {}};
  }
  const auto gates = (input_gates + hidden_gates).chunk(4, 1);
  const Tensor c = gates[1].sigmoid() * old.c + gates[0].sigmoid() * gates[2].tanh();
  return {gates[3].sigmoid() * c.tanh(), c};
}

// `state` with its first rows replaced.
Tensor Advance(const Tensor& state, const Tensor& first) {
  const int64_t n = first.size(0);
  if (n == state.size(0)) return first;
  return at::cat({first, state.narrow(0, n, state.size(0) - n)});
}

}  // namespace

UnrolledOutputs Unroll(const UnrolledLayer& layer) {
  const bool lstm = layer.kind == RecurrentKind::kLstm;
  const int64_t batch = layer.hx.size(0), hidden = layer.hx.size(1);
  std::vector<int64_t> sizes = layer.batch_sizes;
  if (sizes.empty()) sizes.assign(static_cast<size_t>(layer.input.size(0)), batch);
  const auto gates = at::linear(layer.input, layer.w_ih, layer.b_ih)
                         .reshape({-1, layer.w_ih.size(0)})
                         .split_with_sizes(sizes);
  std::vector<Tensor> out(sizes.size());
  State state{layer.hx, layer.cx};
  for (size_t k = 0; k < sizes.size(); ++k) {
    const size_t t = layer.reverse ? sizes.size() - 1 - k : k;
    const State old{state.h.narrow(0, 0, sizes[t]),
                    lstm ? state.c.narrow(0, 0, sizes[t]) : Tensor()};
    const State next = Next(layer.kind, gates[t], at::linear(old.h, layer.w_hh, layer.b_hh), old);
    out[t] = next.h;
    state.h = Advance(state.h, next.h);
    if (lstm) state.c = Advance(state.c, next.c);
  }
  auto dims = layer.input.sizes().vec();
  dims.back() = hidden;
  return {at::cat(out).reshape(dims), state.h, state.c};
}

}  // namespace dendrite::aten
