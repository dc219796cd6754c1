#include "csrc/tape/factor.h"

#include <algorithm>

namespace dendrite::tape {
namespace {

// Dimensions that matter, outermost first.
Dims Order(const View& view) {
  Dims order;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] > 1 && view.strides[i] > 0) order.push_back(static_cast<int64_t>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return view.strides[a] > view.strides[b]; });
  return order;
}

}  // namespace

int64_t OuterStride(const View& view) {
  const Dims order = Order(view);
  return order.empty() ? 1 : view.strides[order[0]];
}

View WithoutBroadcast(const View& view) {
  View out = view;
  for (size_t i = 0; i < out.sizes.size(); ++i) {
    if (out.strides[i] == 0 && out.sizes[i] > 1) out.sizes[i] = 1;
  }
  return out;
}

std::optional<Factored> Factor(const View& view, std::optional<int64_t> offset, int64_t window,
                               Step step) {
  for (int64_t size : view.sizes) {
    if (size == 0) return std::nullopt;
  }
  const Dims order = Order(view);
  Factored out;
  // unit[k]: elements from one index of form dimension k to the next.
  Dims unit;
  for (size_t k = 0; k < order.size(); ++k) {
    const int64_t size = view.sizes[order[k]];
    const int64_t stride = view.strides[order[k]];
    const bool last = k + 1 == order.size();
    const bool strided = last && step == Step::kStrided;
    const int64_t u = strided ? 1 : stride;
    if (k > 0) {
      if (unit.back() % u != 0) return std::nullopt;
      out.form.push_back(unit.back() / u);
    }
    unit.push_back(u);
    out.extent.push_back(strided ? (size - 1) * stride + 1 : size);
    out.view_dim.push_back(order[k]);
    if (strided) out.step = stride;
  }
  if (unit.empty() || unit.back() > 1) {
    if (!unit.empty()) out.form.push_back(unit.back());
    unit.push_back(1);
    out.extent.push_back(1);
    out.view_dim.push_back(-1);
  }
  const int64_t rows = offset ? (window + unit[0] - 1) / unit[0] : window / unit[0];
  out.form.insert(out.form.begin(), rows);
  out.covered = rows * unit[0];
  out.start.assign(out.form.size(), 0);
  int64_t rest = offset.value_or(0);
  for (size_t k = 0; k < unit.size(); ++k) {
    out.start[k] = rest / unit[k];
    rest %= unit[k];
    if (out.start[k] + out.extent[k] > out.form[k]) return std::nullopt;
  }
  return out;
}

}  // namespace dendrite::tape
