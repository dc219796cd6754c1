// csrc/lowering/matrix_exp.cc - exponentials of matrices: Taylor's series of a matrix scaled to a
// norm of at most 1, squared as often as it was halved.
#include <cmath>

#include "csrc/lowering/matrix.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// sum of x^k / k!, k < 20, for norms up to 1: in groups of four powers, with seven products.
Value Series(Builder& b, const Value& x) {
  std::vector<Value> power = {Identity(b, x.dtype, x.dims), x};
  for (int k = 2; k <= 4; ++k) power.push_back(MatProduct(b, power.back(), x));
  Value sum;
  for (int group = 4; group >= 0; --group) {
    if (sum.defined()) sum = MatProduct(b, sum, power[4]);
    for (int k = 0; k < 4; ++k) {
      const double factor = 1 / std::tgamma(4.0 * group + k + 1);
      const Value term = b.Mul(power[k], Like(b, x, factor));
      sum = sum.defined() ? b.Add(sum, term) : term;
    }
  }
  return sum;
}

void MatrixExp(Emitter& e) {
  Builder& b = e.b();
  const Value raw = e.In(0);
  if (!tape::IsFloat(raw.dtype) && !tape::IsComplex(raw.dtype)) {
    return e.Fail(Unimplemented("an exponential of integers"));
  }
  if (tape::NumElements(raw.dims) == 0) return e.Out(0, raw);
  // Each squaring doubles the error so far.
  const Value a = e.To(raw, WidestType(e, raw.dtype));
  if (RefuseMatrix(e, a)) return;
  const Value x = Stack(b, a);
  const int64_t batch = x.dims[0];
  // Halvings per matrix, from the largest column sum; none for what is not finite.
  const Value norm = MaxIgnoringNan(b, Sum(b, b.Unary("abs", x), {1}), {1});
  const Value log = b.Div(b.Unary("log", norm), Like(b, norm, std::log(2.0)));
  const Value one_or_more =
      b.Binary("and", b.Compare(Cmp::kGt, norm, Like(b, norm, 1)), b.Unary("is_finite", norm));
  const Value halvings =
      b.Convert(b.Select(one_or_more, b.Unary("ceil", log), Like(b, log, 0)), DType::kI32);
  const Value scale = b.Binary("power", Like(b, norm, 0.5), b.Convert(halvings, norm.dtype));
  const Value scaled = b.Mul(x, b.BroadcastInDim(b.Convert(scale, x.dtype), x.dims, {0}));
  const Value most = b.Reduce(
      halvings, b.ConstantInt(DType::kI32, {}, 0), {0},
      [](Builder& r, const Value& p, const Value& q) { return r.Binary("maximum", p, q); });
  const Value v = b.While(
      {b.ConstantInt(DType::kI32, {}, 0), Series(b, scaled), halvings, most},
      [](Builder& w, const std::vector<Value>& c) {
        return std::vector<Value>{w.Compare(Cmp::kLt, c[0], c[3])};
      },
      [&](Builder& w, const std::vector<Value>& c) {
        const Value goes_on = w.Compare(Cmp::kLt, w.BroadcastTo(c[0], {batch}), c[2]);
        const Value squared = MatProduct(w, c[1], c[1]);
        return std::vector<Value>{
            w.Add(c[0], w.ConstantInt(DType::kI32, {}, 1)),
            w.Select(w.BroadcastInDim(goes_on, squared.dims, {0}), squared, c[1]), c[2], c[3]};
      })[1];
  e.Out(0, Unstack(b, v, LeadingDims(a.dims)));
}

DENDRITE_LOWERING("aten.linalg_matrix_exp.default", MatrixExp);

}  // namespace
}  // namespace dendrite::lowering
