// aten::lstm, gru, rnn_tanh and rnn_relu. PyTorch composes these for every device out of some dozen
// operators a time step; here each layer and direction is one operator (recurrent_layer.h) with a
// gradient of its own. What does not fit, projections above all, takes PyTorch's way, which also
// finds the words for what is wrong with a call.
//
// Registered above autograd and below it: an implicit composite with a kernel on the device alone
// would lose its gradient.
#include <ATen/FuncTorchTLS.h>
#include <ATen/Functions.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

#include "csrc/aten/recurrent_layer.h"
#include "csrc/aten/recurrent_unrolled.h"
#include "csrc/device/storage.h"

namespace dendrite::aten {
namespace {

using at::Tensor;
using at::TensorList;
using lowering::RecurrentKind;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptTensor = std::optional<Tensor>;

OptTensor Optional(const Tensor& t) { return t.defined() ? OptTensor(t) : std::nullopt; }

// --- one layer, with its gradient

class LayerFunction final : public torch::autograd::Function<LayerFunction> {
 public:
  // Gradients are asked for by position, among the tensors that are there.
  enum Position : size_t { kInput, kHx, kWeightIh, kWeightHh, kFirstOptional };

  // -> output, hy, and cy of an LSTM
  static variable_list forward(AutogradContext* ctx, const Tensor& input, const Tensor& hx,
                               const Tensor& w_ih, const Tensor& w_hh, const OptTensor& cx,
                               const OptTensor& b_ih, const OptTensor& b_hh,
                               const std::string& kind, std::vector<int64_t> batch_sizes,
                               bool reverse) {
    auto [output, hy, cy, workspace] = RecurrentLayer(kind, input, hx, cx, w_ih, w_hh, b_ih, b_hh,
                                                      batch_sizes, reverse, /*keep=*/true);
    const auto plain = [](const OptTensor& t) { return t.has_value() ? *t : Tensor(); };
    ctx->save_for_backward(
        {input, hx, w_ih, w_hh, plain(cx), plain(b_ih), plain(b_hh), output, workspace});
    ctx->saved_data["kind"] = kind;
    ctx->saved_data["batch_sizes"] = std::move(batch_sizes);
    ctx->saved_data["reverse"] = reverse;
    ctx->set_materialize_grads(false);
    variable_list results{output, hy};
    if (cx.has_value()) results.push_back(cy);
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const std::string kind = ctx->saved_data["kind"].toStringRef();
    const std::vector<int64_t> batch_sizes = ctx->saved_data["batch_sizes"].toIntVector();
    const bool reverse = ctx->saved_data["reverse"].toBool();
    const Tensor &input = saved[0], &hx = saved[1], &w_ih = saved[2], &w_hh = saved[3],
                 &cx = saved[4], &b_ih = saved[5], &b_hh = saved[6];
    constexpr size_t kArguments = 10, kTensors = 7;
    variable_list results(kArguments);
    bool any = false;
    for (const Tensor& grad : grads) any |= grad.defined();
    if (!any) return results;

    if (at::GradMode::is_enabled()) {
      const UnrolledLayer layer{*lowering::RecurrentKindOf(kind),
                                input,
                                hx,
                                cx,
                                w_ih,
                                w_hh,
                                b_ih,
                                b_hh,
                                batch_sizes,
                                reverse};
      const UnrolledOutputs again = Unroll(layer);
      Differentiate({again.output, again.hy, again.cy}, grads,
                    {saved.begin(), saved.begin() + kTensors}, &results);
      return results;
    }
    const size_t first_bias = kFirstOptional + (cx.defined() ? 1 : 0);
    const bool weights = ctx->needs_input_grad(kWeightIh) || ctx->needs_input_grad(kWeightHh);
    const bool biases = b_ih.defined() && (ctx->needs_input_grad(first_bias) ||
                                           ctx->needs_input_grad(first_bias + 1));
    auto [grad_input, grad_hx, grad_cx, grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh] =
        RecurrentLayerBackward(kind, Optional(grads[0]), Optional(grads[1]),
                               grads.size() > 2 ? Optional(grads[2]) : std::nullopt, input, hx,
                               Optional(cx), w_ih, w_hh, saved[7], saved[8], batch_sizes, reverse,
                               {ctx->needs_input_grad(kInput), weights, biases});
    if (ctx->needs_input_grad(kInput)) results[kInput] = grad_input;
    results[kHx] = grad_hx;
    if (weights) results[kWeightIh] = grad_w_ih, results[kWeightHh] = grad_w_hh;
    if (cx.defined()) results[kFirstOptional] = grad_cx;
    if (biases) {
      results[kFirstOptional + 1] = grad_b_ih;
      results[kFirstOptional + 2] = grad_b_hh.numel() > 0 ? grad_b_hh : grad_b_ih;
    }
    return results;
  }

 private:
  // d outputs / d inputs, differentiable once more.
  static void Differentiate(const variable_list& outputs, const variable_list& grads,
                            const variable_list& inputs, variable_list* results) {
    variable_list outs, out_grads, wanted;
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
      outs.push_back(outputs[i]);
      out_grads.push_back(grads[i]);
    }
    std::vector<size_t> places;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined() || !inputs[i].requires_grad()) continue;
      wanted.push_back(inputs[i]);
      places.push_back(i);
    }
    if (outs.empty() || wanted.empty()) return;
    const variable_list found = torch::autograd::grad(outs, wanted, out_grads, std::nullopt,
                                                      /*create_graph=*/true, /*allow_unused=*/true);
    for (size_t i = 0; i < found.size(); ++i) (*results)[places[i]] = found[i];
  }
};

// Under a transform of torch.func, or a forward-mode derivative: neither goes through a Function in
// C++.
bool InTransform() {
  const auto& tls = at::functorch::functorchTLSAccessor();
  if (tls == nullptr) return false;
  try {
    tls->checkSupportsCppAutogradFunction();
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}
bool IsDual(const Tensor& t) { return t.defined() && t._fw_grad(/*level=*/0).defined(); }

UnrolledOutputs RunLayer(const std::string& kind, const UnrolledLayer& layer) {
  const std::array<const Tensor*, 7> arguments = {
      &layer.input, &layer.hx, &layer.cx, &layer.w_ih, &layer.w_hh, &layer.b_ih, &layer.b_hh};
  const auto any = [&](auto&& what) {
    return std::any_of(arguments.begin(), arguments.end(),
                       [&](const Tensor* t) { return what(*t); });
  };
  if (InTransform() || any(IsDual)) return Unroll(layer);
  if (at::GradMode::is_enabled() &&
      any([](const Tensor& t) { return t.defined() && t.requires_grad(); })) {
    const variable_list made = LayerFunction::apply(
        layer.input, layer.hx, layer.w_ih, layer.w_hh, Optional(layer.cx), Optional(layer.b_ih),
        Optional(layer.b_hh), kind, layer.batch_sizes, layer.reverse);
    return {made[0], made[1], made.size() > 2 ? made[2] : Tensor()};
  }
  auto [output, hy, cy, workspace] = RecurrentLayer(
      kind, layer.input, layer.hx, Optional(layer.cx), layer.w_ih, layer.w_hh, Optional(layer.b_ih),
      Optional(layer.b_hh), layer.batch_sizes, layer.reverse, /*keep=*/false);
  return {output, hy, cy};
}

// --- a stack of layers

struct Stack {
  const char* kind;
  Tensor input;   // [T,N,I], or rows if packed
  TensorList hx;  // one, or hidden and cell state: [layers * directions, N, H]
  TensorList params;
  std::vector<int64_t> batch_sizes;  // empty: not packed
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train;
  bool bidirectional;

  size_t per_layer() const { return has_biases ? 4 : 2; }
  int64_t directions() const { return bidirectional ? 2 : 1; }
};

bool Alike(const Tensor& t, const Tensor& input, at::IntArrayRef sizes) {
  return t.defined() && t.device() == input.device() && t.scalar_type() == input.scalar_type() &&
         t.layout() == at::kStrided && t.sizes() == sizes;
}

bool Symbolic(const Tensor& t) {
  return t.defined() && t.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

bool Fits(const Stack& stack) {
  const RecurrentKind kind = *lowering::RecurrentKindOf(stack.kind);
  const Tensor& input = stack.input;
  const bool packed = !stack.batch_sizes.empty();
  if (stack.hx.size() != (kind == RecurrentKind::kLstm ? 2 : 1)) return false;
  if (Symbolic(input) || std::any_of(stack.hx.begin(), stack.hx.end(), Symbolic) ||
      std::any_of(stack.params.begin(), stack.params.end(), Symbolic))
    return false;
  if (!at::isFloatingType(input.scalar_type()) || at::isFloat8Type(input.scalar_type()) ||
      input.dim() != (packed ? 2 : 3) || input.numel() == 0 || stack.hx[0].dim() != 3)
    return false;
  const int64_t all = stack.num_layers * stack.directions();
  const int64_t hidden = stack.hx[0].size(2), gates = lowering::GatesOf(kind) * hidden;
  const int64_t batch = packed ? stack.batch_sizes[0] : input.size(1);
  if (hidden == 0 || all < 1 || stack.params.size() != static_cast<size_t>(all) * stack.per_layer())
    return false;
  for (const Tensor& state : stack.hx) {
    if (!Alike(state, input, {all, batch, hidden})) return false;
  }
  for (int64_t i = 0; i < all; ++i) {
    const Tensor* params = stack.params.data() + static_cast<size_t>(i) * stack.per_layer();
    const int64_t width = i < stack.directions() ? input.size(-1) : hidden * stack.directions();
    if (!Alike(params[0], input, {gates, width}) || !Alike(params[1], input, {gates, hidden}))
      return false;
    if (stack.has_biases &&
        (!Alike(params[2], input, {gates}) || !Alike(params[3], input, {gates})))
      return false;
  }
  return true;
}

UnrolledOutputs RunStack(const Stack& stack) {
  const auto all_hx = stack.hx[0].unbind(0);
  const auto all_cx = stack.hx.size() > 1 ? stack.hx[1].unbind(0) : std::vector<Tensor>();
  std::vector<Tensor> hy, cy;
  Tensor input = stack.input;
  for (int64_t layer = 0; layer < stack.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < stack.directions(); ++direction) {
      const auto i = static_cast<size_t>(layer * stack.directions() + direction);
      const Tensor* params = stack.params.data() + i * stack.per_layer();
      UnrolledLayer one{*lowering::RecurrentKindOf(stack.kind),
                        input,
                        all_hx[i],
                        {},
                        params[0],
                        params[1],
                        {},
                        {},
                        stack.batch_sizes,
                        direction > 0};
      if (!all_cx.empty()) one.cx = all_cx[i];
      if (stack.has_biases) one.b_ih = params[2], one.b_hh = params[3];
      const UnrolledOutputs made = RunLayer(stack.kind, one);
      outputs.push_back(made.output);
      hy.push_back(made.hy);
      cy.push_back(made.cy);
    }
    input = outputs.size() == 1 ? outputs[0] : at::cat(outputs, -1);
    if (stack.dropout != 0 && stack.train && layer + 1 < stack.num_layers) {
      input = at::dropout(input, stack.dropout, true);
    }
  }
  return {input, at::stack(hy), all_cx.empty() ? Tensor() : at::stack(cy)};
}

// PyTorch leaves this to the first product, which not every device refuses.
void CheckDtypes(const Tensor& input, TensorList hx, TensorList params) {
  const auto check = [&](const Tensor& t, const char* what) {
    TORCH_CHECK(!t.defined() || t.scalar_type() == input.scalar_type(), "Input and ", what,
                " tensors are not the same dtype, found input tensor with ", input.scalar_type(),
                " and ", what, " tensor with ", t.scalar_type());
  };
  for (const Tensor& t : hx) check(t, "hidden");
  for (const Tensor& t : params) check(t, "parameter");
}

// --- PyTorch's operators

std::tuple<Tensor, Tensor, Tensor> Lstm(const Tensor& input, TensorList hx, TensorList params,
                                        bool has_biases, int64_t num_layers, double dropout,
                                        bool train, bool bidirectional, bool batch_first) {
  CheckDtypes(input, hx, params);
  if (input.dim() == 3) {
    const Stack stack{"lstm",     batch_first ? input.transpose(0, 1) : input,
                      hx,         params,
                      {},         has_biases,
                      num_layers, dropout,
                      train,      bidirectional};
    if (Fits(stack)) {
      const auto [output, hy, cy] = RunStack(stack);
      return {batch_first ? output.transpose(0, 1) : output, hy, cy};
    }
  }
  return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                          batch_first);
}

using OneStateNative = std::tuple<Tensor, Tensor> (*)(const Tensor&, const Tensor&, TensorList,
                                                      bool, int64_t, double, bool, bool, bool);

constexpr char kGruName[] = "gru", kTanhName[] = "rnn_tanh", kReluName[] = "rnn_relu";

template <const char* kKind, OneStateNative kNative>
std::tuple<Tensor, Tensor> OneState(const Tensor& input, const Tensor& hx, TensorList params,
                                    bool has_biases, int64_t num_layers, double dropout, bool train,
                                    bool bidirectional, bool batch_first) {
  CheckDtypes(input, hx, params);
  if (input.dim() == 3) {
    const Stack stack{kKind,      batch_first ? input.transpose(0, 1) : input,
                      hx,         params,
                      {},         has_biases,
                      num_layers, dropout,
                      train,      bidirectional};
    if (Fits(stack)) {
      const auto [output, hy, cy] = RunStack(stack);
      return {batch_first ? output.transpose(0, 1) : output, hy};
    }
  }
  return kNative(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                 batch_first);
}

// --- the same, packed

// The rows of each step, or nothing if the values are not to be seen (while tracing) or not right.
std::vector<int64_t> BatchSizes(const Tensor& sizes, int64_t rows) {
  constexpr c10::DispatchKeySet kWrapped(
      {c10::DispatchKey::Python, c10::DispatchKey::Functionalize});
  if (!sizes.device().is_cpu() || sizes.scalar_type() != at::kLong || sizes.dim() != 1 ||
      sizes.numel() == 0 || sizes.key_set().has_any(kWrapped))
    return {};
  const Tensor dense = sizes.contiguous();
  const auto* data = dense.const_data_ptr<int64_t>();
  std::vector<int64_t> result(data, data + dense.numel());
  int64_t sum = 0;
  for (size_t t = 0; t < result.size(); ++t) {
    if (result[t] < 1 || (t > 0 && result[t] > result[t - 1])) return {};
    sum += result[t];
  }
  return sum == rows ? result : std::vector<int64_t>();
}

std::tuple<Tensor, Tensor, Tensor> PackedLstm(const Tensor& data, const Tensor& batch_sizes,
                                              TensorList hx, TensorList params, bool has_biases,
                                              int64_t num_layers, double dropout, bool train,
                                              bool bidirectional) {
  CheckDtypes(data, hx, params);
  if (data.dim() == 2 && !Symbolic(data)) {
    const Stack stack{
        "lstm",     data,       hx,      params, BatchSizes(batch_sizes, data.size(0)),
        has_biases, num_layers, dropout, train,  bidirectional};
    if (!stack.batch_sizes.empty() && Fits(stack)) {
      const auto [output, hy, cy] = RunStack(stack);
      return {output, hy, cy};
    }
  }
  return at::native::lstm(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
                          bidirectional);
}

using PackedNative = std::tuple<Tensor, Tensor> (*)(const Tensor&, const Tensor&, const Tensor&,
                                                    TensorList, bool, int64_t, double, bool, bool);

template <const char* kKind, PackedNative kNative>
std::tuple<Tensor, Tensor> PackedOneState(const Tensor& data, const Tensor& batch_sizes,
                                          const Tensor& hx, TensorList params, bool has_biases,
                                          int64_t num_layers, double dropout, bool train,
                                          bool bidirectional) {
  CheckDtypes(data, hx, params);
  if (data.dim() == 2 && !Symbolic(data)) {
    const Stack stack{
        kKind,      data,       hx,      params, BatchSizes(batch_sizes, data.size(0)),
        has_biases, num_layers, dropout, train,  bidirectional};
    if (!stack.batch_sizes.empty() && Fits(stack)) {
      const auto [output, hy, cy] = RunStack(stack);
      return {output, hy};
    }
  }
  return kNative(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
                 bidirectional);
}

void Register(torch::Library& m) {
  m.impl("lstm.input", Lstm);
  m.impl("gru.input", OneState<kGruName, &at::native::gru>);
  m.impl("rnn_tanh.input", OneState<kTanhName, &at::native::rnn_tanh>);
  m.impl("rnn_relu.input", OneState<kReluName, &at::native::rnn_relu>);
  m.impl("lstm.data", PackedLstm);
  m.impl("gru.data", PackedOneState<kGruName, &at::native::gru>);
  m.impl("rnn_tanh.data", PackedOneState<kTanhName, &at::native::rnn_tanh>);
  m.impl("rnn_relu.data", PackedOneState<kReluName, &at::native::rnn_relu>);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { Register(m); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { Register(m); }

}  // namespace dendrite::aten
