// csrc/lowering/padding.cc - constant, reflection and replication padding and their gradients.
#include <algorithm>
#include <vector>

#include "csrc/lowering/linear_map.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

// (self, pad, value): pad lists (low, high) from the last dimension backwards; negative ones cut.
void ConstantPad(Emitter& e) {
  const Value x = e.In(0);
  const Dims pad = e.Ints(1);
  Dims low(x.dims.size(), 0), high(x.dims.size(), 0);
  if (pad.size() % 2 != 0 || pad.size() / 2 > x.dims.size()) {
    return e.Fail(InvalidArgument("constant_pad_nd: pad"));
  }
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    low[x.dims.size() - 1 - i] = pad[2 * i];
    high[x.dims.size() - 1 - i] = pad[2 * i + 1];
  }
  const Value value = e.IsNone(2) ? e.b().Constant(x.dtype, {}, 0) : e.Scalar(2, x.dtype);
  e.Out(0, e.b().Pad(x, value, low, high, Dims(x.dims.size(), 0)));
}

enum class Border { kReflect, kReplicate };

LinearMap BorderMap(Border border, int64_t size, int64_t low, int64_t high) {
  std::vector<int64_t> sources;
  for (int64_t i = -low; i < size + high; ++i) {
    int64_t at = std::clamp<int64_t>(i, 0, size - 1);
    if (border == Border::kReflect && i != at) at = i < 0 ? -i : 2 * (size - 1) - i;
    sources.push_back(at);
  }
  return Selection(size, sources);
}

// `in`: shape of the unpadded tensor; `pad_arg`: position of the padding list.
template <Border kBorder, int kSpatial>
void PadBorders(Emitter& e, const Dims& in, int pad_arg, bool backward) {
  const Dims pad = e.Ints(pad_arg);
  const Value x = e.In(0);
  if (pad.size() != 2 * kSpatial || in.size() < kSpatial || x.dims.size() != in.size()) {
    return e.Fail(InvalidArgument(e.sig().op + ": padding does not fit"));
  }
  Value v = backward ? e.To(x, tape::OpMath(x.dtype)) : x;
  for (int i = 0; i < kSpatial; ++i) {
    const size_t dim = in.size() - 1 - i;
    const LinearMap map = BorderMap(kBorder, in[dim], pad[2 * i], pad[2 * i + 1]);
    v = Apply(e, v, static_cast<int64_t>(dim), backward ? map.Transposed() : map);
  }
  e.Out(0, v);
}

// (self, padding)
template <Border kBorder, int kSpatial>
void Pad(Emitter& e) {
  PadBorders<kBorder, kSpatial>(e, e.In(0).dims, 1, false);
}

// (grad_output, self, padding)
template <Border kBorder, int kSpatial>
void PadBackward(Emitter& e) {
  if (e.Wanted(0)) PadBorders<kBorder, kSpatial>(e, e.OutView(0).sizes, 2, true);
}

DENDRITE_LOWERING("aten.constant_pad_nd.default", ConstantPad);

#define DENDRITE_PAD(name, border, spatial)                           \
  DENDRITE_LOWERING("aten." name ".default", (Pad<border, spatial>)); \
  DENDRITE_LOWERING("aten." name "_backward.default", (PadBackward<border, spatial>))

DENDRITE_PAD("reflection_pad1d", Border::kReflect, 1);
DENDRITE_PAD("reflection_pad2d", Border::kReflect, 2);
DENDRITE_PAD("reflection_pad3d", Border::kReflect, 3);
DENDRITE_PAD("replication_pad1d", Border::kReplicate, 1);
DENDRITE_PAD("replication_pad2d", Border::kReplicate, 2);
DENDRITE_PAD("replication_pad3d", Border::kReplicate, 3);

}  // namespace
}  // namespace dendrite::lowering
