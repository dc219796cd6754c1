// csrc/interpreter/kernels_by_name.h - handlers of the custom calls that lowerings emit on the
// embedded target (contracts: csrc/lowering/kernels_by_name.h, conv_kernels.h): PyTorch's CPU
// kernels inside of compiled snippets.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dendrite::interpreter {

// (name, XLA_FFI_Handler*) of every kernel; handlers are reentrant.
std::vector<std::pair<std::string, void*>> KernelHandlers();

}  // namespace dendrite::interpreter
