// csrc/lowering/linear_map.h - fixed sparse linear maps along one dimension: resampling, adaptive
// pooling, padding and their gradients.
//
// A map is known when the program is built: for each position of the result, which positions of the
// operand it reads and with which weights. Its transpose is its gradient. Apply picks the cheapest
// form: a slice, a broadcast, a sum over a reshaped dimension, a few weighted gathers, or a matrix
// product when a result reads too many. Pure values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "csrc/lowering/registry.h"

namespace dendrite::lowering {

struct LinearMap {
  struct Term {
    int64_t index = 0;
    double weight = 1;
  };
  int64_t in_size = 0;
  std::vector<std::vector<Term>> rows;  // one per position of the result

  int64_t out_size() const { return static_cast<int64_t>(rows.size()); }
  LinearMap Transposed() const;
  // True if every weight is 1.
  bool IsUnweighted() const;
};

// The map that reads exactly sources[o] at position o.
LinearMap Selection(int64_t in_size, const std::vector<int64_t>& sources);

// x with dimension `dim` mapped. Weights are rounded to x's type; x is in opmath already.
Value Apply(Emitter& e, const Value& x, int64_t dim, const LinearMap& map);

// x at the given constant positions of dimension `dim`.
Value Take(Builder& b, const Value& x, int64_t dim, const std::vector<int64_t>& positions);

}  // namespace dendrite::lowering
