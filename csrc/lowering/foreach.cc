// csrc/lowering/foreach.cc - _foreach_ operators: the lowering of the operator for one tensor,
// applied to each element of the lists.
//
// Position i of the foreach schema becomes position i of the element operator: a tensor list gives
// its k-th tensor, a list of numbers its k-th number, everything else stays. PyTorch's CPU path
// does the same, so promotion, rounding and special values are those of the element operator by
// construction.
#include <string>
#include <vector>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

// How a number at some position reaches the element operator.
enum class Numbers {
  kArgument,  // as a number: addcmul's value
  kWrapped,   // as a 0-dim tensor, as PyTorch wraps the number of add.Scalar
};

// Builds one call of an element operator and runs its lowering.
class ElementCall {
 public:
  ElementCall(Emitter& outer, std::string op) : outer_(outer) { sig_.op = std::move(op); }

  void Tensor(const Value& v, const tape::OperandType& type) {
    Arg arg;
    arg.kind = Arg::Kind::kTensor;
    arg.ints = {AddOperand(v, type)};
    sig_.args.push_back(std::move(arg));
  }

  // Number `k` (or the only one, k < 0) of outer argument i.
  void Number(int i, int k, Numbers how) {
    const Arg& from = outer_.arg(i);
    const bool lifted = from.kind == Arg::Kind::kLifted || from.kind == Arg::Kind::kLiftedList;
    if (how == Numbers::kArgument && !lifted) {
      sig_.args.push_back(Structural(from, k));
      return;
    }
    const DType category = Category(i, k);
    const Value v =
        k < 0 ? outer_.Scalar(i, Stored(category)) : outer_.ScalarAt(i, k, Stored(category));
    if (how == Numbers::kArgument) {
      LiftedNumber(v, category);
      return;
    }
    tape::OperandType type;
    type.view.dtype = category;
    type.lifted_slot = AddLifted(v);
    type.is_wrapped_number = true;
    type.read = true;
    Tensor(v, type);
  }

  void LiftedNumber(const Value& v, DType category) {
    Arg arg;
    arg.kind = Arg::Kind::kLifted;
    arg.dtype = category;
    arg.i = AddLifted(v);
    sig_.args.push_back(std::move(arg));
  }

  void Copy(const Arg& arg) { sig_.args.push_back(arg); }

  // Runs the lowering; its only result becomes result k of the outer call.
  void Run(int k) {
    const LowerFn fn = Lookup(sig_.op);
    if (fn == nullptr) {
      outer_.Fail(Unimplemented(outer_.sig().op + " needs " + sig_.op));
      return;
    }
    tape::OperandType out;
    out.view = outer_.OutView(k);
    out.written = true;
    sig_.results = {AddOperand(Value{}, out)};
    Emitter element(sig_, outer_.b(), outer_.traits(), inputs_, lifted_);
    fn(element);
    if (!outer_.failed() && !element.results().empty()) outer_.Out(k, element.results()[0]);
  }

  // The type in which a lifted number of this category travels.
  DType Stored(DType category) const {
    return category == DType::kF64 && !outer_.traits().has_f64 ? DType::kF32 : category;
  }

 private:
  int32_t AddOperand(const Value& v, const tape::OperandType& type) {
    sig_.operands.push_back(type);
    inputs_.push_back(v);
    return static_cast<int32_t>(inputs_.size()) - 1;
  }

  int32_t AddLifted(const Value& v) {
    lifted_.push_back(v);
    return sig_.num_lifted++;
  }

  DType Category(int i, int k) const {
    const Arg arg = Structural(outer_.arg(i), k);
    switch (arg.kind) {
      case Arg::Kind::kLifted:
      case Arg::Kind::kLiftedList:
        return arg.dtype;
      case Arg::Kind::kInt:
        return DType::kI64;
      case Arg::Kind::kBool:
        return DType::kBool;
      case Arg::Kind::kComplex:
        return DType::kC128;
      default:
        return DType::kF64;
    }
  }

  // Element k of a list of structural numbers; k < 0: the argument itself.
  static Arg Structural(const Arg& from, int k) {
    if (k < 0) return from;
    Arg arg;
    if (from.kind == Arg::Kind::kFloatList) {
      arg.kind = Arg::Kind::kFloat;
      arg.d = k < static_cast<int>(from.floats.size()) ? from.floats[k] : 0;
    } else if (from.kind == Arg::Kind::kIntList || from.kind == Arg::Kind::kBoolList) {
      arg.kind = from.kind == Arg::Kind::kIntList ? Arg::Kind::kInt : Arg::Kind::kBool;
      arg.i = k < static_cast<int>(from.ints.size()) ? from.ints[k] : 0;
    } else {
      return from;
    }
    return arg;
  }

  Emitter& outer_;
  tape::Signature sig_;
  std::vector<Value> inputs_;
  std::vector<Value> lifted_;
};

bool IsNumberList(const Arg& arg) {
  return arg.kind == Arg::Kind::kLiftedList || arg.kind == Arg::Kind::kFloatList ||
         arg.kind == Arg::Kind::kIntList || arg.kind == Arg::Kind::kBoolList;
}

bool IsNumber(const Arg& arg) {
  return arg.kind == Arg::Kind::kLifted || arg.kind == Arg::Kind::kFloat ||
         arg.kind == Arg::Kind::kInt || arg.kind == Arg::Kind::kComplex ||
         arg.kind == Arg::Kind::kBool;
}

// Adds position i of the outer call to the call for element k.
void AddPosition(Emitter& e, ElementCall& call, int i, int k, Numbers how) {
  const Arg& arg = e.arg(i);
  if (arg.kind == Arg::Kind::kTensorList) {
    const auto list = e.InList(i);
    if (k >= static_cast<int>(list.size()) || arg.ints[k] < 0) {
      e.Fail(InvalidArgument(e.sig().op + ": lists of different lengths"));
      return;
    }
    call.Tensor(list[k], e.sig().operands[arg.ints[k]]);
  } else if (arg.kind == Arg::Kind::kTensor) {
    call.Tensor(e.In(i), e.sig().operands[arg.ints[0]]);
  } else if (IsNumberList(arg)) {
    call.Number(i, k, how);
  } else if (IsNumber(arg)) {
    call.Number(i, -1, how);
  } else {
    call.Copy(arg);
  }
}

// `wrapped`: the position whose number is wrapped, or -1.
void Each(Emitter& e, const char* op, int wrapped) {
  for (int k = 0; k < e.num_results() && !e.failed(); ++k) {
    if (!e.Wanted(k)) continue;
    ElementCall call(e, op);
    for (int i = 0; i < e.num_args(); ++i) {
      AddPosition(e, call, i, k, i == wrapped ? Numbers::kWrapped : Numbers::kArgument);
    }
    if (!e.failed()) call.Run(k);
  }
}

// addcmul and addcdiv whose values are the elements of a rank-1 tensor.
void EachWithValueTensor(Emitter& e, const char* op) {
  Builder& b = e.b();
  const Value values = e.In(3);
  const DType category = tape::IsFloat(values.dtype) ? DType::kF64 : DType::kI64;
  for (int k = 0; k < e.num_results() && !e.failed(); ++k) {
    if (!e.Wanted(k)) continue;
    ElementCall call(e, op);
    for (int i = 0; i < 3; ++i) AddPosition(e, call, i, k, Numbers::kArgument);
    const Value one = b.Reshape(b.Slice(values, {k}, {k + 1}, {1}), {});
    call.LiftedNumber(e.To(one, call.Stored(category)), category);
    if (!e.failed()) call.Run(k);
  }
}

// (self[], ord, dtype) -> aten.linalg_vector_norm(self, ord, dim=None, keepdim=False, dtype)
void Norm(Emitter& e) {
  for (int k = 0; k < e.num_results() && !e.failed(); ++k) {
    if (!e.Wanted(k)) continue;
    ElementCall call(e, "aten.linalg_vector_norm.default");
    AddPosition(e, call, 0, k, Numbers::kArgument);
    AddPosition(e, call, 1, k, Numbers::kArgument);
    Arg keepdim;
    keepdim.kind = Arg::Kind::kBool;
    call.Copy(Arg{});
    call.Copy(keepdim);
    call.Copy(e.arg(2));
    if (!e.failed()) call.Run(k);
  }
}

void Zero(Emitter& e) {
  for (int k = 0; k < e.num_results(); ++k) {
    if (e.Wanted(k)) e.Out(k, e.b().Constant(e.OutView(k).dtype, e.OutView(k).sizes, 0));
  }
}

void CopyList(Emitter& e, int source) {
  const auto from = e.InList(source);
  for (int k = 0; k < e.num_results() && k < static_cast<int>(from.size()); ++k) {
    if (e.Wanted(k)) e.Out(k, e.b().BroadcastTo(from[k], e.OutView(k).sizes));
  }
}

void Clone(Emitter& e) { CopyList(e, 0); }
void Copy(Emitter& e) { CopyList(e, 1); }

DENDRITE_LOWERING("aten._foreach_norm.Scalar", Norm);
DENDRITE_LOWERING("aten._foreach_zero.default", Zero);
DENDRITE_LOWERING("aten._foreach_clone.default", Clone);
DENDRITE_LOWERING("aten._foreach_copy.default", Copy);

// name: of the foreach overload; element: the operator it applies; wrapped: see Each.
#define DENDRITE_FOREACH(name, element, wrapped) \
  DENDRITE_LOWERING("aten._foreach_" name, [](Emitter& e) { Each(e, "aten." element, wrapped); })

#define DENDRITE_FOREACH_UNARY(name) DENDRITE_FOREACH(#name ".default", #name ".default", -1)
DENDRITE_FOREACH_UNARY(abs);
DENDRITE_FOREACH_UNARY(acos);
DENDRITE_FOREACH_UNARY(asin);
DENDRITE_FOREACH_UNARY(atan);
DENDRITE_FOREACH_UNARY(ceil);
DENDRITE_FOREACH_UNARY(cos);
DENDRITE_FOREACH_UNARY(cosh);
DENDRITE_FOREACH_UNARY(erf);
DENDRITE_FOREACH_UNARY(erfc);
DENDRITE_FOREACH_UNARY(exp);
DENDRITE_FOREACH_UNARY(expm1);
DENDRITE_FOREACH_UNARY(floor);
DENDRITE_FOREACH_UNARY(frac);
DENDRITE_FOREACH_UNARY(lgamma);
DENDRITE_FOREACH_UNARY(log);
DENDRITE_FOREACH_UNARY(log10);
DENDRITE_FOREACH_UNARY(log1p);
DENDRITE_FOREACH_UNARY(log2);
DENDRITE_FOREACH_UNARY(max);
DENDRITE_FOREACH_UNARY(neg);
DENDRITE_FOREACH_UNARY(reciprocal);
DENDRITE_FOREACH_UNARY(round);
DENDRITE_FOREACH_UNARY(rsqrt);
DENDRITE_FOREACH_UNARY(sigmoid);
DENDRITE_FOREACH_UNARY(sign);
DENDRITE_FOREACH_UNARY(sin);
DENDRITE_FOREACH_UNARY(sinh);
DENDRITE_FOREACH_UNARY(sqrt);
DENDRITE_FOREACH_UNARY(tan);
DENDRITE_FOREACH_UNARY(tanh);
DENDRITE_FOREACH_UNARY(trunc);

#define DENDRITE_FOREACH_BINARY(name, element)   \
  DENDRITE_FOREACH(#name ".List", element, -1);  \
  DENDRITE_FOREACH(#name ".Scalar", element, 1); \
  DENDRITE_FOREACH(#name ".ScalarList", element, 1)
DENDRITE_FOREACH_BINARY(add, "add.Tensor");
DENDRITE_FOREACH_BINARY(sub, "sub.Tensor");
DENDRITE_FOREACH_BINARY(mul, "mul.Tensor");
DENDRITE_FOREACH_BINARY(div, "div.Tensor");
DENDRITE_FOREACH_BINARY(maximum, "maximum.default");
DENDRITE_FOREACH_BINARY(minimum, "minimum.default");
DENDRITE_FOREACH_BINARY(clamp_min, "maximum.default");
DENDRITE_FOREACH_BINARY(clamp_max, "minimum.default");
DENDRITE_FOREACH("add.Tensor", "add.Tensor", -1);
DENDRITE_FOREACH("mul.Tensor", "mul.Tensor", -1);
DENDRITE_FOREACH("div.Tensor", "div.Tensor", -1);
DENDRITE_FOREACH("mm.default", "mm.default", -1);

// Exponents decide the formula, so they stay numbers.
DENDRITE_FOREACH("pow.List", "pow.Tensor_Tensor", -1);
DENDRITE_FOREACH("pow.Scalar", "pow.Tensor_Scalar", -1);
DENDRITE_FOREACH("pow.ScalarList", "pow.Tensor_Scalar", -1);
DENDRITE_FOREACH("pow.ScalarAndTensor", "pow.Scalar", -1);

DENDRITE_FOREACH("addcmul.Scalar", "addcmul.default", -1);
DENDRITE_FOREACH("addcmul.ScalarList", "addcmul.default", -1);
DENDRITE_FOREACH("addcdiv.Scalar", "addcdiv.default", -1);
DENDRITE_FOREACH("addcdiv.ScalarList", "addcdiv.default", -1);
DENDRITE_LOWERING("aten._foreach_addcmul.Tensor",
                  [](Emitter& e) { EachWithValueTensor(e, "aten.addcmul.default"); });
DENDRITE_LOWERING("aten._foreach_addcdiv.Tensor",
                  [](Emitter& e) { EachWithValueTensor(e, "aten.addcdiv.default"); });

DENDRITE_FOREACH("lerp.List", "lerp.Tensor", -1);
DENDRITE_FOREACH("lerp.Scalar", "lerp.Scalar", -1);
DENDRITE_FOREACH("lerp.ScalarList", "lerp.Scalar", -1);

}  // namespace
}  // namespace dendrite::lowering
