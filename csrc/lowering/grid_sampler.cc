// csrc/lowering/grid_sampler.cc - sampling pictures and volumes at given points (grid_sampler_2d,
// grid_sampler_3d) and its gradients.
//
// Pictures are turned into rows of channels, one per pixel; each sampled point gathers the rows of
// its corners (linear: two per dimension, cubic: four, nearest: one), weighs and adds them. The
// gradient scatters the same rows. Points may be NaN or far outside: an index is made only of what
// lies inside.
#include <vector>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

enum Mode : uint8_t { kLinear, kNearest, kCubic };
enum Padding : uint8_t { kZeros, kBorder, kReflection };

// One coordinate of all points, [points].
struct Axis {
  Value at;     // in pixels, after padding
  Value slope;  // its derivative by the grid's number
  int64_t size = 0;
};

// Clamps to [0, size - 1], where NaN becomes 0; the derivative vanishes where it clamps.
void Clip(Builder& b, Axis* axis) {
  const Value zero = Like(b, axis->at, 0);
  const Value last = Like(b, axis->at, static_cast<double>(axis->size - 1));
  const Value above = b.Compare(Cmp::kGt, axis->at, zero);
  const Value below = b.Compare(Cmp::kLt, axis->at, last);
  const Value inside = b.Binary("and", above, below);
  const Value low = b.Select(above, axis->at, zero);
  axis->at = b.Select(b.Compare(Cmp::kLt, low, last), low, last);
  axis->slope = b.Select(inside, axis->slope, zero);
}

// Reflects at the first and last pixel (aligned corners) or at the picture's edges.
void Reflect(Builder& b, bool aligned, Axis* axis) {
  const double low = aligned ? 0 : -0.5;
  const double span = static_cast<double>(aligned ? axis->size - 1 : axis->size);
  const Value zero = Like(b, axis->at, 0);
  if (span == 0) {
    axis->at = axis->slope = zero;
    return;
  }
  const Value shifted = b.Sub(axis->at, Like(b, axis->at, low));
  const Value distance = b.Unary("abs", shifted);
  const Value spans = Like(b, axis->at, span);
  const Value extra = b.Binary("remainder", distance, spans);
  const Value flips = b.Unary("floor", b.Div(distance, spans));
  const Value odd = b.Compare(Cmp::kNe, b.Binary("remainder", flips, Like(b, flips, 2)), zero);
  const Value back = b.Compare(Cmp::kNe, odd, b.Compare(Cmp::kLt, shifted, zero));
  axis->at = b.Add(b.Select(odd, b.Sub(spans, extra), extra), Like(b, axis->at, low));
  axis->slope = b.Select(back, b.Unary("negate", axis->slope), axis->slope);
}

struct Problem {
  int64_t n = 0, c = 0, points = 0;  // points of all pictures together
  Dims out;                          // sizes of the sampled pictures
  Mode mode = kLinear;
  Padding padding = kZeros;
  bool aligned = false;
  std::vector<Axis> axes;  // in the order of the picture's dimensions
  Value picture;           // number of the picture of each point, i64
  DType math = DType::kF32;

  int64_t pixels() const {
    int64_t count = 1;
    for (const Axis& axis : axes) count *= axis.size;
    return count;
  }
};

Axis MakeAxis(Emitter& e, const Value& grid, int64_t component, int64_t size, const Problem& p) {
  Builder& b = e.b();
  const Value at =
      b.Reshape(b.Slice(grid, {0, component}, {p.points, component + 1}, {1, 1}), {p.points});
  const auto extent = static_cast<double>(size);
  const Value one = Like(b, at, 1), half = Like(b, at, 0.5);
  Axis axis;
  axis.size = size;
  if (p.aligned) {
    axis.at = b.Mul(b.Mul(b.Add(at, one), half), Like(b, at, extent - 1));
    axis.slope = Like(b, at, (extent - 1) / 2);
  } else {
    axis.at = b.Mul(b.Sub(b.Mul(b.Add(at, one), Like(b, at, extent)), one), half);
    axis.slope = Like(b, at, extent / 2);
  }
  if (p.mode == kCubic) return axis;  // pads each of its taps by itself
  if (p.padding == kReflection) Reflect(b, p.aligned, &axis);
  if (p.padding != kZeros) Clip(b, &axis);
  return axis;
}

// Arguments `first` ..: picture, grid, mode, padding, aligned corners.
bool Read(Emitter& e, int first, Problem* p) {
  Builder& b = e.b();
  const Dims in = e.In(first).dims;
  const Value raw = e.In(first + 1);
  const int64_t mode = e.Int(first + 2), padding = e.Int(first + 3);
  const auto spatial = static_cast<int64_t>(in.size()) - 2;
  if (raw.rank() != spatial + 2 || mode > kCubic || padding > kReflection) {
    e.Fail(Unimplemented("grid sampling other than linear, nearest or cubic"));
    return false;
  }
  if (tape::NumElements(in) == 0 || tape::NumElements(raw.dims) == 0) {
    e.Fail(Unimplemented("grid sampling of nothing"));
    return false;
  }
  p->math = tape::OpMath(e.In(first).dtype);
  p->mode = static_cast<Mode>(mode);
  p->padding = static_cast<Padding>(padding);
  p->aligned = e.Bool(first + 4);
  p->n = in[0], p->c = in[1];
  p->points = tape::NumElements(raw.dims) / spatial;
  p->out = {p->n, p->c};
  p->out.insert(p->out.end(), raw.dims.begin() + 1, raw.dims.end() - 1);
  const Value grid = b.Reshape(e.To(raw, p->math), {p->points, spatial});
  // The grid's first number is the place along the last dimension.
  for (int64_t d = 0; d < spatial; ++d) {
    p->axes.push_back(MakeAxis(e, grid, spatial - 1 - d, in[d + 2], *p));
  }
  p->picture = b.Reshape(b.Iota(DType::kI64, {p->n, p->points / p->n}, 0), {p->points});
  return !e.failed();
}

// [N, C, ...] as rows of channels, and back.
Value ToRows(Builder& b, const Value& v) {
  Dims perm = {0};
  for (int64_t d = 2; d < v.rank(); ++d) perm.push_back(d);
  perm.push_back(1);
  return b.Reshape(b.Transpose(v, perm), {tape::NumElements(v.dims) / v.dims[1], v.dims[1]});
}
Value FromRows(Builder& b, const Value& rows, const Dims& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  Dims last = {dims[0]}, perm = {0, rank - 1};
  last.insert(last.end(), dims.begin() + 2, dims.end());
  last.push_back(dims[1]);
  for (int64_t d = 1; d < rank - 1; ++d) perm.push_back(d);
  return b.Transpose(b.Reshape(rows, last), perm);
}
Value PerChannel(Builder& b, const Value& v, int64_t channels) {
  return b.BroadcastInDim(v, {v.dims[0], channels}, {0});
}

// What one axis has to do with a point: a pixel, its weight, and the weight's derivative.
struct Side {
  Value index;   // i64, of what lies inside
  Value inside;  // mask
  Value weight, derivative;
};

Side MakeSide(Builder& b, const Value& at, int64_t size, const Value& weight,
              const Value& derivative) {
  const Value zero = Like(b, at, 0), last = Like(b, at, static_cast<double>(size - 1));
  const Value inside =
      b.Binary("and", b.Compare(Cmp::kGe, at, zero), b.Compare(Cmp::kLe, at, last));
  return {b.Convert(b.Select(inside, at, zero), DType::kI64), inside, weight, derivative};
}

// Keys' cubic, A = -3/4, at a distance x: its value and derivative by x, near (|x| <= 1) or far.
struct Cubic {
  Value weight, derivative;
};

Cubic CubicAt(Builder& b, const Value& x, bool near) {
  constexpr double kA = -0.75;
  const auto polynomial = [&](double c3, double c2, double c1, double c0) {
    Value v = Like(b, x, c3);
    for (double c : {c2, c1, c0}) v = b.Add(b.Mul(v, x), Like(b, x, c));
    return v;
  };
  if (near) {
    return {polynomial(kA + 2, -(kA + 3), 0, 1), polynomial(0, 3 * (kA + 2), -2 * (kA + 3), 0)};
  }
  return {polynomial(kA, -5 * kA, 8 * kA, -4 * kA), polynomial(0, 3 * kA, -10 * kA, 8 * kA)};
}

std::vector<Side> SidesOf(Builder& b, const Problem& p, const Axis& axis) {
  const Value one = Like(b, axis.at, 1), zero = Like(b, axis.at, 0);
  if (p.mode == kNearest) {
    return {MakeSide(b, b.Unary("round_nearest_even", axis.at), axis.size, one, zero)};
  }
  const Value low = b.Unary("floor", axis.at), fraction = b.Sub(axis.at, low);
  if (p.mode == kLinear) {
    return {MakeSide(b, low, axis.size, b.Sub(one, fraction), Like(b, one, -1)),
            MakeSide(b, b.Add(low, one), axis.size, fraction, one)};
  }
  std::vector<Side> sides;
  for (int tap = -1; tap <= 2; ++tap) {
    // Distances grow with the fraction on the left of the point, and fall on its right.
    const bool left = tap <= 0;
    const Value distance =
        left ? b.Sub(fraction, Like(b, one, tap)) : b.Sub(Like(b, one, tap), fraction);
    const Cubic cubic = CubicAt(b, distance, tap == 0 || tap == 1);
    Axis place = axis;
    place.at = b.Add(low, Like(b, one, tap));
    if (p.padding == kReflection) Reflect(b, p.aligned, &place);
    if (p.padding != kZeros) Clip(b, &place);
    sides.push_back(MakeSide(b, place.at, axis.size, cubic.weight,
                             left ? cubic.derivative : b.Unary("negate", cubic.derivative)));
  }
  return sides;
}

struct Corner {
  Value row;                // of the picture's rows, i64
  Value inside;             // mask
  std::vector<Side> sides;  // per axis
};

// All combinations of the axes' sides, the last axis fastest.
std::vector<Corner> Corners(Builder& b, const Problem& p) {
  std::vector<Corner> corners = {{p.picture, {}, {}}};
  for (const Axis& axis : p.axes) {
    std::vector<Corner> next;
    const std::vector<Side> sides = SidesOf(b, p, axis);
    for (const Corner& corner : corners) {
      for (const Side& side : sides) {
        Corner made = corner;
        const Value size = b.ConstantInt(DType::kI64, corner.row.dims, axis.size);
        made.row = b.Add(b.Mul(corner.row, size), side.index);
        made.inside =
            corner.inside.defined() ? b.Binary("and", corner.inside, side.inside) : side.inside;
        made.sides.push_back(side);
        next.push_back(std::move(made));
      }
    }
    corners = std::move(next);
  }
  return corners;
}

// The product of the sides' weights, that of axis `derived` being replaced by its derivative; 0
// outside.
Value Weight(Builder& b, const Corner& corner, size_t derived = SIZE_MAX) {
  Value w;
  for (size_t d = corner.sides.size(); d-- > 0;) {
    const Side& side = corner.sides[d];
    const Value factor = d == derived ? side.derivative : side.weight;
    w = w.defined() ? b.Mul(w, factor) : factor;
  }
  return b.Select(corner.inside, w, Like(b, w, 0));
}

// (input, grid, mode, padding, aligned)
void GridSampler(Emitter& e) {
  Builder& b = e.b();
  Problem p;
  if (!Read(e, 0, &p)) return;
  const Value rows = ToRows(b, e.To(e.In(0), p.math));
  Value sum;
  for (const Corner& corner : Corners(b, p)) {
    const Value values = GatherAlong(b, rows, 0, corner.row);
    const Value weight = PerChannel(b, Weight(b, corner), p.c);
    // Outside, even of a picture with NaN in its corner, is nothing.
    const Value part =
        b.Select(PerChannel(b, corner.inside, p.c), b.Mul(values, weight), Like(b, values, 0));
    sum = sum.defined() ? b.Add(sum, part) : part;
  }
  e.Out(0, FromRows(b, sum, p.out));
}

// (grad, input, grid, mode, padding, aligned, output_mask) -> (input's, grid's)
void GridSamplerBackward(Emitter& e) {
  Builder& b = e.b();
  Problem p;
  if (!Read(e, 1, &p)) return;
  const Value grad = ToRows(b, e.To(e.In(0), p.math));
  const Value rows = ToRows(b, e.To(e.In(1), p.math));
  Value of_input = b.Constant(p.math, {p.n * p.pixels(), p.c}, 0);
  // A grid's gradient is a difference of large sums: those of f32 are kept in f64 where there is
  // one.
  const DType wide = e.traits().has_f64 ? DType::kF64 : p.math;
  std::vector<Value> of_axis(p.axes.size(), b.Constant(wide, {p.points}, 0));
  for (const Corner& corner : Corners(b, p)) {
    const Value share = b.Mul(grad, PerChannel(b, Weight(b, corner), p.c));
    of_input = ScatterAlong(b, of_input, 0, corner.row, share, Accumulate);
    if (p.mode == kNearest) continue;
    const Value values = GatherAlong(b, rows, 0, corner.row);
    const Value along = Sum(b, b.Mul(b.Convert(grad, wide), b.Convert(values, wide)), {1});
    for (size_t d = 0; d < of_axis.size(); ++d) {
      const Value weight = b.Convert(Weight(b, corner, d), wide);
      const Value part = b.Select(corner.inside, b.Mul(along, weight), Like(b, along, 0));
      of_axis[d] = b.Add(of_axis[d], part);
    }
  }
  Dims in = {p.n, p.c};
  for (const Axis& axis : p.axes) in.push_back(axis.size);
  if (e.Wanted(0)) e.Out(0, FromRows(b, of_input, in));
  if (!e.Wanted(1)) return;
  std::vector<Value> numbers;
  for (size_t d = of_axis.size(); d-- > 0;) {
    const Value number = b.Mul(b.Convert(of_axis[d], p.math), p.axes[d].slope);
    numbers.push_back(b.Reshape(number, {p.points, 1}));
  }
  e.Out(1, b.Reshape(b.Concatenate(numbers, 1), e.OutView(1).sizes));
}

DENDRITE_LOWERING("aten.grid_sampler_2d.default", GridSampler);
DENDRITE_LOWERING("aten.grid_sampler_3d.default", GridSampler);
DENDRITE_LOWERING("aten.grid_sampler_2d_backward.default", GridSamplerBackward);
DENDRITE_LOWERING("aten.grid_sampler_3d_backward.default", GridSamplerBackward);

}  // namespace
}  // namespace dendrite::lowering
