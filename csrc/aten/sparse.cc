#include "csrc/aten/sparse.h"

#include <ATen/Functions.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/SparseTensorUtils.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "csrc/aten/capture.h"
#include "csrc/aten/host.h"
#include "csrc/aten/registration.h"

namespace dendrite::aten {
namespace {

using c10::DispatchKey;
using c10::OperatorHandle;

// Operators of the sparse layouts whose CPU kernels move indices and values as they are, by
// operators on these. Views are found by their schemas.
constexpr std::string_view kArranging[] = {"_coalesced_",
                                           "_dimI",
                                           "_dimV",
                                           "_indices",
                                           "_nnz",
                                           "_sparse_coo_tensor_with_dims",
                                           "_sparse_coo_tensor_with_dims_and_tensors",
                                           "_values",
                                           "clone",
                                           "copy_",
                                           "copy_sparse_to_sparse_",
                                           "dense_dim",
                                           "empty",
                                           "empty_like",
                                           "fill_",
                                           "is_coalesced",
                                           "is_pinned",
                                           "resize_",
                                           "resize_as_sparse_",
                                           "sparse_dim",
                                           "sparse_resize_",
                                           "sparse_resize_and_clear_",
                                           "zero_"};

bool OnlyArranges(const OperatorHandle& op) {
  const std::string_view name = std::string_view(op.operator_name().name).substr(6);
  if (std::ranges::find(kArranging, name) != std::end(kArranging)) return true;
  for (const auto& result : op.schema().returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

template <DispatchKey kKey>
void AsOnCpu(const OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(kKey), stack);
}

void OnHost(const OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& name = op.operator_name();
  RunSynchronously(InfoOf(name.name.c_str(), name.overload_name.c_str()), stack);
}

template <DispatchKey kCpu>
void Register(DispatchKey ours) {
  auto* library = new torch::Library(torch::Library::IMPL, "aten", ours, __FILE__, __LINE__);
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::") || name.name == "aten::_pin_memory") continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(kCpu)) continue;
    const std::string dot = name.overload_name.empty() ? "" : ".";
    library->impl((name.name.substr(6) + dot + name.overload_name).c_str(),
                  OnlyArranges(*op) ? torch::CppFunction::makeFromBoxedFunction<&AsOnCpu<kCpu>>()
                                    : torch::CppFunction::makeFromBoxedFunction<&OnHost>());
  }
}

at::Tensor Compressed(const at::Tensor& like, const at::Tensor& compressed, const at::Tensor& plain,
                      const at::Tensor& values) {
  return at::_sparse_compressed_tensor_unsafe(
      compressed, plain, values, like.sizes(),
      values.options().layout(like.layout()).device(values.device()));
}

at::Tensor Coordinates(const at::Tensor& like, const at::Tensor& indices,
                       const at::Tensor& values) {
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      like.sparse_dim(), like.dense_dim(), like.sizes(), indices, values,
      values.options().layout(c10::kSparse), like.is_coalesced());
}

// The same tensor with its parts elsewhere.
template <typename F>
at::Tensor WithParts(const at::Tensor& t, F&& move) {
  if (t.layout() == c10::kSparse) return Coordinates(t, move(t._indices()), move(t._values()));
  auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(t);
  return Compressed(t, move(compressed), move(plain), move(t.values()));
}

}  // namespace

at::Tensor SparseOnHost(const at::Tensor& t) {
  // Copies: what is written there comes back by AssignSparse.
  return WithParts(t, [](const at::Tensor& part) { return HostView(part).clone(); });
}

at::Tensor SparseToDevice(const at::Tensor& host, int device) {
  return WithParts(host, [device](const at::Tensor& part) { return ToDevice(part, device); });
}

void AssignSparse(const at::Tensor& t, const at::Tensor& host) {
  TORCH_CHECK(t.layout() == host.layout(), "a sparse tensor of layout ", t.layout(),
              " cannot take the values of one of layout ", host.layout());
  const at::Tensor moved = SparseToDevice(host, t.device().index());
  if (t.layout() == c10::kSparse) {
    auto* impl = at::sparse::get_sparse_impl(t);
    impl->raw_resize_(moved.sparse_dim(), moved.dense_dim(), moved.sizes());
    impl->set_indices_and_values_unsafe(moved._indices(), moved._values());
    impl->set_coalesced(moved.is_coalesced());
    return;
  }
  auto [compressed, plain] = at::sparse_csr::getCompressedPlainIndices(moved);
  at::sparse_csr::get_sparse_csr_impl(t)->set_member_tensors(compressed, plain, moved.values(),
                                                             moved.sizes());
}

void RegisterSparseOperators() {
  Register<DispatchKey::SparseCPU>(DispatchKey::SparsePrivateUse1);
  Register<DispatchKey::SparseCsrCPU>(DispatchKey::SparseCsrPrivateUse1);
}

}  // namespace dendrite::aten
