// dendrite::_fused_sgd_: the kernel of aten::_fused_sgd_ on the host. PyTorch's own is right for
// float and double only: of vectors of 16-bit parameters it reads the momentum as if it were
// floats, beyond the buffer's end, and stores no parameter.
#include <ATen/ops/_fused_sgd.h>
#include <torch/library.h>

namespace dendrite::aten {
namespace {

using at::Tensor;
using at::TensorList;
using OptTensor = std::optional<Tensor>;

bool IsHalf(const Tensor& t) {
  return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
}

std::vector<Tensor> Floats(TensorList list) {
  std::vector<Tensor> floats;
  floats.reserve(list.size());
  for (const Tensor& t : list) floats.push_back(t.to(at::kFloat));
  return floats;
}

void Round(const std::vector<Tensor>& floats, TensorList list) {
  for (size_t i = 0; i < floats.size(); ++i) list[i].copy_(floats[i]);
}

template <typename Rate>
void FusedSgd(TensorList params, TensorList grads, TensorList momenta, double weight_decay,
              double momentum, Rate lr, double dampening, bool nesterov, bool maximize,
              bool is_first_step, const OptTensor& grad_scale, const OptTensor& found_inf) {
  const auto step = [&](TensorList p, TensorList g, TensorList m) {
    at::_fused_sgd_(p, g, m, weight_decay, momentum, lr, dampening, nesterov, maximize,
                    is_first_step, grad_scale, found_inf);
  };
  if (params.empty() || !IsHalf(params[0])) return step(params, grads, momenta);
  // In float, rounded once, which is also what the kernel does with what fills no vector.
  const std::vector<Tensor> p = Floats(params), g = Floats(grads), m = Floats(momenta);
  step(p, g, m);
  Round(p, params);
  Round(m, momenta);
  if (grad_scale.has_value()) Round(g, grads);
}

}  // namespace

// As PyTorch's, under another name.
#define DENDRITE_FUSED_SGD(name, rate)                                                  \
  name "(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] momentum_buffer_list, *, " \
       "float weight_decay, float momentum, " rate                                      \
       " lr, float dampening, bool nesterov, "                                          \
       "bool maximize, bool is_first_step, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"

TORCH_LIBRARY_FRAGMENT(dendrite, m) {
  m.def(DENDRITE_FUSED_SGD("_fused_sgd_", "float"));
  m.def(DENDRITE_FUSED_SGD("_fused_sgd_.tensor_lr", "Tensor"));
}

TORCH_LIBRARY_IMPL(dendrite, CPU, m) {
  m.impl("_fused_sgd_", FusedSgd<double>);
  m.impl("_fused_sgd_.tensor_lr", FusedSgd<const Tensor&>);
}

}  // namespace dendrite::aten
