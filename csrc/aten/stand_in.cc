#include "csrc/aten/stand_in.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>

#include "csrc/device/storage.h"

namespace dendrite::aten {

using c10::IValue;

at::Tensor ToMeta(const at::Tensor& t) {
  if (!device::IsOurs(t)) return t;
  at::Tensor meta =
      at::Tensor(at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type()));
  if (t.is_conj()) meta._set_conj(true);
  if (t.is_neg()) meta._set_neg(true);
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

namespace {

// A host tensor that stands in for `t`; views may overlap themselves.
at::Tensor Filled(const at::Tensor& t, int value) {
  if (!device::IsOurs(t)) return t;
  const auto bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.dtype().itemsize());
  at::Tensor host = at::full({static_cast<int64_t>(bytes / t.dtype().itemsize())}, value,
                             t.options().device(c10::kCPU));
  host.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides());
  if (t.is_conj()) host._set_conj(true);
  if (t.is_neg()) host._set_neg(true);
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    host.unsafeGetTensorImpl()->set_wrapped_number(true);
  return host;
}

}  // namespace

at::Tensor ToZeros(const at::Tensor& t) { return Filled(t, 0); }
at::Tensor ToOnes(const at::Tensor& t) { return Filled(t, 1); }

IValue MapTensors(const IValue& v, c10::Device device, at::Tensor (*map)(const at::Tensor&)) {
  if (v.isTensor()) return map(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(map(t));
    return list;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& t : v.toOptionalTensorVector()) {
      list.push_back(t.has_value() ? std::optional<at::Tensor>(map(*t)) : std::nullopt);
    }
    return list;
  }
  if (v.isDevice() && v.toDevice().type() == device::kDeviceType) return device;
  return v;
}

}  // namespace dendrite::aten
