// csrc/lowering/pointwise.h - what all pointwise lowerings share: type promotion, operands, float
// math.
//
// Pure functions on an Emitter or a Builder; mistakes go to the builder's status.
#pragma once

#include <initializer_list>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

using stablehlo::Cmp;

// torch.result_type of arguments `args` (tensors and numbers; None is skipped): tensors with
// dimensions outrank 0-dim ones, which outrank Python numbers, unless the category (bool, integer,
// float, complex) is higher.
DType ResultType(Emitter& e, std::initializer_list<int> args);

// The type in which float-only functions run on `t`: integers take the default dtype.
DType FloatType(Emitter& e, DType t);

// Operands of one pointwise operator, all converted to the common type, then to opmath, then
// broadcast.
class Pointwise {
 public:
  // The common type is ResultType(args).
  Pointwise(Emitter& e, std::initializer_list<int> args);
  // The common type is given.
  Pointwise(Emitter& e, DType common);

  // The operator takes floats only: integers are computed in the default dtype.
  Pointwise& Floats();

  // Argument i, a tensor or a number. kExactNumber: a one-element argument keeps the precision that
  // the kernel computes in, as in PyTorch's add, sub, mul and div on 16-bit floats.
  enum class Precision : uint8_t { kCommon, kExactNumber };
  Value operator[](int i) const { return Get(i, Precision::kCommon); }
  Value Get(int i, Precision precision) const;
  // A number that the kernel takes in opmath (alpha, negative_slope, ...), broadcast.
  Value Number(int i) const;
  Value Number(int i, double if_none) const;
  Value Constant(double v) const { return e.b().Constant(math, dims, v); }

  void Out(const Value& v) const { e.Out(0, v); }
  bool is_float() const { return tape::IsFloat(math); }
  bool is_complex() const { return tape::IsComplex(math); }
  // False, and fails the lowering, for complex operands.
  bool RealOnly() const;

  Emitter& e;
  DType common;  // PyTorch's common dtype
  DType math;    // what is computed in
  Dims dims;     // sizes of result 0
};

// --- constants like a value
inline Value Like(Builder& b, const Value& x, double v) { return b.Constant(x.dtype, x.dims, v); }
inline Value Negate(Builder& b, const Value& x) { return b.Unary("negate", x); }
inline Value IsNan(Builder& b, const Value& x) { return b.Compare(Cmp::kNe, x, x); }
// PyTorch's: NaN if either is NaN.
Value MaximumNan(Builder& b, const Value& x, const Value& y);
Value MinimumNan(Builder& b, const Value& x, const Value& y);
Value Polynomial(Builder& b, const Value& x, const double* coefficients,
                 int count);  // lowest first

// --- functions of f32 or f64 that StableHLO lacks (float_math.cc)
Value Asin(Builder& b, const Value& x);
Value Acos(Builder& b, const Value& x);
Value Atan(Builder& b, const Value& x);
Value Sinh(Builder& b, const Value& x);
Value Cosh(Builder& b, const Value& x);
Value Asinh(Builder& b, const Value& x);
Value Acosh(Builder& b, const Value& x);
Value Atanh(Builder& b, const Value& x);
Value Exp2(Builder& b, const Value& x);
Value PlainSqrt(Builder& b, const Value& x);  // which XLA does not simplify; complex ones too
Value Log2(Builder& b, const Value& x);
Value Log10(Builder& b, const Value& x);
Value Trunc(Builder& b, const Value& x);
Value Sign(Builder& b, const Value& x);     // NaN gives 0, as in PyTorch
Value SignBit(Builder& b, const Value& x);  // bool; true for -0.0
Value CopySign(Builder& b, const Value& magnitude, const Value& sign);
Value Softplus(Builder& b, const Value& x);  // log1p(exp(x))
// (erf.cc)
Value Erf(Builder& b, const Value& x);
Value Erfc(Builder& b, const Value& x);
Value ErfInv(Builder& b, const Value& x);

}  // namespace dendrite::lowering
