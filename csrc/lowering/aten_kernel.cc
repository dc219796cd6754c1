#include "csrc/lowering/aten_kernel.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "csrc/stablehlo/text.h"

namespace dendrite::lowering {
namespace {

using stablehlo::ArrayText;

// Below this a call costs more than what it saves.
constexpr int64_t kMinElements = 4096;

// Measured, compiled against PyTorch's kernel: docs/decisions/0013.
constexpr std::string_view kFaster[] = {
    "aten.native_layer_norm.default",
    "aten.native_layer_norm_backward.default",
    "aten.native_group_norm.default",
    "aten.native_group_norm_backward.default",
    "aten._softmax_backward_data.default",
    "aten.native_batch_norm_backward.default",
    "aten.max_pool2d_with_indices_backward.default",
    "aten.upsample_nearest2d_backward.default",
    "aten.cumsum.default",
    "aten.sort.default",
    "aten.sort.stable",
    "aten.topk.default",
    "aten._scaled_dot_product_flash_attention_for_cpu.default",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
};

// The order in which a dense view's dimensions lie in memory: the first is the outermost.
Dims OrderOf(const tape::View& view) {
  // Dimensions of size 1 may have any stride: they get that of a row-major tensor.
  Dims strides = view.strides;
  int64_t next = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    if (view.sizes[i] == 1) strides[i] = next;
    next = strides[i] * view.sizes[i];
  }
  Dims order(view.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  return order;
}

bool IsRowMajor(const Dims& order) { return std::is_sorted(order.begin(), order.end()); }

Dims Permuted(const Dims& dims, const Dims& order) {
  Dims out;
  for (int64_t i : order) out.push_back(dims[i]);
  return out;
}

Dims Inverse(const Dims& order) {
  Dims inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

bool Supported(DType dtype) { return dtype == DType::kF32 || dtype == DType::kI64; }

class Call {
 public:
  explicit Call(Emitter& e) : e_(e) {}

  // False: not expressible.
  bool Build() {
    for (int i = 0; i < e_.num_args(); ++i) {
      if (!Argument(i)) return false;
    }
    for (int k = 0; k < e_.num_results(); ++k) {
      if (e_.Wanted(k) && !Result(k)) return false;
    }
    return largest_ >= kMinElements && !wanted_.empty();
  }

  void Emit() {
    const std::string_view name = e_.sig().op;  // "aten.name.overload"
    const size_t first = name.find('.'), last = name.rfind('.');
    std::string overload(name.substr(last + 1));
    if (overload == "default") overload.clear();
    const std::string op = std::string(name.substr(0, first)) +
                           "::" + std::string(name.substr(first + 1, last - first - 1));
    const std::string config = "{op = \"" + op + "\", overload = \"" + overload + "\", args = \"" +
                               kinds_ + "\", results = " + ArrayText(wanted_) + attributes_ + "}";
    const std::vector<Value> values = e_.b().CustomCall(kAtenKernel, operands_, results_, config);
    for (size_t i = 0; i < values.size(); ++i) {
      e_.Out(static_cast<int>(wanted_[i]), e_.b().Transpose(values[i], Inverse(orders_[i])));
    }
  }

 private:
  void Add(char kind, int i, const std::string& value) {
    kinds_ += kind;
    attributes_ += ", a" + std::to_string(i) + " = " + value;
  }

  bool Argument(int i) {
    const Arg& arg = e_.arg(i);
    switch (arg.kind) {
      case Arg::Kind::kNone:
        kinds_ += 'n';
        return true;
      case Arg::Kind::kTensor:
        return Tensor(i, arg);
      case Arg::Kind::kInt:
        Add('i', i, std::to_string(arg.i) + " : i64");
        return true;
      case Arg::Kind::kBool:
        Add('b', i, arg.i != 0 ? "true" : "false");
        return true;
      case Arg::Kind::kFloat:
        Add('f', i, stablehlo::FloatLiteral(DType::kF64, arg.d) + " : f64");
        return true;
      case Arg::Kind::kIntList:
        Add('l', i, ArrayText(arg.ints));
        return true;
      case Arg::Kind::kBoolList:
        Add('m', i, ArrayText(arg.ints));
        return true;
      case Arg::Kind::kDType:
        kinds_ += 's';
        return arg.dtype == DType::kF32;
      default:
        return false;
    }
  }

  bool Tensor(int i, const Arg& arg) {
    if (arg.ints.empty() || arg.ints[0] < 0) return kinds_ += 'n', true;
    const auto at = static_cast<size_t>(arg.ints[0]);
    if (at >= e_.sig().operands.size() || e_.sig().operands[at].lifted_slot >= 0) return false;
    Value v = e_.In(i);
    const int64_t n = tape::NumElements(v.dims);
    if (e_.failed() || !Supported(v.dtype) || n == 0) return false;
    if (v.dtype == DType::kF32) largest_ = std::max(largest_, n);
    kinds_ += 't';
    Value source;
    Dims perm;
    if (e_.b().FindTranspose(v, &source, &perm)) {
      attributes_ += ", p" + std::to_string(i) + " = " + ArrayText(perm);
      v = source;
    }
    operands_.push_back(v);
    return true;
  }

  bool Result(int k) {
    const tape::View& view = e_.OutView(k);
    if (!Supported(view.dtype) || tape::NumElements(view.sizes) == 0) return false;
    Dims order(view.sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (view.is_dense()) order = OrderOf(view);
    if (!IsRowMajor(order)) {
      attributes_ += ", r" + std::to_string(wanted_.size()) + " = " + ArrayText(Inverse(order));
    }
    wanted_.push_back(k);
    results_.push_back({view.dtype, Permuted(view.sizes, order)});
    orders_.push_back(std::move(order));
    return true;
  }

  Emitter& e_;
  std::string kinds_, attributes_;
  std::vector<Value> operands_;
  std::vector<std::pair<DType, Dims>> results_;
  std::vector<Dims> orders_;
  Dims wanted_;
  int64_t largest_ = 0;  // elements of the largest f32 operand
};

}  // namespace

bool LowerToAtenKernel(Emitter& e) {
  if (!e.traits().kernels_by_name || e.failed()) return false;
  if (std::find(std::begin(kFaster), std::end(kFaster), e.sig().op) == std::end(kFaster)) {
    return false;
  }
  Call call(e);
  if (!call.Build() || e.failed()) return false;
  call.Emit();
  return true;
}

}  // namespace dendrite::lowering
