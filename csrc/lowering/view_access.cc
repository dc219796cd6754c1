#include "csrc/lowering/view_access.h"

#include <algorithm>
#include <numeric>

#include "csrc/tape/factor.h"

namespace dendrite::lowering {
namespace {

using tape::Factored;
using tape::Step;
using tape::View;

// Conjugation and negation are their own inverses: the same for reading and for writing.
Value ApplyBits(Builder& b, const View& view, Value v) {
  if (view.conj && tape::IsComplex(view.dtype)) {
    v = b.Complex(b.Real(v), b.Unary("negate", b.Imag(v)));
  }
  if (view.neg) v = b.Unary("negate", v);
  return v;
}

Dims Plus(const Dims& a, const Dims& b) {
  Dims out(a);
  for (size_t i = 0; i < out.size(); ++i) out[i] += b[i];
  return out;
}

// The offset's index in every dimension of the form.
std::vector<Value> LiftedStarts(Builder& b, const Value& offset, const Factored& f) {
  std::vector<Value> starts(f.form.size());
  Value rest = offset;
  for (size_t k = f.form.size(); k-- > 0;) {
    if (k == 0) {
      starts[k] = rest;
      break;
    }
    const Value size = b.ConstantInt(DType::kI64, {}, f.form[k]);
    // A dimension that is taken whole begins at 0, and the compiler should see that.
    starts[k] = f.extent[k] == f.form[k] ? b.ConstantInt(DType::kI64, {}, 0)
                                         : b.Binary("remainder", rest, size);
    rest = b.Div(rest, size);
  }
  return starts;
}

std::vector<Value> StaticStarts(Builder& b, const Dims& starts) {
  std::vector<Value> out;
  for (int64_t s : starts) out.push_back(b.ConstantInt(DType::kI64, {}, s));
  return out;
}

Value Flat(Builder& b, const Value& v) { return b.Reshape(v, {tape::NumElements(v.dims)}); }

// The rows of the form that the view lies in, padded where the window ends inside of the last one.
Value Rows(Builder& b, const Value& window, Factored* f) {
  const int64_t count = tape::NumElements(window.dims);
  const int64_t row = f->covered / f->form[0];
  const int64_t low = f->start[0] * row;
  const int64_t high = (f->start[0] + f->extent[0]) * row;
  Value x = b.Slice(Flat(b, window), {low}, {std::min(high, count)}, {1});
  if (high > count) {
    x = b.Pad(x, b.Constant(window.dtype, {}, 0), {0}, {high - count}, {0});
  }
  f->form[0] = f->extent[0];
  f->start[0] = 0;
  return b.Reshape(x, f->form);
}

// The best way to read at a known offset: without padding if possible.
std::optional<Factored> FactorForRead(const View& view, int64_t offset, int64_t count) {
  std::optional<Factored> nested = tape::Factor(view, offset, count, Step::kNested);
  if (nested && nested->covered == count) return nested;
  std::optional<Factored> strided = tape::Factor(view, offset, count, Step::kStrided);
  if (strided && strided->covered == count) return strided;
  return nested ? nested : strided;
}

// Dimensions of the form that are dimensions of the view, in the form's order.
Dims KeptDims(const Factored& f) {
  Dims kept;
  for (int64_t d : f.view_dim) {
    if (d >= 0) kept.push_back(d);
  }
  return kept;
}

// `block` (the form's extents) as the view's sizes.
Value BlockToView(Builder& b, const Value& block, const Factored& f, const View& view) {
  const Dims kept = KeptDims(f);
  Dims sizes;
  for (int64_t d : kept) sizes.push_back(view.sizes[d]);
  Dims perm(kept.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::sort(perm.begin(), perm.end(), [&](int64_t x, int64_t y) { return kept[x] < kept[y]; });
  return b.Reshape(b.Transpose(b.Reshape(block, sizes), perm), view.sizes);
}

// The inverse of BlockToView.
Value ViewToBlock(Builder& b, const Value& v, const Factored& f, const View& view) {
  const Dims kept = KeptDims(f);
  Dims ascending = kept, sizes, perm;
  std::sort(ascending.begin(), ascending.end());
  for (int64_t d : ascending) sizes.push_back(view.sizes[d]);
  for (int64_t d : kept) {
    perm.push_back(std::lower_bound(ascending.begin(), ascending.end(), d) - ascending.begin());
  }
  return b.Reshape(b.Transpose(b.Reshape(v, sizes), perm), f.extent);
}

Value ReadBase(Builder& b, const Value& window, const View& base, const ViewAt& at) {
  const int64_t count = tape::NumElements(window.dims);
  if (at.lifted_offset.defined()) {
    const std::optional<Factored> f = tape::Factor(base, std::nullopt, count, Step::kNested);
    if (!f) return GatherView(b, window, {base, 0, at.lifted_offset});
    // A cut last row stays outside: OffsetCheckFor refuses offsets that would reach into it.
    const Value rows = b.Reshape(b.Slice(Flat(b, window), {0}, {f->covered}, {1}), f->form);
    const Value block = b.DynamicSlice(rows, LiftedStarts(b, at.lifted_offset, *f), f->extent);
    return BlockToView(b, block, *f, base);
  }
  // A view that covers the window needs no form of its own.
  if (base.is_contiguous() && CoversWindow(base, at.offset, count)) {
    return b.Reshape(window, base.sizes);
  }
  std::optional<Factored> f = FactorForRead(base, at.offset, count);
  if (!f) return GatherView(b, window, {base, at.offset, {}});
  const Value rows = f->covered == count ? b.Reshape(window, f->form) : Rows(b, window, &*f);
  Dims steps(f->form.size(), 1);
  steps.back() = f->step;
  const Value block = b.Slice(rows, f->start, Plus(f->start, f->extent), steps);
  return BlockToView(b, block, *f, base);
}

}  // namespace

Value ReadView(Builder& b, const Value& window, const ViewAt& at) {
  const View& view = at.view;
  if (view.numel() == 0) return b.Constant(view.dtype, view.sizes, 0);
  const View base = tape::WithoutBroadcast(view);
  Value v = ApplyBits(b, view, ReadBase(b, window, base, at));
  if (base.sizes != view.sizes) {
    Dims map(view.sizes.size());
    std::iota(map.begin(), map.end(), 0);
    v = b.BroadcastInDim(v, view.sizes, map);
  }
  return v;
}

bool CoversWindow(const View& view, int64_t offset, int64_t window) {
  return offset == 0 && view.numel() == window && view.is_dense();
}

Dims WholeViewForm(const View& view) {
  if (view.is_contiguous()) return view.sizes;
  const auto f = tape::Factor(view, 0, view.numel(), Step::kNested);
  return f ? f->form : Dims{view.numel()};
}

Value WindowFromWholeView(Builder& b, const View& view, const Value& logical) {
  const Value stored = ApplyBits(b, view, logical);
  if (view.is_contiguous()) return stored;
  const auto f = tape::Factor(view, 0, view.numel(), Step::kNested);
  if (!f) {  // dense views always nest
    b.Fail(Internal("a dense view that does not nest"));
    return stored;
  }
  return ViewToBlock(b, stored, *f, view);
}

Value WriteView(Builder& b, const Value& window, const ViewAt& at, const Value& logical) {
  const View& view = at.view;
  if (view.numel() == 0) return window;
  if (tape::WithoutBroadcast(view).sizes != view.sizes) {
    b.Fail(Unimplemented("a write through a view that overlaps itself"));
    return window;
  }
  const Value stored = ApplyBits(b, view, logical);
  const int64_t count = tape::NumElements(window.dims);
  if (at.lifted_offset.defined()) {
    const auto f = tape::Factor(view, std::nullopt, count, Step::kNested);
    if (!f) return ScatterView(b, window, at, stored);
    const std::vector<Value> starts = LiftedStarts(b, at.lifted_offset, *f);
    const Value block = ViewToBlock(b, stored, *f, view);
    if (f->covered == count) {
      return b.DynamicUpdateSlice(b.Reshape(window, f->form), block, starts);
    }
    const Value flat = Flat(b, window);
    const Value rows = b.Reshape(b.Slice(flat, {0}, {f->covered}, {1}), f->form);
    return b.Concatenate({Flat(b, b.DynamicUpdateSlice(rows, block, starts)),
                          b.Slice(flat, {f->covered}, {count}, {1})},
                         0);
  }
  const auto f = tape::Factor(view, at.offset, count, Step::kNested);
  // A form that ends beyond the window has to be padded and cut, which copies it all: only for
  // large writes.
  if (!f || (f->covered != count && view.numel() * 8 < count)) {
    return ScatterView(b, window, at, stored);
  }
  const Value block = ViewToBlock(b, stored, *f, view);
  const std::vector<Value> starts = StaticStarts(b, f->start);
  if (f->covered == count) {
    return b.DynamicUpdateSlice(b.Reshape(window, f->form), block, starts);
  }
  const Value padded =
      b.Pad(Flat(b, window), b.Constant(window.dtype, {}, 0), {0}, {f->covered - count}, {0});
  const Value updated = b.DynamicUpdateSlice(b.Reshape(padded, f->form), block, starts);
  return b.Slice(Flat(b, updated), {0}, {count}, {1});
}

Snippet::OffsetCheck OffsetCheckFor(const View& view, int64_t window) {
  const View base = tape::WithoutBroadcast(view);
  if (view.numel() == 0) return {};
  if (const auto f = tape::Factor(base, std::nullopt, window, Step::kNested)) {
    return {f->form, f->extent};
  }
  return {{window}, {view.span()}};
}

}  // namespace dendrite::lowering
