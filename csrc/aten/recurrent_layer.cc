#include "csrc/aten/recurrent_layer.h"

#include <ATen/Functions.h>
#include <torch/library.h>

#include "csrc/interpreter/recurrent_layer.h"

namespace dendrite::aten {
namespace {

using at::IntArrayRef;
using at::Tensor;
using lowering::RecurrentKind;
using OptTensor = std::optional<Tensor>;
using Outputs = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using OutputRefs = std::tuple<Tensor&, Tensor&, Tensor&, Tensor&>;
using Grads = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;
using GradRefs = std::tuple<Tensor&, Tensor&, Tensor&, Tensor&, Tensor&, Tensor&, Tensor&>;

RecurrentKind KindOf(c10::string_view name) {
  const auto kind = lowering::RecurrentKindOf({name.data(), name.size()});
  TORCH_CHECK(kind.has_value(), "recurrent_layer: no kind ", name);
  return *kind;
}

// --- the results, empty

Tensor Make(const Tensor& like, IntArrayRef sizes) { return at::empty(sizes, like.options()); }
Tensor MakeIf(bool wanted, const Tensor& like) {
  return Make(like, wanted ? like.sizes() : IntArrayRef{0});
}

Outputs MetaLayer(c10::string_view kind_name, const Tensor& input, const Tensor& hx,
                  const OptTensor&, const Tensor&, const Tensor&, const OptTensor&,
                  const OptTensor&, IntArrayRef, bool, bool keep) {
  const RecurrentKind kind = KindOf(kind_name);
  auto sizes = input.sizes().vec();
  sizes.back() = hx.size(1);
  const Tensor output = Make(input, sizes);
  sizes.back() *= lowering::WorkspaceOf(kind);
  const bool kept = keep && sizes.back() > 0;
  return {output, Make(hx, hx.sizes()), MakeIf(kind == RecurrentKind::kLstm, hx),
          Make(input, kept ? IntArrayRef(sizes) : IntArrayRef{0})};
}

Grads MetaLayerBackward(c10::string_view kind_name, const OptTensor&, const OptTensor&,
                        const OptTensor&, const Tensor& input, const Tensor& hx, const OptTensor&,
                        const Tensor& w_ih, const Tensor& w_hh, const Tensor&, const Tensor&,
                        IntArrayRef, bool, std::array<bool, 3> wanted) {
  const RecurrentKind kind = KindOf(kind_name);
  const int64_t gates = w_ih.size(0);
  const bool lstm = kind == RecurrentKind::kLstm, gru = kind == RecurrentKind::kGru;
  return {MakeIf(wanted[0], input),
          Make(hx, hx.sizes()),
          MakeIf(lstm, hx),
          MakeIf(wanted[1], w_ih),
          MakeIf(wanted[1], w_hh),
          Make(w_ih, {wanted[2] ? gates : 0}),
          Make(w_ih, {wanted[2] && gru ? gates : 0})};
}

// --- CPU kernels

// What is absent is empty, and nothing that is there ever is.
Tensor Given(const Tensor& t) { return t.numel() > 0 ? t : Tensor(); }
Tensor Given(const OptTensor& t) { return t.has_value() ? *t : Tensor(); }

OutputRefs CpuLayerOut(c10::string_view kind, const Tensor& input, const Tensor& hx,
                       const OptTensor& cx, const Tensor& w_ih, const Tensor& w_hh,
                       const OptTensor& b_ih, const OptTensor& b_hh, IntArrayRef batch_sizes,
                       bool reverse, bool, Tensor& output, Tensor& hy, Tensor& cy,
                       Tensor& workspace) {
  interpreter::RunRecurrentLayer({KindOf(kind), input, hx, Given(cx), w_ih, w_hh, Given(b_ih),
                                  Given(b_hh), batch_sizes, reverse},
                                 {output, hy, Given(cy), Given(workspace)});
  return {output, hy, cy, workspace};
}

Outputs CpuLayer(c10::string_view kind, const Tensor& input, const Tensor& hx, const OptTensor& cx,
                 const Tensor& w_ih, const Tensor& w_hh, const OptTensor& b_ih,
                 const OptTensor& b_hh, IntArrayRef batch_sizes, bool reverse, bool keep) {
  Outputs made = MetaLayer(kind, input, hx, cx, w_ih, w_hh, b_ih, b_hh, batch_sizes, reverse, keep);
  auto& [output, hy, cy, workspace] = made;
  CpuLayerOut(kind, input, hx, cx, w_ih, w_hh, b_ih, b_hh, batch_sizes, reverse, keep, output, hy,
              cy, workspace);
  return made;
}

GradRefs CpuLayerBackwardOut(c10::string_view kind, const OptTensor& grad_output,
                             const OptTensor& grad_hy, const OptTensor& grad_cy,
                             const Tensor& input, const Tensor& hx, const OptTensor& cx,
                             const Tensor& w_ih, const Tensor& w_hh, const Tensor& output,
                             const Tensor& workspace, IntArrayRef batch_sizes, bool reverse,
                             std::array<bool, 3>, Tensor& grad_input, Tensor& grad_hx,
                             Tensor& grad_cx, Tensor& grad_w_ih, Tensor& grad_w_hh,
                             Tensor& grad_b_ih, Tensor& grad_b_hh) {
  interpreter::RunRecurrentLayerBackward(
      {KindOf(kind), input, hx, Given(cx), w_ih, w_hh, {}, {}, batch_sizes, reverse},
      {output, {}, {}, Given(workspace)}, {Given(grad_output), Given(grad_hy), Given(grad_cy)},
      {Given(grad_input), grad_hx, Given(grad_cx), Given(grad_w_ih), Given(grad_w_hh),
       Given(grad_b_ih), Given(grad_b_hh)});
  return {grad_input, grad_hx, grad_cx, grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh};
}

Grads CpuLayerBackward(c10::string_view kind, const OptTensor& grad_output,
                       const OptTensor& grad_hy, const OptTensor& grad_cy, const Tensor& input,
                       const Tensor& hx, const OptTensor& cx, const Tensor& w_ih,
                       const Tensor& w_hh, const Tensor& output, const Tensor& workspace,
                       IntArrayRef batch_sizes, bool reverse, std::array<bool, 3> wanted) {
  Grads made = MetaLayerBackward(kind, grad_output, grad_hy, grad_cy, input, hx, cx, w_ih, w_hh,
                                 output, workspace, batch_sizes, reverse, wanted);
  auto& [grad_input, grad_hx, grad_cx, grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh] = made;
  CpuLayerBackwardOut(kind, grad_output, grad_hy, grad_cy, input, hx, cx, w_ih, w_hh, output,
                      workspace, batch_sizes, reverse, wanted, grad_input, grad_hx, grad_cx,
                      grad_w_ih, grad_w_hh, grad_b_ih, grad_b_hh);
  return made;
}

}  // namespace

Outputs RecurrentLayer(const std::string& kind, const Tensor& input, const Tensor& hx,
                       const OptTensor& cx, const Tensor& w_ih, const Tensor& w_hh,
                       const OptTensor& b_ih, const OptTensor& b_hh, IntArrayRef batch_sizes,
                       bool reverse, bool keep) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("dendrite::recurrent_layer", "")
                             .typed<decltype(MetaLayer)>();
  at::AutoDispatchBelowADInplaceOrView below;
  return op.call(kind, input, hx, cx, w_ih, w_hh, b_ih, b_hh, batch_sizes, reverse, keep);
}

Grads RecurrentLayerBackward(const std::string& kind, const OptTensor& grad_output,
                             const OptTensor& grad_hy, const OptTensor& grad_cy,
                             const Tensor& input, const Tensor& hx, const OptTensor& cx,
                             const Tensor& w_ih, const Tensor& w_hh, const Tensor& output,
                             const Tensor& workspace, IntArrayRef batch_sizes, bool reverse,
                             std::array<bool, 3> wanted) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("dendrite::recurrent_layer_backward", "")
                             .typed<decltype(MetaLayerBackward)>();
  at::AutoDispatchBelowADInplaceOrView below;
  return op.call(kind, grad_output, grad_hy, grad_cy, input, hx, cx, w_ih, w_hh, output, workspace,
                 batch_sizes, reverse, wanted);
}

}  // namespace dendrite::aten

#define DENDRITE_LAYER_ARGUMENTS                                                             \
  "(str kind, Tensor input, Tensor hx, Tensor? cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, " \
  "Tensor? b_hh, int[] batch_sizes, bool reverse, bool keep"
#define DENDRITE_LAYER_GRAD_ARGUMENTS                                                           \
  "(str kind, Tensor? grad_output, Tensor? grad_hy, Tensor? grad_cy, Tensor input, Tensor hx, " \
  "Tensor? cx, Tensor w_ih, Tensor w_hh, Tensor output, Tensor workspace, int[] batch_sizes, "  \
  "bool reverse, bool[3] wanted"

TORCH_LIBRARY_FRAGMENT(dendrite, m) {
  m.def("recurrent_layer" DENDRITE_LAYER_ARGUMENTS ") -> (Tensor, Tensor, Tensor, Tensor)");
  m.def("recurrent_layer.out" DENDRITE_LAYER_ARGUMENTS
        ", *, Tensor(a!) output, Tensor(b!) hy, Tensor(c!) cy, Tensor(d!) workspace) -> "
        "(Tensor(a!), Tensor(b!), Tensor(c!), Tensor(d!))");
  m.def("recurrent_layer_backward" DENDRITE_LAYER_GRAD_ARGUMENTS
        ") -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def("recurrent_layer_backward.out" DENDRITE_LAYER_GRAD_ARGUMENTS
        ", *, Tensor(a!) grad_input, Tensor(b!) grad_hx, Tensor(c!) grad_cx, Tensor(d!) grad_w_ih, "
        "Tensor(e!) grad_w_hh, Tensor(f!) grad_b_ih, Tensor(g!) grad_b_hh) -> (Tensor(a!), "
        "Tensor(b!), Tensor(c!), Tensor(d!), Tensor(e!), Tensor(f!), Tensor(g!))");
}

TORCH_LIBRARY_IMPL(dendrite, CPU, m) {
  using namespace dendrite::aten;
  m.impl("recurrent_layer", CpuLayer);
  m.impl("recurrent_layer.out", CpuLayerOut);
  m.impl("recurrent_layer_backward", CpuLayerBackward);
  m.impl("recurrent_layer_backward.out", CpuLayerBackwardOut);
}

TORCH_LIBRARY_IMPL(dendrite, Meta, m) {
  using namespace dendrite::aten;
  m.impl("recurrent_layer", MetaLayer);
  m.impl("recurrent_layer_backward", MetaLayerBackward);
}
