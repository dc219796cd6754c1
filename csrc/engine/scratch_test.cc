#include "csrc/engine/scratch.h"

#include <gtest/gtest.h>

namespace dendrite::engine {
namespace {

constexpr size_t kLarge = size_t{100} << 20, kSmall = size_t{1} << 20;

void UseOnce(Scratch& scratch, size_t nbytes) {
  void* data = scratch.Take(nbytes);
  ASSERT_NE(data, nullptr);
  EXPECT_GE(scratch.Size(data), nbytes);
  EXPECT_TRUE(scratch.GiveBack(data));
  EXPECT_EQ(scratch.Size(data), 0u);
}

TEST(ScratchTest, WhatRecursStaysResidentAndWhatDoesNotGoes) {
  Scratch scratch;
  UseOnce(scratch, kLarge);
  EXPECT_GE(scratch.resident(), kLarge);
  for (int i = 0; i < 5000; ++i) {
    UseOnce(scratch, i % 500 == 0 ? kLarge : kSmall);
    ASSERT_GE(scratch.resident(), kLarge) << i;
  }
  for (int i = 0; i < 5000; ++i) UseOnce(scratch, kSmall);
  EXPECT_LT(scratch.resident(), kLarge);
  EXPECT_EQ(scratch.in_use(), 0u);
}

TEST(ScratchTest, OtherMemoryIsNotTaken) {
  Scratch scratch;
  int other = 0;
  EXPECT_EQ(scratch.Size(&other), 0u);
  EXPECT_FALSE(scratch.GiveBack(&other));
}

}  // namespace
}  // namespace dendrite::engine
