// Autocast: the operator lists that PyTorch keeps for all backends, with CUDA's policies.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace {

// The macros of that header name these unqualified.
using namespace at;            // NOLINT
using namespace at::autocast;  // NOLINT

at::Tensor BinaryCrossEntropyBanned(const at::Tensor&, const at::Tensor&,
                                    const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
      "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
      "In this case, combine the two layers using "
      "torch.nn.functional.binary_cross_entropy_with_logits\n"
      "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
      "safe to autocast.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define DENDRITE_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(DENDRITE_LOWER)
  // Whole layers, which autocast's own list knows only by the names of CUDA's kernels.
  DENDRITE_LOWER(lstm, input)
  DENDRITE_LOWER(lstm, data)
  DENDRITE_LOWER(gru, input)
  DENDRITE_LOWER(gru, data)
  DENDRITE_LOWER(rnn_tanh, input)
  DENDRITE_LOWER(rnn_tanh, data)
  DENDRITE_LOWER(rnn_relu, input)
  DENDRITE_LOWER(rnn_relu, data)
#undef DENDRITE_LOWER
#define DENDRITE_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(DENDRITE_FP32)
#undef DENDRITE_FP32
#define DENDRITE_FP32_SET(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(DENDRITE_FP32_SET)
#undef DENDRITE_FP32_SET
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define DENDRITE_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(DENDRITE_PROMOTE)
#undef DENDRITE_PROMOTE
  m.impl("binary_cross_entropy", BinaryCrossEntropyBanned);
}

}  // namespace
