#include "csrc/aten/capture.h"

#include <ATen/MemoryOverlap.h>
#include <c10/util/SmallVector.h>

#include <bit>
#include <cstring>

#include "csrc/aten/host.h"
#include "csrc/device/error.h"
#include "csrc/device/storage.h"

namespace dendrite::aten {
namespace {

using c10::IValue;
using device::IsOurs;
using device::kDeviceType;

SiteHook g_site_hook = nullptr;

// What one call is made of, gathered in one pass over its arguments. Reused by each thread.
struct Scratch {
  c10::SmallVector<uint64_t, 128> words;
  c10::SmallVector<engine::Slot, 16> slots;
  c10::SmallVector<tape::Lifted, 8> lifted;
  int device = -1;
  bool synchronous = false;
  void Clear() {
    words.clear();
    slots.clear();
    lifted.clear();
    device = -1;
    synchronous = false;
  }
};

// Tags of memo words; low byte.
enum : uint64_t {
  kNoneTag = 1,
  kUndefinedTag,
  kTensorTag,
  kHostNumberTag,
  kListTag,
  kIntTag,
  kFloatTag,
  kBoolTag,
  kComplexTag,
  kStringTag,
  kLiftedTag,
  kDeviceTag,
};

uint64_t Bits(double d) { return std::bit_cast<uint64_t>(d); }

void AddTensor(Scratch& s, const at::Tensor& t) {
  if (!t.defined()) {
    s.words.push_back(kUndefinedTag);
    return;
  }
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  const auto dtype = static_cast<uint64_t>(t.scalar_type());
  const uint64_t flags =
      (impl->is_wrapped_number() ? 1 : 0) | (t.is_conj() ? 2 : 0) | (t.is_neg() ? 4 : 0);
  if (!IsOurs(t)) {
    TORCH_CHECK(t.device().is_cpu() && t.dim() == 0,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(std::max(s.device, 0))),
                " and ", t.device(), "!");
    if (!t.has_storage() || t.layout() != c10::kStrided) {
      s.synchronous = true;
      return;
    }
    tape::Lifted value;
    const c10::Scalar scalar = t.item();
    if (scalar.isComplex()) {
      value.d = scalar.toComplexDouble().real();
      value.im = scalar.toComplexDouble().imag();
    } else if (scalar.isFloatingPoint()) {
      value.d = scalar.toDouble();
    } else if (scalar.isBoolean()) {
      value.i = scalar.toBool() ? 1 : 0;
    } else {
      value.i = scalar.toLong();
    }
    s.lifted.push_back(value);
    s.slots.push_back({});
    s.words.push_back(kHostNumberTag | dtype << 8 | flags << 40);
    return;
  }
  if (t.layout() != c10::kStrided || !t.has_storage()) {
    s.synchronous = true;
    return;
  }
  const auto sizes = t.sizes();
  const auto strides = t.strides();
  s.words.push_back(kTensorTag | dtype << 8 | static_cast<uint64_t>(sizes.size()) << 20 |
                    flags << 40);
  for (size_t i = 0; i < sizes.size(); ++i) s.words.push_back(static_cast<uint64_t>(sizes[i]));
  for (size_t i = 0; i < strides.size(); ++i) s.words.push_back(static_cast<uint64_t>(strides[i]));
  if (s.device < 0) {
    s.device = t.device().index();
  } else {
    TORCH_CHECK(s.device == t.device().index(),
                "Expected all tensors to be on the same device, but found at least two devices, ",
                c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(s.device)), " and ",
                t.device(), "!");
  }
  engine::Block* block = device::BlockOf(t);
  s.slots.push_back({block, device::OffsetInBlock(t, block)});
}

bool AddNumber(Scratch& s, const IValue& v, bool lift) {
  if (lift) {
    tape::Lifted value;
    if (v.isDouble()) {
      value.d = v.toDouble();
      s.words.push_back(kLiftedTag | kFloatTag << 8);
    } else if (v.isBool()) {
      value.i = v.toBool() ? 1 : 0;
      s.words.push_back(kLiftedTag | kBoolTag << 8);
    } else if (v.isInt()) {
      value.i = v.toInt();
      s.words.push_back(kLiftedTag | kIntTag << 8);
    } else if (v.isComplexDouble()) {
      value.d = v.toComplexDouble().real();
      value.im = v.toComplexDouble().imag();
      s.words.push_back(kLiftedTag | kComplexTag << 8);
    } else {
      return false;
    }
    s.lifted.push_back(value);
    return true;
  }
  if (v.isInt()) {
    s.words.push_back(kIntTag);
    s.words.push_back(static_cast<uint64_t>(v.toInt()));
  } else if (v.isDouble()) {
    s.words.push_back(kFloatTag);
    s.words.push_back(Bits(v.toDouble()));
  } else if (v.isBool()) {
    s.words.push_back(kBoolTag | (v.toBool() ? 256 : 0));
  } else if (v.isComplexDouble()) {
    s.words.push_back(kComplexTag);
    s.words.push_back(Bits(v.toComplexDouble().real()));
    s.words.push_back(Bits(v.toComplexDouble().imag()));
  } else if (v.isSymInt()) {
    s.words.push_back(kIntTag);
    s.words.push_back(static_cast<uint64_t>(v.toSymInt().guard_int(__FILE__, __LINE__)));
  } else {
    return false;
  }
  return true;
}

bool AddNumberList(Scratch& s, const IValue& v, bool lift) {
  if (v.isIntList()) {
    const auto list = v.toIntList();
    s.words.push_back(kListTag | list.size() << 8);
    for (size_t i = 0; i < list.size(); ++i) s.words.push_back(static_cast<uint64_t>(list.get(i)));
    return true;
  }
  if (!v.isList()) return false;
  const auto list = v.toList();
  s.words.push_back(kListTag | list.size() << 8);
  for (const IValue& element : list) {
    if (!AddNumber(s, element, lift)) return false;
  }
  return true;
}

// Fills the scratch; false: the call must take the synchronous path.
bool Gather(const OpInfo& info, const IValue* args, Scratch& s) {
  for (size_t i = 0; i < info.args.size(); ++i) {
    const IValue& v = args[i];
    const ArgInfo& arg = info.args[i];
    if (v.isNone()) {
      s.words.push_back(kNoneTag);
      continue;
    }
    switch (arg.type) {
      case ArgInfo::Type::kTensor:
        AddTensor(s, v.toTensor());
        break;
      case ArgInfo::Type::kTensorList: {
        const auto list = v.toTensorList();
        s.words.push_back(kListTag | list.size() << 8);
        for (const at::Tensor& t : list) AddTensor(s, t);
        break;
      }
      case ArgInfo::Type::kOptionalTensorList: {
        const auto list = v.toOptionalTensorList();
        s.words.push_back(kListTag | list.size() << 8);
        for (size_t k = 0; k < list.size(); ++k) {
          const std::optional<at::Tensor> t = list.get(k);
          AddTensor(s, t.has_value() ? *t : at::Tensor());
        }
        break;
      }
      case ArgInfo::Type::kNumber: {
        // One as a factor of add is the common case and costs nothing as a constant.
        const bool one = v.isInt() && v.toInt() == 1;
        if (!AddNumber(s, v, arg.lifted && !one)) return false;
        break;
      }
      case ArgInfo::Type::kNumberList:
        if (!AddNumberList(s, v, arg.lifted)) return false;
        break;
      case ArgInfo::Type::kDType:
      case ArgInfo::Type::kIgnored:
        if (v.isDevice()) {
          s.words.push_back(kDeviceTag | static_cast<uint64_t>(v.toDevice().type()) << 8);
        } else if (!AddNumber(s, v, false)) {
          return false;
        }
        break;
      case ArgInfo::Type::kString: {
        const std::string& text = v.toStringRef();
        s.words.push_back(kStringTag | text.size() << 8);
        for (char c : text) s.words.push_back(static_cast<uint64_t>(c));
        break;
      }
      case ArgInfo::Type::kGenerator:
      case ArgInfo::Type::kOther:
        return false;
    }
    if (s.synchronous) return false;
  }
  // Global settings that change what kernels compute or Meta kernels answer.
  const auto& context = at::globalContext();
  s.words.push_back(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) |
                    (context.deterministicAlgorithms() ? 256u : 0u));
  return true;
}

// Index tensors may be the host's, as on other devices.
void MoveHostIndices(const OpInfo& info, IValue* args) {
  const at::Tensor& self = args[0].toTensor();
  if (!IsOurs(self)) return;
  for (size_t i = 0; i < info.args.size(); ++i) {
    if (info.args[i].type != ArgInfo::Type::kOptionalTensorList || args[i].isNone()) continue;
    auto list = args[i].toOptionalTensorList();
    for (size_t k = 0; k < list.size(); ++k) {
      const std::optional<at::Tensor> t = list.get(k);
      if (t.has_value() && t->defined() && t->device().is_cpu()) list.set(k, t->to(self.device()));
    }
  }
}

bool HasMask(const OpInfo& info, const IValue* args) {
  for (size_t i = 0; i < info.args.size(); ++i) {
    if (info.args[i].type != ArgInfo::Type::kOptionalTensorList || args[i].isNone()) continue;
    const auto list = args[i].toOptionalTensorList();
    for (size_t k = 0; k < list.size(); ++k) {
      const std::optional<at::Tensor> t = list.get(k);
      if (!t.has_value() || !t->defined()) continue;
      if (t->scalar_type() == at::kBool || t->scalar_type() == at::kByte) return true;
    }
  }
  return false;
}

uint64_t HashWords(const Scratch& s) {
  uint64_t h = s.words.size();
  for (uint64_t w : s.words) {
    h = (h ^ w) * 0x9fb21c651e98df25u;
    h ^= h >> 28;
  }
  return h;
}

void CheckOverlap(const OpInfo& info, const IValue* args) {
  // Running statistics that evaluation only reads may be expanded.
  if (info.training >= 0 && !args[info.training].toBool()) return;
  for (size_t i = 0; i < info.args.size(); ++i) {
    if (!info.args[i].written || !args[i].isTensor()) continue;
    const at::Tensor& written = args[i].toTensor();
    if (!written.defined()) continue;
    at::assert_no_internal_overlap(written);
    for (size_t k = 0; k < info.args.size(); ++k) {
      if (k == i || info.args[k].type != ArgInfo::Type::kTensor || !args[k].isTensor()) continue;
      const at::Tensor& other = args[k].toTensor();
      if (other.defined() && IsOurs(other)) at::assert_no_partial_overlap(written, other);
    }
  }
}

// Making an entry may capture other operators (Python Meta kernels call them), so on return with
// *made the thread's scratch holds anything.
MemoEntry* FindOrMake(OpInfo& info, const torch::jit::Stack& stack, size_t first, const Scratch& s,
                      bool* made_one) {
  const uint64_t hash = HashWords(s);

  {
    std::lock_guard lock(info.mu);
    const auto it = info.memo.find(hash);
    if (it != info.memo.end()) {
      for (const auto& entry : it->second) {
        if (entry->words.size() == s.words.size() &&
            std::memcmp(entry->words.data(), s.words.data(), s.words.size() * sizeof(uint64_t)) ==
                0) {
          return entry.get();
        }
      }
    }
  }
  *made_one = true;
  std::vector<uint64_t> words(s.words.begin(), s.words.end());
  std::unique_ptr<MemoEntry> made = MakeEntry(info, stack, first);
  made->words = std::move(words);
  std::lock_guard lock(info.mu);
  auto& chain = info.memo[hash];
  for (const auto& entry : chain) {
    if (entry->words == made->words) return entry.get();  // another thread was here meanwhile
  }
  chain.push_back(std::move(made));
  return chain.back().get();
}

}  // namespace

void SetSiteHook(SiteHook hook) { g_site_hook = hook; }
int32_t CurrentSite() { return g_site_hook != nullptr ? g_site_hook() : 0; }

namespace {

void CaptureCall(OpInfo& info, torch::jit::Stack* stack) {
  thread_local Scratch scratch;
  const size_t count = info.args.size();
  const size_t first = stack->size() - count;
  if (info.host_indices) MoveHostIndices(info, stack->data() + first);
  if (info.synchronous) return RunSynchronously(info, stack);
  if (info.mask_decides_shape && HasMask(info, stack->data() + first)) {
    return RunSynchronously(info, stack);
  }
  Scratch& s = scratch;
  s.Clear();
  if (!Gather(info, stack->data() + first, s)) return RunSynchronously(info, stack);
  if (info.checks_overlap) CheckOverlap(info, stack->data() + first);
  if (s.device < 0) s.device = device::CurrentDevice();
  const int device = s.device;
  bool made_entry = false;
  MemoEntry* entry = FindOrMake(info, *stack, first, s, &made_entry);
  if (entry->synchronous) return RunSynchronously(info, stack);

  for (const MemoEntry::Resize& resize : entry->resizes) {
    const at::Tensor& t = (*stack)[first + static_cast<size_t>(resize.arg)].toTensor();
    ResizeStrided(t, resize.sizes, resize.strides);
  }
  if (made_entry || !entry->resizes.empty()) {  // resizing may have changed blocks
    s.Clear();
    Gather(info, stack->data() + first, s);
  }

  c10::SmallVector<at::Tensor, 8> made;
  for (const MemoEntry::Result& result : entry->results) {
    if (!result.defined) {
      made.emplace_back();
      continue;
    }
    made.push_back(device::EmptyStrided(result.sizes, result.strides, result.dtype, device));
    s.slots.push_back({device::BlockOf(made.back()), 0});
  }
  if (!entry->nothing_to_do) {
    engine::Stream& stream = device::Runtime::Get().stream(device);
    stream.Append(entry->op.get(), s.slots.data(), s.lifted.data(), CurrentSite(),
                  device::CurrentMode());
    if (stream.IsFull()) stream.WaitForRoom();
  }

  c10::SmallVector<IValue, 4> returned;
  size_t next = 0, list = 0;
  for (const ReturnInfo& ret : info.returns) {
    if (ret.alias >= 0) {
      returned.push_back((*stack)[first + static_cast<size_t>(ret.alias)]);
    } else if (ret.list) {
      c10::List<at::Tensor> tensors;
      for (int32_t k = 0; k < entry->list_sizes[list]; ++k) tensors.push_back(made[next++]);
      ++list;
      returned.push_back(std::move(tensors));
    } else {
      returned.push_back(std::move(made[next++]));
    }
  }
  torch::jit::drop(*stack, count);
  for (IValue& value : returned) stack->push_back(std::move(value));
}

}  // namespace

void Capture(OpInfo& info, torch::jit::Stack* stack) {
  if (info.bumps_list < 0) return CaptureCall(info, stack);
  // PyTorch leaves it to foreach kernels to say that they wrote.
  const size_t at = stack->size() - info.args.size() + static_cast<size_t>(info.bumps_list);
  const std::vector<at::Tensor> written = (*stack)[at].toTensorVector();
  CaptureCall(info, stack);
  for (const at::Tensor& t : written) t.unsafeGetTensorImpl()->bump_version();
}

}  // namespace dendrite::aten
