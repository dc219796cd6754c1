#include "csrc/aten/registration.h"

#include <torch/library.h>

#include <algorithm>
#include <unordered_map>

#include "csrc/aten/capture.h"
#include "csrc/aten/op_tables.h"

namespace dendrite::aten {
namespace {

using c10::DispatchKey;
using c10::OperatorHandle;

// OpInfos are made once per operator and live for ever.
OpInfo& InfoOf(const OperatorHandle& op) {
  static std::mutex mu;
  static auto* table = new std::unordered_map<const void*, std::unique_ptr<OpInfo>>;
  const void* key = &op.schema();
  {
    std::lock_guard lock(mu);
    const auto it = table->find(key);
    if (it != table->end()) return *it->second;
  }
  auto made = std::make_unique<OpInfo>(op);
  std::lock_guard lock(mu);
  auto& slot = (*table)[key];
  if (slot == nullptr) slot = std::move(made);
  return *slot;
}

class CaptureKernel final : public c10::OperatorKernel {
 public:
  void operator()(const OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    OpInfo* info = info_.load(std::memory_order_acquire);
    if (info == nullptr) {
      info = &InfoOf(op);
      info_.store(info, std::memory_order_release);
    }
    Capture(*info, stack);
  }

 private:
  std::atomic<OpInfo*> info_{nullptr};
};

bool IsView(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

std::string BaseOf(const std::string& name) {
  std::string base = name.substr(name.find("::") + 2);
  if (base.size() > 1 && base.back() == '_' && base[base.size() - 2] != '_') base.pop_back();
  return base;
}

Owner OwnerOf(const OperatorHandle& op) {
  const auto& schema = op.schema();
  const std::string& name = schema.name();
  if (IsNative(name)) return Owner::kNative;
  // Those that change a tensor's sizes in place move no values.
  if (IsView(schema) || op.hasTag(at::Tag::inplace_view)) return Owner::kComposite;
  bool tensor = false;
  for (const auto& arg : schema.arguments()) {
    tensor |= arg.type()->isSubtypeOf(*c10::TensorType::get()) ||
              arg.type()->str().find("Tensor") != std::string::npos;
  }
  if (!tensor) return Owner::kComposite;  // factories: empty and a fill
  // With an implicit kernel and no formula of its own, a kernel of ours would lose the gradient.
  const bool implicit = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
  const bool formula = op.hasKernelForDispatchKey(DispatchKey::Autograd);
  if (implicit && !formula) return Owner::kComposite;
  if (IsWantedWhole(BaseOf(name))) return Owner::kCaptured;
  if (op.hasKernelForDispatchKey(DispatchKey::CPU) ||
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional)) {
    return Owner::kCaptured;
  }
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ? Owner::kComposite
                                                                            : Owner::kFallback;
}

void Fallback(const OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  Capture(InfoOf(op), stack);
}

std::string FullName(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

}  // namespace

OpInfo& InfoOf(const char* name, const char* overload) {
  return InfoOf(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

void RegisterCapturedOperators() {
  static auto* library = new torch::Library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1,
                                            __FILE__, __LINE__);
  static auto* any =
      new torch::Library(torch::Library::IMPL, "_", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op || OwnerOf(*op) != Owner::kCaptured) continue;
    library->impl(FullName(name).substr(6).c_str(),
                  torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CaptureKernel>()));
  }
  any->fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback>());
}

std::vector<OwnedOp> OperatorOwners() {
  std::vector<OwnedOp> owners;
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op) owners.push_back({FullName(name), OwnerOf(*op)});
  }
  std::sort(owners.begin(), owners.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return owners;
}

}  // namespace dendrite::aten
