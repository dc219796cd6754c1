// csrc/interpreter/replay.h - how to call a PyTorch CPU kernel for a recorded operator.
//
// csrc/aten makes one Replay per interned operator; the executor uses it, any number of times, to
// turn blocks and lifted values back into a boxed call. Immutable once made.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "csrc/engine/op.h"

namespace dendrite::interpreter {

struct ReplayArg {
  enum class Kind : uint8_t {
    kConstant,            // `constant`
    kTensor,              // operands[0]; -1: undefined
    kTensorList,          // operands; -1: undefined
    kOptionalTensorList,  // operands; -1: nullopt
    kLiftedScalar,        // slot `lifted`, of the type of `constant`
    kLiftedList,          // slots `lifted_slots`, a list of Scalars of the type of `constant`
  };
  Kind kind = Kind::kConstant;
  c10::IValue constant;
  std::vector<int32_t> operands;
  int32_t lifted = -1;
  std::vector<int32_t> lifted_slots;
};

struct Replay {
  explicit Replay(c10::OperatorHandle handle) : op(std::move(handle)) {}
  c10::OperatorHandle op;       // what is called
  std::vector<ReplayArg> args;  // in schema order; for an .out overload, results' operands follow
  // Results that the call returns as new tensors and that must be copied to an operand: (position
  // among the flattened returned tensors, operand).
  std::vector<std::pair<int32_t, int32_t>> copies;
  // Where `op` is an .out overload: the functional one, called with the first `num_functional`
  // arguments and then copied. Some .out kernels resize what they are given on the way, which our
  // memory refuses.
  std::optional<c10::OperatorHandle> functional;
  size_t num_functional = 0;
  mutable std::atomic<bool> out_refused{false};
};

// The interpreter for engine::StreamOptions, and its companion for cached CPU storages.
engine::Interpreter* GetInterpreter();
void DestroyHostStorage(void* storage);

// A CPU tensor over a block's host memory. REQUIRES: block->host_data != nullptr, the caller owns
// the block.
at::Tensor HostTensor(const tape::View& view, engine::Block* block, int64_t offset,
                      bool wrapped_number);

}  // namespace dendrite::interpreter
