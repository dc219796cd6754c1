#include "csrc/tape/verifier.h"

#include <algorithm>

namespace dendrite::tape {
namespace {

Status Wrong(std::string what) { return Internal(std::move(what)); }

Status VerifyView(const View& view) {
  if (view.dtype == DType::kUndefined) return Wrong("a view without a dtype");
  if (view.sizes.size() != view.strides.size()) return Wrong("sizes and strides differ in length");
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] < 0) return Wrong("a negative size");
    if (view.strides[i] < 0) return Wrong("a negative stride");
  }
  return Status::Ok();
}

Status VerifyArg(const Signature& sig, const Arg& arg) {
  const auto operands = static_cast<int64_t>(sig.operands.size());
  switch (arg.kind) {
    case Arg::Kind::kTensor:
      if (arg.ints.size() != 1 || arg.ints[0] < 0 || arg.ints[0] >= operands) {
        return Wrong("a tensor argument outside of the operands");
      }
      break;
    case Arg::Kind::kTensorList:
      for (int64_t i : arg.ints) {
        if (i < -1 || i >= operands) return Wrong("a list element outside of the operands");
      }
      break;
    case Arg::Kind::kLifted:
      if (arg.i < 0 || arg.i >= sig.num_lifted) return Wrong("a lifted slot out of range");
      break;
    case Arg::Kind::kLiftedList:
      for (int64_t i : arg.ints) {
        if (i < 0 || i >= sig.num_lifted) return Wrong("a lifted slot out of range");
      }
      break;
    default:
      break;
  }
  return Status::Ok();
}

Status VerifyRef(const Tape& tape, const Record& record, size_t i) {
  const OperandType& type = record.sig->operands[i];
  const OperandRef& ref = record.operands[i];
  if ((ref.storage < 0) != (type.lifted_slot >= 0)) {
    return Wrong("operand " + std::to_string(i) + " is neither a storage nor lifted, or both");
  }
  if (ref.storage < 0) return Status::Ok();
  if (ref.storage >= static_cast<int32_t>(tape.storages.size())) {
    return Wrong("operand " + std::to_string(i) + " names a storage out of range");
  }
  if (ref.offset_slot >= tape.num_lifted_offsets) return Wrong("a lifted offset out of range");
  if (ref.offset < 0) return Wrong("a negative offset");
  const int64_t span = type.view.span();
  const int64_t item = ItemSize(type.view.dtype);
  if (span > 0 && (ref.offset + span) * item > tape.storages[ref.storage].nbytes) {
    return Wrong("operand " + std::to_string(i) + " reaches beyond its storage");
  }
  return Status::Ok();
}

Status VerifyRecord(const Tape& tape, const Record& record) {
  if (record.sig == nullptr) return Wrong("no signature");
  const Signature& sig = *record.sig;
  DENDRITE_RETURN_IF_ERROR(Verify(sig));
  if (record.operands.size() != sig.operands.size()) {
    return Wrong(std::to_string(record.operands.size()) + " references for " +
                 std::to_string(sig.operands.size()) + " operands");
  }
  for (size_t i = 0; i < record.operands.size(); ++i) {
    DENDRITE_RETURN_IF_ERROR(VerifyRef(tape, record, i));
  }
  if (record.first_lifted < 0 || record.first_lifted + sig.num_lifted > tape.num_lifted) {
    return Wrong("lifted values out of range");
  }
  return Status::Ok();
}

}  // namespace

Status Verify(const Signature& sig) {
  if (sig.op.empty()) return Wrong("an operator without a name");
  for (const OperandType& operand : sig.operands) {
    DENDRITE_RETURN_IF_ERROR(VerifyView(operand.view));
    if (operand.lifted_slot >= sig.num_lifted) return Wrong("a lifted operand out of range");
    if (operand.lifted_slot >= 0 && (operand.written || !operand.view.sizes.empty())) {
      return Wrong("a lifted operand that is written or has dimensions");
    }
  }
  for (const Arg& arg : sig.args) DENDRITE_RETURN_IF_ERROR(VerifyArg(sig, arg));
  for (int32_t r : sig.results) {
    if (r < -1 || r >= static_cast<int32_t>(sig.operands.size())) {
      return Wrong("a result outside of the operands");
    }
    if (r >= 0 && !sig.operands[r].written) return Wrong("a result that is not written");
  }
  // What is written must be some result, or nobody knows its value.
  for (size_t i = 0; i < sig.operands.size(); ++i) {
    const bool is_result = std::find(sig.results.begin(), sig.results.end(),
                                     static_cast<int32_t>(i)) != sig.results.end();
    if (sig.operands[i].written && !is_result) return Wrong("a written operand that is no result");
  }
  return Status::Ok();
}

Status Verify(const Tape& tape) {
  for (size_t r = 0; r < tape.records.size(); ++r) {
    const Record& record = tape.records[r];
    DENDRITE_RETURN_IF_ERROR(VerifyRecord(tape, record)
                                 .WithContext("record " + std::to_string(r) + " (" +
                                              (record.sig ? record.sig->op : "?") + ")"));
  }
  return Status::Ok();
}

}  // namespace dendrite::tape
