#include "csrc/base/philox.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dendrite {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;
constexpr double kTwoPi = 6.283185307179586476925286766559;
constexpr double kPi = kTwoPi / 2;

std::array<uint32_t, 4> Block(PhiloxStream s, uint64_t number) {
  const uint64_t b = s.offset + number;
  return Philox4x32({static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32), 0, 0},
                    {static_cast<uint32_t>(s.seed), static_cast<uint32_t>(s.seed >> 32)});
}

// Calls f(i, word) for every element of the narrow mapping.
template <typename F>
void ForNarrow(PhiloxStream s, int64_t n, const F& f) {
  for (int64_t i = 0; i < n; i += 4) {
    const auto words = Block(s, static_cast<uint64_t>(i) / 4);
    const int64_t count = std::min<int64_t>(4, n - i);
    for (int64_t k = 0; k < count; ++k) f(i + k, words[k]);
  }
}

// Calls f(i, 64 bits) for every element of the wide mapping.
template <typename F>
void ForWide(PhiloxStream s, int64_t n, const F& f) {
  for (int64_t i = 0; i < n; i += 2) {
    const auto words = Block(s, static_cast<uint64_t>(i) / 2);
    const int64_t count = std::min<int64_t>(2, n - i);
    for (int64_t k = 0; k < count; ++k) {
      f(i + k, words[2 * k] | static_cast<uint64_t>(words[2 * k + 1]) << 32);
    }
  }
}

float Open01(uint32_t word) { return (static_cast<float>(word) + 0.5f) * 0x1p-32f; }
double Open01(uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }
float Uniform01(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
double Uniform01(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

template <typename F>
void ForEach(PhiloxStream s, float*, int64_t n, const F& f) {
  ForNarrow(s, n, f);
}
template <typename F>
void ForEach(PhiloxStream s, double*, int64_t n, const F& f) {
  ForWide(s, n, f);
}

template <typename T, typename Word, typename Finish>
void NormalWith(PhiloxStream s, T* out, int64_t n, double mean, double std, const Finish& finish) {
  const T m = static_cast<T>(mean), d = static_cast<T>(std);
  // The partner of the last element is drawn even where n is odd.
  Word first = 0;
  ForEach(s, out, n + (n & 1), [&](int64_t i, Word word) {
    if (i % 2 == 0) {
      first = word;
      return;
    }
    const T radius = std::sqrt(T(-2) * std::log(Open01(first)));
    const T angle = static_cast<T>(kTwoPi) * Uniform01(word);
    out[i - 1] = finish(radius * std::cos(angle) * d + m);
    if (i < n) out[i] = finish(radius * std::sin(angle) * d + m);
  });
}

template <typename T, typename Word>
void ExponentialImpl(PhiloxStream s, T* out, int64_t n, double lambda) {
  const T half_epsilon = std::numeric_limits<T>::epsilon() / 2;
  const T l = static_cast<T>(lambda);
  ForEach(s, out, n, [&](int64_t i, Word word) {
    const T u = Open01(word);
    out[i] = (u >= T(1) - half_epsilon ? half_epsilon : -std::log(u)) / l;
  });
}

template <typename T, typename Word>
void CauchyImpl(PhiloxStream s, T* out, int64_t n, double median, double sigma) {
  const T m = static_cast<T>(median), d = static_cast<T>(sigma);
  ForEach(s, out, n, [&](int64_t i, Word word) {
    out[i] = std::tan(static_cast<T>(kPi) * (Open01(word) - T(0.5))) * d + m;
  });
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiplier0) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiplier1) * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return c;
}

void FillBits32(PhiloxStream s, uint32_t* out, int64_t n) {
  ForNarrow(s, n, [out](int64_t i, uint32_t word) { out[i] = word; });
}

void FillBits64(PhiloxStream s, uint64_t* out, int64_t n) {
  ForWide(s, n, [out](int64_t i, uint64_t bits) { out[i] = bits; });
}

void FillUniform(PhiloxStream s, float* out, int64_t n, double from, double to, int bits) {
  // The span is rounded to float, so its product with u is exact in double: no fused multiply-add,
  // here or in a compiler, can change the result.
  const double low = static_cast<float>(from), span = static_cast<float>(to - from);
  const double unit = std::ldexp(1.0, -bits);
  ForNarrow(s, n, [&](int64_t i, uint32_t word) {
    const double u = static_cast<double>(word >> (32 - bits)) * unit;
    out[i] = static_cast<float>(u * span + low);
  });
}

void FillUniform(PhiloxStream s, double* out, int64_t n, double from, double to) {
  const double span = to - from;
  ForWide(s, n, [&](int64_t i, uint64_t bits) { out[i] = Uniform01(bits) * span + from; });
}

void FillNormal(PhiloxStream s, float* out, int64_t n, double mean, double std) {
  NormalWith<float, uint32_t>(s, out, n, mean, std, [](float x) { return x; });
}

void FillNormal(PhiloxStream s, double* out, int64_t n, double mean, double std) {
  NormalWith<double, uint64_t>(s, out, n, mean, std, [](double x) { return x; });
}

void FillExponential(PhiloxStream s, float* out, int64_t n, double lambda) {
  ExponentialImpl<float, uint32_t>(s, out, n, lambda);
}

void FillExponential(PhiloxStream s, double* out, int64_t n, double lambda) {
  ExponentialImpl<double, uint64_t>(s, out, n, lambda);
}

void FillLogNormal(PhiloxStream s, float* out, int64_t n, double mean, double std) {
  NormalWith<float, uint32_t>(s, out, n, mean, std, [](float x) { return std::exp(x); });
}

void FillLogNormal(PhiloxStream s, double* out, int64_t n, double mean, double std) {
  NormalWith<double, uint64_t>(s, out, n, mean, std, [](double x) { return std::exp(x); });
}

void FillCauchy(PhiloxStream s, float* out, int64_t n, double median, double sigma) {
  CauchyImpl<float, uint32_t>(s, out, n, median, sigma);
}

void FillCauchy(PhiloxStream s, double* out, int64_t n, double median, double sigma) {
  CauchyImpl<double, uint64_t>(s, out, n, median, sigma);
}

void FillGeometric(PhiloxStream s, double* out, int64_t n, double p) {
  const double log_failure = std::log1p(-p);
  ForWide(s, n, [&](int64_t i, uint64_t bits) {
    out[i] = std::max(1.0, std::ceil(std::log(Open01(bits)) / log_failure));
  });
}

void FillBernoulli(PhiloxStream s, bool* out, int64_t n, double p) {
  ForNarrow(s, n, [&](int64_t i, uint32_t word) { out[i] = Uniform01(word) < p; });
}

void FillBernoulli(PhiloxStream s, bool* out, int64_t n, const double* p) {
  ForNarrow(s, n, [&](int64_t i, uint32_t word) { out[i] = Uniform01(word) < p[i]; });
}

void FillRandom(PhiloxStream s, int64_t* out, int64_t n, int64_t from, int64_t to) {
  const uint64_t range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  ForWide(s, n, [&](int64_t i, uint64_t bits) {
    const uint64_t r = range == 0 ? bits : bits % range;
    out[i] = static_cast<int64_t>(r + static_cast<uint64_t>(from));
  });
}

}  // namespace dendrite
