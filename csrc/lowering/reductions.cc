// csrc/lowering/reductions.cc - sums, products, extremes, norms, variances and logical reductions.
//
// f16 and bf16 accumulate in f32. NaN is the greatest and the least of all; among equals the lowest
// index is reported, as PyTorch's CPU kernels do.

#include <cmath>
#include <limits>

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// Dimensions named by argument `i`. PyTorch disagrees with itself on what an empty list means (sum:
// everything; any.dims: nothing), so the result's shape decides; where both readings have one shape
// every reduced dimension has size 1 and they agree.
Dims ReducedDims(Emitter& e, int i, const Value& x) {
  if (e.IsNone(i)) return AllDims(x.rank());
  Dims dims = e.Ints(i);
  if (!dims.empty()) return NormalizeDims(dims, x.rank());
  const bool nothing = e.Wanted(0) && e.OutView(0).sizes == x.dims;
  return nothing ? Dims{} : AllDims(x.rank());
}

// Result k, with the dimensions of size 1 that keepdim asks for.
void OutKept(Emitter& e, int k, const Value& v) {
  if (e.Wanted(k)) e.Out(k, e.b().Reshape(v, e.OutView(k).sizes));
}

// The operand in the type that a sum-like reduction computes in: cast to the requested (or
// promoted) type first, then to opmath.
Value SumOperand(Emitter& e, int dtype_arg) {
  Value x = e.In(0);
  const DType want = e.IsNone(dtype_arg) ? e.OutView(0).dtype : e.Dtype(dtype_arg);
  return e.To(e.To(x, want), tape::OpMath(want));
}

void SumAll(Emitter& e) {
  Value x = SumOperand(e, 1);
  OutKept(e, 0, Sum(e.b(), x, AllDims(x.rank())));
}

void SumDims(Emitter& e) {
  Value x = SumOperand(e, 3);
  OutKept(e, 0, Sum(e.b(), x, ReducedDims(e, 1, x)));
}

void MeanAll(Emitter& e) {
  Value x = SumOperand(e, 1);
  OutKept(e, 0, Mean(e.b(), x, AllDims(x.rank())));
}

void MeanDims(Emitter& e) {
  Value x = SumOperand(e, 3);
  OutKept(e, 0, Mean(e.b(), x, ReducedDims(e, 1, x)));
}

void ProdAll(Emitter& e) {
  Value x = SumOperand(e, 1);
  OutKept(e, 0, Product(e.b(), x, AllDims(x.rank())));
}

void ProdDim(Emitter& e) {
  Value x = SumOperand(e, 3);
  OutKept(e, 0, Product(e.b(), x, ReducedDims(e, 1, x)));
}

void NanSum(Emitter& e) {
  Builder& b = e.b();
  Value x = SumOperand(e, 3);
  if (tape::IsFloat(x.dtype)) x = b.Select(IsNan(b, x), Like(b, x, 0), x);
  OutKept(e, 0, Sum(b, x, ReducedDims(e, 1, x)));
}

void Amax(Emitter& e) {
  Value x = e.In(0);
  OutKept(e, 0, Max(e.b(), x, ReducedDims(e, 1, x)));
}

void Amin(Emitter& e) {
  Value x = e.In(0);
  OutKept(e, 0, Min(e.b(), x, ReducedDims(e, 1, x)));
}

void MaxAll(Emitter& e) {
  Value x = e.In(0);
  OutKept(e, 0, Max(e.b(), x, AllDims(x.rank())));
}

void MinAll(Emitter& e) {
  Value x = e.In(0);
  OutKept(e, 0, Min(e.b(), x, AllDims(x.rank())));
}

void AMinMax(Emitter& e) {
  Value x = e.In(0);
  const Dims dims = ReducedDims(e, 1, x);
  OutKept(e, 0, Min(e.b(), x, dims));
  OutKept(e, 1, Max(e.b(), x, dims));
}

// The extreme element along `dim` of x (rank >= 1) and its index, the first of equals. Two passes
// that vectorise, where one reduction over pairs would run element by element.
std::vector<Value> ExtremeWithIndex(Builder& b, const Value& x, int64_t dim, bool largest) {
  const Value best = largest ? Max(b, x, {dim}) : Min(b, x, {dim});
  Value hit = b.Compare(Cmp::kEq, x, Spread(b, best, x.dims, {dim}));
  // A row has NaN elements only if its best is NaN.
  if (tape::IsFloat(x.dtype)) hit = b.Binary("or", hit, IsNan(b, x));
  const int64_t n = x.dims[dim];
  const DType type = n <= std::numeric_limits<int32_t>::max() ? DType::kI32 : DType::kI64;
  const Value index = b.Iota(type, x.dims, dim);
  const Value first =
      MinIgnoringNan(b, b.Select(hit, index, b.ConstantInt(type, x.dims, n)), {dim});
  return {best, b.Convert(first, DType::kI64)};
}

// The operand in a type whose elements compare: half types widen exactly, bool becomes a number.
Value Comparable(Emitter& e, const Value& x) {
  return e.To(x, x.dtype == DType::kBool ? DType::kI32 : tape::OpMath(x.dtype));
}

void ExtremeDim(Emitter& e, bool largest) {
  Builder& b = e.b();
  Value x = AtLeast1d(b, Comparable(e, e.In(0)));
  const int64_t dim = WrapDim(e.Int(1), x.rank());
  std::vector<Value> r = ExtremeWithIndex(b, x, dim, largest);
  OutKept(e, 0, r[0]);
  OutKept(e, 1, r[1]);
}

void MaxDim(Emitter& e) { ExtremeDim(e, true); }
void MinDim(Emitter& e) { ExtremeDim(e, false); }

void ArgExtreme(Emitter& e, bool largest) {
  Builder& b = e.b();
  Value x = Comparable(e, e.In(0));
  int64_t dim = 0;
  if (e.IsNone(1)) {
    x = b.Reshape(x, {tape::NumElements(x.dims)});
  } else {
    dim = WrapDim(e.Int(1), x.rank());
    x = AtLeast1d(b, x);
  }
  std::vector<Value> r = ExtremeWithIndex(b, x, dim, largest);
  OutKept(e, 0, r[1]);
}

void ArgMax(Emitter& e) { ArgExtreme(e, true); }
void ArgMin(Emitter& e) { ArgExtreme(e, false); }

void AnyAll(Emitter& e) {
  Value x = e.In(0);
  OutKept(e, 0, AnyOf(e.b(), IsNonzero(e.b(), x), AllDims(x.rank())));
}

void AnyDims(Emitter& e) {
  Value x = e.In(0);
  OutKept(e, 0, AnyOf(e.b(), IsNonzero(e.b(), x), ReducedDims(e, 1, x)));
}

void AllAll(Emitter& e) {
  Value x = e.In(0);
  OutKept(e, 0, AllOf(e.b(), IsNonzero(e.b(), x), AllDims(x.rank())));
}

void AllDimsOp(Emitter& e) {
  Value x = e.In(0);
  OutKept(e, 0, AllOf(e.b(), IsNonzero(e.b(), x), ReducedDims(e, 1, x)));
}

void CountNonzero(Emitter& e) {
  Value x = e.In(0);
  Value ones = e.To(IsNonzero(e.b(), x), DType::kI64);
  OutKept(e, 0, Sum(e.b(), ones, ReducedDims(e, 1, x)));
}

struct Moments {
  Value var, mean;
};

// Two passes: the variance of large, nearly equal numbers survives. Complex: real plus imaginary.
Moments VarMean(Emitter& e, const Value& x, const Dims& dims) {
  Builder& b = e.b();
  Value mean = Mean(b, x, dims);
  Value d = b.Sub(x, Spread(b, mean, x.dims, dims));
  Value square = b.Mul(d, d);
  if (tape::IsComplex(x.dtype)) {
    const Value re = b.Real(d), im = b.Imag(d);
    square = b.Add(b.Mul(re, re), b.Mul(im, im));
  }
  Value m2 = Sum(b, square, dims);
  const double correction = e.Float(2, 1.0);
  const double divisor = std::max(0.0, static_cast<double>(Count(x, dims)) - correction);
  return {b.Div(m2, Like(b, m2, divisor)), mean};
}

void VarLike(Emitter& e, bool root, bool with_mean) {
  Value x = e.In(0);
  x = e.To(x, tape::OpMath(x.dtype));
  Moments m = VarMean(e, x, ReducedDims(e, 1, x));
  OutKept(e, 0, root ? e.b().Unary("sqrt", m.var) : m.var);
  if (with_mean) OutKept(e, 1, m.mean);
}

void Var(Emitter& e) { VarLike(e, false, false); }
void Std(Emitter& e) { VarLike(e, true, false); }
void VarMeanOp(Emitter& e) { VarLike(e, false, true); }
void StdMeanOp(Emitter& e) { VarLike(e, true, true); }

// |x| over dims to the norm of order `p`.
Value VectorNorm(Builder& b, const Value& x, double p, const Dims& dims) {
  if (p == 0) return Sum(b, b.Convert(IsNonzero(b, x), x.dtype), dims);
  if (p == 2 && !tape::IsComplex(x.dtype)) return b.Unary("sqrt", Sum(b, b.Mul(x, x), dims));
  const Value a = b.Unary("abs", x);
  if (p == 1) return Sum(b, a, dims);
  if (p == 2) return b.Unary("sqrt", Sum(b, b.Mul(a, a), dims));
  if (std::isinf(p)) return p > 0 ? Max(b, a, dims) : Min(b, a, dims);
  const Value sum = Sum(b, b.Binary("power", a, Like(b, a, p)), dims);
  return b.Binary("power", sum, Like(b, sum, 1 / p));
}

void NormOp(Emitter& e, int dims_arg, int dtype_arg) {
  if (e.arg(1).kind == Arg::Kind::kLifted) {
    return e.Fail(Unimplemented("norm: the order must be structural"));
  }
  Value x = e.In(0);
  const DType want = e.IsNone(dtype_arg) ? x.dtype : e.Dtype(dtype_arg);
  x = e.To(x, tape::OpMath(want));
  if (!tape::IsFloat(x.dtype) && !tape::IsComplex(x.dtype)) {
    return e.Fail(Unimplemented("norm of an integer tensor"));
  }
  Dims dims = dims_arg < 0 ? AllDims(x.rank()) : ReducedDims(e, dims_arg, x);
  if (dims_arg >= 0 && e.Ints(dims_arg).empty()) dims = AllDims(x.rank());
  Value r = VectorNorm(e.b(), x, e.Float(1, 2.0), dims);
  OutKept(e, 0, r);
}

void LinalgVectorNorm(Emitter& e) { NormOp(e, 2, 4); }
void NormScalar(Emitter& e) { NormOp(e, -1, 99); }
void NormScalarOptDim(Emitter& e) { NormOp(e, 2, 4); }
void NormScalarOptDtype(Emitter& e) { NormOp(e, -1, 2); }

void LogSumExp(Emitter& e) {
  Builder& b = e.b();
  Value x = e.In(0);
  x = e.To(x, tape::OpMath(tape::IsFloat(x.dtype) ? x.dtype : e.OutView(0).dtype));
  if (!tape::IsFloat(x.dtype)) return e.Fail(Unimplemented("logsumexp of a complex tensor"));
  const Dims dims = ReducedDims(e, 1, x);
  Value peak = MaxIgnoringNan(b, x, dims);
  // An infinite peak would make inf - inf; without it exp gives the infinity by itself.
  peak = b.Select(b.Unary("is_finite", peak), peak, Like(b, peak, 0));
  Value sum = Sum(b, b.Unary("exponential", b.Sub(x, Spread(b, peak, x.dims, dims))), dims);
  OutKept(e, 0, b.Add(b.Unary("log", sum), peak));
}

DENDRITE_LOWERING("aten.sum.default", SumAll);
DENDRITE_LOWERING("aten.sum.dim_IntList", SumDims);
DENDRITE_LOWERING("aten.mean.default", MeanAll);
DENDRITE_LOWERING("aten.mean.dim", MeanDims);
DENDRITE_LOWERING("aten.prod.default", ProdAll);
DENDRITE_LOWERING("aten.prod.dim_int", ProdDim);
DENDRITE_LOWERING("aten.nansum.default", NanSum);
DENDRITE_LOWERING("aten.amax.default", Amax);
DENDRITE_LOWERING("aten.amin.default", Amin);
DENDRITE_LOWERING("aten.max.default", MaxAll);
DENDRITE_LOWERING("aten.min.default", MinAll);
DENDRITE_LOWERING("aten.max.dim", MaxDim);
DENDRITE_LOWERING("aten.min.dim", MinDim);
DENDRITE_LOWERING("aten.aminmax.default", AMinMax);
DENDRITE_LOWERING("aten.argmax.default", ArgMax);
DENDRITE_LOWERING("aten.argmin.default", ArgMin);
DENDRITE_LOWERING("aten.any.default", AnyAll);
DENDRITE_LOWERING("aten.any.dim", AnyDims);
DENDRITE_LOWERING("aten.any.dims", AnyDims);
DENDRITE_LOWERING("aten.all.default", AllAll);
DENDRITE_LOWERING("aten.all.dim", AllDimsOp);
DENDRITE_LOWERING("aten.all.dims", AllDimsOp);
DENDRITE_LOWERING("aten._is_all_true.default", AllAll);
DENDRITE_LOWERING("aten._is_any_true.default", AnyAll);
DENDRITE_LOWERING("aten.count_nonzero.default", CountNonzero);
DENDRITE_LOWERING("aten.count_nonzero.dim_IntList", CountNonzero);
DENDRITE_LOWERING("aten.var.correction", Var);
DENDRITE_LOWERING("aten.std.correction", Std);
DENDRITE_LOWERING("aten.var_mean.correction", VarMeanOp);
DENDRITE_LOWERING("aten.std_mean.correction", StdMeanOp);
DENDRITE_LOWERING("aten.linalg_vector_norm.default", LinalgVectorNorm);
DENDRITE_LOWERING("aten.norm.Scalar", NormScalar);
DENDRITE_LOWERING("aten.norm.ScalarOpt_dim", NormScalarOptDim);
DENDRITE_LOWERING("aten.norm.ScalarOpt_dim_dtype", NormScalarOptDim);
DENDRITE_LOWERING("aten.norm.ScalarOpt_dtype", NormScalarOptDtype);
DENDRITE_LOWERING("aten.logsumexp.default", LogSumExp);

}  // namespace
}  // namespace dendrite::lowering
