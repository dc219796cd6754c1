#include "csrc/base/philox.h"

#include <cmath>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace dendrite {
namespace {

using Words = std::array<uint32_t, 4>;

TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t ones = 0xffffffff;
  EXPECT_EQ(Philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, OffsetMovesByBlocks) {
  std::vector<uint32_t> all(12), tail(8);
  FillBits32({7, 100}, all.data(), 12);
  FillBits32({7, 101}, tail.data(), 8);
  EXPECT_EQ(std::vector<uint32_t>(all.begin() + 4, all.end()), tail);
}

TEST(PhiloxTest, CounterCarriesIntoTheHighWord) {
  std::vector<uint32_t> got(8);
  FillBits32({1, 0xffffffffull}, got.data(), 8);
  const Words second = Philox4x32({0, 1, 0, 0}, {1, 0});
  EXPECT_EQ(got[4], second[0]);
}

TEST(PhiloxTest, WideValuesTakeTwoWords) {
  const Words words = Philox4x32({5, 0, 0, 0}, {9, 0});
  std::vector<uint64_t> got(2);
  FillBits64({9, 5}, got.data(), 2);
  EXPECT_EQ(got[0], words[0] | uint64_t{words[1]} << 32);
  EXPECT_EQ(got[1], words[2] | uint64_t{words[3]} << 32);
}

TEST(PhiloxTest, UniformStaysBelowTheUpperBound) {
  std::vector<float> got(40000);
  for (int bits : {kUniformBitsF32, kUniformBitsF16, kUniformBitsBF16}) {
    FillUniform({3, 0}, got.data(), 40000, 0, 1, bits);
    double sum = 0;
    for (float v : got) {
      ASSERT_GE(v, 0.f);
      ASSERT_LT(v, 1.f);
      sum += v;
    }
    EXPECT_NEAR(sum / 40000, 0.5, 0.01);
  }
}

template <typename T>
void CheckMoments(const std::vector<T>& got, double mean, double variance, double tolerance) {
  double sum = 0, squares = 0;
  for (T v : got) sum += v, squares += static_cast<double>(v) * v;
  const double n = static_cast<double>(got.size()), m = sum / n;
  EXPECT_NEAR(m, mean, tolerance);
  EXPECT_NEAR(squares / n - m * m, variance, tolerance);
}

TEST(PhiloxTest, DistributionsHaveTheirMoments) {
  std::vector<float> f(100001);
  std::vector<double> d(100001);
  FillNormal({1, 2}, f.data(), 100001, 1, 2);
  CheckMoments(f, 1, 4, 0.06);
  FillNormal({1, 2}, d.data(), 100001, 1, 2);
  CheckMoments(d, 1, 4, 0.06);
  FillExponential({1, 2}, f.data(), 100001, 2);
  CheckMoments(f, 0.5, 0.25, 0.02);
  for (float v : f) ASSERT_GT(v, 0.f);
  FillGeometric({1, 2}, d.data(), 100001, 0.25);
  CheckMoments(d, 4, 12, 0.3);
}

TEST(PhiloxTest, OddCountsGiveThePrefixOfEvenOnes) {
  std::vector<float> three(3), four(4);
  FillNormal({1, 2}, three.data(), 3, 0, 1);
  FillNormal({1, 2}, four.data(), 4, 0, 1);
  EXPECT_EQ(three, std::vector<float>(four.begin(), four.begin() + 3));
}

TEST(PhiloxTest, BernoulliEndsAreCertain) {
  const auto got = std::make_unique<bool[]>(1000);
  FillBernoulli({1, 2}, got.get(), 1000, 0.0);
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(got[i]);
  FillBernoulli({1, 2}, got.get(), 1000, 1.0);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(got[i]);
}

TEST(PhiloxTest, IntegersStayInRange) {
  std::vector<int64_t> got(1000);
  FillRandom({1, 2}, got.data(), 1000, -3, 4);
  for (int64_t v : got) {
    ASSERT_GE(v, -3);
    ASSERT_LT(v, 4);
  }
  const int64_t low = std::numeric_limits<int64_t>::min();
  FillRandom({1, 2}, got.data(), 1000, low, low);
  std::vector<uint64_t> bits(1000);
  FillBits64({1, 2}, bits.data(), 1000);
  EXPECT_EQ(static_cast<uint64_t>(got[5]), bits[5] + (uint64_t{1} << 63));
}

}  // namespace
}  // namespace dendrite
