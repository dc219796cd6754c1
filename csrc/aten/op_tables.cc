#include "csrc/aten/op_tables.h"

#include <unordered_map>
#include <unordered_set>

namespace dendrite::aten {
namespace {

using Set = std::unordered_set<std::string_view>;

const std::unordered_map<std::string_view, Set>& LiftedTable() {
  static const std::unordered_map<std::string_view, Set> table = {
      {"add", {"alpha", "other"}},
      {"sub", {"alpha", "other"}},
      {"rsub", {"alpha", "other"}},
      {"mul", {"other"}},
      {"div", {"other"}},
      {"addcmul", {"value"}},
      {"addcdiv", {"value"}},
      {"lerp", {"weight"}},
      {"fill", {"value"}},
      {"masked_fill", {"value"}},
      {"_foreach_add", {"scalar", "alpha", "scalars"}},
      {"_foreach_sub", {"scalar", "alpha", "scalars"}},
      {"_foreach_mul", {"scalar", "scalars"}},
      {"_foreach_div", {"scalar", "scalars"}},
      {"_foreach_addcmul", {"value", "scalars"}},
      {"_foreach_addcdiv", {"value", "scalars"}},
      {"_foreach_lerp", {"weight"}},
      {"_fused_adam", {"lr"}},
      {"_fused_adamw", {"lr"}},
      {"_fused_sgd", {"lr"}},
      {"_fused_adagrad", {"lr"}},
      {"uniform", {"seed", "offset"}},
      {"normal", {"seed", "offset"}},
      {"bernoulli", {"seed", "offset"}},
      {"exponential", {"seed", "offset"}},
      {"random", {"seed", "offset"}},
      {"log_normal", {"seed", "offset"}},
      {"cauchy", {"seed", "offset"}},
      {"geometric", {"seed", "offset"}},
      {"native_dropout", {"seed", "offset"}},
  };
  return table;
}

}  // namespace

bool IsLifted(std::string_view base, std::string_view argument) {
  const auto it = LiftedTable().find(base);
  return it != LiftedTable().end() && it->second.contains(argument);
}

bool IsWriteOnly(std::string_view name) {
  static const Set names = {"aten::copy_",
                            "aten::fill_",
                            "aten::zero_",
                            "dendrite::uniform_",
                            "dendrite::normal_",
                            "dendrite::bernoulli_",
                            "dendrite::exponential_",
                            "dendrite::random_",
                            "dendrite::log_normal_",
                            "dendrite::cauchy_",
                            "dendrite::geometric_"};
  return names.contains(name);
}

bool IsWantedWhole(std::string_view base) {
  if (base.starts_with("_foreach_")) return true;
  static const Set names = {"convolution",
                            "convolution_backward",
                            "embedding",
                            "embedding_dense_backward",
                            "rsub",
                            "mul",
                            "div",
                            "mode",
                            "masked_fill",
                            "stack",
                            "repeat",
                            "roll",
                            "constant_pad_nd",
                            "slice_backward",
                            "select_backward",
                            "index_put",
                            "native_group_norm",
                            "native_group_norm_backward",
                            "binary_cross_entropy_with_logits",
                            "linalg_vector_norm",
                            "_softmax_backward_data",
                            "_log_softmax_backward_data",
                            "logsumexp",
                            "masked_fill_",
                            "eq",
                            "ne",
                            "lt",
                            "le",
                            "gt",
                            "ge",
                            "bitwise_and",
                            "bitwise_or",
                            "bitwise_xor",
                            "add",
                            "sub",
                            "clamp",
                            "std",
                            "var",
                            "var_mean",
                            "std_mean",
                            "index_add",
                            "scatter_add",
                            "pow",
                            "nan_to_num",
                            "softplus_backward",
                            "mse_loss_backward",
                            "isinf",
                            "isnan",
                            "sum",
                            "celu",
                            "cumsum_backward",
                            "diagonal_backward",
                            "unfold_backward",
                            "slice_scatter",
                            "select_scatter",
                            "diagonal_scatter",
                            "logcumsumexp",
                            "cummax",
                            "cummin",
                            "kl_div",
                            "selu",
                            "relu6",
                            "mish",
                            "smooth_l1_loss",
                            "_amp_foreach_non_finite_check_and_unscale",
                            "_amp_update_scale"};
  return names.contains(base);
}

bool IsMetaRight(std::string_view base) {
  static const Set names = {"mm", "bmm", "addmm", "baddbmm", "copy", "fill", "zero",
                            // No stand-in for lengths adds up to the size of the data.
                            "segment_reduce", "_segment_reduce_backward"};
  return names.contains(base);
}

bool WantsOneDtype(std::string_view base) {
  return base == "mm" || base == "bmm" || base == "addmm" || base == "baddbmm";
}

bool IsOutWrong(std::string_view base) {
  // Of a strided input they take the storage's order for the tensor's, or save nothing.
  return base == "native_batch_norm" || base == "_native_batch_norm_legit" ||
         base == "_batch_norm_with_update";
}

bool IsKernelWrong(std::string_view name) { return name == "aten::_fused_sgd_"; }

bool IsMetaMissing(std::string_view base) {
  static const Set names = {"histogram",
                            "_histogramdd_from_bin_tensors",
                            "geqrf",
                            "embedding_renorm",
                            "multi_margin_loss_backward",
                            "multilabel_margin_loss_backward",
                            "fractional_max_pool3d_backward",
                            "linalg_pinv"};
  return names.contains(base);
}

bool IsMetaWrong(std::string_view base) {
  static const Set names = {
      // Strides follow from how the CPU's libraries work.
      "_fft_c2c",
      "_fft_r2c",
      "_fft_c2r",
      "linalg_eig",
      "linalg_lstsq",
      // What is saved for the gradient is empty when evaluating.
      "native_batch_norm",
      "_native_batch_norm_legit",
      "_native_batch_norm_legit_no_training",
      "_batch_norm_no_update",
      // Which of the auxiliary results are empty depends on the kernel that was chosen.
      "_embedding_bag",
      "_embedding_bag_forward_only",
  };
  return names.contains(base);
}

bool IsNative(const std::string& name) {
  static const Set names = {"aten::empty",
                            "aten::empty_strided",
                            "aten::new_empty_strided",
                            "aten::as_strided",
                            "aten::view",
                            "aten::_reshape_alias",
                            "aten::_unsafe_view",
                            "aten::unfold",
                            "aten::addbmm_",
                            "aten::max_pool1d",
                            "aten::copy_",
                            "aten::copy",
                            "aten::_copy_from",
                            "aten::_copy_from_and_resize",
                            "aten::_local_scalar_dense",
                            "aten::resize_",
                            "aten::set_",
                            "aten::_to_copy",
                            "aten::uniform_",
                            "aten::normal_",
                            "aten::bernoulli_",
                            "aten::random_",
                            "aten::exponential_",
                            "aten::log_normal_",
                            "aten::cauchy_",
                            "aten::geometric_",
                            "aten::bernoulli",
                            "aten::native_dropout",
                            "aten::normal",
                            "aten::randperm",
                            "aten::_fused_sdp_choice",
                            "aten::_scaled_dot_product_fused_attention_overrideable",
                            "aten::_scaled_dot_product_fused_attention_overrideable_backward",
                            "aten::_thnn_fused_lstm_cell",
                            "aten::_thnn_fused_lstm_cell_backward_impl",
                            "aten::_thnn_fused_gru_cell",
                            "aten::_thnn_fused_gru_cell_backward",
                            "aten::lstm",
                            "aten::gru",
                            "aten::rnn_tanh",
                            "aten::rnn_relu",
                            "aten::record_stream",
                            "aten::is_set_to",
                            "aten::view_as_real",
                            "aten::view_as_complex",
                            "aten::_has_compatible_shallow_copy_type",
                            "aten::set_data",
                            "aten::data",

                            "aten::_nested_tensor_size",
                            "aten::eye",
                            "aten::arange",
                            "aten::linspace",
                            "aten::logspace",
                            "aten::range",
                            "aten::set",
                            "aten::resize",
                            "aten::empty_quantized",
                            "aten::as_strided_copy",
                            "aten::as_strided_scatter",
                            "aten::_trilinear",
                            "aten::cholesky",
                            "aten::tril_indices",
                            "aten::triu_indices",
                            "aten::_efficientzerotensor",
                            "aten::equal"};
  return names.contains(name);
}

}  // namespace dendrite::aten
