#include "csrc/aten/op_info.h"

#include <map>
#include <unordered_set>

#include "csrc/aten/op_tables.h"

namespace dendrite::aten {
namespace {

using c10::Argument;
using c10::FunctionSchema;
using c10::TypeKind;

// Base name -> overloads, for every operator known when it is first asked.
const std::map<std::string, std::vector<std::string>>& Overloads() {
  static const auto* table = [] {
    auto* t = new std::map<std::string, std::vector<std::string>>;
    for (const auto& name : c10::Dispatcher::singleton().getAllOpNames())
      (*t)[name.name].push_back(name.overload_name);
    return t;
  }();
  return *table;
}

bool SameArguments(const FunctionSchema& functional, const FunctionSchema& out, size_t count) {
  if (functional.arguments().size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    if (functional.arguments()[i].name() != out.arguments()[i].name()) return false;
    if (*functional.arguments()[i].type() != *out.arguments()[i].type()) return false;
  }
  return true;
}

bool IsWritten(const Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

std::string DottedName(const std::string& name, const std::string& overload) {
  std::string dotted = name;
  if (const size_t colons = dotted.find("::"); colons != std::string::npos)
    dotted.replace(colons, 2, ".");
  return dotted + "." + (overload.empty() ? "default" : overload);
}

ArgInfo::Type TypeOf(const c10::TypePtr& declared) {
  c10::TypePtr type = declared;
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  switch (type->kind()) {
    case TypeKind::TensorType:
      return ArgInfo::Type::kTensor;
    case TypeKind::NumberType:
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
    case TypeKind::ComplexType:
      return ArgInfo::Type::kNumber;
    case TypeKind::ScalarTypeType:
      return ArgInfo::Type::kDType;
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
    case TypeKind::DeviceObjType:
      return ArgInfo::Type::kIgnored;
    case TypeKind::StringType:
      return ArgInfo::Type::kString;
    case TypeKind::GeneratorType:
      return ArgInfo::Type::kGenerator;
    case TypeKind::ListType: {
      const auto element = type->expect<c10::ListType>()->getElementType();
      if (element->kind() == TypeKind::TensorType) return ArgInfo::Type::kTensorList;
      if (auto optional = element->cast<c10::OptionalType>()) {
        return optional->getElementType()->kind() == TypeKind::TensorType
                   ? ArgInfo::Type::kOptionalTensorList
                   : ArgInfo::Type::kOther;
      }
      return TypeOf(element) == ArgInfo::Type::kNumber ? ArgInfo::Type::kNumberList
                                                       : ArgInfo::Type::kOther;
    }
    default:
      return ArgInfo::Type::kOther;
  }
}

}  // namespace

OpInfo::OpInfo(c10::OperatorHandle handle) : op(std::move(handle)), kernel(op) {
  const FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  std::string base = name;
  size_t num_out = 0;
  for (const Argument& argument : schema.arguments()) num_out += argument.is_out() ? 1 : 0;
  const size_t num_in = schema.arguments().size() - num_out;

  functional = DottedName(name, schema.overload_name());
  if (num_out > 0) {
    const auto it = Overloads().find(name);
    if (it != Overloads().end()) {
      for (const std::string& overload : it->second) {
        const auto candidate = c10::Dispatcher::singleton().findSchema({name, overload});
        if (candidate && SameArguments(candidate->schema(), schema, num_in))
          functional = DottedName(name, overload);
      }
    }
  } else if (name.back() == '_' && name.size() > 2 && name[name.size() - 2] != '_') {
    base.pop_back();
    functional = DottedName(base, schema.overload_name());
  }
  const std::string short_base = base.substr(base.find("::") + 2);

  bool supported = !schema.is_vararg() && !schema.is_varret();
  bool any_tensor = false;
  for (const Argument& argument : schema.arguments()) {
    ArgInfo info;
    info.type = TypeOf(argument.real_type());
    info.out = argument.is_out();
    info.written = IsWritten(argument);
    info.read = !info.out && !(info.written && IsWriteOnly(name));
    info.lifted =
        (info.type == ArgInfo::Type::kNumber || info.type == ArgInfo::Type::kNumberList) &&
        IsLifted(short_base, argument.name());
    any_tensor |= info.type == ArgInfo::Type::kTensor || info.type == ArgInfo::Type::kTensorList ||
                  info.type == ArgInfo::Type::kOptionalTensorList;
    mutates |= info.written;
    supported &= info.type != ArgInfo::Type::kOther;
    args.push_back(info);
  }
  for (const Argument& result : schema.returns()) {
    ReturnInfo info;
    const ArgInfo::Type type = TypeOf(result.type());
    info.list = type == ArgInfo::Type::kTensorList;
    supported &= type == ArgInfo::Type::kTensor || info.list;
    if (result.alias_info() != nullptr) {
      for (size_t i = 0; i < schema.arguments().size(); ++i) {
        const auto* alias = schema.arguments()[i].alias_info();
        if (alias != nullptr && *alias == *result.alias_info()) info.alias = static_cast<int>(i);
      }
    }
    makes_tensors |= info.alias < 0;
    returns.push_back(info);
  }
  if (IsKernelWrong(name)) {
    kernel = c10::Dispatcher::singleton().findSchemaOrThrow(("dendrite" + name.substr(4)).c_str(),
                                                            schema.overload_name().c_str());
  }
  checks_overlap = mutates && !short_base.starts_with("_f") && !short_base.starts_with("_amp");
  meta_wrong = IsMetaWrong(short_base);
  meta_missing = IsMetaMissing(short_base);
  meta_right = IsMetaRight(short_base);
  one_dtype = WantsOneDtype(short_base);
  training = schema.argumentIndexWithName("training").value_or(-1);
  batch_norm_writes = functional == "aten.native_batch_norm.default";

  if (short_base.starts_with("_foreach_")) {
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].written && !args[i].out) bumps_list = static_cast<int>(i);
    }
  }
  for (const ArgInfo& info : args) host_indices |= info.type == ArgInfo::Type::kOptionalTensorList;
  mask_decides_shape = host_indices && op.hasTag(at::Tag::dynamic_output_shape);
  const bool data_dependent = op.hasTag(at::Tag::data_dependent_output) ||
                              (op.hasTag(at::Tag::dynamic_output_shape) && !mask_decides_shape);
  const bool ours = name.starts_with("aten::") || name.starts_with("dendrite::");
  // Kernels of other libraries may be Python's, which must run on the calling thread.
  synchronous = !supported || data_dependent || !any_tensor || !ours;
  for (const ArgInfo& info : args) synchronous |= info.type == ArgInfo::Type::kGenerator;

  if (!mutates && !synchronous) {
    const auto it = Overloads().find(name);
    size_t new_results = 0;
    for (const ReturnInfo& info : returns) new_results += info.list ? 1000 : 1;
    if (it != Overloads().end() && new_results < 1000) {
      for (const std::string& overload : it->second) {
        const auto candidate = c10::Dispatcher::singleton().findSchema({name, overload});
        if (!candidate ||
            candidate->schema().arguments().size() != schema.arguments().size() + new_results)
          continue;
        bool all_out = true;
        for (size_t i = schema.arguments().size(); i < candidate->schema().arguments().size();
             ++i) {
          all_out &= candidate->schema().arguments()[i].is_out();
        }
        if (!all_out || IsOutWrong(short_base) ||
            !candidate->hasKernelForDispatchKey(c10::DispatchKey::CPU))
          continue;
        if (SameArguments(schema, candidate->schema(), schema.arguments().size()))
          out_op = *candidate;
      }
    }
  }
}

}  // namespace dendrite::aten
