// csrc/lowering/fft.cc - discrete Fourier transforms: complex, real to half spectrum and back.
//
// PyTorch names any dimensions, and a scale; StableHLO transforms the last one to three. More
// dimensions are transformed three at a time; the real one is the last of PyTorch's list.
#include <algorithm>
#include <cmath>

#include "csrc/lowering/reduce_math.h"
#include "csrc/lowering/registry.h"

namespace dendrite::lowering {
namespace {

using stablehlo::FftKind;

Dims Transformed(Emitter& e, int64_t rank) {
  Dims dims = e.Ints(1);
  for (int64_t& d : dims) d = WrapDim(d, rank);
  return dims;
}

// x with `dims` moved to the end, in their order; perm says how.
Value MoveLast(Builder& b, const Value& x, const Dims& dims, Dims* perm) {
  perm->clear();
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) perm->push_back(d);
  }
  perm->insert(perm->end(), dims.begin(), dims.end());
  return b.Transpose(x, *perm);
}

Value MoveBack(Builder& b, const Value& x, const Dims& perm) {
  Dims inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  return b.Transpose(x, inverse);
}

// Complex transforms of `dims`, unscaled.
Value ComplexFft(Builder& b, Value x, Dims dims, bool forward) {
  while (!dims.empty()) {
    const size_t n = std::min<size_t>(dims.size(), 3);
    const Dims part(dims.end() - static_cast<ptrdiff_t>(n), dims.end());
    dims.resize(dims.size() - n);
    Dims perm, lengths;
    for (int64_t d : part) lengths.push_back(x.dims[d]);
    x = MoveLast(b, x, part, &perm);
    x = b.Fft(x, forward ? FftKind::kComplex : FftKind::kInverse, lengths);
    x = MoveBack(b, x, perm);
    if (!forward) x = b.Mul(x, Like(b, x, static_cast<double>(tape::NumElements(lengths))));
  }
  return x;
}

// PyTorch's normalisation: 0 none, 1 by the root of the number of elements, 2 by the number.
Value Normalise(Builder& b, const Value& x, int64_t mode, int64_t count) {
  if (mode == 0) return x;
  const auto n = static_cast<double>(count);
  return b.Mul(x, Like(b, x, mode == 1 ? 1 / std::sqrt(n) : 1 / n));
}

// True, and the result is there, if there is nothing to transform.
bool IsTrivial(Emitter& e, const Value& x, const Dims& dims) {
  const bool empty = tape::NumElements(x.dims) == 0 || tape::NumElements(e.OutView(0).sizes) == 0;
  if (empty) {
    e.Out(0, e.b().Constant(e.OutView(0).dtype, e.OutView(0).sizes, 0));
  } else if (dims.empty()) {
    e.Out(0, x);
  }
  return empty || dims.empty();
}

// (self, dim, normalization, forward)
void FftC2C(Emitter& e) {
  if (!e.Wanted(0)) return;
  const Value x = e.In(0);
  const Dims dims = Transformed(e, x.rank());
  if (IsTrivial(e, x, dims)) return;
  e.Out(0, Normalise(e.b(), ComplexFft(e.b(), x, dims, e.Bool(3)), e.Int(2), Count(x, dims)));
}

// (self, dim, normalization, onesided)
void FftR2C(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  const Value x = e.In(0);
  Dims dims = Transformed(e, x.rank());
  if (IsTrivial(e, x, dims)) return;
  const int64_t count = Count(x, dims);
  Value v;
  if (e.Bool(3)) {
    const int64_t last = dims.back();
    dims.pop_back();
    Dims perm;
    v = MoveLast(b, x, {last}, &perm);
    v = MoveBack(b, b.Fft(v, FftKind::kRealToComplex, {x.dims[last]}), perm);
  } else {
    v = e.To(x, e.OutView(0).dtype);
  }
  e.Out(0, Normalise(b, ComplexFft(b, v, dims, true), e.Int(2), count));
}

// (self, dim, normalization, last_dim_size)
void FftC2R(Emitter& e) {
  if (!e.Wanted(0)) return;
  Builder& b = e.b();
  Value x = e.In(0);
  Dims dims = Transformed(e, x.rank());
  if (IsTrivial(e, x, dims)) return;
  const int64_t last = dims.back(), length = e.Int(3);
  const int64_t count = Count(x, dims) / x.dims[last] * length;
  dims.pop_back();
  // Only the half spectrum of a real signal of that length is looked at.
  Dims limit = x.dims;
  limit[last] = length / 2 + 1;
  if (limit[last] > x.dims[last]) return e.Fail(Unimplemented("_fft_c2r of too short a spectrum"));
  x = b.Slice(x, Dims(limit.size(), 0), limit, Dims(limit.size(), 1));
  Dims perm;
  Value v = MoveLast(b, ComplexFft(b, x, dims, false), {last}, &perm);
  v = MoveBack(b, b.Fft(v, FftKind::kComplexToReal, {length}), perm);
  v = b.Mul(v, Like(b, v, static_cast<double>(length)));
  e.Out(0, Normalise(b, v, e.Int(2), count));
}

DENDRITE_LOWERING("aten._fft_c2c.default", FftC2C);
DENDRITE_LOWERING("aten._fft_r2c.default", FftR2C);
DENDRITE_LOWERING("aten._fft_c2r.default", FftC2R);

}  // namespace
}  // namespace dendrite::lowering
