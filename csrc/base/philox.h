// csrc/base/philox.h - Philox-4x32-10 and the distributions made from it: every random number of
// the device, on every tier.
//
// A stream of numbers is (seed, offset): key = the seed's low and high word, counter = {low word of
// b, high word of b, 0, 0} where b = offset + (number of the block). One block gives four 32-bit
// words. The mapping from elements (row-major order of the logical tensor) to words is part of the
// format:
//   narrow: element i takes word i % 4 of block i / 4;
//   wide:   element i takes words 2 * (i % 2), 2 * (i % 2) + 1 of block i / 2: low then high half
//   of 64 bits.
// An operator claims MaxBlocks(n) of the offset, whatever its distribution.
//
//   uniform, `bits` of precision (24 for f32, 11 for f16, 8 for bf16): narrow, word >> (32 - bits),
//   times
//            2^-bits, then u * (to - from) + from in double, rounded once; f64: wide, the top 53
//            bits.
//   open01   f32: narrow, (float(word) + 0.5) * 2^-32, in (0, 1]; f64: wide, (top 53 bits + 0.5) *
//   2^-53. normal   Box-Muller on neighbours: elements 2j and 2j+1 take radius sqrt(-2 log u) from
//   open01 of 2j and
//            angle 2 pi u from the uniform of 2j+1; cosine for 2j, sine for 2j+1.
//   exponential  -log(u) / lambda, u from open01, and at least epsilon/2 so that no result is zero.
//   bernoulli    u < p, u the 24-bit uniform, compared in double.
//   integers in [from, to): wide; the 64 bits modulo (to - from), plus from; to - from == 0 means
//   all 2^64.
//
// csrc/lowering/random.cc emits the same arithmetic as StableHLO: bits, uniforms, bernoulli and
// integers are equal bit for bit (f64 uniforms whose span is no power of two within one unit in the
// last place), the others within rounding. Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>

namespace dendrite {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

struct PhiloxStream {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

// How far an operator that makes `n` numbers moves the offset.
constexpr uint64_t MaxBlocks(int64_t n) { return n <= 0 ? 0 : (static_cast<uint64_t>(n) + 1) / 2; }

// Bits of precision of a uniform number in the three narrow float types.
inline constexpr int kUniformBitsF32 = 24;
inline constexpr int kUniformBitsF16 = 11;
inline constexpr int kUniformBitsBF16 = 8;

// Each fills out[0, n).
void FillBits32(PhiloxStream s, uint32_t* out, int64_t n);
void FillBits64(PhiloxStream s, uint64_t* out, int64_t n);
// Half precision: fill floats with the type's bits, then convert.
void FillUniform(PhiloxStream s, float* out, int64_t n, double from, double to,
                 int bits = kUniformBitsF32);
void FillUniform(PhiloxStream s, double* out, int64_t n, double from, double to);
void FillNormal(PhiloxStream s, float* out, int64_t n, double mean, double std);
void FillNormal(PhiloxStream s, double* out, int64_t n, double mean, double std);
void FillExponential(PhiloxStream s, float* out, int64_t n, double lambda);
void FillExponential(PhiloxStream s, double* out, int64_t n, double lambda);
void FillLogNormal(PhiloxStream s, float* out, int64_t n, double mean, double std);
void FillLogNormal(PhiloxStream s, double* out, int64_t n, double mean, double std);
void FillCauchy(PhiloxStream s, float* out, int64_t n, double median, double sigma);
void FillCauchy(PhiloxStream s, double* out, int64_t n, double median, double sigma);
// Number of trials up to the first success, at least 1.
void FillGeometric(PhiloxStream s, double* out, int64_t n, double p);
void FillBernoulli(PhiloxStream s, bool* out, int64_t n, double p);
// p[i] for element i.
void FillBernoulli(PhiloxStream s, bool* out, int64_t n, const double* p);
void FillRandom(PhiloxStream s, int64_t* out, int64_t n, int64_t from, int64_t to);

}  // namespace dendrite
