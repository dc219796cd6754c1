// csrc/lowering/scatter.cc - gather, and the scatters of element-wise indices.
//
// All work on the flattened tensor with row-major positions, so that one index per element
// suffices.
#include <string>
#include <vector>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

bool IsEmpty(const Value& v) { return tape::NumElements(v.dims) == 0; }

// The first elements of v in each dimension: operands may be larger than the index.
Value Corner(Builder& b, const Value& v, const Dims& dims) {
  if (v.dims.size() != dims.size()) return b.Reshape(v, dims);
  return b.Slice(v, Dims(dims.size(), 0), dims, Dims(dims.size(), 1));
}

struct Elements {
  Value self;   // with at least one dimension
  Value index;  // the same rank
  Value flat;   // positions in self
};

// (self, dim, index, ...)
Elements ReadElements(Emitter& e) {
  Builder& b = e.b();
  Elements s;
  s.self = AtLeast1d(b, e.In(0));
  s.index = AtLeast1d(b, e.In(2));
  const int64_t dim = WrapDim(e.Int(1), s.self.rank());
  if (s.index.rank() != s.self.rank() && !IsEmpty(s.index)) {
    e.Fail(InvalidArgument(e.sig().op + ": index and tensor differ in rank"));
  }
  if (e.failed() || IsEmpty(s.index)) return s;
  s.flat = FlatIndex(b, CheckedIndex(e, s.index, s.self.dims[dim]), dim, s.self.dims);
  return s;
}

// (self, dim, index, sparse_grad)
void Gather(Emitter& e) {
  const Elements s = ReadElements(e);
  if (e.failed()) return;
  const Dims out = e.In(2).dims;
  if (IsEmpty(s.index)) return e.Out(0, e.b().Constant(s.self.dtype, out, 0));
  e.Out(0, e.b().Reshape(GatherFlat(e.b(), s.self, s.flat), out));
}

// The source of a scatter: a tensor cut to the index's shape, or a number.
Value Source(Emitter& e, const Elements& s, int i) {
  if (e.arg(i).kind != Arg::Kind::kTensor) {
    return e.b().BroadcastTo(e.Scalar(i, s.self.dtype), s.index.dims);
  }
  return Corner(e.b(), e.To(AtLeast1d(e.b(), e.In(i)), s.self.dtype), s.index.dims);
}

void Scatter(Emitter& e, const stablehlo::Region& body) {
  const Elements s = ReadElements(e);
  if (e.failed()) return;
  if (body == nullptr) return e.Fail(Unimplemented(e.sig().op + ": unknown reduction"));
  if (IsEmpty(s.index)) return e.Out(0, e.In(0));
  const Value out = ScatterFlat(e.b(), s.self, s.flat, Source(e, s, 3), body);
  e.Out(0, e.b().Reshape(out, e.In(0).dims));
}

void ScatterAssign(Emitter& e) { Scatter(e, Assign); }
void ScatterAdd(Emitter& e) { Scatter(e, Accumulate); }
void ScatterNamed(Emitter& e) { Scatter(e, ReductionBody(e.String(4))); }

// What leaves the other operand of a reduction unchanged.
Value Identity(Builder& b, const std::string& reduce, DType dtype, const Dims& dims) {
  if (reduce == "prod") return b.Constant(dtype, dims, 1);
  if (reduce == "amax") return b.Infinity(dtype, dims, true);
  if (reduce == "amin") return b.Infinity(dtype, dims, false);
  return b.Constant(dtype, dims, 0);
}

// sum / count: floor division for integers, as PyTorch divides.
Value MeanOf(Emitter& e, const Value& sum, const Value& count) {
  Builder& b = e.b();
  const Value n = e.To(count, sum.dtype);
  const Value quotient = b.Div(sum, n);
  if (!tape::IsIntegral(sum.dtype) || tape::IsUnsigned(sum.dtype)) return quotient;
  const Value zero = Like(b, sum, 0);
  const Value inexact = b.Compare(Cmp::kNe, b.Mul(quotient, n), sum);
  const Value down = b.Binary("and", inexact, b.Compare(Cmp::kLt, sum, zero));
  return b.Select(down, b.Sub(quotient, Like(b, sum, 1)), quotient);
}

// Reduces `updates` into self at flat positions.
Value ScatterReduceFlat(Emitter& e, const Value& self, const Value& flat, const Value& updates,
                        const std::string& reduce, bool include_self) {
  Builder& b = e.b();
  const stablehlo::Region body = ReductionBody(reduce);
  if (body == nullptr || reduce == "add" || reduce == "multiply") {
    e.Fail(Unimplemented(e.sig().op + ": reduction " + reduce));
    return self;
  }
  Value start = self;
  if (!include_self) {
    start = ScatterFlat(b, self, flat, Identity(b, reduce, self.dtype, updates.dims), Assign);
  }
  const Value result = ScatterFlat(b, start, flat, updates, body);
  if (reduce != "mean") return result;
  const Value ones = b.ConstantInt(DType::kI64, updates.dims, 1);
  const Value base = b.ConstantInt(DType::kI64, self.dims, include_self ? 1 : 0);
  const Value count = ScatterFlat(b, base, flat, ones, Accumulate);
  const Value one = b.ConstantInt(DType::kI64, self.dims, 1);
  return MeanOf(e, result, b.Binary("maximum", count, one));
}

// (self, dim, index, src, reduce, include_self)
void ScatterReduce(Emitter& e) {
  const Elements s = ReadElements(e);
  if (e.failed()) return;
  if (IsEmpty(s.index)) return e.Out(0, e.In(0));
  const Value out =
      ScatterReduceFlat(e, s.self, s.flat, Source(e, s, 3), e.String(4), e.Bool(5, true));
  e.Out(0, e.b().Reshape(out, e.In(0).dims));
}

// (self, dim, index, source, reduce, include_self): as scatter_reduce, with one index for a whole
// row.
void IndexReduce(Emitter& e) {
  Builder& b = e.b();
  const Value self = AtLeast1d(b, e.In(0));
  const int64_t dim = WrapDim(e.Int(1), self.rank());
  const Value index = CheckedIndex(e, AtLeast1d(b, e.In(2)), self.dims[dim]);
  Dims dims = self.dims;
  dims[dim] = index.dims[0];
  if (tape::NumElements(dims) == 0) return e.Out(0, e.In(0));
  const Value flat = FlatIndex(b, Along(b, index, dims, dim), dim, self.dims);
  const Value source = b.Reshape(e.To(e.In(3), self.dtype), dims);
  const Value out = ScatterReduceFlat(e, self, flat, source, e.String(4), e.Bool(5, true));
  e.Out(0, b.Reshape(out, e.In(0).dims));
}

DENDRITE_LOWERING("aten.gather.default", Gather);
DENDRITE_LOWERING("aten.scatter.src", ScatterAssign);
DENDRITE_LOWERING("aten.scatter.value", ScatterAssign);
DENDRITE_LOWERING("aten.scatter.reduce", ScatterNamed);
DENDRITE_LOWERING("aten.scatter.value_reduce", ScatterNamed);
DENDRITE_LOWERING("aten.scatter_add.default", ScatterAdd);
DENDRITE_LOWERING("aten.scatter_reduce.two", ScatterReduce);
DENDRITE_LOWERING("aten.index_reduce.default", IndexReduce);

}  // namespace
}  // namespace dendrite::lowering
