// csrc/aten/stand_in.h - tensors that stand in for the device's where only metadata counts.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace dendrite::aten {

// A Meta tensor, or a CPU tensor of zeros or ones, with the device tensor's sizes, strides and
// dtype; other tensors as they are.
at::Tensor ToMeta(const at::Tensor& t);
at::Tensor ToZeros(const at::Tensor& t);
at::Tensor ToOnes(const at::Tensor& t);

// The argument with `map` applied to its tensors, and with our devices replaced by `device`.
c10::IValue MapTensors(const c10::IValue& v, c10::Device device,
                       at::Tensor (*map)(const at::Tensor&));

template <typename F>
void ForEachTensor(const c10::IValue& v, F&& f) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) f(v.toTensor());
  } else if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector()) {
      if (t.defined()) f(t);
    }
  } else if (v.isOptionalTensorList()) {
    for (const auto& t : v.toOptionalTensorVector()) {
      if (t.has_value() && t->defined()) f(*t);
    }
  }
}

}  // namespace dendrite::aten
