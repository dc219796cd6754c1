#include "csrc/lowering/convert.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

const Arg& NoArg() {
  static const Arg none;
  return none;
}

bool IsNumber(Arg::Kind kind) {
  return kind == Arg::Kind::kInt || kind == Arg::Kind::kFloat || kind == Arg::Kind::kBool ||
         kind == Arg::Kind::kComplex;
}

}  // namespace

Emitter::Emitter(const tape::Signature& sig, Builder& builder, const LoweringTraits& traits,
                 std::vector<Value> inputs, std::vector<Value> lifted)
    : sig_(sig),
      builder_(builder),
      traits_(traits),
      inputs_(std::move(inputs)),
      lifted_(std::move(lifted)),
      results_(sig.results.size()) {}

const Arg& Emitter::arg(int i) const { return i >= 0 && i < num_args() ? sig_.args[i] : NoArg(); }

Value Emitter::In(int i) {
  const Arg& a = arg(i);
  if (a.kind == Arg::Kind::kTensor && !a.ints.empty()) {
    const auto at = static_cast<size_t>(a.ints[0]);
    if (at < inputs_.size() && inputs_[at].defined()) return inputs_[at];
  }
  Fail(
      Unimplemented(sig_.op + ": argument " + std::to_string(i) + " is not a tensor that is read"));
  return builder_.Constant(DType::kF32, {}, 0);
}

std::vector<Value> Emitter::InList(int i) {
  const Arg& a = arg(i);
  std::vector<Value> out;
  if (a.kind != Arg::Kind::kTensorList) {
    if (a.kind != Arg::Kind::kNone) {
      Fail(Unimplemented(sig_.op + ": argument " + std::to_string(i) + " is not a tensor list"));
    }
    return out;
  }
  for (int64_t at : a.ints) {
    const bool present = at >= 0 && at < static_cast<int64_t>(inputs_.size());
    out.push_back(present ? inputs_[at] : Value{});
  }
  return out;
}

int64_t Emitter::Int(int i, int64_t if_none) {
  const Arg& a = arg(i);
  switch (a.kind) {
    case Arg::Kind::kNone:
      return if_none;
    case Arg::Kind::kInt:
    case Arg::Kind::kBool:
      return a.i;
    case Arg::Kind::kFloat:
      return static_cast<int64_t>(a.d);
    default:
      break;
  }
  Fail(Unimplemented(sig_.op + ": argument " + std::to_string(i) + " is not a constant integer"));
  return if_none;
}

double Emitter::Float(int i, double if_none) {
  const Arg& a = arg(i);
  switch (a.kind) {
    case Arg::Kind::kNone:
      return if_none;
    case Arg::Kind::kInt:
    case Arg::Kind::kBool:
      return static_cast<double>(a.i);
    case Arg::Kind::kFloat:
      return a.d;
    default:
      break;
  }
  Fail(Unimplemented(sig_.op + ": argument " + std::to_string(i) + " is not a constant number"));
  return if_none;
}

bool Emitter::Bool(int i, bool if_none) { return Int(i, if_none) != 0; }

Dims Emitter::Ints(int i) {
  const Arg& a = arg(i);
  switch (a.kind) {
    case Arg::Kind::kNone:
      return {};
    case Arg::Kind::kInt:
      return {a.i};
    case Arg::Kind::kIntList:
    case Arg::Kind::kBoolList:
      return a.ints;
    default:
      break;
  }
  Fail(Unimplemented(sig_.op + ": argument " + std::to_string(i) + " is not a constant list"));
  return {};
}

std::string Emitter::String(int i) {
  const Arg& a = arg(i);
  if (a.kind != Arg::Kind::kString && a.kind != Arg::Kind::kNone) {
    Fail(Unimplemented(sig_.op + ": argument " + std::to_string(i) + " is not a string"));
  }
  return a.s;
}

DType Emitter::Dtype(int i) {
  const Arg& a = arg(i);
  return a.kind == Arg::Kind::kDType ? a.dtype : DType::kUndefined;
}

Value Emitter::Scalar(int i, DType dtype) {
  const Arg& a = arg(i);
  if (IsNumber(a.kind)) {
    if (a.kind == Arg::Kind::kComplex) {
      if (tape::IsComplex(dtype)) return builder_.ConstantComplex(dtype, {}, a.d, a.im);
      return builder_.Constant(dtype, {}, a.d);
    }
    if (a.kind == Arg::Kind::kFloat) return builder_.Constant(dtype, {}, a.d);
    return builder_.ConstantInt(dtype, {}, a.i);
  }
  if (a.kind == Arg::Kind::kLifted && a.i >= 0 && a.i < static_cast<int64_t>(lifted_.size()) &&
      lifted_[a.i].defined()) {
    return To(lifted_[a.i], dtype);
  }
  if (a.kind == Arg::Kind::kTensor && In(i).dims.empty()) return To(In(i), dtype);
  Fail(Unimplemented(sig_.op + ": argument " + std::to_string(i) + " is not a number"));
  return builder_.Constant(dtype, {}, 0);
}

Value Emitter::ScalarAt(int i, int k, DType dtype) {
  const Arg& a = arg(i);
  const auto at = static_cast<size_t>(k);
  switch (a.kind) {
    case Arg::Kind::kIntList:
    case Arg::Kind::kBoolList:
      if (at < a.ints.size()) return builder_.ConstantInt(dtype, {}, a.ints[at]);
      break;
    case Arg::Kind::kFloatList:
      if (at < a.floats.size()) return builder_.Constant(dtype, {}, a.floats[at]);
      break;
    case Arg::Kind::kLiftedList:
      if (at < a.ints.size() && a.ints[at] >= 0 &&
          a.ints[at] < static_cast<int64_t>(lifted_.size())) {
        return To(lifted_[a.ints[at]], dtype);
      }
      break;
    default:
      break;
  }
  Fail(Unimplemented(sig_.op + ": argument " + std::to_string(i) + " is not a list of numbers"));
  return builder_.Constant(dtype, {}, 0);
}

bool Emitter::IsFloatScalar(int i) {
  const Arg& a = arg(i);
  if (a.kind == Arg::Kind::kLifted || a.kind == Arg::Kind::kLiftedList) {
    return tape::IsFloat(a.dtype);
  }
  return a.kind == Arg::Kind::kFloat || a.kind == Arg::Kind::kFloatList;
}

const tape::View& Emitter::OutView(int k) const { return sig_.operands[sig_.results[k]].view; }

void Emitter::Out(int k, const Value& v) {
  if (Wanted(k)) results_[k] = v;
}

Value Emitter::To(const Value& v, DType dtype) { return ConvertLikeTorch(builder_, v, dtype); }

Value Emitter::ToSized(const Value& v, DType dtype, const Dims& dims) {
  return builder_.BroadcastTo(To(v, dtype), dims);
}

void Emitter::CheckIndices(const Value& indices, int64_t low, int64_t high) {
  Builder& b = builder_;
  const Value wide = b.Convert(indices, DType::kI64);
  const Value above =
      b.Compare(stablehlo::Cmp::kGe, wide, b.ConstantInt(DType::kI64, wide.dims, low));
  const Value below =
      b.Compare(stablehlo::Cmp::kLt, wide, b.ConstantInt(DType::kI64, wide.dims, high));
  Value ok = b.Binary("and", above, below);
  if (!ok.dims.empty()) {
    Dims all(ok.dims.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    ok = b.Reduce(
        ok, b.ConstantInt(DType::kBool, {}, 1), all,
        [](Builder& rb, const Value& x, const Value& y) { return rb.Binary("and", x, y); });
  }
  index_check_ = index_check_.defined() ? b.Binary("and", index_check_, ok) : ok;
}

}  // namespace dendrite::lowering
