#include "csrc/tape/record.h"

#include <algorithm>
#include <numeric>

namespace dendrite::tape {

int64_t NumElements(const Dims& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

Dims ContiguousStrides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t n = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = n;
    n *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

int64_t View::numel() const { return NumElements(sizes); }

int64_t View::span() const {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

bool View::is_contiguous() const {
  int64_t expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1) {
      if (strides[i] != expected) return false;
      expected *= sizes[i];
    }
  }
  return true;
}

bool View::is_dense() const {
  if (is_contiguous()) return true;
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t expected = 1;
  for (size_t i : order) {
    if (sizes[i] == 0) return true;
    if (sizes[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= sizes[i];
  }
  return true;
}

}  // namespace dendrite::tape
