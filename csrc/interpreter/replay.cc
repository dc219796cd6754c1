#include "csrc/interpreter/replay.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include <string_view>

#include "csrc/device/storage.h"
#include "csrc/interpreter/placement.h"
#include "csrc/interpreter/scratch.h"

namespace dendrite::interpreter {
namespace {

using c10::IValue;

c10::Scalar ToScalar(const tape::Lifted& value, const IValue& like) {
  if (like.isDouble()) return value.d;
  if (like.isBool()) return value.i != 0;
  if (like.isComplexDouble()) return c10::complex<double>(value.d, value.im);
  return value.i;
}

IValue ToIValue(const tape::Lifted& value, const IValue& like) {
  if (like.isDouble()) return value.d;
  if (like.isBool()) return value.i != 0;
  if (like.isComplexDouble()) return c10::complex<double>(value.d, value.im);
  return value.i;
}

at::Tensor LiftedTensor(const tape::OperandType& operand, const tape::Lifted& value) {
  const auto dtype = device::ToScalarType(operand.view.dtype);
  c10::Scalar scalar;
  if (tape::IsComplex(operand.view.dtype)) {
    scalar = c10::complex<double>(value.d, value.im);
  } else if (tape::IsFloat(operand.view.dtype)) {
    scalar = value.d;
  } else if (operand.view.dtype == tape::DType::kBool) {
    scalar = value.i != 0;
  } else {
    scalar = value.i;
  }
  at::Tensor tensor = at::scalar_tensor(scalar, at::TensorOptions(dtype));
  if (operand.is_wrapped_number) tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

class Call {
 public:
  Call(const engine::Op& op, const engine::Slot* slots, const tape::Lifted* lifted)
      : op_(op), slots_(slots), lifted_(lifted) {}

  at::Tensor Operand(int32_t index) const {
    if (index < 0) return {};
    const tape::OperandType& operand = op_.sig.operands[static_cast<size_t>(index)];
    if (operand.lifted_slot >= 0) return LiftedTensor(operand, lifted_[operand.lifted_slot]);
    const engine::Slot& slot = slots_[index];
    return HostTensor(operand.view, slot.block, slot.offset, operand.is_wrapped_number);
  }

  torch::jit::Stack Arguments(const Replay& replay, size_t count) const {
    torch::jit::Stack stack;
    stack.reserve(count);
    for (size_t i = 0; i < count; ++i) stack.push_back(Argument(replay.args[i]));
    return stack;
  }

  IValue Argument(const ReplayArg& arg) const {
    switch (arg.kind) {
      case ReplayArg::Kind::kConstant:
        return arg.constant;
      case ReplayArg::Kind::kTensor:
        return Operand(arg.operands[0]);
      case ReplayArg::Kind::kTensorList: {
        c10::List<at::Tensor> list;
        list.reserve(arg.operands.size());
        for (int32_t operand : arg.operands) list.push_back(Operand(operand));
        return list;
      }
      case ReplayArg::Kind::kOptionalTensorList: {
        c10::List<std::optional<at::Tensor>> list;
        list.reserve(arg.operands.size());
        for (int32_t operand : arg.operands) {
          list.push_back(operand < 0 ? std::optional<at::Tensor>() : Operand(operand));
        }
        return list;
      }
      case ReplayArg::Kind::kLiftedScalar:
        return ToIValue(lifted_[arg.lifted], arg.constant);
      case ReplayArg::Kind::kLiftedList: {
        c10::List<IValue> list(c10::NumberType::get());
        for (int32_t slot : arg.lifted_slots)
          list.push_back(IValue(ToScalar(lifted_[slot], arg.constant)));
        return list;
      }
    }
    return {};
  }

  // Whether the call reads the storage that it writes operand `index` to.
  bool ReadsBlockOf(int32_t index) const {
    for (size_t i = 0; i < op_.sig.operands.size(); ++i) {
      if (op_.sig.operands[i].read && slots_[i].block == slots_[index].block) return true;
    }
    return false;
  }

 private:
  const engine::Op& op_;
  const engine::Slot* slots_;
  const tape::Lifted* lifted_;
};

void AppendTensors(const IValue& value, std::vector<at::Tensor>* out) {
  if (value.isTensor()) {
    out->push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& t : value.toTensorVector()) out->push_back(t);
  }
}

void DeliverResults(const Replay& replay, const Call& call, const Placement& placement,
                    const torch::jit::Stack& stack) {
  std::vector<at::Tensor> results;
  for (const IValue& value : stack) AppendTensors(value, &results);
  std::vector<Placement::Delivery> deliveries;
  for (const auto& [result, operand] : replay.copies) {
    const auto i = static_cast<size_t>(result);
    if (i < results.size() && results[i].defined()) {
      deliveries.push_back({results[i], call.Operand(operand)});
    }
  }
  placement.Deliver(std::move(deliveries));
}

// Some kernels conjugate what they wrote by the bit of the tensor that they were handed. That
// tensor is made for the call and the tape's view of the memory has no such bit, so the values
// follow.
void KeepBits(const at::Tensor& written, const tape::View& view) {
  if (written.is_conj() != view.conj) {
    written._set_conj(view.conj);
    written.conj_physical_();
  }
  if (written.is_neg() != view.neg) {
    written._set_neg(view.neg);
    written.neg_();
  }
}

// REQUIRES: what the call returned are its operands, as in-place and .out overloads do.
void KeepBits(const tape::Signature& sig, const torch::jit::Stack& stack) {
  size_t next = 0;
  for (const IValue& value : stack) {
    if (!value.isTensor()) return;  // lists are of foreach operators, which know no bits
    const int32_t operand = next < sig.results.size() ? sig.results[next] : -1;
    if (operand >= 0) KeepBits(value.toTensor(), sig.operands[static_cast<size_t>(operand)].view);
    ++next;
  }
}

class SilentWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

// False if the .out kernel wanted to resize our memory; it has then done nothing yet.
bool TryOut(const Replay& replay, const Call& call, const tape::Signature& sig) {
  // What there is to warn of was said at capture, on the user's line.
  SilentWarnings silent;
  c10::WarningUtils::WarningHandlerGuard guard(&silent);
  torch::jit::Stack stack = call.Arguments(replay, replay.args.size());
  try {
    replay.op.callBoxed(&stack);
    KeepBits(sig, stack);
    return true;
  } catch (const c10::Error& e) {
    if (std::string_view(e.what_without_backtrace()).find("not resizable") ==
        std::string_view::npos)
      throw;
    replay.out_refused.store(true, std::memory_order_relaxed);
    return false;
  }
}

class CpuInterpreter final : public engine::Interpreter {
 public:
  Status Run(const engine::Op& op, const engine::Slot* slots, const tape::Lifted* lifted) override {
    // Plain CPU dispatch: no autograd, no version counters. Entered once per thread.
    thread_local c10::InferenceMode inference(true);
    thread_local at::AutoDispatchBelowADInplaceOrView below;
    const ScratchScope scratch;
    try {
      const auto& replay = *static_cast<const Replay*>(op.replay);
      const Call call(op, slots, lifted);
      if (!replay.functional.has_value() || replay.out_refused.load(std::memory_order_relaxed) ||
          !TryOut(replay, call, op.sig)) {
        const bool functional = replay.functional.has_value();
        Placement placement;  // outlives the results
        for (const auto& [result, operand] : replay.copies) {
          if (!call.ReadsBlockOf(operand)) placement.Offer(call.Operand(operand));
        }
        torch::jit::Stack stack =
            call.Arguments(replay, functional ? replay.num_functional : replay.args.size());
        (functional ? *replay.functional : replay.op).callBoxed(&stack);
        if (replay.copies.empty()) {
          KeepBits(op.sig, stack);
        } else {
          DeliverResults(replay, call, placement, stack);
        }
      }
      return {};
    } catch (const c10::IndexError& e) {
      return OutOfRange(e.what_without_backtrace());
    } catch (const c10::NotImplementedError& e) {
      return Unimplemented(e.what_without_backtrace());
    } catch (const c10::Error& e) {
      return Status(Code::kUnknown, e.what_without_backtrace());
    } catch (const std::bad_alloc&) {
      return Status(Code::kResourceExhausted, "out of memory");
    } catch (const std::exception& e) {
      return Status(Code::kUnknown, e.what());
    }
  }
};

using StorageRef = c10::intrusive_ptr<c10::StorageImpl>;

}  // namespace

engine::Interpreter* GetInterpreter() {
  static CpuInterpreter interpreter;
  InstallPlacement();
  return &interpreter;
}

void DestroyHostStorage(void* storage) { delete static_cast<StorageRef*>(storage); }

at::Tensor HostTensor(const tape::View& view, engine::Block* block, int64_t offset,
                      bool wrapped_number) {
  if (block->host_storage == nullptr) {
    block->host_storage = new StorageRef(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), block->nbytes,
        c10::DataPtr(block->host_data, c10::Device(c10::kCPU)), /*allocator=*/nullptr,
        /*resizable=*/false));
  }
  const StorageRef& storage = *static_cast<StorageRef*>(block->host_storage);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(device::ToScalarType(view.dtype)));
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(view.sizes, view.strides, offset);
  if (view.conj) impl->_set_conj(true);
  if (view.neg) impl->_set_neg(true);
  if (wrapped_number) impl->set_wrapped_number(true);
  return tensor;
}

}  // namespace dendrite::interpreter
