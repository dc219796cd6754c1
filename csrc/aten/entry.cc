// MakeEntry: the slow half of capture, once per operator and argument metadata.
#include <ATen/core/LegacyTypeDispatch.h>

#include <atomic>

#include "csrc/aten/capture.h"
#include "csrc/aten/stand_in.h"
#include "csrc/device/storage.h"

namespace dendrite::aten {
namespace {

using c10::IValue;
using interpreter::ReplayArg;
using tape::Arg;

std::atomic<uint64_t> g_next_signature{1};

// A rehearsal costs what the operator costs, once per argument metadata.
constexpr int64_t kMaxRehearsed = int64_t{1} << 16;
constexpr int64_t kMaxRehearsedForStrides = int64_t{1} << 24;

class Maker {
 public:
  Maker(OpInfo& info, const torch::jit::Stack& stack, size_t first)
      : info_(info), args_(stack.data() + first) {}

  std::unique_ptr<MemoEntry> Make() {
    auto entry = std::make_unique<MemoEntry>();
    torch::jit::Stack meta;
    try {
      RunMeta(&meta);
    } catch (const std::exception&) {
      // Either there is no Meta kernel, or the call is wrong. Meta kernels written in Python have
      // words and error classes of their own, so the CPU kernel is the judge of that, now.
      entry->synchronous = !info_.meta_missing || !Rehearse(&meta);
      if (entry->synchronous) return entry;
    }
    if (!info_.meta_missing && MetaMayErr() && !Rehearse(&meta)) {
      entry->synchronous = true;
      return entry;
    }
    entry->op = std::make_unique<engine::Op>();
    entry->replay = std::make_unique<interpreter::Replay>(info_.kernel);
    sig_ = &entry->op->sig;
    replay_ = entry->replay.get();
    sig_->op = info_.functional;
    arg_operands_.resize(info_.args.size());
    for (size_t i = 0; i < info_.args.size() && ok_; ++i) AddArg(i);
    AddResizes(entry.get());
    AddResults(entry.get(), meta);
    if (!ok_) {
      entry->op.reset();
      entry->synchronous = true;
      return entry;
    }
    engine::Op& op = *entry->op;
    sig_->id = g_next_signature.fetch_add(1);
    op.content_hash = engine::ContentHash(*sig_);
    op.replay = replay_;
    entry->nothing_to_do = true;
    for (const auto& operand : sig_->operands) {
      if (!operand.written) continue;
      const int64_t n = operand.view.numel();
      op.bytes_written += n * tape::ItemSize(operand.view.dtype);
      if (n > 0) entry->nothing_to_do = false;
    }
    return entry;
  }

 private:
  void RunMeta(torch::jit::Stack* meta) {
    at::AutoDispatchBelowADInplaceOrView below;
    for (size_t i = 0; i < info_.args.size(); ++i) {
      meta->push_back(MapTensors(args_[i], c10::kMeta, ToMeta));
    }
    meta_args_.assign(meta->begin(), meta->end());
    info_.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), meta);
  }

  // Meta kernels are right about correct calls' sizes and dtypes. About strides they follow other
  // devices' kernels or lose them in wrappers, once an argument is not contiguous or an out= tensor
  // is resized. And some accept what the CPU kernel refuses, which should rise on the user's line.
  bool MetaMayErr() const {
    if (info_.meta_wrong && !Trains()) return true;
    for (size_t i = 0; i < info_.args.size(); ++i) {
      if (!info_.args[i].out || !args_[i].isTensor() || !args_[i].toTensor().defined()) continue;
      if (meta_args_[i].toTensor().sizes() != args_[i].toTensor().sizes()) return true;
    }
    if (info_.meta_right) return info_.one_dtype && MixesDtypes();
    bool odd = false;
    int64_t elements = 0;
    for (size_t i = 0; i < info_.args.size(); ++i) {
      ForEachTensor(args_[i], [&](const at::Tensor& t) {
        odd |= t.dim() >= 2 && t.numel() > 0 && !t.is_contiguous();
        elements += t.numel();
      });
    }
    return elements <= (odd && info_.makes_tensors ? kMaxRehearsedForStrides : kMaxRehearsed);
  }

  // The CPU kernel runs once on zeros, or on ones where it refuses those (as a divisor), and shows
  // what its results look like. False if it refuses both: either the call is wrong or these values
  // are, and only the real ones will tell.
  bool Rehearse(torch::jit::Stack* meta) {
    return RehearseOn(ToZeros, meta) || RehearseOn(ToOnes, meta);
  }

  bool RehearseOn(at::Tensor (*stand_in)(const at::Tensor&), torch::jit::Stack* meta) {
    torch::jit::Stack host;
    try {
      at::AutoDispatchBelowADInplaceOrView below;
      for (size_t i = 0; i < info_.args.size(); ++i) {
        host.push_back(MapTensors(args_[i], c10::kCPU, stand_in));
      }
      std::vector<IValue> args(host.begin(), host.end());
      info_.kernel.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &host);
      meta_args_ = std::move(args);
    } catch (const std::exception&) {
      return false;
    }
    *meta = std::move(host);
    return true;
  }

  bool MixesDtypes() const {
    auto dtype = c10::ScalarType::Undefined;
    bool mixes = false;
    for (size_t i = 0; i < info_.args.size(); ++i) {
      ForEachTensor(args_[i], [&](const at::Tensor& t) {
        mixes |= dtype != c10::ScalarType::Undefined && dtype != t.scalar_type();
        dtype = t.scalar_type();
      });
    }
    return mixes;
  }

  bool Trains() const {
    return info_.training >= 0 && args_[static_cast<size_t>(info_.training)].toBool();
  }

  int32_t AddOperand(const at::Tensor& t, const ArgInfo& arg) {
    if (!t.defined()) return -1;
    tape::OperandType operand;
    operand.view.dtype = device::ToDType(t.scalar_type());
    if (operand.view.dtype == tape::DType::kUndefined) ok_ = false;
    operand.is_wrapped_number = t.unsafeGetTensorImpl()->is_wrapped_number();
    operand.read = arg.read;
    operand.written = arg.written;
    if (!device::IsOurs(t)) {
      operand.lifted_slot = sig_->num_lifted++;
    } else {
      operand.view.sizes = t.sizes().vec();
      operand.view.strides = t.strides().vec();
      operand.view.conj = t.is_conj();
      operand.view.neg = t.is_neg();
    }
    sig_->operands.push_back(std::move(operand));
    return static_cast<int32_t>(sig_->operands.size()) - 1;
  }

  static Arg Number(const IValue& v) {
    Arg arg;
    if (v.isDouble()) {
      arg.kind = Arg::Kind::kFloat;
      arg.d = v.toDouble();
    } else if (v.isBool()) {
      arg.kind = Arg::Kind::kBool;
      arg.i = v.toBool() ? 1 : 0;
    } else if (v.isComplexDouble()) {
      arg.kind = Arg::Kind::kComplex;
      arg.d = v.toComplexDouble().real();
      arg.im = v.toComplexDouble().imag();
    } else {
      arg.kind = Arg::Kind::kInt;
      arg.i = v.isSymInt() ? v.toSymInt().guard_int(__FILE__, __LINE__) : v.toInt();
    }
    return arg;
  }

  static tape::DType Category(const IValue& v) {
    if (v.isDouble()) return tape::DType::kF64;
    if (v.isBool()) return tape::DType::kBool;
    return v.isComplexDouble() ? tape::DType::kC128 : tape::DType::kI64;
  }

  void AddNumberList(const IValue& v, bool lift, Arg* arg, ReplayArg* replay) {
    const auto list = v.toList();
    if (lift && !list.empty()) {
      arg->kind = Arg::Kind::kLiftedList;
      replay->kind = ReplayArg::Kind::kLiftedList;
      arg->dtype = Category(list.get(0));
      replay->constant = list.get(0);
      for (const IValue& element : list) {
        if (Category(element) != arg->dtype) ok_ = false;
        arg->ints.push_back(sig_->num_lifted);
        replay->lifted_slots.push_back(sig_->num_lifted++);
      }
      return;
    }
    arg->kind = Arg::Kind::kIntList;
    for (const IValue& element : list) {
      const Arg number = Number(element);
      if (number.kind == Arg::Kind::kComplex) ok_ = false;
      if (number.kind == Arg::Kind::kFloat) arg->kind = Arg::Kind::kFloatList;
      if (number.kind == Arg::Kind::kBool) arg->kind = Arg::Kind::kBoolList;
      arg->ints.push_back(number.i);
      arg->floats.push_back(number.kind == Arg::Kind::kFloat ? number.d
                                                             : static_cast<double>(number.i));
    }
    if (arg->kind != Arg::Kind::kFloatList) arg->floats.clear();
    if (arg->kind == Arg::Kind::kFloatList) arg->ints.clear();
  }

  void AddArg(size_t i) {
    const IValue& v = args_[i];
    const ArgInfo& info = info_.args[i];
    Arg arg;
    ReplayArg replay;
    // Tensors must not be kept: the entry lives for ever.
    if (!v.isTensor() && !v.isTensorList() && !v.isOptionalTensorList()) replay.constant = v;
    std::vector<int32_t>& operands = arg_operands_[i];
    if (!v.isNone()) {
      switch (info.type) {
        case ArgInfo::Type::kTensor:
          operands.push_back(AddOperand(v.toTensor(), info));
          if (operands[0] >= 0) {
            arg.kind = Arg::Kind::kTensor;
            arg.ints.push_back(operands[0]);
          }
          replay.kind = ReplayArg::Kind::kTensor;
          break;
        case ArgInfo::Type::kTensorList:
          for (const at::Tensor& t : v.toTensorVector()) operands.push_back(AddOperand(t, info));
          arg.kind = Arg::Kind::kTensorList;
          arg.ints.assign(operands.begin(), operands.end());
          replay.kind = ReplayArg::Kind::kTensorList;
          break;
        case ArgInfo::Type::kOptionalTensorList:
          for (const auto& t : v.toOptionalTensorVector()) {
            operands.push_back(t.has_value() ? AddOperand(*t, info) : -1);
          }
          arg.kind = Arg::Kind::kTensorList;
          arg.ints.assign(operands.begin(), operands.end());
          replay.kind = ReplayArg::Kind::kOptionalTensorList;
          break;
        case ArgInfo::Type::kNumber:
          if (info.lifted && !(v.isInt() && v.toInt() == 1)) {
            arg.kind = Arg::Kind::kLifted;
            arg.dtype = Category(v);
            arg.i = sig_->num_lifted;
            replay.kind = ReplayArg::Kind::kLiftedScalar;
            replay.lifted = sig_->num_lifted++;
          } else {
            arg = Number(v);
          }
          break;
        case ArgInfo::Type::kNumberList:
          AddNumberList(v, info.lifted, &arg, &replay);
          break;
        case ArgInfo::Type::kDType:
          arg.kind = Arg::Kind::kDType;
          arg.dtype = device::ToDType(v.toScalarType());
          break;
        case ArgInfo::Type::kString:
          arg.kind = Arg::Kind::kString;
          arg.s = v.toStringRef();
          break;
        case ArgInfo::Type::kIgnored:
          arg.kind = Arg::Kind::kIgnored;
          if (v.isDevice()) replay.constant = c10::Device(c10::kCPU);
          break;
        default:
          ok_ = false;
      }
    }
    replay.operands = operands;
    replay_->args.push_back(std::move(replay));
    if (!info.out) sig_->args.push_back(std::move(arg));
  }

  // out= tensors that the operator resizes, in-place ones never do.
  void AddResizes(MemoEntry* entry) {
    for (size_t i = 0; i < info_.args.size(); ++i) {
      if (!info_.args[i].out || !args_[i].isTensor() || !args_[i].toTensor().defined()) continue;
      const at::Tensor& meta = meta_args_[i].toTensor();
      if (meta.sizes() == args_[i].toTensor().sizes()) continue;
      entry->resizes.push_back({static_cast<int>(i), meta.sizes().vec(), meta.strides().vec()});
      const auto operand = static_cast<size_t>(arg_operands_[i][0]);
      sig_->operands[operand].view.sizes = meta.sizes().vec();
      sig_->operands[operand].view.strides = meta.strides().vec();
    }
  }

  void AddResult(MemoEntry* entry, const at::Tensor& meta) {
    MemoEntry::Result result;
    result.defined = meta.defined();
    int32_t index = -1;
    if (result.defined) {
      result.sizes = meta.sizes().vec();
      result.strides = meta.strides().vec();
      result.dtype = meta.scalar_type();
      tape::OperandType operand;
      operand.view = {device::ToDType(result.dtype), result.sizes, result.strides, false, false};
      if (operand.view.dtype == tape::DType::kUndefined) ok_ = false;
      operand.written = true;
      sig_->operands.push_back(std::move(operand));
      index = static_cast<int32_t>(sig_->operands.size()) - 1;
    }
    if (use_out_) {
      ReplayArg replay;
      replay.kind = ReplayArg::Kind::kTensor;
      replay.operands = {index};
      replay_->args.push_back(std::move(replay));
    }
    if (index >= 0) {
      replay_->copies.emplace_back(static_cast<int32_t>(entry->results.size()), index);
    }
    sig_->results.push_back(index);
    entry->results.push_back(std::move(result));
  }

  void AddResults(MemoEntry* entry, const torch::jit::Stack& meta) {
    if (!ok_) return;
    // A result that the operator leaves undefined has no place in an out= call.
    use_out_ = info_.out_op.has_value();
    for (size_t k = 0; k < info_.returns.size(); ++k) {
      use_out_ &= meta[k].isTensor() && meta[k].toTensor().defined();
    }
    if (use_out_) {
      replay_->functional = replay_->op;
      replay_->num_functional = replay_->args.size();
      replay_->op = *info_.out_op;
    }
    std::vector<bool> returned(info_.args.size(), false);
    for (size_t k = 0; k < info_.returns.size(); ++k) {
      const ReturnInfo& ret = info_.returns[k];
      if (ret.alias >= 0) {
        const auto arg = static_cast<size_t>(ret.alias);
        returned[arg] = true;
        sig_->results.insert(sig_->results.end(), arg_operands_[arg].begin(),
                             arg_operands_[arg].end());
      } else if (ret.list) {
        const auto tensors = meta[k].toTensorVector();
        entry->list_sizes.push_back(static_cast<int32_t>(tensors.size()));
        for (const at::Tensor& t : tensors) AddResult(entry, t);
      } else {
        AddResult(entry, meta[k].isNone() ? at::Tensor() : meta[k].toTensor());
      }
    }
    for (size_t i = 0; i < info_.args.size(); ++i) {
      if (!info_.args[i].written || returned[i]) continue;
      sig_->results.insert(sig_->results.end(), arg_operands_[i].begin(), arg_operands_[i].end());
    }
    if (info_.batch_norm_writes) AddRunningStatistics();
  }

  // native_batch_norm(input, weight, bias, running_mean, running_var, training, ...) updates
  // arguments 3 and 4 when training, which its schema does not say.
  void AddRunningStatistics() {
    if (!args_[5].toBool()) return;
    for (size_t i : {size_t{3}, size_t{4}}) {
      if (arg_operands_[i].empty() || arg_operands_[i][0] < 0) continue;
      sig_->operands[static_cast<size_t>(arg_operands_[i][0])].written = true;
      sig_->results.push_back(arg_operands_[i][0]);
    }
  }

  OpInfo& info_;
  const IValue* args_;
  std::vector<IValue> meta_args_;
  tape::Signature* sig_ = nullptr;
  interpreter::Replay* replay_ = nullptr;
  std::vector<std::vector<int32_t>> arg_operands_;
  bool ok_ = true;
  bool use_out_ = false;
};

}  // namespace

std::unique_ptr<MemoEntry> MakeEntry(OpInfo& info, const torch::jit::Stack& stack, size_t first) {
  return Maker(info, stack, first).Make();
}

}  // namespace dendrite::aten
