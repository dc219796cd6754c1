// csrc/lowering/upsample.cc - resampling: nearest, exact nearest, linear in one to three
// dimensions, bicubic, antialiased filters, and their gradients.
//
// Every one is a linear map applied dimension by dimension; its gradient is the transposed map.
// Source positions and weights follow ATen/native/UpSample.h, in float for all types but double,
// since the rounding of a position decides which element is read.
#include <algorithm>
#include <cmath>
#include <vector>

#include "csrc/lowering/linear_map.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

enum class Kind { kNearest, kNearestExact, kLinear, kCubic, kLinearAa, kCubicAa, kLanczosAa };

constexpr bool IsAntialiased(Kind kind) { return kind >= Kind::kLinearAa; }

struct Axis {
  int64_t in = 0, out = 0;
  double scale = 0;  // the caller's scale factor; <= 0: none given
  bool align_corners = false;
};

// Distance of two results' sources. Nearest kinds never align corners.
template <typename T>
T SourceStep(const Axis& a) {
  if (a.align_corners)
    return a.out > 1 ? static_cast<T>(a.in - 1) / static_cast<T>(a.out - 1) : T(0);
  if (a.scale > 0) return static_cast<T>(1.0 / a.scale);
  return static_cast<T>(a.in) / static_cast<T>(a.out);
}

template <typename T>
T SourcePosition(const Axis& a, int64_t o, bool cubic) {
  const T step = SourceStep<T>(a);
  if (a.align_corners) return step * static_cast<T>(o);
  const T position = step * (static_cast<T>(o) + T(0.5)) - T(0.5);
  return !cubic && position < T(0) ? T(0) : position;
}

LinearMap NearestMap(const Axis& a, bool exact) {
  std::vector<int64_t> sources;
  const float step = SourceStep<float>(a);
  for (int64_t o = 0; o < a.out; ++o) {
    const auto position = exact ? std::floor((static_cast<float>(o) + 0.5f) * step)
                                : std::floor(static_cast<float>(o) * step);
    sources.push_back(std::min(static_cast<int64_t>(position), a.in - 1));
  }
  return Selection(a.in, sources);
}

// Adds a term, or its weight to the term that reads the same element (at the borders).
void AddTerm(std::vector<LinearMap::Term>* row, int64_t index, double weight) {
  for (auto& term : *row) {
    if (term.index == index) {
      term.weight += weight;
      return;
    }
  }
  row->push_back({index, weight});
}

template <typename T>
LinearMap LinearInterpolation(const Axis& a) {
  LinearMap map;
  map.in_size = a.in;
  for (int64_t o = 0; o < a.out; ++o) {
    std::vector<LinearMap::Term> row;
    if (a.in == a.out) {
      row.push_back({o, 1});
    } else {
      const T position = SourcePosition<T>(a, o, false);
      const int64_t low = std::min(static_cast<int64_t>(position), a.in - 1);
      const T fraction = std::min(std::max(position - static_cast<T>(low), T(0)), T(1));
      AddTerm(&row, low, T(1) - fraction);
      AddTerm(&row, std::min(low + 1, a.in - 1), fraction);
    }
    map.rows.push_back(std::move(row));
  }
  return map;
}

template <typename T>
T CubicNear(T x) {  // |x| <= 1, A = -0.75
  constexpr T kA = T(-0.75);
  return ((kA + 2) * x - (kA + 3)) * x * x + 1;
}

template <typename T>
T CubicFar(T x) {  // 1 < |x| < 2
  constexpr T kA = T(-0.75);
  return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
}

template <typename T>
LinearMap CubicInterpolation(const Axis& a) {
  LinearMap map;
  map.in_size = a.in;
  for (int64_t o = 0; o < a.out; ++o) {
    const T position = SourcePosition<T>(a, o, true);
    const int64_t base = std::min(static_cast<int64_t>(std::floor(position)), a.in - 1);
    const T t = std::min(std::max(position - static_cast<T>(base), T(0)), T(1));
    const T weights[4] = {CubicFar(t + T(1)), CubicNear(t), CubicNear(T(1) - t),
                          CubicFar(T(2) - t)};
    std::vector<LinearMap::Term> row;
    for (int64_t k = 0; k < 4; ++k) {
      AddTerm(&row, std::clamp<int64_t>(base + k - 1, 0, a.in - 1), weights[k]);
    }
    map.rows.push_back(std::move(row));
  }
  return map;
}

// --- antialiased: a filter as wide as the step between results, if that is more than a pixel

template <typename T>
T Filter(Kind kind, T x) {
  x = std::abs(x);
  switch (kind) {
    case Kind::kLinearAa:
      return x < T(1) ? T(1) - x : T(0);
    case Kind::kCubicAa: {
      constexpr T kA = T(-0.5);
      if (x < T(1)) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
      return x < T(2) ? (((x - 5) * x + 8) * x - 4) * kA : T(0);
    }
    default: {
      const T angle = x * static_cast<T>(M_PI), third = angle / 3;
      if (x == T(0)) return T(1);
      return x < T(3) ? std::sin(angle) / angle * std::sin(third) / third : T(0);
    }
  }
}

template <typename T>
LinearMap AntialiasedMap(Kind kind, const Axis& a) {
  LinearMap map;
  map.in_size = a.in;
  const T step = SourceStep<T>(a), reach = T(kind == Kind::kLinearAa  ? 1
                                             : kind == Kind::kCubicAa ? 2
                                                                      : 3);
  const T support = step >= T(1) ? reach * step : reach;
  const T squeeze = step >= T(1) ? T(1) / step : T(1);
  for (int64_t o = 0; o < a.out; ++o) {
    const T centre = step * (static_cast<T>(o) + T(0.5));
    const int64_t low = std::max<int64_t>(static_cast<int64_t>(centre - support + T(0.5)), 0);
    const int64_t high = std::min<int64_t>(static_cast<int64_t>(centre + support + T(0.5)), a.in);
    std::vector<T> weights;
    T total = 0;
    for (int64_t i = low; i < high; ++i) {
      weights.push_back(Filter(kind, (static_cast<T>(i) - centre + T(0.5)) * squeeze));
      total += weights.back();
    }
    std::vector<LinearMap::Term> row;
    for (int64_t i = low; i < high; ++i) {
      const T weight = weights[static_cast<size_t>(i - low)];
      row.push_back({i, total != T(0) ? weight / total : weight});
    }
    map.rows.push_back(std::move(row));
  }
  return map;
}

LinearMap MapOf(Kind kind, const Axis& a, bool wide) {
  switch (kind) {
    case Kind::kNearest:
    case Kind::kNearestExact:
      return NearestMap(a, kind == Kind::kNearestExact);
    case Kind::kLinear:
      return wide ? LinearInterpolation<double>(a) : LinearInterpolation<float>(a);
    case Kind::kCubic:
      return wide ? CubicInterpolation<double>(a) : CubicInterpolation<float>(a);
    default:
      return wide ? AntialiasedMap<double>(kind, a) : AntialiasedMap<float>(kind, a);
  }
  return {};
}

// Sizes: of the small input and of the resampled output; `next`: position of align_corners (linear,
// cubic) or of the first scale.
void Resample(Emitter& e, Kind kind, int64_t spatial, const Dims& in, const Dims& out, int next,
              bool backward) {
  const Value x = e.In(0);
  if (x.rank() != spatial + 2 || static_cast<int64_t>(in.size()) != spatial + 2 ||
      static_cast<int64_t>(out.size()) != spatial) {
    e.Fail(Unimplemented(e.sig().op + ": sizes do not fit"));
    return;
  }
  if (!tape::IsFloat(x.dtype) && kind != Kind::kNearest && kind != Kind::kNearestExact) {
    e.Fail(Unimplemented(e.sig().op + " of this dtype"));
    return;
  }
  const bool corners = kind == Kind::kLinear || kind == Kind::kCubic || IsAntialiased(kind);
  const bool align = corners && e.Bool(next);
  const int first_scale = corners ? next + 1 : next;
  Value v = e.To(x, tape::OpMath(x.dtype));
  for (int64_t d = 0; d < spatial; ++d) {
    Axis axis;
    axis.in = in[d + 2];
    axis.out = out[d];
    axis.align_corners = align;
    axis.scale = e.Float(first_scale + static_cast<int>(d), 0);
    // Forwards, PyTorch's antialiased kernels leave a dimension alone whose size stays, whatever
    // the scale.
    if (IsAntialiased(kind) && !backward && axis.in == axis.out) continue;
    const LinearMap map = MapOf(kind, axis, v.dtype == DType::kF64);
    v = Apply(e, v, d + 2, backward ? map.Transposed() : map);
  }
  e.Out(0, v);
}

// (self, output_size, [align_corners,] scales...)
template <Kind kKind, int64_t kSpatial>
void Upsample(Emitter& e) {
  if (e.Wanted(0)) Resample(e, kKind, kSpatial, e.In(0).dims, e.Ints(1), 2, false);
}

// (grad_output, output_size, input_size, [align_corners,] scales...)
template <Kind kKind, int64_t kSpatial>
void UpsampleBackward(Emitter& e) {
  if (e.Wanted(0)) Resample(e, kKind, kSpatial, e.Ints(2), e.Ints(1), 3, true);
}

#define DENDRITE_UPSAMPLE(name, kind, spatial)                           \
  DENDRITE_LOWERING("aten." name ".default", (Upsample<kind, spatial>)); \
  DENDRITE_LOWERING("aten." name "_backward.default", (UpsampleBackward<kind, spatial>))

DENDRITE_UPSAMPLE("upsample_nearest1d", Kind::kNearest, 1);
DENDRITE_UPSAMPLE("upsample_nearest2d", Kind::kNearest, 2);
DENDRITE_UPSAMPLE("upsample_nearest3d", Kind::kNearest, 3);
DENDRITE_UPSAMPLE("_upsample_nearest_exact1d", Kind::kNearestExact, 1);
DENDRITE_UPSAMPLE("_upsample_nearest_exact2d", Kind::kNearestExact, 2);
DENDRITE_UPSAMPLE("_upsample_nearest_exact3d", Kind::kNearestExact, 3);
DENDRITE_UPSAMPLE("upsample_linear1d", Kind::kLinear, 1);
DENDRITE_UPSAMPLE("upsample_bilinear2d", Kind::kLinear, 2);
DENDRITE_UPSAMPLE("upsample_trilinear3d", Kind::kLinear, 3);
DENDRITE_UPSAMPLE("upsample_bicubic2d", Kind::kCubic, 2);
DENDRITE_UPSAMPLE("_upsample_bilinear2d_aa", Kind::kLinearAa, 2);
DENDRITE_UPSAMPLE("_upsample_bicubic2d_aa", Kind::kCubicAa, 2);
DENDRITE_UPSAMPLE("_upsample_lanczos2d_aa", Kind::kLanczosAa, 2);

}  // namespace
}  // namespace dendrite::lowering
