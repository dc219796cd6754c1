#include "csrc/lowering/registry.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

namespace dendrite::lowering {
namespace {

// Keys are string literals, or at least outlive the process's static objects.
std::unordered_map<std::string_view, LowerFn>& Table() {
  static auto* table = new std::unordered_map<std::string_view, LowerFn>;
  return *table;
}

// A scratch argument for every operand that a lowering may read.
std::vector<Value> ScratchInputs(const tape::Signature& sig, Builder& b) {
  std::vector<Value> inputs;
  for (const tape::OperandType& operand : sig.operands) {
    const bool present = operand.read || operand.lifted_slot >= 0;
    inputs.push_back(present ? b.Argument(operand.view.dtype, operand.view.sizes) : Value{});
  }
  return inputs;
}

std::vector<Value> ScratchLifted(const tape::Signature& sig, Builder& b,
                                 const LoweringTraits& traits) {
  std::vector<Value> lifted(static_cast<size_t>(std::max(sig.num_lifted, 0)));
  const auto place = [&](int64_t slot, DType category) {
    if (slot < 0 || slot >= static_cast<int64_t>(lifted.size())) return;
    lifted[slot] = b.Argument(LiftedDType(category, traits), {});
  };
  for (const Arg& arg : sig.args) {
    if (arg.kind == Arg::Kind::kLifted) place(arg.i, arg.dtype);
    if (arg.kind == Arg::Kind::kLiftedList) {
      for (int64_t slot : arg.ints) place(slot, arg.dtype);
    }
  }
  return lifted;
}

}  // namespace

DType LiftedDType(DType category, const LoweringTraits& traits) {
  if (tape::IsComplex(category)) return traits.has_f64 ? DType::kC128 : DType::kC64;
  if (tape::IsFloat(category)) return traits.has_f64 ? DType::kF64 : DType::kF32;
  return DType::kI64;
}

Registrar::Registrar(std::string_view op, LowerFn fn) {
  if (!Table().emplace(op, fn).second) {
    std::fprintf(stderr, "dendrite: two lowerings for %.*s\n", static_cast<int>(op.size()),
                 op.data());
    std::abort();
  }
}

LowerFn Lookup(std::string_view op) {
  const auto it = Table().find(op);
  return it == Table().end() ? nullptr : it->second;
}

std::vector<std::string> RegisteredOps() {
  std::vector<std::string> ops;
  for (const auto& [op, fn] : Table()) ops.emplace_back(op);
  std::sort(ops.begin(), ops.end());
  return ops;
}

Status CheckResults(Emitter& emitter) {
  if (emitter.failed()) return emitter.b().status();
  const tape::Signature& sig = emitter.sig();
  for (int k = 0; k < emitter.num_results(); ++k) {
    if (!emitter.Wanted(k)) continue;
    const Value& v = emitter.results()[k];
    if (!v.defined()) return Internal(sig.op + ": no value for result " + std::to_string(k));
    if (v.dims != emitter.OutView(k).sizes) {
      return Internal(sig.op + ": result " + std::to_string(k) + " is " +
                      Builder::TypeText(v.dtype, v.dims) + ", its tensor " +
                      Builder::TypeText(emitter.OutView(k).dtype, emitter.OutView(k).sizes));
    }
  }
  return Status::Ok();
}

namespace {

// Lowers on a scratch builder; *checks: whether the lowering checks something at run time.
Status LowerOnScratch(const tape::Signature& sig, const LoweringTraits& traits, bool* checks) {
  const LowerFn fn = Lookup(sig.op);
  if (fn == nullptr) return Unimplemented(sig.op + " has no lowering");
  Builder b;
  std::vector<Value> inputs = ScratchInputs(sig, b);
  std::vector<Value> lifted = ScratchLifted(sig, b, traits);
  Emitter emitter(sig, b, traits, std::move(inputs), std::move(lifted));
  fn(emitter);
  *checks = emitter.index_check().defined();
  return CheckResults(emitter).WithContext(sig.op);
}

}  // namespace

Status TryLower(const tape::Signature& sig, const LoweringTraits& traits) {
  bool checks = false;
  return LowerOnScratch(sig, traits, &checks);
}

bool ChecksAtRunTime(const tape::Signature& sig, const LoweringTraits& traits) {
  bool checks = false;
  return LowerOnScratch(sig, traits, &checks).ok() && checks;
}

bool CanLower(const tape::Signature& sig, const LoweringTraits& traits) {
  return TryLower(sig, traits).ok();
}

}  // namespace dendrite::lowering
