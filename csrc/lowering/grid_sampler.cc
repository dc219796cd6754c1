// csrc/lowering/grid_sampler.cc - sampling pictures at given points (grid_sampler_2d) and its
// gradients.
//
// Pictures are turned into rows of channels, one per pixel; each sampled point gathers the rows of
// its corners (bilinear: four, nearest: one), weighs and adds them. The gradient scatters the same
// rows. Points may be NaN or far outside: an index is made only of what lies inside.
#include <array>
#include <vector>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

enum Mode : uint8_t { kBilinear, kNearest };
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
  int64_t n = 0, c = 0, h = 0, w = 0, points = 0;  // points of all pictures together
  Dims out;                                        // sizes of the sampled pictures
  Mode mode = kBilinear;
  Axis x, y;
  Value picture;  // number of the picture of each point, i64
  DType math = DType::kF32;
};

Axis MakeAxis(Emitter& e, const Value& grid, int64_t component, int64_t size, Padding padding,
              bool aligned) {
  Builder& b = e.b();
  const int64_t points = tape::NumElements(grid.dims) / 2;
  const Value flat = b.Reshape(grid, {points, 2});
  const Value at =
      b.Reshape(b.Slice(flat, {0, component}, {points, component + 1}, {1, 1}), {points});
  const auto extent = static_cast<double>(size);
  const Value one = Like(b, at, 1), half = Like(b, at, 0.5);
  Axis axis;
  axis.size = size;
  if (aligned) {
    axis.at = b.Mul(b.Mul(b.Add(at, one), half), Like(b, at, extent - 1));
    axis.slope = Like(b, at, (extent - 1) / 2);
  } else {
    axis.at = b.Mul(b.Sub(b.Mul(b.Add(at, one), Like(b, at, extent)), one), half);
    axis.slope = Like(b, at, extent / 2);
  }
  if (padding == kReflection) Reflect(b, aligned, &axis);
  if (padding != kZeros) Clip(b, &axis);
  return axis;
}

// Arguments `first` ..: picture, grid, mode, padding, aligned corners.
bool Read(Emitter& e, int first, Problem* p) {
  Builder& b = e.b();
  const Dims in = e.In(first).dims;
  const Value raw = e.In(first + 1);
  const int64_t mode = e.Int(first + 2), padding = e.Int(first + 3);
  if (in.size() != 4 || raw.rank() != 4 || mode > kNearest || padding > kReflection) {
    e.Fail(Unimplemented("grid sampling other than bilinear or nearest"));
    return false;
  }
  if (tape::NumElements(in) == 0 || tape::NumElements(raw.dims) == 0) {
    e.Fail(Unimplemented("grid sampling of nothing"));
    return false;
  }
  p->math = tape::OpMath(e.In(first).dtype);
  p->mode = static_cast<Mode>(mode);
  p->n = in[0], p->c = in[1], p->h = in[2], p->w = in[3];
  p->points = tape::NumElements(raw.dims) / 2;
  p->out = {p->n, p->c, raw.dims[1], raw.dims[2]};
  const Value grid = e.To(raw, p->math);
  const bool aligned = e.Bool(first + 4);
  p->x = MakeAxis(e, grid, 0, p->w, static_cast<Padding>(padding), aligned);
  p->y = MakeAxis(e, grid, 1, p->h, static_cast<Padding>(padding), aligned);
  p->picture = b.Reshape(b.Iota(DType::kI64, {p->n, p->points / p->n}, 0), {p->points});
  return !e.failed();
}

// [N, C, ...] as rows of channels.
Value ToRows(Builder& b, const Value& v) {
  return b.Reshape(b.Transpose(v, {0, 2, 3, 1}),
                   {tape::NumElements(v.dims) / v.dims[1], v.dims[1]});
}
Value FromRows(Builder& b, const Value& rows, const Dims& dims) {
  return b.Transpose(b.Reshape(rows, {dims[0], dims[2], dims[3], dims[1]}), {0, 3, 1, 2});
}
Value PerChannel(Builder& b, const Value& v, int64_t channels) {
  return b.BroadcastInDim(v, {v.dims[0], channels}, {0});
}

struct Corner {
  Value row;              // of the picture's rows, i64
  Value inside;           // mask
  Value wx, wy;           // weights along each axis
  double dx = 0, dy = 0;  // their derivatives by the pixel coordinates
};

std::vector<Corner> Corners(Builder& b, const Problem& p) {
  struct Side {
    Value index, inside, weight;
    double derivative;
  };
  const auto sides = [&](const Axis& axis) {
    std::vector<Side> out;
    const Value zero = Like(b, axis.at, 0), one = Like(b, axis.at, 1);
    const Value last = Like(b, axis.at, static_cast<double>(axis.size - 1));
    const auto add = [&](const Value& at, const Value& weight, double derivative) {
      const Value inside =
          b.Binary("and", b.Compare(Cmp::kGe, at, zero), b.Compare(Cmp::kLe, at, last));
      out.push_back(
          {b.Convert(b.Select(inside, at, zero), DType::kI64), inside, weight, derivative});
    };
    if (p.mode == kNearest) {
      add(b.Unary("round_nearest_even", axis.at), one, 0);
      return out;
    }
    const Value low = b.Unary("floor", axis.at);
    const Value fraction = b.Sub(axis.at, low);
    add(low, b.Sub(one, fraction), -1);
    add(b.Add(low, one), fraction, 1);
    return out;
  };
  std::vector<Corner> corners;
  for (const Side& y : sides(p.y)) {
    for (const Side& x : sides(p.x)) {
      const auto times = [&](const Value& v, int64_t k) {
        return b.Mul(v, b.ConstantInt(DType::kI64, v.dims, k));
      };
      Corner corner;
      corner.row = b.Add(b.Add(times(p.picture, p.h * p.w), times(y.index, p.w)), x.index);
      corner.inside = b.Binary("and", x.inside, y.inside);
      corner.wx = x.weight;
      corner.wy = y.weight;
      corner.dx = x.derivative;
      corner.dy = y.derivative;
      corners.push_back(corner);
    }
  }
  return corners;
}

Value Weight(Builder& b, const Corner& corner) {
  const Value w = b.Mul(corner.wx, corner.wy);
  return b.Select(corner.inside, w, Like(b, w, 0));
}

void GridSampler2d(Emitter& e) {
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
void GridSampler2dBackward(Emitter& e) {
  Builder& b = e.b();
  Problem p;
  if (!Read(e, 1, &p)) return;
  const Value grad = ToRows(b, e.To(e.In(0), p.math));
  const Value rows = ToRows(b, e.To(e.In(1), p.math));
  Value of_input = b.Constant(p.math, {p.n * p.h * p.w, p.c}, 0);
  Value of_x = b.Constant(p.math, {p.points}, 0), of_y = of_x;
  for (const Corner& corner : Corners(b, p)) {
    const Value share = b.Mul(grad, PerChannel(b, Weight(b, corner), p.c));
    of_input = ScatterAlong(b, of_input, 0, corner.row, share, Accumulate);
    if (p.mode == kNearest) continue;
    const Value values = GatherAlong(b, rows, 0, corner.row);
    Value along = Sum(b, b.Mul(grad, values), {1});
    along = b.Select(corner.inside, along, Like(b, along, 0));
    of_x = b.Add(of_x, b.Mul(b.Mul(along, corner.wy), Like(b, along, corner.dx)));
    of_y = b.Add(of_y, b.Mul(b.Mul(along, corner.wx), Like(b, along, corner.dy)));
  }
  if (e.Wanted(0)) e.Out(0, FromRows(b, of_input, {p.n, p.c, p.h, p.w}));
  if (!e.Wanted(1)) return;
  const Value x = b.Reshape(b.Mul(of_x, p.x.slope), {p.points, 1});
  const Value y = b.Reshape(b.Mul(of_y, p.y.slope), {p.points, 1});
  e.Out(1, b.Reshape(b.Concatenate({x, y}, 1), e.OutView(1).sizes));
}

DENDRITE_LOWERING("aten.grid_sampler_2d.default", GridSampler2d);
DENDRITE_LOWERING("aten.grid_sampler_2d_backward.default", GridSampler2dBackward);

}  // namespace
}  // namespace dendrite::lowering
