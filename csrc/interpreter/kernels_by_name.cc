#include "csrc/interpreter/kernels_by_name.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <c10/core/InferenceMode.h>
#include <xla/ffi/api/c_api.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "csrc/device/runtime.h"
#include "csrc/interpreter/placement.h"
#include "csrc/interpreter/recurrent_layer.h"
#include "csrc/interpreter/scratch.h"
#include "csrc/lowering/aten_kernel.h"
#include "csrc/lowering/conv_kernels.h"
#include "csrc/lowering/kernels_by_name.h"

namespace dendrite::interpreter {
namespace {

using at::Tensor;

// The compiler's threads flush denormals to zero; PyTorch's kernels do not.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ & ~0x8040u); }
  ~DefaultFloatMode() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
};

class Frame {
 public:
  explicit Frame(XLA_FFI_CallFrame* frame) : frame_(frame) {}

  Tensor Arg(int64_t i) const { return Wrap(frame_->args.args[i]); }
  Tensor Ret(int64_t i) const { return Wrap(frame_->rets.rets[i]); }
  int64_t num_args() const { return frame_->args.size; }

  bool Bool(std::string_view name) const { return *static_cast<bool*>(ScalarOf(name)); }
  int64_t Int(std::string_view name) const { return *static_cast<int64_t*>(ScalarOf(name)); }
  double Double(std::string_view name) const { return *static_cast<double*>(ScalarOf(name)); }
  at::IntArrayRef Ints(std::string_view name) const {
    const auto* array = static_cast<XLA_FFI_Array*>(Find(name));
    return {static_cast<int64_t*>(array->data), array->size};
  }
  std::string_view String(std::string_view name) const {
    const auto* text = static_cast<XLA_FFI_ByteSpan*>(Find(name));
    return {text->ptr, text->len};
  }
  bool Has(std::string_view name) const { return FindOrNull(name) != nullptr; }

 private:
  static Tensor Wrap(void* raw) {
    const auto* buffer = static_cast<XLA_FFI_Buffer*>(raw);
    const auto type = buffer->dtype == XLA_FFI_DataType_S64 ? at::kLong : at::kFloat;
    return at::from_blob(buffer->data,
                         at::IntArrayRef(buffer->dims, static_cast<size_t>(buffer->rank)), type);
  }
  void* FindOrNull(std::string_view name) const {
    for (int64_t i = 0; i < frame_->attrs.size; ++i) {
      const XLA_FFI_ByteSpan* span = frame_->attrs.names[i];
      if (std::string_view(span->ptr, span->len) == name) return frame_->attrs.attrs[i];
    }
    return nullptr;
  }
  void* Find(std::string_view name) const {
    void* found = FindOrNull(name);
    TORCH_CHECK(found != nullptr, "a kernel by name lacks its attribute ", std::string(name));
    return found;
  }
  void* ScalarOf(std::string_view name) const {
    return static_cast<XLA_FFI_Scalar*>(Find(name))->value;
  }

  XLA_FFI_CallFrame* frame_;
};

void Mm(const Frame& f) {
  const Tensor a = f.Arg(0), b = f.Arg(1);
  Tensor out = f.Ret(0);
  at::mm_out(out, f.Bool("trans_a") ? a.t() : a, f.Bool("trans_b") ? b.t() : b);
}

void Bmm(const Frame& f) {
  const Tensor a = f.Arg(0), b = f.Arg(1);
  Tensor out = f.Ret(0);
  at::bmm_out(out, f.Bool("trans_a") ? a.transpose(1, 2) : a,
              f.Bool("trans_b") ? b.transpose(1, 2) : b);
}

void EmbeddingBackward(const Frame& f) {
  const Tensor grad = f.Arg(0), indices = f.Arg(1);
  Tensor out = f.Ret(0);
  const int64_t rows = out.size(0), width = out.size(1), padding = f.Int("padding_idx");
  const auto* from = grad.const_data_ptr<float>();
  const auto* index = indices.const_data_ptr<int64_t>();
  auto* to = out.data_ptr<float>();
  std::memset(to, 0, static_cast<size_t>(rows * width) * sizeof(float));
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t row = index[i];
    if (row < 0 || row >= rows || row == padding) continue;
    for (int64_t k = 0; k < width; ++k) to[row * width + k] += from[i * width + k];
  }
}

void Convolution(const Frame& f) {
  const std::optional<Tensor> bias =
      f.num_args() > 2 ? std::optional<Tensor>(f.Arg(2)) : std::nullopt;
  const Tensor to = f.Ret(0);
  Placement placement;
  placement.Offer(to);
  placement.Deliver({{at::convolution(f.Arg(0), f.Arg(1), bias, f.Ints("stride"), f.Ints("padding"),
                                      f.Ints("dilation"), f.Bool("transposed"),
                                      f.Ints("output_padding"), f.Int("groups")),
                      to}});
}

void ConvolutionBackward(const Frame& f) {
  const at::IntArrayRef wanted = f.Ints("output_mask");
  const Tensor grad = f.Arg(0), weight = f.Arg(2);
  const std::array<bool, 3> mask{wanted[0] != 0, wanted[1] != 0, wanted[2] != 0};
  const bool transposed = f.Bool("transposed");
  const int64_t groups = f.Int("groups");
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  const std::vector<int64_t> bias_sizes{channels};
  std::array<Tensor, 3> to;
  Placement placement;
  int64_t next = 0;
  for (size_t i = 0; i < 3; ++i) {
    if (!mask[i]) continue;
    to[i] = f.Ret(next++);
    placement.Offer(to[i]);
  }
  const auto grads = at::convolution_backward(
      grad, f.Arg(1), weight,
      mask[2] ? at::OptionalIntArrayRef(bias_sizes) : at::OptionalIntArrayRef(), f.Ints("stride"),
      f.Ints("padding"), f.Ints("dilation"), transposed, f.Ints("output_padding"), groups, mask);
  std::vector<Placement::Delivery> deliveries;
  if (mask[0]) deliveries.push_back({std::get<0>(grads), to[0]});
  if (mask[1]) deliveries.push_back({std::get<1>(grads), to[1]});
  if (mask[2]) deliveries.push_back({std::get<2>(grads), to[2]});
  placement.Deliver(std::move(deliveries));
}

// Hands out a call's buffers one after another, those that are there.
class Buffers {
 public:
  Buffers(const Frame& f, Tensor (Frame::*get)(int64_t) const) : f_(f), get_(get) {}
  Tensor Next(bool there = true) { return there ? (f_.*get_)(next_++) : Tensor(); }

 private:
  const Frame& f_;
  Tensor (Frame::*get_)(int64_t) const;
  int64_t next_ = 0;
};

RecurrentLayer LayerOf(const Frame& f) {
  RecurrentLayer layer;
  layer.kind = static_cast<lowering::RecurrentKind>(f.Int("kind"));
  layer.batch_sizes = f.Ints("batch_sizes");
  layer.reverse = f.Bool("reverse");
  return layer;
}

void Recurrent(const Frame& f) {
  Buffers args(f, &Frame::Arg), rets(f, &Frame::Ret);
  RecurrentLayer layer = LayerOf(f);
  const bool lstm = layer.kind == lowering::RecurrentKind::kLstm, bias = f.Bool("bias");
  for (Tensor* t : {&layer.input, &layer.hx}) *t = args.Next();
  layer.cx = args.Next(lstm);
  for (Tensor* t : {&layer.w_ih, &layer.w_hh}) *t = args.Next();
  for (Tensor* t : {&layer.b_ih, &layer.b_hh}) *t = args.Next(bias);
  RecurrentOutputs results;
  for (Tensor* t : {&results.output, &results.hy}) *t = rets.Next();
  results.cy = rets.Next(lstm);
  results.workspace = rets.Next(f.Bool("keep"));
  RunRecurrentLayer(layer, results);
}

void RecurrentBackward(const Frame& f) {
  Buffers args(f, &Frame::Arg), rets(f, &Frame::Ret);
  RecurrentLayer layer = LayerOf(f);
  const bool lstm = layer.kind == lowering::RecurrentKind::kLstm;
  RecurrentGrads grads;
  for (Tensor* t : {&grads.output, &grads.hy}) *t = args.Next();
  grads.cy = args.Next(lstm);
  for (Tensor* t : {&layer.input, &layer.hx}) *t = args.Next();
  layer.cx = args.Next(lstm);
  for (Tensor* t : {&layer.w_ih, &layer.w_hh}) *t = args.Next();
  RecurrentOutputs done;
  done.output = args.Next();
  done.workspace = args.Next(lowering::WorkspaceOf(layer.kind) > 0);
  RecurrentInputGrads results;
  results.input = rets.Next(f.Bool("wants_input"));
  results.hx = rets.Next();
  results.cx = rets.Next(lstm);
  for (Tensor* t : {&results.w_ih, &results.w_hh}) *t = rets.Next(f.Bool("wants_weights"));
  results.b_ih = rets.Next(f.Bool("bias"));
  results.b_hh = rets.Next(f.Bool("bias") && layer.kind == lowering::RecurrentKind::kGru);
  RunRecurrentLayerBackward(layer, done, grads, results);
}

Tensor PermutedAs(const Frame& f, const std::string& name, const Tensor& t) {
  return f.Has(name) ? t.permute(f.Ints(name)) : t;
}

c10::IValue AtenArgument(const Frame& f, char kind, const std::string& at, int64_t* next_operand) {
  const std::string name = "a" + at;
  switch (kind) {
    case 't':
      return PermutedAs(f, "p" + at, f.Arg((*next_operand)++));
    case 'i':
      return f.Int(name);
    case 'f':
      return f.Double(name);
    case 'b':
      return f.Bool(name);
    case 'l':
      return f.Ints(name);
    case 'm': {
      c10::List<bool> list;
      for (int64_t flag : f.Ints(name)) list.push_back(flag != 0);
      return list;
    }
    case 's':
      return at::kFloat;
    default:
      return {};
  }
}

// Any operator: the contract is in csrc/lowering/aten_kernel.h.
void CallAten(const Frame& f) {
  const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(
      std::string(f.String("op")).c_str(), std::string(f.String("overload")).c_str());
  const auto& schema = op.schema().arguments();
  const std::string_view kinds = f.String("args");
  torch::jit::Stack stack;
  int64_t next_operand = 0;
  for (size_t i = 0; i < schema.size(); ++i) {
    if (i < kinds.size()) {
      stack.push_back(AtenArgument(f, kinds[i], std::to_string(i), &next_operand));
    } else {
      stack.push_back(schema[i].default_value().value_or(c10::IValue()));
    }
  }
  const at::IntArrayRef wanted = f.Ints("results");
  std::vector<Tensor> to;
  Placement placement;
  for (size_t k = 0; k < wanted.size(); ++k) {
    to.push_back(PermutedAs(f, "r" + std::to_string(k), f.Ret(static_cast<int64_t>(k))));
    placement.Offer(to.back());
  }
  op.callBoxed(&stack);
  std::vector<Placement::Delivery> deliveries;
  for (size_t k = 0; k < wanted.size(); ++k) {
    deliveries.push_back({stack.at(static_cast<size_t>(wanted[k])).toTensor(), to[k]});
  }
  stack.clear();
  placement.Deliver(std::move(deliveries));
}

template <void (*kKernel)(const Frame&)>
XLA_FFI_Error* Handle(XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr &&
      frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    auto* metadata =
        reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    // An older plugin drops a handler that claims to be newer than itself.
    metadata->api_version.minor_version = std::min<int>(
        XLA_FFI_API_MINOR,
        frame->api == nullptr ? XLA_FFI_API_MINOR : frame->api->api_version.minor_version);
    return nullptr;
  }
  const c10::InferenceMode inference(true);
  const at::AutoDispatchBelowADInplaceOrView below;
  const DefaultFloatMode floats;
  const ScratchScope scratch;
  device::Runtime::Get().counters().kernels_by_name.fetch_add(1, std::memory_order_relaxed);
  try {
    kKernel(Frame(frame));
    return nullptr;
  } catch (const std::exception& e) {
    XLA_FFI_Error_Create_Args args{};
    args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    args.message = e.what();
    args.errc = XLA_FFI_Error_Code_INTERNAL;
    return frame->api->XLA_FFI_Error_Create(&args);
  }
}

}  // namespace

std::vector<std::pair<std::string, void*>> KernelHandlers() {
  const auto entry = [](std::string_view name, XLA_FFI_Handler* handler) {
    return std::pair<std::string, void*>(name, reinterpret_cast<void*>(handler));
  };
  return {entry(lowering::kMmKernel, &Handle<&Mm>),
          entry(lowering::kBmmKernel, &Handle<&Bmm>),
          entry(lowering::kEmbeddingBackwardKernel, &Handle<&EmbeddingBackward>),
          entry(lowering::kConvolutionKernel, &Handle<&Convolution>),
          entry(lowering::kConvolutionBackwardKernel, &Handle<&ConvolutionBackward>),
          entry(lowering::kRecurrentLayerKernel, &Handle<&Recurrent>),
          entry(lowering::kRecurrentLayerBackwardKernel, &Handle<&RecurrentBackward>),
          entry(lowering::kAtenKernel, &Handle<&CallAten>)};
}

}  // namespace dendrite::interpreter
