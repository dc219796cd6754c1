// Contractions, reductions and windows of stablehlo::Builder.
#include <algorithm>

#include "csrc/stablehlo/builder.h"
#include "csrc/stablehlo/text.h"

namespace dendrite::stablehlo {
namespace {

bool Contains(const Dims& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); }

// "[b, f, 0, 1]": what each dimension of a tensor means, given where each meaning lies.
std::string DimNumbers(const Dims& order, size_t rank, char first, char second) {
  std::vector<std::string> names(rank);
  for (size_t k = 0; k < rank; ++k) {
    const auto at = static_cast<size_t>(order.empty() ? static_cast<int64_t>(k) : order[k]);
    if (at < rank) {
      names[at] = k == 0 ? std::string(1, first)
                         : (k == 1 ? std::string(1, second) : std::to_string(k - 2));
    }
  }
  std::string out = "[";
  for (size_t i = 0; i < rank; ++i) out += (i ? ", " : "") + names[i];
  return out + "]";
}

int64_t At(const Dims& order, size_t k) {
  return order.empty() ? static_cast<int64_t>(k) : order[k];
}

int64_t Dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

int64_t WindowCount(int64_t padded, int64_t window, int64_t stride) {
  return padded < window ? 0 : (padded - window) / stride + 1;
}

}  // namespace

Value Builder::TriangularSolve(const Value& a, const Value& b, bool left, bool lower,
                               bool unit_diagonal) {
  if (!Expect(a.defined() && b.defined(), "triangular_solve", "undefined operand")) return b;
  const int64_t rank = a.rank();
  const bool ok = rank >= 2 && b.rank() == rank && a.dtype == b.dtype &&
                  a.dims[rank - 1] == a.dims[rank - 2] &&
                  a.dims[rank - 1] == b.dims[rank - (left ? 2 : 1)] &&
                  std::equal(a.dims.begin(), a.dims.end() - 2, b.dims.begin());
  if (!Expect(ok, "triangular_solve", TypeOf(a) + " with " + TypeOf(b))) return b;
  const auto flag = [](bool v) { return v ? "true" : "false"; };
  Value out = NewValue(b.dtype, b.dims);
  Append({out},
         "\"stablehlo.triangular_solve\"(" + Refs({a, b}) + ") <{left_side = " + flag(left) +
             ", lower = " + flag(lower) + ", unit_diagonal = " + flag(unit_diagonal) +
             ", transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : " + Signature({a, b}, {out}));
  return out;
}

Value Builder::DotGeneral(const Value& a, const Value& b, const DotDims& dims, DType out_type) {
  if (!Expect(a.defined() && b.defined(), "dot_general", "undefined operand")) return a;
  bool ok = dims.lhs_batch.size() == dims.rhs_batch.size() &&
            dims.lhs_contract.size() == dims.rhs_contract.size();
  const auto in_range = [](const Dims& v, const Value& x) {
    return std::all_of(v.begin(), v.end(), [&](int64_t d) { return d >= 0 && d < x.rank(); });
  };
  ok = ok && in_range(dims.lhs_batch, a) && in_range(dims.lhs_contract, a) &&
       in_range(dims.rhs_batch, b) && in_range(dims.rhs_contract, b);
  for (size_t i = 0; ok && i < dims.lhs_batch.size(); ++i) {
    ok = a.dims[dims.lhs_batch[i]] == b.dims[dims.rhs_batch[i]];
  }
  for (size_t i = 0; ok && i < dims.lhs_contract.size(); ++i) {
    ok = a.dims[dims.lhs_contract[i]] == b.dims[dims.rhs_contract[i]];
  }
  if (!Expect(ok, "dot_general", TypeOf(a) + " with " + TypeOf(b))) return a;
  Dims result;
  for (int64_t d : dims.lhs_batch) result.push_back(a.dims[d]);
  for (int64_t d = 0; d < a.rank(); ++d) {
    if (!Contains(dims.lhs_batch, d) && !Contains(dims.lhs_contract, d)) {
      result.push_back(a.dims[d]);
    }
  }
  for (int64_t d = 0; d < b.rank(); ++d) {
    if (!Contains(dims.rhs_batch, d) && !Contains(dims.rhs_contract, d)) {
      result.push_back(b.dims[d]);
    }
  }
  Value out = NewValue(out_type, result);
  std::string text = "stablehlo.dot_general " + Refs({a, b});
  if (!dims.lhs_batch.empty()) {
    text += ", batching_dims = " + ListText(dims.lhs_batch) + " x " + ListText(dims.rhs_batch);
  }
  text += ", contracting_dims = " + ListText(dims.lhs_contract) + " x " +
          ListText(dims.rhs_contract) + " : " + Signature({a, b}, {out});
  Append({out}, text);
  return out;
}

Value Builder::Convolution(const Value& lhs, const Value& rhs, const ConvDims& d, DType out_type) {
  if (!Expect(lhs.defined() && rhs.defined(), "convolution", "undefined operand")) return lhs;
  const size_t rank = lhs.dims.size();
  const size_t spatial = rank - 2;
  const auto order_ok = [&](const Dims& order) { return order.empty() || order.size() == rank; };
  if (!Expect(rank >= 2 && rhs.dims.size() == rank && d.stride.size() == spatial &&
                  d.pad_low.size() == spatial && d.pad_high.size() == spatial &&
                  d.lhs_dilate.size() == spatial && d.rhs_dilate.size() == spatial &&
                  (d.reverse.empty() || d.reverse.size() == spatial) && order_ok(d.lhs_order) &&
                  order_ok(d.rhs_order) && order_ok(d.out_order),
              "convolution", "ranks differ")) {
    return lhs;
  }
  Dims result(rank);
  result[At(d.out_order, 0)] = lhs.dims[At(d.lhs_order, 0)] / d.batch_groups;
  result[At(d.out_order, 1)] = rhs.dims[At(d.rhs_order, 0)];
  Expect(lhs.dims[At(d.lhs_order, 1)] == rhs.dims[At(d.rhs_order, 1)] * d.feature_groups,
         "convolution", "features differ: " + TypesOf({lhs, rhs}));
  std::string pads = "[";
  Dims reverse(spatial);
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t padded =
        Dilated(lhs.dims[At(d.lhs_order, i + 2)], d.lhs_dilate[i]) + d.pad_low[i] + d.pad_high[i];
    const int64_t window = Dilated(rhs.dims[At(d.rhs_order, i + 2)], d.rhs_dilate[i]);
    result[At(d.out_order, i + 2)] = WindowCount(padded, window, d.stride[i]);
    pads += (i ? ", " : "") + ListText({d.pad_low[i], d.pad_high[i]});
    reverse[i] = !d.reverse.empty() && d.reverse[i];
  }
  Value out = NewValue(out_type, result);
  Append({out}, "stablehlo.convolution(" + Refs({lhs, rhs}) +
                    ") dim_numbers = " + DimNumbers(d.lhs_order, rank, 'b', 'f') + "x" +
                    DimNumbers(d.rhs_order, rank, 'o', 'i') + "->" +
                    DimNumbers(d.out_order, rank, 'b', 'f') +
                    ", window = {stride = " + ListText(d.stride) + ", pad = " + pads +
                    "], lhs_dilate = " + ListText(d.lhs_dilate) + ", rhs_dilate = " +
                    ListText(d.rhs_dilate) + ", reverse = " + ListText(reverse) +
                    "} {batch_group_count = " + std::to_string(d.batch_groups) +
                    " : i64, feature_group_count = " + std::to_string(d.feature_groups) +
                    " : i64} : " + Signature({lhs, rhs}, {out}));
  return out;
}

Value Builder::Reduce(const Value& x, const Value& init, const Dims& dims, const Region& body) {
  return ReduceN({x}, {init}, dims, [&](Builder& b, const std::vector<Value>& p) {
    return std::vector<Value>{body(b, p[0], p[1])};
  })[0];
}

std::vector<Value> Builder::ReduceN(const std::vector<Value>& xs, const std::vector<Value>& inits,
                                    const Dims& dims, const RegionN& body) {
  bool ok = !xs.empty() && xs.size() == inits.size();
  for (size_t i = 0; ok && i < xs.size(); ++i) {
    ok = xs[i].defined() && inits[i].defined() && xs[i].dims == xs[0].dims &&
         inits[i].dims.empty() && inits[i].dtype == xs[i].dtype;
  }
  for (int64_t d : dims) ok = ok && d >= 0 && d < xs[0].rank();
  if (!Expect(ok, "reduce", "operands: " + TypesOf(xs) + "; " + TypesOf(inits))) return inits;
  Dims result;
  for (int64_t d = 0; d < xs[0].rank(); ++d) {
    if (!Contains(dims, d)) result.push_back(xs[0].dims[d]);
  }
  std::vector<Value> params, outs, operands = xs;
  operands.insert(operands.end(), inits.begin(), inits.end());
  for (const Value& v : operands) params.push_back(NewValue(v.dtype, {}));
  const std::string region = RegionText(params, body, nullptr);
  for (const Value& v : xs) outs.push_back(NewValue(v.dtype, result));
  Append(outs, "\"stablehlo.reduce\"(" + Refs(operands) + ") <{dimensions = " + ArrayText(dims) +
                   "}> (" + region + ") : " + Signature(operands, outs));
  return outs;
}

Value Builder::ReduceWindow(const Value& x, const Value& init, const Dims& window,
                            const Dims& stride, const Dims& window_dilation, const Dims& pad_low,
                            const Dims& pad_high, const Region& body) {
  return ReduceWindowN({x}, {init}, window, stride, window_dilation, pad_low, pad_high,
                       [&](Builder& b, const std::vector<Value>& p) {
                         return std::vector<Value>{body(b, p[0], p[1])};
                       })[0];
}

std::vector<Value> Builder::ReduceWindowN(const std::vector<Value>& xs,
                                          const std::vector<Value>& inits, const Dims& window,
                                          const Dims& stride, const Dims& window_dilation,
                                          const Dims& pad_low, const Dims& pad_high,
                                          const RegionN& body) {
  bool ok = !xs.empty() && xs.size() == inits.size();
  for (size_t i = 0; ok && i < xs.size(); ++i) {
    ok = xs[i].defined() && inits[i].defined() && xs[i].dims == xs[0].dims &&
         inits[i].dims.empty() && inits[i].dtype == xs[i].dtype;
  }
  const size_t rank = ok ? xs[0].dims.size() : 0;
  ok = ok && window.size() == rank && stride.size() == rank && window_dilation.size() == rank &&
       pad_low.size() == rank && pad_high.size() == rank;
  if (!Expect(ok, "reduce_window", "operands: " + TypesOf(xs))) return inits;
  Dims result(rank);
  for (size_t i = 0; i < rank; ++i) {
    result[i] = WindowCount(xs[0].dims[i] + pad_low[i] + pad_high[i],
                            Dilated(window[i], window_dilation[i]), stride[i]);
  }
  std::vector<Value> params, outs, operands = xs;
  operands.insert(operands.end(), inits.begin(), inits.end());
  for (const Value& v : operands) params.push_back(NewValue(v.dtype, {}));
  const std::string region = RegionText(params, body, nullptr);
  for (const Value& v : xs) outs.push_back(NewValue(v.dtype, result));
  Append(outs, "\"stablehlo.reduce_window\"(" + Refs(operands) + ") <{window_dimensions = " +
                   ArrayText(window) + ", window_strides = " + ArrayText(stride) +
                   ", base_dilations = " + ArrayText(Dims(rank, 1)) + ", window_dilations = " +
                   ArrayText(window_dilation) + ", padding = " + PairsText(pad_low, pad_high) +
                   "}> (" + region + ") : " + Signature(operands, outs));
  return outs;
}

}  // namespace dendrite::stablehlo
