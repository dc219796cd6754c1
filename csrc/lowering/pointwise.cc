#include "csrc/lowering/pointwise.h"

#include <algorithm>

namespace dendrite::lowering {
namespace {

int Category(DType t) {
  if (t == DType::kUndefined) return -1;
  if (t == DType::kBool) return 0;
  if (tape::IsIntegral(t)) return 1;
  return tape::IsFloat(t) ? 2 : 3;
}

// torch.promote_types.
DType Promote(DType a, DType b) {
  if (a == b || b == DType::kUndefined) return a;
  if (a == DType::kUndefined) return b;
  if (Category(a) < Category(b)) std::swap(a, b);
  if (tape::IsComplex(a)) return b == DType::kF64 || b == DType::kC128 ? DType::kC128 : a;
  if (tape::IsFloat(a)) {
    if (!tape::IsFloat(b)) return a;
    if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
    return DType::kF32;  // two different types of at most 32 bits: f16 with bf16 meets in f32
  }
  if (b == DType::kBool) return a;
  const bool a_unsigned = tape::IsUnsigned(a), b_unsigned = tape::IsUnsigned(b);
  const int64_t a_size = tape::ItemSize(a), b_size = tape::ItemSize(b);
  if (a_unsigned == b_unsigned) return a_size >= b_size ? a : b;
  const DType sign = a_unsigned ? b : a;
  const int64_t unsigned_size = a_unsigned ? a_size : b_size;
  if (tape::ItemSize(sign) > unsigned_size) return sign;
  switch (unsigned_size) {
    case 1:
      return DType::kI16;
    case 2:
      return DType::kI32;
    default:
      return DType::kI64;
  }
}

DType ToComplex(DType t) { return t == DType::kF64 ? DType::kC128 : DType::kC64; }

// `high` outranks `low`, unless the category of `low` is higher.
DType Combine(DType high, DType low) {
  if (tape::IsComplex(high)) return high;
  if (tape::IsFloat(high)) return tape::IsComplex(low) ? ToComplex(high) : high;
  if (high == DType::kBool || tape::IsFloat(low) || tape::IsComplex(low)) return Promote(high, low);
  return high != DType::kUndefined ? high : low;
}

// The default dtype is not part of a signature, but shows in its result.
DType DefaultDType(Emitter& e) {
  return e.Wanted(0) && (e.OutView(0).dtype == DType::kF64 || e.OutView(0).dtype == DType::kC128)
             ? DType::kF64
             : DType::kF32;
}

// What a Python number of this category counts as.
DType WrappedType(Emitter& e, DType category) {
  if (tape::IsComplex(category)) return ToComplex(DefaultDType(e));
  if (tape::IsFloat(category)) return DefaultDType(e);
  return category;
}

}  // namespace

DType ResultType(Emitter& e, std::initializer_list<int> args) {
  DType tensors = DType::kUndefined, zero_dim = DType::kUndefined, wrapped = DType::kUndefined;
  for (int i : args) {
    const Arg& arg = e.arg(i);
    switch (arg.kind) {
      case Arg::Kind::kTensor: {
        const tape::OperandType& operand = e.sig().operands[arg.ints[0]];
        const DType t = operand.view.dtype;
        if (!operand.view.sizes.empty()) {
          tensors = Promote(tensors, t);
        } else if (operand.is_wrapped_number) {
          wrapped = Promote(wrapped, WrappedType(e, t));
        } else {
          zero_dim = Promote(zero_dim, t);
        }
        break;
      }
      case Arg::Kind::kInt:
        wrapped = Promote(wrapped, DType::kI64);
        break;
      case Arg::Kind::kBool:
        wrapped = Promote(wrapped, DType::kBool);
        break;
      case Arg::Kind::kFloat:
        wrapped = Promote(wrapped, DefaultDType(e));
        break;
      case Arg::Kind::kComplex:
        wrapped = Promote(wrapped, ToComplex(DefaultDType(e)));
        break;
      case Arg::Kind::kLifted:
        wrapped = Promote(wrapped, WrappedType(e, arg.dtype));
        break;
      default:
        break;
    }
  }
  const DType t = Combine(tensors, Combine(zero_dim, wrapped));
  if (t == DType::kUndefined) e.Fail(Unimplemented(e.sig().op + ": no operands"));
  return t == DType::kUndefined ? DType::kF32 : t;
}

DType FloatType(Emitter& e, DType t) {
  if (tape::IsFloat(t) || tape::IsComplex(t)) return t;
  const DType out = e.Wanted(0) ? e.OutView(0).dtype : DType::kF32;
  return tape::IsFloat(out) ? out : DType::kF32;
}

Pointwise::Pointwise(Emitter& emitter, std::initializer_list<int> args)
    : Pointwise(emitter, ResultType(emitter, args)) {}

Pointwise::Pointwise(Emitter& emitter, DType common_type)
    : e(emitter), common(common_type), math(tape::OpMath(common_type)) {
  if (e.Wanted(0)) {
    dims = e.OutView(0).sizes;
  } else {
    e.Fail(Unimplemented(e.sig().op + ": the result is not wanted"));
  }
}

Pointwise& Pointwise::Floats() {
  common = FloatType(e, common);
  math = tape::OpMath(common);
  return *this;
}

bool Pointwise::RealOnly() const {
  if (is_complex()) e.Fail(Unimplemented(e.sig().op + " of complex numbers"));
  return !is_complex();
}

Value Pointwise::Get(int i, Precision precision) const {
  const bool is_tensor = e.arg(i).kind == Arg::Kind::kTensor;
  if (!is_tensor) {
    const DType t = precision == Precision::kExactNumber ? math : common;
    return e.ToSized(e.Scalar(i, t), math, dims);
  }
  const Value v = e.In(i);
  const bool exact = precision == Precision::kExactNumber && tape::NumElements(v.dims) == 1;
  return e.ToSized(exact ? v : e.To(v, common), math, dims);
}

Value Pointwise::Number(int i) const { return e.b().BroadcastTo(e.Scalar(i, math), dims); }

Value Pointwise::Number(int i, double if_none) const {
  return e.IsNone(i) ? Constant(if_none) : Number(i);
}

Value MaximumNan(Builder& b, const Value& x, const Value& y) {
  if (!tape::IsFloat(x.dtype)) return b.Binary("maximum", x, y);
  // x wins if it is not smaller or NaN; a NaN in y makes the comparison false and wins otherwise.
  // Of two zeros the first is taken: clamping zero at zero keeps its sign.
  const Value x_wins = b.Binary("or", b.Compare(Cmp::kGe, x, y), IsNan(b, x));
  return b.Select(x_wins, x, y);
}

Value MinimumNan(Builder& b, const Value& x, const Value& y) {
  if (!tape::IsFloat(x.dtype)) return b.Binary("minimum", x, y);
  const Value x_wins = b.Binary("or", b.Compare(Cmp::kLe, x, y), IsNan(b, x));
  return b.Select(x_wins, x, y);
}

Value Polynomial(Builder& b, const Value& x, const double* coefficients, int count) {
  Value sum = Like(b, x, coefficients[count - 1]);
  for (int i = count - 2; i >= 0; --i) sum = b.Add(b.Mul(sum, x), Like(b, x, coefficients[i]));
  return sum;
}

}  // namespace dendrite::lowering
