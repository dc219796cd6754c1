// csrc/lowering/indexing.cc - index, index_put and the operators that index one dimension.
//
// Masks select a number of elements that only the data know: such calls are not lowered, except
// writing one value under a mask, which is a select.
#include "csrc/lowering/indexing.h"

#include <algorithm>
#include <string>
#include <vector>

#include "csrc/lowering/reduce_math.h"

namespace dendrite::lowering {

using stablehlo::Cmp;

Value CheckedIndex(Emitter& e, const Value& index, int64_t size) {
  e.CheckIndices(index, 0, size);
  return e.To(index, DType::kI64);
}

Value WrappedIndex(Emitter& e, const Value& index, int64_t size) {
  Builder& b = e.b();
  e.CheckIndices(index, -size, size);
  const Value i = e.To(index, DType::kI64);
  const Value negative = b.Compare(Cmp::kLt, i, b.ConstantInt(DType::kI64, i.dims, 0));
  return b.Select(negative, b.Add(i, b.ConstantInt(DType::kI64, i.dims, size)), i);
}

Value GatherAlong(Builder& b, const Value& x, int64_t dim, const Value& index) {
  Builder::GatherDims d;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != dim) d.offset_dims.push_back(i);
  }
  d.collapsed_slice_dims = d.start_index_map = {dim};
  d.index_vector_dim = 1;
  d.slice_sizes = x.dims;
  d.slice_sizes[dim] = 1;
  return b.Gather(x, b.Reshape(index, {tape::NumElements(index.dims), 1}), d);
}

Value ScatterAlong(Builder& b, const Value& x, int64_t dim, const Value& index,
                   const Value& updates, const stablehlo::Region& body) {
  Builder::ScatterDims d;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != dim) d.update_window_dims.push_back(i);
  }
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = {dim};
  d.index_vector_dim = 1;
  return b.Scatter(x, b.Reshape(index, {tape::NumElements(index.dims), 1}), updates, d, body);
}

Value FlatIndex(Builder& b, const Value& index, int64_t dim, const Dims& dims) {
  const Dims strides = tape::ContiguousStrides(dims);
  Value sum;
  for (int64_t d = 0; d < index.rank(); ++d) {
    const Value position = d == dim ? index : b.Iota(DType::kI64, index.dims, d);
    const Value term = b.Mul(position, b.ConstantInt(DType::kI64, index.dims, strides[d]));
    sum = sum.defined() ? b.Add(sum, term) : term;
  }
  return sum.defined() ? sum : index;
}

Value GatherFlat(Builder& b, const Value& x, const Value& flat) {
  const Value vector = b.Reshape(x, {tape::NumElements(x.dims)});
  return b.Reshape(GatherAlong(b, vector, 0, flat), flat.dims);
}

Value ScatterFlat(Builder& b, const Value& x, const Value& flat, const Value& updates,
                  const stablehlo::Region& body) {
  const Value vector = b.Reshape(x, {tape::NumElements(x.dims)});
  const Value values = b.Reshape(updates, {tape::NumElements(updates.dims)});
  return b.Reshape(ScatterAlong(b, vector, 0, flat, values, body), x.dims);
}

Value Assign(Builder&, const Value&, const Value& update) { return update; }

Value Accumulate(Builder& b, const Value& current, const Value& update) {
  return b.Add(current, update);
}

stablehlo::Region ReductionBody(const std::string& name) {
  const auto extreme = [](Cmp cmp) {
    return [cmp](Builder& b, const Value& x, const Value& y) {
      Value wins = b.Compare(cmp, x, y);
      if (tape::IsFloat(x.dtype)) wins = b.Binary("or", wins, IsNan(b, x));
      return b.Select(wins, x, y);
    };
  };
  if (name == "sum" || name == "add" || name == "mean") return Accumulate;
  if (name == "prod" || name == "multiply") {
    return [](Builder& b, const Value& x, const Value& y) { return b.Mul(x, y); };
  }
  if (name == "amax") return extreme(Cmp::kGt);
  if (name == "amin") return extreme(Cmp::kLt);
  return nullptr;
}

namespace {

bool IsEmpty(const Dims& dims) { return tape::NumElements(dims) == 0; }

// A list of index tensors against a tensor, as gather and scatter want it.
struct IndexPlan {
  Dims indexed;      // dimensions of self that have an index
  Dims batch;        // the indices' common shape
  Value starts;      // i64 [batch..., indexed]
  Dims window_dims;  // where the unindexed dimensions stand in the result
  Dims slice_sizes;
  Dims result;
};

Dims BroadcastDims(const Dims& x, const Dims& y, bool* ok) {
  Dims out(std::max(x.size(), y.size()), 1);
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t dx = i < x.size() ? x[x.size() - 1 - i] : 1;
    const int64_t dy = i < y.size() ? y[y.size() - 1 - i] : 1;
    if (dx != dy && dx != 1 && dy != 1) *ok = false;
    out[out.size() - 1 - i] = dx == 1 ? dy : dx;
  }
  return out;
}

bool IsMask(const Value& v) { return v.dtype == DType::kBool || v.dtype == DType::kU8; }

bool MakeIndexPlan(Emitter& e, const Value& self, const std::vector<Value>& indices, IndexPlan* p) {
  Builder& b = e.b();
  bool ok = static_cast<int64_t>(indices.size()) <= self.rank();
  for (size_t d = 0; ok && d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    if (IsMask(indices[d])) {
      e.Fail(Unimplemented(e.sig().op + " with a mask"));
      return false;
    }
    p->indexed.push_back(static_cast<int64_t>(d));
    p->batch = BroadcastDims(p->batch, indices[d].dims, &ok);
  }
  if (!ok || p->indexed.empty()) {
    e.Fail(InvalidArgument(e.sig().op + ": indices do not fit the tensor"));
    return false;
  }
  const auto rank_of_batch = static_cast<int64_t>(p->batch.size());
  Dims column = p->batch;
  column.push_back(1);
  std::vector<Value> columns;
  for (int64_t d : p->indexed) {
    const Value wrapped = WrappedIndex(e, indices[d], self.dims[d]);
    columns.push_back(b.Reshape(b.BroadcastTo(wrapped, p->batch), column));
  }
  p->starts = b.Concatenate(columns, rank_of_batch);
  // Adjacent indices leave their dimensions in place; others move to the front.
  const bool adjacent =
      p->indexed.back() - p->indexed.front() + 1 == static_cast<int64_t>(p->indexed.size());
  const int64_t batch_at = adjacent ? p->indexed.front() : 0;
  p->slice_sizes = self.dims;
  for (int64_t d : p->indexed) p->slice_sizes[d] = 1;
  Dims rest;
  for (int64_t d = 0; d < self.rank(); ++d) {
    if (std::find(p->indexed.begin(), p->indexed.end(), d) == p->indexed.end()) rest.push_back(d);
  }
  for (size_t i = 0; i <= rest.size(); ++i) {
    if (static_cast<int64_t>(i) == batch_at) {
      p->result.insert(p->result.end(), p->batch.begin(), p->batch.end());
    }
    if (i == rest.size()) break;
    p->window_dims.push_back(static_cast<int64_t>(p->result.size()));
    p->result.push_back(self.dims[rest[i]]);
  }
  return !e.failed();
}

// (self, indices)
void Index(Emitter& e) {
  const Value self = e.In(0);
  IndexPlan p;
  if (!MakeIndexPlan(e, self, e.InList(1), &p)) return;
  if (IsEmpty(p.result) || IsEmpty(self.dims)) {
    return e.Out(0, e.b().Constant(self.dtype, p.result, 0));
  }
  Builder::GatherDims d;
  d.offset_dims = p.window_dims;
  d.collapsed_slice_dims = d.start_index_map = p.indexed;
  d.index_vector_dim = static_cast<int64_t>(p.batch.size());
  d.slice_sizes = p.slice_sizes;
  e.Out(0, e.b().Gather(self, p.starts, d));
}

// self[..., mask, ...] = value, where the value does not vary along the masked elements.
void PutUnderMask(Emitter& e, const Value& self, const std::vector<Value>& indices,
                  const Value& values, bool accumulate) {
  Builder& b = e.b();
  int64_t at = -1;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    if (at >= 0) return e.Fail(Unimplemented(e.sig().op + " with a mask among indices"));
    at = static_cast<int64_t>(d);
  }
  const Value mask = e.To(indices[at], DType::kBool);
  const int64_t covered = mask.rank(), rest = self.rank() - at - covered;
  if (covered < 1 || rest < 0) return e.Fail(Unimplemented(e.sig().op + " with a 0-dim mask"));
  Dims mask_map = AllDims(covered);
  for (int64_t& d : mask_map) {
    if (mask.dims[d] != self.dims[d + at]) {
      return e.Fail(InvalidArgument(e.sig().op + ": mask does not fit the tensor"));
    }
    d += at;
  }
  // values broadcasts to [before..., selected, after...]: "selected" must be absent or 1.
  Dims dims, map;
  const int64_t lead = at + 1 + rest - values.rank();
  if (lead < 0) return e.Fail(InvalidArgument(e.sig().op + ": values have too many dimensions"));
  for (int64_t i = 0; i < values.rank(); ++i) {
    const int64_t result_dim = i + lead;
    if (result_dim == at) {
      if (values.dims[i] != 1) {
        return e.Fail(Unimplemented(e.sig().op + " with a mask and a value per element"));
      }
      continue;
    }
    dims.push_back(values.dims[i]);
    map.push_back(result_dim < at ? result_dim : result_dim - 1 + covered);
  }
  const Value update = b.BroadcastInDim(b.Reshape(e.To(values, self.dtype), dims), self.dims, map);
  const Value where = b.BroadcastInDim(mask, self.dims, mask_map);
  e.Out(0, b.Select(where, accumulate ? b.Add(self, update) : update, self));
}

// (self, indices, values, accumulate)
void IndexPut(Emitter& e) {
  Builder& b = e.b();
  const Value self = e.In(0);
  const auto indices = e.InList(1);
  const bool accumulate = e.Bool(3);
  if (std::any_of(indices.begin(), indices.end(),
                  [](const Value& v) { return v.defined() && IsMask(v); })) {
    return PutUnderMask(e, self, indices, e.In(2), accumulate);
  }
  IndexPlan p;
  if (!MakeIndexPlan(e, self, indices, &p)) return;
  if (IsEmpty(p.result) || IsEmpty(self.dims)) return e.Out(0, self);
  Builder::ScatterDims d;
  d.update_window_dims = p.window_dims;
  d.inserted_window_dims = d.scatter_dims_to_operand_dims = p.indexed;
  d.index_vector_dim = static_cast<int64_t>(p.batch.size());
  Value values = e.To(e.In(2), self.dtype);
  // Leading ones beyond the result's rank are allowed.
  while (values.rank() > static_cast<int64_t>(p.result.size()) && values.dims[0] == 1) {
    values = b.Reshape(values, Dims(values.dims.begin() + 1, values.dims.end()));
  }
  e.Out(0, b.Scatter(self, p.starts, b.BroadcastTo(values, p.result), d,
                     accumulate ? Accumulate : Assign));
}

// The common start of the operators on one dimension: self with at least one dimension, the wrapped
// dimension and rank-1 indices.
struct OneDim {
  Value self;
  int64_t dim = 0;
  Value index;
};

OneDim ReadOneDim(Emitter& e, bool negative_allowed) {
  OneDim o;
  o.self = AtLeast1d(e.b(), e.In(0));
  o.dim = WrapDim(e.Int(1), o.self.rank());
  const Value index = AtLeast1d(e.b(), e.In(2));
  const int64_t size = o.self.dims[o.dim];
  o.index = negative_allowed ? WrappedIndex(e, index, size) : CheckedIndex(e, index, size);
  return o;
}

// `source` with one row per index, in self's type.
Value Rows(Emitter& e, const OneDim& o, const Value& source) {
  Dims dims = o.self.dims;
  dims[o.dim] = o.index.dims[0];
  return e.b().Reshape(e.To(source, o.self.dtype), dims);
}

void FinishScatter(Emitter& e, const OneDim& o, const Value& updates,
                   const stablehlo::Region& body) {
  const bool nothing = IsEmpty(updates.dims) || IsEmpty(o.self.dims);
  const Value out = nothing ? o.self : ScatterAlong(e.b(), o.self, o.dim, o.index, updates, body);
  e.Out(0, e.b().Reshape(out, e.In(0).dims));
}

// (self, dim, index)
void IndexSelect(Emitter& e) {
  if (!e.Wanted(0)) return;
  const OneDim o = ReadOneDim(e, false);
  const Dims out = e.OutView(0).sizes;
  if (IsEmpty(out) || IsEmpty(o.self.dims)) {
    return e.Out(0, e.b().Constant(o.self.dtype, out, 0));
  }
  e.Out(0, e.b().Reshape(GatherAlong(e.b(), o.self, o.dim, o.index), out));
}

// (self, dim, index, source, alpha)
void IndexAdd(Emitter& e) {
  const OneDim o = ReadOneDim(e, false);
  Value rows = Rows(e, o, e.In(3));
  const bool unit = e.IsNone(4) || (e.arg(4).kind == Arg::Kind::kInt && e.Int(4) == 1);
  if (!unit) {
    const DType math = tape::OpMath(rows.dtype);
    rows = e.To(e.b().Mul(e.To(rows, math), e.b().BroadcastTo(e.Scalar(4, math), rows.dims)),
                o.self.dtype);
  }
  FinishScatter(e, o, rows, Accumulate);
}

// (self, dim, index, source)
void IndexCopy(Emitter& e) {
  const OneDim o = ReadOneDim(e, false);
  FinishScatter(e, o, Rows(e, o, e.In(3)), Assign);
}

// (self, dim, index, value)
void IndexFill(Emitter& e) {
  const OneDim o = ReadOneDim(e, true);
  Dims dims = o.self.dims;
  dims[o.dim] = o.index.dims[0];
  const Value value = e.arg(3).kind == Arg::Kind::kTensor
                          ? e.b().Reshape(e.To(e.In(3), o.self.dtype), {})
                          : e.Scalar(3, o.self.dtype);
  FinishScatter(e, o, e.b().BroadcastTo(value, dims), Assign);
}

// (self, index)
void Take(Emitter& e) {
  const Value self = e.In(0), index = e.In(1);
  const Value at = WrappedIndex(e, index, tape::NumElements(self.dims));
  if (IsEmpty(index.dims) || IsEmpty(self.dims)) {
    return e.Out(0, e.b().Constant(self.dtype, index.dims, 0));
  }
  e.Out(0, GatherFlat(e.b(), self, at));
}

// (self, index, source, accumulate)
void Put(Emitter& e) {
  const Value self = e.In(0);
  const Value at = WrappedIndex(e, e.In(1), tape::NumElements(self.dims));
  if (IsEmpty(at.dims) || IsEmpty(self.dims)) return e.Out(0, self);
  e.Out(0,
        ScatterFlat(e.b(), self, at, e.To(e.In(2), self.dtype), e.Bool(3) ? Accumulate : Assign));
}

DENDRITE_LOWERING("aten.index.Tensor", Index);
DENDRITE_LOWERING("aten._unsafe_index.Tensor", Index);
DENDRITE_LOWERING("aten.index_put.default", IndexPut);
DENDRITE_LOWERING("aten._index_put_impl.default", IndexPut);
DENDRITE_LOWERING("aten._unsafe_index_put.default", IndexPut);
DENDRITE_LOWERING("aten.index_select.default", IndexSelect);
DENDRITE_LOWERING("aten.index_add.default", IndexAdd);
DENDRITE_LOWERING("aten.index_copy.default", IndexCopy);
DENDRITE_LOWERING("aten.index_fill.int_Scalar", IndexFill);
DENDRITE_LOWERING("aten.index_fill.int_Tensor", IndexFill);
DENDRITE_LOWERING("aten.take.default", Take);
DENDRITE_LOWERING("aten.put.default", Put);

}  // namespace
}  // namespace dendrite::lowering
