// csrc/lowering/scans.cc - running sums, products, extremes and log-sum-exps along a dimension.
//
// A scan is a loop over rows of the dimension: on XLA's CPU a step costs some nanoseconds and
// slices are updated in place, so that it beats log-step doubling (ten passes over the data) and,
// except over one very long row, reduce_window; it also compiles fastest, and may accumulate in f64
// as PyTorch does.

#include <functional>
#include <limits>

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// (state so far, element) -> new state. The first value of the state is the running result.
using Step = std::function<std::vector<Value>(Builder&, const std::vector<Value>&, const Value&)>;

// x as [n, m] with the scanned dimension first, and the way back.
struct Rows {
  Value x;
  Dims outer_n_inner;  // the shape between
  Dims original;
};

Rows ToRows(Builder& b, const Value& x, int64_t dim) {
  Dims shape = {1, 1, 1};
  for (int64_t i = 0; i < x.rank(); ++i) shape[i < dim ? 0 : i == dim ? 1 : 2] *= x.dims[i];
  Value r = b.Transpose(b.Reshape(x, shape), {1, 0, 2});
  return {b.Reshape(r, {shape[1], shape[0] * shape[2]}), shape, x.dims};
}

Value FromRows(Builder& b, const Value& v, const Rows& rows) {
  const Dims& s = rows.outer_n_inner;
  return b.Reshape(b.Transpose(b.Reshape(v, {s[1], s[0], s[2]}), {1, 0, 2}), rows.original);
}

// Runs `step` along `dim` of x, from `init` (rank 0 each), and stores the first of the state's
// values, as many as `out_types` names.
std::vector<Value> Scan(Emitter& e, const Value& x, int64_t dim, const std::vector<Value>& init,
                        const std::vector<DType>& out_types, const Step& step) {
  Builder& b = e.b();
  const Rows rows = ToRows(b, x, dim);
  const int64_t n = rows.x.dims[0], m = rows.x.dims[1];
  const size_t k = init.size();
  std::vector<Value> carry = {b.ConstantInt(DType::kI32, {}, 0), rows.x};
  for (const Value& v : init) carry.push_back(b.BroadcastTo(v, {1, m}));
  for (DType t : out_types) carry.push_back(b.Constant(t, {n, m}, 0));
  auto cond = [n](Builder& w, const std::vector<Value>& c) {
    return std::vector<Value>{w.Compare(Cmp::kLt, c[0], w.ConstantInt(DType::kI32, {}, n))};
  };
  auto body = [&](Builder& w, const std::vector<Value>& c) {
    const Value zero = w.ConstantInt(DType::kI32, {}, 0);
    Value element = w.DynamicSlice(c[1], {c[0], zero}, {1, m});
    const std::vector<Value> state(c.begin() + 2, c.begin() + 2 + static_cast<ptrdiff_t>(k));
    const std::vector<Value> next = step(w, state, element);
    std::vector<Value> r = {w.Add(c[0], w.ConstantInt(DType::kI32, {}, 1)), c[1]};
    r.insert(r.end(), next.begin(), next.end());
    for (size_t i = 0; i < out_types.size(); ++i) {
      const Value stored = e.To(next[i], out_types[i]);
      r.push_back(w.DynamicUpdateSlice(c[2 + k + i], stored, {c[0], zero}));
    }
    return r;
  };
  std::vector<Value> done = b.While(carry, cond, body);
  std::vector<Value> out;
  for (size_t i = 0; i < out_types.size() && !e.failed(); ++i) {
    out.push_back(FromRows(b, done[2 + k + i], rows));
  }
  return out;
}

// PyTorch accumulates f32 in f64 on the CPU.
DType Accumulator(Emitter& e, DType t) {
  if (t == DType::kF32 && e.traits().has_f64) return DType::kF64;
  return tape::OpMath(t);
}

// One-result scans: cumsum, cumprod, logcumsumexp.
void ScanOp(Emitter& e, Value x, DType stored, double init,
            Value (*combine)(Builder&, const Value&, const Value&)) {
  Builder& b = e.b();
  if (tape::NumElements(x.dims) == 0) return e.Out(0, b.Constant(stored, x.dims, 0));
  const Dims sizes = x.dims;
  const int64_t dim = WrapDim(e.Int(1), x.rank());
  x = AtLeast1d(b, x);
  const DType acc = Accumulator(e, x.dtype);
  const Value start = b.Constant(acc, {}, init);
  std::vector<Value> r =
      Scan(e, x, dim, {start}, {stored},
           [&](Builder& w, const std::vector<Value>& state, const Value& element) {
             return std::vector<Value>{combine(w, state[0], e.To(element, acc))};
           });
  if (!e.failed()) e.Out(0, b.Reshape(r[0], sizes));
}

Value AddStep(Builder& b, const Value& p, const Value& q) { return b.Add(p, q); }
Value MulStep(Builder& b, const Value& p, const Value& q) { return b.Mul(p, q); }

// log(exp(p) + exp(q)); equal infinities stay what they are. Spelled with selects: minimum and
// maximum may drop NaN.
Value LogAddStep(Builder& b, const Value& p, const Value& q) {
  const Value less = b.Compare(Cmp::kLt, p, q);
  const Value low = b.Select(less, p, q), high = b.Select(less, q, p);
  Value sum = b.Unary("log_plus_one", b.Unary("exponential", b.Sub(low, high)));
  Value usual = b.Add(sum, high);
  Value same =
      b.Binary("and", b.Compare(Cmp::kEq, low, high), b.Unary("not", b.Unary("is_finite", low)));
  return b.Select(same, q, usual);
}

void CumSum(Emitter& e) {
  const DType want = e.IsNone(2) ? e.OutView(0).dtype : e.Dtype(2);
  ScanOp(e, e.To(e.In(0), want), want, 0, AddStep);
}

void CumProd(Emitter& e) {
  const DType want = e.IsNone(2) ? e.OutView(0).dtype : e.Dtype(2);
  ScanOp(e, e.To(e.In(0), want), want, 1, MulStep);
}

void LogCumSumExp(Emitter& e) {
  Value x = e.In(0);
  if (!tape::IsFloat(x.dtype)) return e.Fail(Unimplemented("logcumsumexp of a non-float tensor"));
  ScanOp(e, x, x.dtype, -std::numeric_limits<double>::infinity(), LogAddStep);
}

// Values and indices. The later of equals wins, and NaN once met stays, as PyTorch's kernel has it.
void CumExtreme(Emitter& e, bool largest) {
  Builder& b = e.b();
  Value x = e.In(0);
  const DType stored = x.dtype;
  const Dims sizes = x.dims;
  if (tape::NumElements(sizes) == 0) {
    e.Out(0, x);
    return e.Out(1, b.Constant(DType::kI64, sizes, 0));
  }
  const int64_t dim = WrapDim(e.Int(1), x.rank());
  x = AtLeast1d(b, x);
  const DType acc = stored == DType::kBool ? DType::kI32 : tape::OpMath(stored);
  const std::vector<Value> init = {b.Infinity(acc, {}, largest), b.ConstantInt(DType::kI64, {}, 0),
                                   b.ConstantInt(DType::kI64, {}, 0)};
  const Cmp cmp = largest ? Cmp::kGe : Cmp::kLe;
  std::vector<Value> r =
      Scan(e, x, dim, init, {stored, DType::kI64},
           [&](Builder& w, const std::vector<Value>& state, const Value& element) {
             const Value q = e.To(element, acc);
             Value take = w.Compare(cmp, q, state[0]);
             if (tape::IsFloat(acc)) {
               Value later = w.Binary("and", take, w.Unary("not", IsNan(w, state[0])));
               take = w.Binary("or", IsNan(w, q), later);
             }
             Value next = w.Add(state[2], w.ConstantInt(DType::kI64, state[2].dims, 1));
             return std::vector<Value>{w.Select(take, q, state[0]),
                                       w.Select(take, state[2], state[1]), next};
           });
  if (e.failed()) return;
  e.Out(0, b.Reshape(r[0], sizes));
  e.Out(1, b.Reshape(r[1], sizes));
}

void CumMax(Emitter& e) { CumExtreme(e, true); }
void CumMin(Emitter& e) { CumExtreme(e, false); }

DENDRITE_LOWERING("aten.cumsum.default", CumSum);
DENDRITE_LOWERING("aten.cumprod.default", CumProd);
DENDRITE_LOWERING("aten.logcumsumexp.default", LogCumSumExp);
DENDRITE_LOWERING("aten._logcumsumexp.default", LogCumSumExp);
DENDRITE_LOWERING("aten.cummax.default", CumMax);
DENDRITE_LOWERING("aten.cummin.default", CumMin);

}  // namespace
}  // namespace dendrite::lowering
