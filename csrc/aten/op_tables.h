// csrc/aten/op_tables.h - facts about operators that schemas do not tell.
#pragma once

#include <string>
#include <string_view>

namespace dendrite::aten {

// `base` is the name without namespace, overload and trailing underscore ("add", "_foreach_add").

// A number that training programs change from step to step and whose value decides nothing about
// shapes, dtypes or which formula is used.
bool IsLifted(std::string_view base, std::string_view argument);
// In-place operators that do not read what they overwrite.
bool IsWriteOnly(std::string_view name);
// Operators without derivative formula problems that are wanted whole although PyTorch would
// decompose them.
bool IsWantedWhole(std::string_view base);
// Operators that must not be captured: native kernels of ours own them, or PyTorch's composite is
// right.
bool IsNative(const std::string& name);
// Operators whose Meta kernel is known to accept what the CPU kernel does and to give its strides.
bool IsMetaRight(std::string_view base);
// Among them, operators that the Meta kernel lets mix dtypes, which the CPU kernel refuses.
bool WantsOneDtype(std::string_view base);
// Operators whose CPU kernel writes something else into out= tensors than it returns without.
bool IsOutWrong(std::string_view base);
// Operators whose CPU kernel computes something wrong: dendrite::<name> is one that does not.
bool IsKernelWrong(std::string_view name);
// Operators whose Meta kernel promises results of other sizes or strides than the CPU kernel gives.
bool IsMetaWrong(std::string_view base);
// Operators without a Meta kernel whose results' sizes no data decide: the CPU kernel tells them on
// stand-ins of any size.
bool IsMetaMissing(std::string_view base);

}  // namespace dendrite::aten
