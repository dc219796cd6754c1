// RunSynchronously: see capture.h.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <unordered_map>

#include "csrc/aten/capture.h"
#include "csrc/aten/host.h"
#include "csrc/aten/sparse.h"
#include "csrc/device/generator.h"
#include "csrc/device/storage.h"

namespace dendrite::aten {
namespace {

using c10::IValue;
using device::IsOurs;

class HostCall {
 public:
  explicit HostCall(OpInfo& info) : info_(info) {}

  IValue Argument(size_t i, const IValue& v) {
    const ArgInfo& arg = info_.args[i];
    if (v.isTensor()) return Tensor(v.toTensor(), arg);
    if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(Tensor(t, arg));
      return list;
    }
    if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& t : v.toOptionalTensorVector()) {
        list.push_back(t.has_value() ? std::optional<at::Tensor>(Tensor(*t, arg)) : std::nullopt);
      }
      return list;
    }
    if (v.isDevice()) {
      if (v.toDevice().type() == device::kDeviceType)
        device_ = std::max<int>(device_, v.toDevice().index());
      return v.toDevice().type() == device::kDeviceType ? IValue(c10::Device(c10::kCPU)) : v;
    }
    if (v.isGenerator()) return HostGenerator(v.toGenerator());
    if (v.isNone() && arg.type == ArgInfo::Type::kGenerator) return HostGenerator(std::nullopt);
    return v;
  }

  at::Tensor Result(const at::Tensor& host) {
    if (!host.defined() || !host.device().is_cpu()) return host;
    for (const Pair& pair : tensors_) {  // the operator returned one of its arguments
      if (pair.host.is_same(host)) return pair.device;
    }
    return ToDevice(host, device_ >= 0 ? device_ : device::CurrentDevice());
  }

  // Values that the operator wrote into its arguments, back to the device.
  void Commit() {
    for (const Pair& pair : tensors_) {
      if (pair.device.layout() != c10::kStrided) {
        if (pair.written || pair.fresh_out) AssignSparse(pair.device, pair.host);
      } else if (pair.fresh_out) {
        if (pair.device.sizes() != pair.host.sizes()) {
          const bool overlaps = at::has_internal_overlap(pair.host) == at::MemOverlap::Yes;
          ResizeStrided(pair.device, pair.host.sizes(),
                        overlaps ? at::IntArrayRef(c10::contiguous_strides(pair.host.sizes()))
                                 : pair.host.strides());
        }
        CopyFromHost(pair.device, pair.host);
      } else if (pair.written) {
        CommitHostView(pair.device, pair.host);
      }
    }
  }

 private:
  struct Pair {
    at::Tensor device, host;
    bool written = false, fresh_out = false;
  };

  at::Tensor Tensor(const at::Tensor& t, const ArgInfo& arg) {
    if (!IsOurs(t)) return t;
    device_ = t.device().index();
    for (const Pair& pair : tensors_) {
      if (pair.device.is_same(t)) return pair.host;
    }
    Pair pair;
    pair.device = t;
    pair.written = arg.written;
    pair.fresh_out = arg.out;
    if (t.layout() != c10::kStrided) {
      pair.host = SparseOnHost(t);
    } else if (arg.out) {
      // It may change size, which memory of ours cannot do under the kernel's feet.
      pair.host = at::empty({0}, t.options().device(c10::kCPU));
    } else {
      pair.host = HostView(t);
    }
    // Some kernels look, and keep what the derivative needs.
    if (t.requires_grad() && !arg.written) pair.host.set_requires_grad(true);
    if (t.unsafeGetTensorImpl()->is_wrapped_number())
      pair.host.unsafeGetTensorImpl()->set_wrapped_number(true);
    tensors_.push_back(std::move(pair));
    return tensors_.back().host;
  }

  // A CPU generator whose seed comes from the device's generator, so that the device's seed and
  // state decide.
  at::Generator HostGenerator(const std::optional<at::Generator>& generator) const {
    if (generator.has_value() && generator->device().is_cpu()) return *generator;
    const PhiloxStream claim = device::Claim(
        generator, static_cast<c10::DeviceIndex>(device_ >= 0 ? device_ : device::CurrentDevice()),
        2);
    uint64_t seed = 0;
    FillBits64(claim, &seed, 1);
    return at::detail::createCPUGenerator(seed);
  }

  OpInfo& info_;
  std::vector<Pair> tensors_;
  int device_ = -1;
};

}  // namespace

void RunSynchronously(OpInfo& info, torch::jit::Stack* stack) {
  const size_t count = info.args.size();
  const size_t first = stack->size() - count;
  HostCall call(info);
  torch::jit::Stack host;
  for (size_t i = 0; i < count; ++i) host.push_back(call.Argument(i, (*stack)[first + i]));
  {
    at::AutoDispatchBelowADInplaceOrView below;
    info.kernel.callBoxed(&host);
  }
  call.Commit();
  engine::Counters& counters = device::Runtime::Get().counters();
  counters.ops_captured.fetch_add(1, std::memory_order_relaxed);
  if (device::Runtime::Get().host_visible()) {
    counters.ops_by_tier[0].fetch_add(1, std::memory_order_relaxed);
    if (device::Runtime::Get().stream(0).options().tier == engine::TierPolicy::kCompiled) {
      counters.CountFallback(info.functional);
    }
  } else {
    counters.ops_host.fetch_add(1, std::memory_order_relaxed);
    counters.CountFallback(info.functional);
  }
  std::vector<IValue> returned;
  for (size_t k = 0; k < host.size(); ++k) {
    const IValue& v = host[k];
    const int alias = k < info.returns.size() ? info.returns[k].alias : -1;
    if (alias >= 0 && info.args[static_cast<size_t>(alias)].written) {
      returned.push_back((*stack)[first + static_cast<size_t>(alias)]);
    } else if (v.isTensor()) {
      returned.push_back(call.Result(v.toTensor()));
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(call.Result(t));
      returned.push_back(std::move(list));
    } else {
      returned.push_back(v);
    }
  }
  torch::jit::drop(*stack, count);
  for (IValue& value : returned) stack->push_back(std::move(value));
}

}  // namespace dendrite::aten
