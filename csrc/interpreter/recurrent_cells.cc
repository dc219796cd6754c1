#include "csrc/interpreter/recurrent_cells.h"

#include <bit>
#include <cmath>

namespace dendrite::interpreter {
namespace {

// Loops are written for the vectoriser: no calls, no branches, no iteration that needs another.
#define DENDRITE_INLINE [[gnu::always_inline]] inline
#ifdef __clang__
#define DENDRITE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DENDRITE_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define DENDRITE_EACH_ISA [[gnu::target_clones("avx512f", "avx2", "default")]]

// e^x = 2^k e^r, |r| <= ln 2 / 2, by the series. Overflows to infinity, stops at 2^-126 below.
DENDRITE_INLINE float Exp(float x) {
  constexpr float kHigh = 89.0f, kLow = -87.3f, kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const float y = x > kHigh ? kHigh : x < kLow ? kLow : x;  // keeps NaN
  const float shifted = y * kLog2E + kShift;
  const float k = shifted - kShift;
  const float r = (y - k * kLn2High) - k * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const uint32_t exponent = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kShift);
  return p * std::bit_cast<float>((exponent + 127u) << 23);
}

DENDRITE_INLINE float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }
DENDRITE_INLINE double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// Near zero 1 - 2 / (e^2x + 1) loses digits: an odd polynomial there, fitted to relative error.
DENDRITE_INLINE float Tanh(float x) {
  const float a = std::fabs(x), u = x * x;
  float q = -0.0054389462f;
  q = q * u + 0.020397061f;
  q = q * u - 0.053664515f;
  q = q * u + 0.13330531f;
  q = q * u - 0.33333248f;
  const float near = x + x * u * q;
  const float far = std::copysign(1.0f - 2.0f / (Exp(2 * a) + 1.0f), x);
  return a < 0.625f ? near : far;
}
DENDRITE_INLINE double Tanh(double x) { return std::tanh(x); }

template <typename T>
DENDRITE_INLINE T SigmoidSlope(T y) {
  return y * (1 - y);
}
template <typename T>
DENDRITE_INLINE T TanhSlope(T y) {
  return 1 - y * y;
}

template <typename T>
DENDRITE_INLINE void Lstm(const CellRow<T>& row, int64_t n) {
  T* i = row.gates;
  T* f = i + n;
  T* g = f + n;
  T* o = g + n;
  T* cell = o + n;
  const T* p = row.hidden;
  const T* bias = row.bias;
  T* h = row.h;
  T* c = row.c;
  T* out = row.out;
  DENDRITE_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const T in = Sigmoid(i[k] + p[k] + bias[k]);
    const T forget = Sigmoid(f[k] + p[n + k] + bias[n + k]);
    const T fresh = Tanh(g[k] + p[2 * n + k] + bias[2 * n + k]);
    const T show = Sigmoid(o[k] + p[3 * n + k] + bias[3 * n + k]);
    const T state = forget * c[k] + in * fresh;
    const T shown = show * Tanh(state);
    i[k] = in, f[k] = forget, g[k] = fresh, o[k] = show;
    cell[k] = state, c[k] = state;
    h[k] = shown, out[k] = shown;
  }
}

template <typename T>
DENDRITE_INLINE void Gru(const CellRow<T>& row, int64_t n) {
  T* reset = row.gates;
  T* update = reset + n;
  T* fresh = update + n;
  T* hidden_fresh = fresh + n;
  const T* p = row.hidden;
  const T* bias = row.bias;
  T* h = row.h;
  T* out = row.out;
  DENDRITE_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const T r = Sigmoid(reset[k] + p[k] + bias[k]);
    const T z = Sigmoid(update[k] + p[n + k] + bias[n + k]);
    const T hn = p[2 * n + k] + bias[3 * n + k];
    const T fr = Tanh(fresh[k] + bias[2 * n + k] + r * hn);
    const T state = fr + z * (h[k] - fr);
    reset[k] = r, update[k] = z, fresh[k] = fr, hidden_fresh[k] = hn;
    h[k] = state, out[k] = state;
  }
}

template <typename T, CellActivation kActivation>
DENDRITE_INLINE void Plain(const CellRow<T>& row, int64_t n) {
  const T* gates = row.gates;
  const T* p = row.hidden;
  const T* bias = row.bias;
  T* h = row.h;
  T* out = row.out;
  DENDRITE_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const T x = gates[k] + p[k] + bias[k];
    const T y = kActivation == CellActivation::kTanh ? Tanh(x) : (x <= 0 ? T(0) : x);
    h[k] = y, out[k] = y;
  }
}

template <typename T>
DENDRITE_INLINE void LstmGrad(const CellGradRow<T>& row, int64_t n) {
  const T* i = row.workspace;
  const T* f = i + n;
  const T* g = f + n;
  const T* o = g + n;
  const T* cell = o + n;
  const T* before = row.before;
  const T* grad_out = row.grad_out;
  const T* grad_h = row.grad_h;
  T* grad_c = row.grad_c;
  T* gi = row.grad_gates;
  T* gf = gi + n;
  T* gg = gf + n;
  T* go = gg + n;
  DENDRITE_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const T dh = grad_h[k] + grad_out[k];
    const T shown = Tanh(cell[k]);
    const T dc = grad_c[k] + dh * o[k] * TanhSlope(shown);
    gi[k] = dc * g[k] * SigmoidSlope(i[k]);
    gf[k] = dc * before[k] * SigmoidSlope(f[k]);
    gg[k] = dc * i[k] * TanhSlope(g[k]);
    go[k] = dh * shown * SigmoidSlope(o[k]);
    grad_c[k] = dc * f[k];
  }
}

template <typename T>
DENDRITE_INLINE void GruGrad(const CellGradRow<T>& row, int64_t n) {
  const T* r = row.workspace;
  const T* z = r + n;
  const T* fresh = z + n;
  const T* hidden_fresh = fresh + n;
  const T* before = row.before;
  const T* grad_out = row.grad_out;
  T* grad_h = row.grad_h;
  T* in = row.grad_gates;
  T* hidden = row.grad_hidden;
  DENDRITE_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const T dh = grad_h[k] + grad_out[k];
    const T dn = dh * (1 - z[k]) * TanhSlope(fresh[k]);
    const T dz = dh * (before[k] - fresh[k]) * SigmoidSlope(z[k]);
    const T dr = dn * hidden_fresh[k] * SigmoidSlope(r[k]);
    in[k] = dr, in[n + k] = dz, in[2 * n + k] = dn;
    hidden[k] = dr, hidden[n + k] = dz, hidden[2 * n + k] = dn * r[k];
    grad_h[k] = dh * z[k];
  }
}

template <typename T, CellActivation kActivation>
DENDRITE_INLINE void PlainGrad(const CellGradRow<T>& row, int64_t n) {
  const T* out = row.out;
  const T* grad_out = row.grad_out;
  const T* grad_h = row.grad_h;
  T* grad = row.grad_gates;
  DENDRITE_INDEPENDENT
  for (int64_t k = 0; k < n; ++k) {
    const T dh = grad_h[k] + grad_out[k];
    grad[k] =
        kActivation == CellActivation::kTanh ? dh * TanhSlope(out[k]) : (out[k] <= 0 ? T(0) : dh);
  }
}

}  // namespace

DENDRITE_EACH_ISA void LstmCell(const CellRow<float>& row, int64_t n) { Lstm(row, n); }
DENDRITE_EACH_ISA void LstmCell(const CellRow<double>& row, int64_t n) { Lstm(row, n); }
DENDRITE_EACH_ISA void GruCell(const CellRow<float>& row, int64_t n) { Gru(row, n); }
DENDRITE_EACH_ISA void GruCell(const CellRow<double>& row, int64_t n) { Gru(row, n); }
DENDRITE_EACH_ISA void PlainCell(const CellRow<float>& row, CellActivation a, int64_t n) {
  a == CellActivation::kTanh ? Plain<float, CellActivation::kTanh>(row, n)
                             : Plain<float, CellActivation::kRelu>(row, n);
}
DENDRITE_EACH_ISA void PlainCell(const CellRow<double>& row, CellActivation a, int64_t n) {
  a == CellActivation::kTanh ? Plain<double, CellActivation::kTanh>(row, n)
                             : Plain<double, CellActivation::kRelu>(row, n);
}

DENDRITE_EACH_ISA void LstmCellGrad(const CellGradRow<float>& row, int64_t n) { LstmGrad(row, n); }
DENDRITE_EACH_ISA void LstmCellGrad(const CellGradRow<double>& row, int64_t n) { LstmGrad(row, n); }
DENDRITE_EACH_ISA void GruCellGrad(const CellGradRow<float>& row, int64_t n) { GruGrad(row, n); }
DENDRITE_EACH_ISA void GruCellGrad(const CellGradRow<double>& row, int64_t n) { GruGrad(row, n); }
DENDRITE_EACH_ISA void PlainCellGrad(const CellGradRow<float>& row, CellActivation a, int64_t n) {
  a == CellActivation::kTanh ? PlainGrad<float, CellActivation::kTanh>(row, n)
                             : PlainGrad<float, CellActivation::kRelu>(row, n);
}
DENDRITE_EACH_ISA void PlainCellGrad(const CellGradRow<double>& row, CellActivation a, int64_t n) {
  a == CellActivation::kTanh ? PlainGrad<double, CellActivation::kTanh>(row, n)
                             : PlainGrad<double, CellActivation::kRelu>(row, n);
}

}  // namespace dendrite::interpreter
