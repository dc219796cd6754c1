#include "csrc/tape/printer.h"

#include <cstdio>

namespace dendrite::tape {
namespace {

template <typename T, typename F>
std::string Join(const std::vector<T>& values, const F& text) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) out += ",";
    out += text(values[i]);
  }
  return out;
}

std::string Ints(const Dims& values) {
  return Join(values, [](int64_t v) { return std::to_string(v); });
}

std::string Number(double v) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", v);
  return buffer;
}

std::string Operand(const Record& record, int64_t i) {
  if (i < 0) return "none";
  if (i >= static_cast<int64_t>(record.sig->operands.size()) ||
      i >= static_cast<int64_t>(record.operands.size())) {
    return "bad operand " + std::to_string(i);
  }
  const OperandType& type = record.sig->operands[i];
  const OperandRef& ref = record.operands[i];
  if (ref.storage < 0) {
    return std::string("lifted ") + Name(type.view.dtype) + " #" +
           std::to_string(record.first_lifted + type.lifted_slot);
  }
  std::string out = "s" + std::to_string(ref.storage) + ToString(type.view);
  if (ref.offset_slot >= 0) {
    out += " +offset#" + std::to_string(ref.offset_slot);
  } else if (ref.offset != 0) {
    out += " +" + std::to_string(ref.offset);
  }
  return out;
}

std::string ArgText(const Record& record, const Arg& arg) {
  const auto slot = [&](int64_t s) { return "#" + std::to_string(record.first_lifted + s); };
  switch (arg.kind) {
    case Arg::Kind::kNone:
      return "none";
    case Arg::Kind::kTensor:
      return Operand(record, arg.ints.empty() ? -1 : arg.ints[0]);
    case Arg::Kind::kTensorList:
      return "[" + Join(arg.ints, [&](int64_t i) { return Operand(record, i); }) + "]";
    case Arg::Kind::kInt:
      return std::to_string(arg.i);
    case Arg::Kind::kFloat:
      return Number(arg.d);
    case Arg::Kind::kBool:
      return arg.i ? "true" : "false";
    case Arg::Kind::kComplex:
      return Number(arg.d) + "+" + Number(arg.im) + "j";
    case Arg::Kind::kIntList:
      return "[" + Ints(arg.ints) + "]";
    case Arg::Kind::kFloatList:
      return "[" + Join(arg.floats, Number) + "]";
    case Arg::Kind::kBoolList:
      return "[" + Join(arg.ints, [](int64_t v) { return std::string(v ? "true" : "false"); }) +
             "]";
    case Arg::Kind::kString:
      return "\"" + arg.s + "\"";
    case Arg::Kind::kDType:
      return Name(arg.dtype);
    case Arg::Kind::kLifted:
      return std::string("lifted ") + Name(arg.dtype) + " " + slot(arg.i);
    case Arg::Kind::kLiftedList:
      return std::string("lifted ") + Name(arg.dtype) + " [" + Join(arg.ints, slot) + "]";
    case Arg::Kind::kIgnored:
      return "_";
  }
  return "?";
}

}  // namespace

std::string ToString(const View& view) {
  std::string out = "[" + Ints(view.sizes) + "]";
  if (view.dtype != DType::kF32) out = std::string(":") + Name(view.dtype) + out;
  if (!view.is_contiguous()) out += ":" + Ints(view.strides);
  if (view.conj) out += " conj";
  if (view.neg) out += " neg";
  return out;
}

std::string ToString(const Record& record) {
  std::string out = record.sig->op + "(";
  for (size_t i = 0; i < record.sig->args.size(); ++i) {
    if (i) out += ", ";
    out += ArgText(record, record.sig->args[i]);
  }
  out += ")";
  for (size_t k = 0; k < record.sig->results.size(); ++k) {
    out += (k ? ", " : " -> ") + Operand(record, record.sig->results[k]);
  }
  return out;
}

std::string ToString(const Tape& tape) {
  std::string out;
  for (size_t s = 0; s < tape.storages.size(); ++s) {
    const StorageInfo& info = tape.storages[s];
    out += "s" + std::to_string(s) + ": " + std::to_string(info.nbytes) + " bytes";
    if (info.form_dtype != DType::kUndefined) {
      out += std::string(" as ") + Name(info.form_dtype) + "[" + Ints(info.form_dims) + "]";
    }
    out += "\n";
  }
  for (size_t r = 0; r < tape.records.size(); ++r) {
    out += std::to_string(r) + ": " + ToString(tape.records[r]);
    const auto site = static_cast<size_t>(tape.records[r].site);
    if (site < tape.sites.size() && !tape.sites[site].file.empty()) {
      out += "  at " + tape.sites[site].file + ":" + std::to_string(tape.sites[site].line);
    }
    out += "\n";
  }
  return out;
}

}  // namespace dendrite::tape
