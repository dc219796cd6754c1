// Gather, scatter, sort, control flow and custom calls of stablehlo::Builder.
#include <algorithm>

#include "csrc/stablehlo/builder.h"
#include "csrc/stablehlo/text.h"

namespace dendrite::stablehlo {
namespace {

bool Contains(const Dims& v, int64_t d) { return std::find(v.begin(), v.end(), d) != v.end(); }

const char* BoolText(bool v) { return v ? "true" : "false"; }

}  // namespace

Value Builder::Gather(const Value& x, const Value& indices, const GatherDims& d, bool sorted) {
  if (!Expect(x.defined() && indices.defined(), "gather", "undefined operand")) return x;
  if (!Expect(d.slice_sizes.size() == x.dims.size() && d.index_vector_dim >= 0 &&
                  d.index_vector_dim <= indices.rank(),
              "gather", "dimension numbers")) {
    return x;
  }
  // Batch dimensions of the indices, in order, fill what offset_dims leaves free.
  Dims batch, window;
  for (int64_t i = 0; i < indices.rank(); ++i) {
    if (i != d.index_vector_dim) batch.push_back(indices.dims[i]);
  }
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!Contains(d.collapsed_slice_dims, i)) window.push_back(d.slice_sizes[i]);
  }
  if (!Expect(window.size() == d.offset_dims.size(), "gather", "offset_dims")) return x;
  Dims result(batch.size() + window.size());
  size_t next_batch = 0, next_window = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    const bool is_window = Contains(d.offset_dims, static_cast<int64_t>(i));
    if (!Expect(is_window ? next_window < window.size() : next_batch < batch.size(), "gather",
                "offset_dims")) {
      return x;
    }
    result[i] = is_window ? window[next_window++] : batch[next_batch++];
  }
  Value out = NewValue(x.dtype, result);
  Append({out},
         "\"stablehlo.gather\"(" + Refs({x, indices}) +
             ") <{dimension_numbers = #stablehlo.gather<offset_dims = " + ListText(d.offset_dims) +
             ", collapsed_slice_dims = " + ListText(d.collapsed_slice_dims) +
             ", start_index_map = " + ListText(d.start_index_map) + ", index_vector_dim = " +
             std::to_string(d.index_vector_dim) + ">, slice_sizes = " + ArrayText(d.slice_sizes) +
             ", indices_are_sorted = " + BoolText(sorted) +
             "}> : " + Signature({x, indices}, {out}));
  return out;
}

Value Builder::Scatter(const Value& x, const Value& indices, const Value& updates,
                       const ScatterDims& d, const Region& body, bool sorted, bool unique) {
  if (!Expect(x.defined() && indices.defined() && updates.defined(), "scatter",
              "undefined operand")) {
    return x;
  }
  if (!Expect(x.dtype == updates.dtype, "scatter", TypesOf({x, updates}))) return x;
  const std::string region = RegionText(x.dtype, body);
  Value out = NewValue(x.dtype, x.dims);
  Append({out}, "\"stablehlo.scatter\"(" + Refs({x, indices, updates}) +
                    ") <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = " +
                    ListText(d.update_window_dims) +
                    ", inserted_window_dims = " + ListText(d.inserted_window_dims) +
                    ", scatter_dims_to_operand_dims = " + ListText(d.scatter_dims_to_operand_dims) +
                    ", index_vector_dim = " + std::to_string(d.index_vector_dim) +
                    ">, indices_are_sorted = " + BoolText(sorted) +
                    ", unique_indices = " + BoolText(unique) + "}> (" + region +
                    ") : " + Signature({x, indices, updates}, {out}));
  return out;
}

std::vector<Value> Builder::Sort(const std::vector<Value>& xs, int64_t dim, bool stable,
                                 const RegionN& body) {
  bool ok = !xs.empty();
  for (const Value& v : xs) ok = ok && v.defined() && v.dims == xs[0].dims;
  ok = ok && dim >= 0 && dim < xs[0].rank();
  if (!Expect(ok, "sort", "operands: " + TypesOf(xs))) return xs;
  std::vector<Value> params, outs;
  for (const Value& v : xs) {
    params.push_back(NewValue(v.dtype, {}));
    params.push_back(NewValue(v.dtype, {}));
  }
  const std::string region = RegionText(params, body, nullptr);
  for (const Value& v : xs) outs.push_back(NewValue(v.dtype, v.dims));
  Append(outs, "\"stablehlo.sort\"(" + Refs(xs) + ") <{dimension = " + std::to_string(dim) +
                   " : i64, is_stable = " + BoolText(stable) + "}> (" + region +
                   ") : " + Signature(xs, outs));
  return outs;
}

std::vector<Value> Builder::While(const std::vector<Value>& init, const RegionN& cond,
                                  const RegionN& body) {
  std::vector<Value> cond_params, body_params, outs;
  for (const Value& v : init) {
    if (!Expect(v.defined(), "while", "undefined operand")) return init;
    cond_params.push_back(NewValue(v.dtype, v.dims));
    body_params.push_back(NewValue(v.dtype, v.dims));
  }
  const std::string cond_text = RegionText(cond_params, cond, nullptr);
  std::vector<Value> yielded;
  const std::string body_text = RegionText(body_params, body, &yielded);
  bool ok = yielded.size() == init.size();
  for (size_t i = 0; ok && i < init.size(); ++i) {
    ok = yielded[i].dtype == init[i].dtype && yielded[i].dims == init[i].dims;
  }
  Expect(ok, "while", "body yields " + TypesOf(yielded) + " for " + TypesOf(init));
  for (const Value& v : init) outs.push_back(NewValue(v.dtype, v.dims));
  Append(outs, "\"stablehlo.while\"(" + Refs(init) + ") (" + cond_text + ", " + body_text +
                   ") : " + Signature(init, outs));
  return outs;
}

std::vector<Value> Builder::CustomCall(std::string_view target, const std::vector<Value>& operands,
                                       const std::vector<std::pair<DType, Dims>>& results,
                                       std::string_view backend_config, bool has_side_effect) {
  std::vector<Value> outs;
  for (const auto& [dtype, dims] : results) outs.push_back(NewValue(dtype, dims));
  for (const Value& v : operands) {
    if (!Expect(v.defined(), "custom_call", "undefined operand")) return outs;
  }
  // The generic form takes any number of results and any characters in the name.
  std::string text = "\"stablehlo.custom_call\"(" + Refs(operands) + ") <{call_target_name = \"" +
                     std::string(target) +
                     "\", api_version = 4 : i32, has_side_effect = " + BoolText(has_side_effect);
  if (!backend_config.empty()) text += ", backend_config = " + std::string(backend_config);
  Append(outs, text + "}> : " + Signature(operands, outs));
  custom_calls_.insert(std::string(target));
  return outs;
}

}  // namespace dendrite::stablehlo
