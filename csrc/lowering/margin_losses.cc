// csrc/lowering/margin_losses.cc - multi_margin_loss, multilabel_margin_loss, and their gradients.
#include <cmath>

#include "csrc/lowering/indexing.h"
#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::Cmp;

// A vector or a matrix of scores as rows [n, classes], in opmath.
Value Rows(Emitter& e, int arg) {
  const Value x = e.In(arg);
  const int64_t classes = x.rank() == 0 ? 1 : x.dims.back();
  const int64_t n = classes == 0 ? 0 : tape::NumElements(x.dims) / classes;
  return e.b().Reshape(e.To(x, tape::OpMath(x.dtype)), {n, classes});
}

// What a loss per row becomes: its rows' mean, sum, or itself in the result's shape.
void OutReduced(Emitter& e, const Value& rows, int64_t reduction) {
  Builder& b = e.b();
  if (!e.Wanted(0)) return;
  e.Out(0, b.Reshape(ReduceLoss(b, rows, reduction), e.OutView(0).sizes));
}

// Grad_output per element of rows [n, classes], divided by n for a mean.
Value GradOfRows(Emitter& e, const Dims& dims, DType type, int64_t reduction) {
  Builder& b = e.b();
  const Value grad = e.To(e.In(0), type);
  if (reduction == 0) return b.BroadcastInDim(b.Reshape(grad, {dims[0]}), dims, {0});
  const Value v = b.BroadcastTo(b.Reshape(grad, {}), dims);
  return reduction == 1 ? b.Div(v, Like(b, v, static_cast<double>(dims[0]))) : v;
}

// --- multi_margin_loss: max(0, margin - x[target] + x[i])^p, i != target, over the classes

struct Margin {
  Value x;
  Value own;     // mask: the target's class
  Value z;       // margin - x[target] + x, 0 at the target and where negative
  Value weight;  // of the target's class, per row; undefined if none
  double p = 1;
};

// Arguments first ..: self, target, p, margin, weight.
bool ReadMargin(Emitter& e, int first, Margin* m) {
  Builder& b = e.b();
  m->x = Rows(e, first);
  const Dims& dims = m->x.dims;
  m->p = e.Float(first + 2, 1);
  if (!tape::IsFloat(m->x.dtype) || (m->p != 1 && m->p != 2) || tape::NumElements(dims) == 0) {
    e.Fail(Unimplemented(e.sig().op + " of nothing, or of this dtype"));
    return false;
  }
  const Value target = b.Reshape(CheckedIndex(e, e.In(first + 1), dims[1]), {dims[0]});
  m->own = b.Compare(Cmp::kEq, b.Iota(DType::kI64, dims, 1), b.BroadcastInDim(target, dims, {0}));
  const Value zero = Like(b, m->x, 0);
  const Value score = Sum(b, b.Select(m->own, m->x, zero), {1});
  const Value z =
      b.Add(b.Sub(Like(b, m->x, e.Float(first + 3, 1)), b.BroadcastInDim(score, dims, {0})), m->x);
  const Value counts = b.Binary("and", b.Compare(Cmp::kGt, z, zero), b.Unary("not", m->own));
  m->z = b.Select(counts, z, zero);
  if (!e.IsNone(first + 4)) {
    m->weight = GatherAlong(b, e.To(e.In(first + 4), m->x.dtype), 0, target);
  }
  return !e.failed();
}

void MultiMarginLoss(Emitter& e) {  // (self, target, p, margin, weight, reduction)
  Builder& b = e.b();
  Margin m;
  if (!ReadMargin(e, 0, &m)) return;
  Value loss = Sum(b, m.p == 1 ? m.z : b.Mul(m.z, m.z), {1});
  if (m.weight.defined()) loss = b.Mul(loss, m.weight);
  loss = b.Div(loss, Like(b, loss, static_cast<double>(m.x.dims[1])));
  OutReduced(e, loss, e.Int(5, 1));
}

void MultiMarginLossBackward(
    Emitter& e) {  // (grad_output, self, target, p, margin, weight, reduction)
  Builder& b = e.b();
  Margin m;
  if (!ReadMargin(e, 1, &m)) return;
  const Dims& dims = m.x.dims;
  const Value zero = Like(b, m.x, 0);
  Value slope = m.p == 1 ? b.Convert(b.Compare(Cmp::kGt, m.z, zero), m.x.dtype) : b.Add(m.z, m.z);
  if (m.weight.defined()) slope = b.Mul(slope, b.BroadcastInDim(m.weight, dims, {0}));
  slope = b.Div(slope, Like(b, slope, static_cast<double>(dims[1])));
  const Value against = b.Unary("negate", b.BroadcastInDim(Sum(b, slope, {1}), dims, {0}));
  const Value each = b.Select(m.own, against, slope);
  const Value grad = b.Mul(each, GradOfRows(e, dims, m.x.dtype, e.Int(6, 1)));
  e.Out(0, b.Reshape(grad, e.In(1).dims));
}

// --- multilabel_margin_loss: targets are listed up to the first -1

struct Labels {
  Value x;          // [n, classes]
  Value listed;     // mask [n, place]: a label, before the first -1
  Value index;      // i64 [n, place]: the label, 0 where not listed
  Value is_target;  // mask [n, class]
};

bool ReadLabels(Emitter& e, int first, Labels* l) {
  Builder& b = e.b();
  l->x = Rows(e, first);
  const Dims& dims = l->x.dims;
  if (!tape::IsFloat(l->x.dtype) || tape::NumElements(dims) == 0) {
    e.Fail(Unimplemented(e.sig().op + " of nothing, or of this dtype"));
    return false;
  }
  const Value target = b.Reshape(e.To(e.In(first + 1), DType::kI64), dims);
  const Value place = b.Iota(DType::kI64, dims, 1);
  const Value end = b.Compare(Cmp::kEq, target, Like(b, target, -1));
  const Value last = Min(b, b.Select(end, place, b.ConstantInt(DType::kI64, dims, dims[1])), {1});
  l->listed = b.Compare(Cmp::kLt, place, b.BroadcastInDim(last, dims, {0}));
  l->index = b.Select(l->listed, target, Like(b, target, 0));
  e.CheckIndices(target, -1, dims[1]);
  // [n, place, class]
  const Dims cube = {dims[0], dims[1], dims[1]};
  const Value same =
      b.Compare(Cmp::kEq, b.BroadcastInDim(l->index, cube, {0, 1}), b.Iota(DType::kI64, cube, 2));
  l->is_target = AnyOf(b, b.Binary("and", same, b.BroadcastInDim(l->listed, cube, {0, 1})), {1});
  return !e.failed();
}

// 1 - x[label] + x[class] where it counts, else 0: [n, place, class].
Value Violations(Builder& b, const Labels& l) {
  const Dims& dims = l.x.dims;
  const Dims cube = {dims[0], dims[1], dims[1]};
  const Value row = b.Mul(b.Iota(DType::kI64, dims, 0), b.ConstantInt(DType::kI64, dims, dims[1]));
  const Value score = GatherFlat(b, l.x, b.Add(row, l.index));
  const Value z =
      b.Add(b.Sub(b.Constant(l.x.dtype, cube, 1), b.BroadcastInDim(score, cube, {0, 1})),
            b.BroadcastInDim(l.x, cube, {0, 2}));
  const Value counts = b.Binary("and", b.BroadcastInDim(l.listed, cube, {0, 1}),
                                b.Unary("not", b.BroadcastInDim(l.is_target, cube, {0, 2})));
  const Value zero = Like(b, z, 0);
  return b.Select(b.Binary("and", counts, b.Compare(Cmp::kGt, z, zero)), z, zero);
}

void MultilabelMarginLoss(Emitter& e) {  // (self, target, reduction) -> (loss, is_target)
  Builder& b = e.b();
  Labels l;
  if (!ReadLabels(e, 0, &l)) return;
  const Value sum = Sum(b, Violations(b, l), {1, 2});
  OutReduced(e, b.Div(sum, Like(b, sum, static_cast<double>(l.x.dims[1]))), e.Int(2, 1));
  e.Out(1, b.Reshape(b.Convert(l.is_target, l.x.dtype), e.In(1).dims));
}

void MultilabelMarginLossBackward(
    Emitter& e) {  // (grad_output, self, target, reduction, is_target)
  Builder& b = e.b();
  Labels l;
  if (!ReadLabels(e, 1, &l)) return;
  const Dims& dims = l.x.dims;
  const Value z = Violations(b, l);
  const Value step = b.Convert(b.Compare(Cmp::kGt, z, Like(b, z, 0)), z.dtype);
  const Value by_class = Sum(b, step, {1}), by_place = Sum(b, step, {2});
  const Value row = b.Mul(b.Iota(DType::kI64, dims, 0), b.ConstantInt(DType::kI64, dims, dims[1]));
  Value each =
      ScatterFlat(b, by_class, b.Add(row, l.index), b.Unary("negate", by_place), Accumulate);
  each = b.Div(each, Like(b, each, static_cast<double>(dims[1])));
  const Value grad = b.Mul(each, GradOfRows(e, dims, l.x.dtype, e.Int(3, 1)));
  e.Out(0, b.Reshape(grad, e.In(1).dims));
}

DENDRITE_LOWERING("aten.multi_margin_loss.default", MultiMarginLoss);
DENDRITE_LOWERING("aten.multi_margin_loss_backward.default", MultiMarginLossBackward);
DENDRITE_LOWERING("aten.multilabel_margin_loss_forward.default", MultilabelMarginLoss);
DENDRITE_LOWERING("aten.multilabel_margin_loss_backward.default", MultilabelMarginLossBackward);

}  // namespace
}  // namespace dendrite::lowering
