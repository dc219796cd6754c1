// Shape operations of stablehlo::Builder. Operations that would change nothing return their
// operand.
#include <numeric>

#include "csrc/stablehlo/builder.h"
#include "csrc/stablehlo/text.h"

namespace dendrite::stablehlo {
namespace {

bool InRange(int64_t dim, int64_t rank) { return dim >= 0 && dim < rank; }

}  // namespace

Value Builder::Reshape(const Value& x, const Dims& dims) {
  if (!Expect(x.defined(), "reshape", "undefined operand") || x.dims == dims) return x;
  Expect(tape::NumElements(x.dims) == tape::NumElements(dims), "reshape",
         TypeOf(x) + " to " + TypeText(x.dtype, dims));
  Value out = NewValue(x.dtype, dims);
  Append({out}, "stablehlo.reshape " + Ref(x) + " : " + Signature({x}, {out}));
  return out;
}

Value Builder::Transpose(const Value& x, const Dims& perm) {
  if (!Expect(x.defined(), "transpose", "undefined operand")) return x;
  if (!Expect(static_cast<int64_t>(perm.size()) == x.rank(), "transpose", "rank")) return x;
  Dims dims(perm.size());
  bool identity = true;
  std::vector<bool> seen(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    if (!Expect(InRange(perm[i], x.rank()) && !seen[perm[i]], "transpose",
                "not a permutation: " + ListText(perm))) {
      return x;
    }
    seen[perm[i]] = true;
    dims[i] = x.dims[perm[i]];
    identity = identity && perm[i] == static_cast<int64_t>(i);
  }
  if (identity) return x;
  Value out = NewValue(x.dtype, dims);
  Append({out}, "stablehlo.transpose " + Ref(x) + ", dims = " + ListText(perm) + " : " +
                    Signature({x}, {out}));
  transposes_[out.id] = {x, perm};
  return out;
}

bool Builder::FindTranspose(const Value& v, Value* source, Dims* perm) const {
  const auto it = transposes_.find(v.id);
  if (it == transposes_.end()) return false;
  *source = it->second.source;
  *perm = it->second.perm;
  return true;
}

Value Builder::BroadcastInDim(const Value& x, const Dims& dims, const Dims& dim_map) {
  if (!Expect(x.defined(), "broadcast_in_dim", "undefined operand")) return x;
  bool ok = static_cast<int64_t>(dim_map.size()) == x.rank();
  for (size_t i = 0; ok && i < dim_map.size(); ++i) {
    ok = InRange(dim_map[i], static_cast<int64_t>(dims.size())) &&
         (x.dims[i] == 1 || x.dims[i] == dims[dim_map[i]]);
  }
  Value out = NewValue(x.dtype, dims);
  if (!Expect(ok, "broadcast_in_dim",
              TypeOf(x) + " to " + TypeOf(out) + " along " + ListText(dim_map))) {
    return out;
  }
  Append({out}, "stablehlo.broadcast_in_dim " + Ref(x) + ", dims = " + ListText(dim_map) + " : " +
                    Signature({x}, {out}));
  return out;
}

Value Builder::BroadcastTo(const Value& x, const Dims& dims) {
  if (!Expect(x.defined(), "broadcast_in_dim", "undefined operand") || x.dims == dims) return x;
  const int64_t lead = static_cast<int64_t>(dims.size()) - x.rank();
  if (!Expect(lead >= 0, "broadcast_in_dim", TypeOf(x) + " has too many dimensions")) {
    return NewValue(x.dtype, dims);
  }
  Dims map(x.dims.size());
  std::iota(map.begin(), map.end(), lead);
  return BroadcastInDim(x, dims, map);
}

Value Builder::Slice(const Value& x, const Dims& start, const Dims& limit, const Dims& stride) {
  if (!Expect(x.defined(), "slice", "undefined operand")) return x;
  const size_t n = x.dims.size();
  if (!Expect(start.size() == n && limit.size() == n && stride.size() == n, "slice", "rank")) {
    return x;
  }
  Dims dims(n);
  std::string ranges;
  bool whole = true;
  for (size_t i = 0; i < n; ++i) {
    if (!Expect(start[i] >= 0 && start[i] <= limit[i] && limit[i] <= x.dims[i] && stride[i] > 0,
                "slice", "bounds of " + TypeOf(x) + ": " + ListText(start) + ListText(limit))) {
      return x;
    }
    dims[i] = (limit[i] - start[i] + stride[i] - 1) / stride[i];
    whole = whole && dims[i] == x.dims[i];
    if (i) ranges += ", ";
    ranges += std::to_string(start[i]) + ":" + std::to_string(limit[i]);
    if (stride[i] != 1) ranges += ":" + std::to_string(stride[i]);
  }
  if (whole) return x;
  Value out = NewValue(x.dtype, dims);
  Append({out}, "stablehlo.slice " + Ref(x) + " [" + ranges + "] : " + Signature({x}, {out}));
  return out;
}

Value Builder::DynamicSlice(const Value& x, const std::vector<Value>& starts, const Dims& sizes) {
  if (!Expect(x.defined(), "dynamic_slice", "undefined operand")) return x;
  bool ok = starts.size() == x.dims.size() && sizes.size() == x.dims.size();
  for (size_t i = 0; ok && i < sizes.size(); ++i) {
    ok = sizes[i] >= 0 && sizes[i] <= x.dims[i] && starts[i].defined() && starts[i].dims.empty() &&
         starts[i].dtype == starts[0].dtype;
  }
  Value out = NewValue(x.dtype, sizes);
  if (!Expect(ok, "dynamic_slice", TypeOf(x) + " to " + TypeOf(out))) return out;
  if (x.dims.empty()) return x;
  std::vector<Value> operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  Append({out}, "stablehlo.dynamic_slice " + Refs(operands) + ", sizes = " + ListText(sizes) +
                    " : " + Signature(operands, {out}));
  return out;
}

Value Builder::DynamicUpdateSlice(const Value& x, const Value& update,
                                  const std::vector<Value>& starts) {
  if (!Expect(x.defined() && update.defined(), "dynamic_update_slice", "undefined operand")) {
    return x;
  }
  bool ok = starts.size() == x.dims.size() && update.rank() == x.rank() && update.dtype == x.dtype;
  for (size_t i = 0; ok && i < starts.size(); ++i) {
    ok = update.dims[i] <= x.dims[i] && starts[i].defined() && starts[i].dims.empty() &&
         starts[i].dtype == starts[0].dtype;
  }
  if (!Expect(ok, "dynamic_update_slice", TypeOf(update) + " into " + TypeOf(x))) return x;
  if (x.dims.empty()) return update;
  std::vector<Value> operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  Value out = NewValue(x.dtype, x.dims);
  Append({out},
         "stablehlo.dynamic_update_slice " + Refs(operands) + " : " + Signature(operands, {out}));
  return out;
}

Value Builder::Concatenate(const std::vector<Value>& xs, int64_t dim) {
  if (!Expect(!xs.empty() && xs[0].defined(), "concatenate", "no operands")) {
    return NewValue(DType::kF32, {});
  }
  if (!Expect(InRange(dim, xs[0].rank()), "concatenate", "dimension out of range")) return xs[0];
  Dims dims = xs[0].dims;
  for (size_t k = 1; k < xs.size(); ++k) {
    Dims other = xs[k].dims;
    bool ok = xs[k].defined() && other.size() == dims.size() && xs[k].dtype == xs[0].dtype;
    if (ok) {
      const int64_t extent = other[dim];
      other[dim] = dims[dim];
      ok = other == dims;
      dims[dim] += extent;
    }
    if (!Expect(ok, "concatenate", "operands differ: " + TypesOf(xs))) return xs[0];
  }
  if (xs.size() == 1) return xs[0];
  Value out = NewValue(xs[0].dtype, dims);
  Append({out}, "stablehlo.concatenate " + Refs(xs) + ", dim = " + std::to_string(dim) + " : " +
                    Signature(xs, {out}));
  return out;
}

Value Builder::Pad(const Value& x, const Value& value, const Dims& low, const Dims& high,
                   const Dims& interior) {
  if (!Expect(x.defined() && value.defined(), "pad", "undefined operand")) return x;
  const size_t n = x.dims.size();
  if (!Expect(low.size() == n && high.size() == n && interior.size() == n &&
                  value.dtype == x.dtype && value.dims.empty(),
              "pad", "of " + TypeOf(x) + " with " + TypeOf(value))) {
    return x;
  }
  Dims dims(n);
  for (size_t i = 0; i < n; ++i) {
    dims[i] = x.dims[i] + low[i] + high[i] + (x.dims[i] > 0 ? (x.dims[i] - 1) * interior[i] : 0);
    if (!Expect(dims[i] >= 0 && interior[i] >= 0, "pad", "negative result size")) return x;
  }
  Value out = NewValue(x.dtype, dims);
  Append({out}, "stablehlo.pad " + Refs({x, value}) + ", low = " + ListText(low) +
                    ", high = " + ListText(high) + ", interior = " + ListText(interior) + " : " +
                    Signature({x, value}, {out}));
  return out;
}

Value Builder::Reverse(const Value& x, const Dims& dims) {
  if (!Expect(x.defined(), "reverse", "undefined operand") || dims.empty()) return x;
  for (int64_t d : dims) Expect(InRange(d, x.rank()), "reverse", "dimension out of range");
  return Emit(x.dtype, x.dims,
              "stablehlo.reverse " + Ref(x) + ", dims = " + ListText(dims) + " : " + TypeOf(x));
}

}  // namespace dendrite::stablehlo
