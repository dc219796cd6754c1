// csrc/aten/registration.h - which kernels the device registers with PyTorch's dispatcher.
#pragma once

#include <string>
#include <vector>

#include "csrc/aten/op_info.h"

namespace dendrite::aten {

// Registers capture for every operator that the device takes whole, from the dispatcher's own list.
// Once, at import, before the first tensor.
void RegisterCapturedOperators();

enum class Owner : uint8_t { kCaptured, kNative, kComposite, kFallback };
struct OwnedOp {
  std::string name;  // "aten::add.Tensor"
  Owner owner;
};
// Every aten operator and who runs it on this device, sorted by name.
std::vector<OwnedOp> OperatorOwners();

// The OpInfo of an operator by name ("aten::copy_", ""), for native kernels that hand over to
// capture.
OpInfo& InfoOf(const char* name, const char* overload);

}  // namespace dendrite::aten
