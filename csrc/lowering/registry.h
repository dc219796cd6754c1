// csrc/lowering/registry.h - operators' lowerings to StableHLO: one function per functional
// overload.
//
// A lowering sees logical tensors: In(i) is the value of argument i with the sizes and dtype of its
// view; Out(k, v) gives result k. Views, storages, aliasing, donation and in-place writes are the
// snippet builder's business (csrc/lowering/snippet.h). A lowering that cannot handle a signature
// calls Fail(Unimplemented(...)): that operator then runs at tier 0 (or on the host), never
// wrongly.
//
// Rules: results carry exactly the sizes of OutView(k); dtype may differ, the snippet builder
// converts. Compute in opmath (f32 for f16 and bf16). NaN, signed zeros, infinities follow
// PyTorch's CPU kernels.
//
// Registration is static: DENDRITE_LOWERING("aten.relu.default", Relu); in
// csrc/lowering/<family>.cc. The registry is immutable after static initialisation; Lookup may be
// called from any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/stablehlo/builder.h"
#include "csrc/tape/record.h"

namespace dendrite::lowering {

using stablehlo::Builder;
using stablehlo::Value;
using tape::Arg;
using tape::Dims;
using tape::DType;

// A matrix product, [m, k] by [k, n], `batch` times; `trans`: the operand lies in memory
// transposed.
struct ProductShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  auto operator<=>(const ProductShape&) const = default;
};

// Which products call PyTorch's CPU kernel instead of being compiled. Called by one thread at a
// time.
class ProductChoice {
 public:
  virtual ~ProductChoice() = default;
  virtual bool ByName(const ProductShape& shape) = 0;
};

// What a lowering may know about the target.
struct LoweringTraits {
  bool has_f64 = true;
  bool kernels_by_name = false;  // the embedded target's CPU kernels are callable by custom call
  ProductChoice* products = nullptr;  // which products are; null: all. Not owned
  int num_threads = 1;
};

class Emitter {
 public:
  // `inputs` parallel to sig.operands: the logical value of every operand that is read (lifted
  // 0-dim operands too). `lifted` parallel to the signature's lifted slots: rank-0 values of dtype
  // i64, f64 (f32 where the target has no f64) or complex.
  Emitter(const tape::Signature& sig, Builder& builder, const LoweringTraits& traits,
          std::vector<Value> inputs, std::vector<Value> lifted);

  const tape::Signature& sig() const { return sig_; }
  Builder& b() { return builder_; }
  const LoweringTraits& traits() const { return traits_; }

  // --- arguments, by position in the functional schema
  int num_args() const { return static_cast<int>(sig_.args.size()); }
  const Arg& arg(int i) const;  // kNone if the schema position is beyond the list
  bool IsNone(int i) const { return arg(i).kind == Arg::Kind::kNone; }
  Value In(int i);  // fails the lowering (and returns a zero) if it is not a tensor
  std::vector<Value> InList(int i);         // undefined elements: Value{} with id -1
  int64_t Int(int i, int64_t if_none = 0);  // int, bool, or an integral Scalar
  double Float(int i, double if_none = 0);  // structural number as double
  bool Bool(int i, bool if_none = false);
  Dims Ints(int i);  // int list; a lone int gives a list of one; None gives {}
  std::string String(int i);
  DType Dtype(int i);  // kUndefined if None
  // A number (structural or lifted) as a rank-0 value of `dtype`, converted as PyTorch's
  // Scalar::to.
  Value Scalar(int i, DType dtype);
  // The same for element k of a list of numbers.
  Value ScalarAt(int i, int k, DType dtype);
  // True if the number is floating point (its category, not its value).
  bool IsFloatScalar(int i);

  // --- results
  int num_results() const { return static_cast<int>(sig_.results.size()); }
  bool Wanted(int k) const { return k < num_results() && sig_.results[k] >= 0; }
  const tape::View& OutView(int k) const;  // REQUIRES: Wanted(k)
  void Out(int k, const Value& v);         // ignored if not wanted
  const std::vector<Value>& results() const { return results_; }

  // --- common help
  Value To(const Value& v, DType dtype);                         // Convert, or v itself
  Value ToSized(const Value& v, DType dtype, const Dims& dims);  // Convert + BroadcastTo
  // Requires every element of `indices` to be in [low, high); at run time a violation raises for
  // this record, and what is computed then is discarded.
  void CheckIndices(const Value& indices, int64_t low, int64_t high);
  // Conjunction of all checks (rank-0 bool), or an undefined value if there were none.
  const Value& index_check() const { return index_check_; }

  void Fail(Status status) { builder_.Fail(std::move(status)); }
  bool failed() const { return !builder_.status().ok(); }

 private:
  const tape::Signature& sig_;
  Builder& builder_;
  const LoweringTraits& traits_;
  std::vector<Value> inputs_;
  std::vector<Value> lifted_;
  std::vector<Value> results_;
  Value index_check_;
};

using LowerFn = void (*)(Emitter&);

// nullptr if the operator has no lowering.
LowerFn Lookup(std::string_view op);
// Names of all operators with a lowering, sorted.
std::vector<std::string> RegisteredOps();

// True if `sig` lowers for this target: tries it on a scratch builder. Cost: some 10 microseconds;
// memoise.
bool CanLower(const tape::Signature& sig, const LoweringTraits& traits);
// The same, with the reason.
Status TryLower(const tape::Signature& sig, const LoweringTraits& traits);
// True if its lowering checks something at run time (Emitter::CheckIndices). Cost as CanLower's.
bool ChecksAtRunTime(const tape::Signature& sig, const LoweringTraits& traits);

// After a lowering ran: its mistake, or one sentence if a wanted result is missing or of the wrong
// size.
Status CheckResults(Emitter& emitter);

// The type in which a lifted number of `category` travels: i64 (integers and bools), f64, c128; f32
// and c64 on targets without f64.
DType LiftedDType(DType category, const LoweringTraits& traits);

struct Registrar {
  Registrar(std::string_view op, LowerFn fn);
};

#define DENDRITE_LOWERING(op, fn) \
  static const ::dendrite::lowering::Registrar DENDRITE_CONCAT(registrar_, __COUNTER__)(op, fn)

}  // namespace dendrite::lowering
