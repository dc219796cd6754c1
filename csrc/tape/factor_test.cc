#include "csrc/tape/factor.h"

#include <gtest/gtest.h>

#include "csrc/tape/tape_maker.h"

namespace dendrite::tape {
namespace {

View V(Dims sizes, Dims strides = {}) {
  return TapeMaker::ViewOf(std::move(sizes), std::move(strides));
}

TEST(FactorTest, ColumnsOfAMatrixAreASliceOfItsDimensions) {
  const auto f = Factor(V({4, 2}, {8, 1}), 3, 32, Step::kNested);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->form, (Dims{4, 8}));
  EXPECT_EQ(f->start, (Dims{0, 3}));
  EXPECT_EQ(f->extent, (Dims{4, 2}));
  EXPECT_EQ(f->view_dim, (Dims{0, 1}));
  EXPECT_EQ(f->covered, 32);
}

TEST(FactorTest, TransposedViewKeepsTheStoragesOrder) {
  const auto f = Factor(V({8, 4}, {1, 8}), 0, 32, Step::kNested);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->form, (Dims{4, 8}));
  EXPECT_EQ(f->view_dim, (Dims{1, 0}));
}

TEST(FactorTest, StepBecomesADimension) {
  const auto f = Factor(V({5}, {2}), 1, 10, Step::kNested);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->form, (Dims{5, 2}));
  EXPECT_EQ(f->start, (Dims{0, 1}));
  EXPECT_EQ(f->extent, (Dims{5, 1}));
}

TEST(FactorTest, StepThatDoesNotDivideStaysAStridedSlice) {
  EXPECT_FALSE(Factor(V({4, 6}, {11, 2}), 0, 44, Step::kNested));
  const auto f = Factor(V({4, 6}, {11, 2}), 0, 44, Step::kStrided);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->form, (Dims{4, 11}));
  EXPECT_EQ(f->extent, (Dims{4, 11}));
  EXPECT_EQ(f->step, 2);
}

TEST(FactorTest, ViewThatRunsOverARowHasNoForm) {
  EXPECT_FALSE(Factor(V({3, 4}, {8, 1}), 6, 32, Step::kNested));  // columns 6..9 of 8
  EXPECT_FALSE(Factor(V({3, 2}, {1, 1}), 0, 16, Step::kNested));  // overlapping windows
}

TEST(FactorTest, CutLastRowIsCoveredOnlyAtAKnownOffset) {
  const auto known = Factor(V({2, 3}, {4, 1}), 0, 7, Step::kNested);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->form, (Dims{2, 4}));
  EXPECT_EQ(known->covered, 8);
  EXPECT_FALSE(Factor(V({2, 3}, {4, 1}), std::nullopt, 7, Step::kNested));
}

TEST(FactorTest, SingleElementIsAPlaceInTheFlatWindow) {
  const auto f = Factor(V({1, 1}, {9, 3}), 5, 16, Step::kNested);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->form, (Dims{16}));
  EXPECT_EQ(f->start, (Dims{5}));
}

TEST(FactorTest, EmptyViewHasNoForm) { EXPECT_FALSE(Factor(V({0, 4}), 0, 16, Step::kNested)); }

}  // namespace
}  // namespace dendrite::tape
