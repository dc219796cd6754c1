// csrc/stablehlo/builder.h - a small typed builder that emits StableHLO text.
//
// One Builder writes one func.func body. Every method appends one operation (or a few) and returns
// its typed result; shapes are checked on the way, and the first mistake is kept as a Status that
// Finish reports, so emitters need no error handling per line. Values are plain handles, valid for
// the Builder that made them. Not thread safe: one Builder belongs to one thread.
//
// Semantics of each operation: the StableHLO specification. Where PyTorch differs from the
// compilers' usual lowering (NaN in max, integer division by zero, shift amounts), the *lowering*
// spells it out; the builder emits what it is told.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/tape/dtype.h"
#include "csrc/tape/record.h"

namespace dendrite::stablehlo {

using tape::Dims;
using tape::DType;

struct Value {
  int32_t id = -1;  // -1: no value
  DType dtype = DType::kUndefined;
  Dims dims;
  bool defined() const { return id >= 0; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

enum class Cmp { kEq, kNe, kLt, kLe, kGt, kGe };

// Of the last one to three dimensions. The two inverse kinds divide by the number of elements.
enum class FftKind { kComplex, kInverse, kRealToComplex, kComplexToReal };

struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};

struct ConvDims {  // layout: lhs [N, C, spatial...], rhs [O, I, spatial...], out [N, C, spatial...]
  Dims stride, pad_low, pad_high, lhs_dilate, rhs_dilate;
  std::vector<bool> reverse;  // window reversal per spatial dimension
  int64_t feature_groups = 1;
  int64_t batch_groups = 1;
  // Dimension order of each tensor: position of batch/feature (or out/in feature) and spatial dims.
  Dims lhs_order, rhs_order, out_order;  // empty: 0, 1, 2, ... as above
};

// Emits the body of a reduction: (accumulator, element) -> accumulator, on rank-0 values.
class Builder;
using Region = std::function<Value(Builder&, const Value&, const Value&)>;
using RegionN = std::function<std::vector<Value>(Builder&, const std::vector<Value>&)>;

class Builder {
 public:
  Builder() = default;
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // Adds an argument of the function. aliased_output >= 0 marks it as donated to that result.
  Value Argument(DType dtype, const Dims& dims, int aliased_output = -1);
  // Sets the source location put on the operations that follow; empty file: none.
  void SetLocation(std::string_view file, int line);

  // --- constants
  Value Constant(DType dtype, const Dims& dims, double v);      // splat; exact for the dtype
  Value ConstantInt(DType dtype, const Dims& dims, int64_t v);  // splat; exact for 64-bit integers
  Value ConstantComplex(DType dtype, const Dims& dims, double re, double im);
  Value ConstantInts(DType dtype, const std::vector<int64_t>& values);   // rank 1
  Value ConstantFloats(DType dtype, const std::vector<double>& values);  // rank 1
  Value MaxFinite(DType dtype, const Dims& dims);  // the largest finite or integer value
  Value Lowest(DType dtype, const Dims& dims);     // the lowest finite or integer value
  Value Infinity(DType dtype, const Dims& dims, bool negative);  // integers: as MaxFinite / Lowest
  Value Iota(DType dtype, const Dims& dims, int64_t dim);

  // --- pointwise; operands of one type and shape
  Value Unary(std::string_view op,
              const Value& x);  // "abs", "exponential", "tanh", "not", "is_finite" ...
  Value Binary(std::string_view op, const Value& a,
               const Value& b);  // "add", "multiply", "maximum", "and" ...
  Value Add(const Value& a, const Value& b) { return Binary("add", a, b); }
  Value Sub(const Value& a, const Value& b) { return Binary("subtract", a, b); }
  Value Mul(const Value& a, const Value& b) { return Binary("multiply", a, b); }
  Value Div(const Value& a, const Value& b) { return Binary("divide", a, b); }
  Value Compare(Cmp cmp, const Value& a, const Value& b);  // -> bool
  Value Select(const Value& pred, const Value& on_true, const Value& on_false);
  Value Clamp(const Value& lo, const Value& x, const Value& hi);
  Value Convert(const Value& x, DType to);  // StableHLO convert; bool from number: x != 0
  // A smaller type adds a last dimension (the parts, low bytes first), a larger one takes it away.
  Value BitcastConvert(const Value& x, DType to);
  Value Complex(const Value& re, const Value& im);
  Value Real(const Value& x) { return Unary("real", x); }
  Value Imag(const Value& x) { return Unary("imag", x); }

  // --- shape
  Value Reshape(const Value& x, const Dims& dims);
  Value Transpose(const Value& x, const Dims& perm);
  // True if v was made by Transpose: of which value, and how. Lets products read the source
  // instead.
  bool FindTranspose(const Value& v, Value* source, Dims* perm) const;
  // dim_map[i]: the result dimension that dimension i of x becomes (stretched where x has size 1).
  Value BroadcastInDim(const Value& x, const Dims& dims, const Dims& dim_map);
  // NumPy broadcasting, aligned at the right.
  Value BroadcastTo(const Value& x, const Dims& dims);
  Value Slice(const Value& x, const Dims& start, const Dims& limit, const Dims& stride);
  Value DynamicSlice(const Value& x, const std::vector<Value>& starts, const Dims& sizes);
  Value DynamicUpdateSlice(const Value& x, const Value& update, const std::vector<Value>& starts);
  Value Concatenate(const std::vector<Value>& xs, int64_t dim);
  Value Pad(const Value& x, const Value& value, const Dims& low, const Dims& high,
            const Dims& interior);
  Value Reverse(const Value& x, const Dims& dims);

  // --- contraction and windows
  Value DotGeneral(const Value& a, const Value& b, const DotDims& dims, DType out);
  // x of a x = b (left) or x a = b, batches alike; the other triangle of `a` is not looked at.
  Value TriangularSolve(const Value& a, const Value& b, bool left, bool lower, bool unit_diagonal);
  // `lower` or upper factor of the same triangle of x; the other triangle of the result is
  // anything.
  Value Cholesky(const Value& x, bool lower);
  // lengths: sizes of the transformed dimensions on the side that is not halved.
  Value Fft(const Value& x, FftKind kind, const Dims& lengths);
  Value Convolution(const Value& lhs, const Value& rhs, const ConvDims& dims, DType out);
  Value Reduce(const Value& x, const Value& init, const Dims& dims, const Region& body);
  // Several operands reduced together (argmax: values and indices). body gets 2n values:
  // accumulators then elements, and returns n.
  std::vector<Value> ReduceN(const std::vector<Value>& xs, const std::vector<Value>& inits,
                             const Dims& dims, const RegionN& body);
  Value ReduceWindow(const Value& x, const Value& init, const Dims& window, const Dims& stride,
                     const Dims& window_dilation, const Dims& pad_low, const Dims& pad_high,
                     const Region& body);
  std::vector<Value> ReduceWindowN(const std::vector<Value>& xs, const std::vector<Value>& inits,
                                   const Dims& window, const Dims& stride,
                                   const Dims& window_dilation, const Dims& pad_low,
                                   const Dims& pad_high, const RegionN& body);

  // --- indexing, sorting
  struct GatherDims {
    Dims offset_dims, collapsed_slice_dims, start_index_map;
    int64_t index_vector_dim = 0;
    Dims slice_sizes;
  };
  Value Gather(const Value& x, const Value& indices, const GatherDims& dims, bool sorted = false);
  struct ScatterDims {
    Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
    int64_t index_vector_dim = 0;
  };
  // body: (current, update) -> new.
  Value Scatter(const Value& x, const Value& indices, const Value& updates, const ScatterDims& dims,
                const Region& body, bool sorted = false, bool unique = false);
  // body gets 2n rank-0 values (lhs0, rhs0, lhs1, rhs1, ...) and returns one bool.
  std::vector<Value> Sort(const std::vector<Value>& xs, int64_t dim, bool stable,
                          const RegionN& body);
  // While(init, cond, body): loop-carried values.
  std::vector<Value> While(const std::vector<Value>& init, const RegionN& cond,
                           const RegionN& body);

  // --- kernels by name: XLA typed FFI custom call (api_version 4). backend_config is the text of
  // an MLIR dictionary ("{axis = 1 : i64}") or empty.
  std::vector<Value> CustomCall(std::string_view target, const std::vector<Value>& operands,
                                const std::vector<std::pair<DType, Dims>>& results,
                                std::string_view backend_config, bool has_side_effect = false);

  // Names of the kernels called so far (also by what was rolled back).
  const std::set<std::string>& custom_calls() const { return custom_calls_; }

  // "tensor<2x3xf32>"
  static std::string TypeText(DType dtype, const Dims& dims);

  // The first mistake, OK so far otherwise.
  const Status& status() const { return status_; }
  // Records a lowering's own error; later ones are dropped.
  void Fail(Status status);
  // Drops everything emitted since `mark`, and the mistakes made since (used to try a lowering and
  // take it back). REQUIRES: status() was OK at GetMark, and no Argument was added since.
  struct Mark {
    size_t body_size;
    int32_t next_id;
  };
  Mark GetMark() const;
  void RollBack(const Mark& mark);

  // The whole module, its results being `results`, in order; or the first mistake.
  Result<std::string> Finish(const std::vector<Value>& results);

 private:
  Value NewValue(DType dtype, Dims dims);
  // Appends "results = text", or nothing once a mistake was made.
  void Append(const std::vector<Value>& results, const std::string& text);
  // One operation with one result.
  Value Emit(DType dtype, Dims dims, const std::string& text);
  // False, and keeps the mistake, if `ok` is false.
  bool Expect(bool ok, std::string_view op, std::string_view what);
  Value Splat(DType dtype, const Dims& dims, const std::string& literal);
  // Text of a region whose block takes `params`; `body` emits into it and returns what it yields.
  std::string RegionText(const std::vector<Value>& params, const RegionN& body,
                         std::vector<Value>* yielded);
  std::string RegionText(DType dtype, const Region& body);  // (dtype, dtype) -> dtype, rank 0
  std::string args_;
  std::string body_;
  std::string location_;
  struct TransposeOf {
    Value source;
    Dims perm;
  };
  std::map<int32_t, TransposeOf> transposes_;  // by the result's id
  int32_t next_id_ = 0;
  int32_t num_args_ = 0;
  int indent_ = 2;
  Status status_;
  std::set<std::string> custom_calls_;
};

}  // namespace dendrite::stablehlo
