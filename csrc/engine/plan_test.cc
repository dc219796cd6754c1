#include "csrc/engine/plan.h"

#include <gtest/gtest.h>

#include "csrc/engine/chunk.h"

namespace dendrite::engine {
namespace {

Chunk Make(std::vector<uint64_t> key, std::vector<int64_t> offsets = {0}) {
  Chunk chunk;
  chunk.key = std::move(key);
  chunk.offsets = std::move(offsets);
  return chunk;
}

TEST(PlanTableTest, EqualChunksShareAPlanAndAreCounted) {
  PlanTable table(8);
  auto first = table.Touch(Make({1, 2}));
  EXPECT_EQ(first->seen, 1);
  EXPECT_EQ(table.Touch(Make({1, 2})), first);
  EXPECT_EQ(first->seen, 2);
  EXPECT_NE(table.Touch(Make({1, 3})), first);
  EXPECT_NE(table.Touch(Make({1})), first);
  EXPECT_EQ(table.size(), 3u);
}

TEST(PlanTableTest, OffsetsThatStayAreConstants) {
  PlanTable table(8);
  table.Touch(Make({1}, {3, 5}));
  auto plan = table.Touch(Make({1}, {3, 5}));
  EXPECT_EQ(plan->lift_offset, (std::vector<bool>{false, false}));
  EXPECT_EQ(plan->offsets, (std::vector<int64_t>{3, 5}));
}

TEST(PlanTableTest, AnOffsetThatVariesIsLiftedFromThenOn) {
  PlanTable table(8);
  auto first = table.Touch(Make({1}, {0, 5}));
  auto lifted = table.Touch(Make({1}, {4, 5}));
  EXPECT_NE(lifted, first);
  EXPECT_EQ(lifted->lift_offset, (std::vector<bool>{true, false}));
  EXPECT_EQ(lifted->seen, 1);
  for (int64_t offset : {8, 0, 4, 12}) EXPECT_EQ(table.Touch(Make({1}, {offset, 5})), lifted);
  EXPECT_EQ(lifted->seen, 5);
  EXPECT_EQ(table.size(), 1u) << "plans that cannot match again are dropped";
}

TEST(PlanTableTest, ASecondOffsetThatVariesMakesOneMorePlan) {
  PlanTable table(8);
  table.Touch(Make({1}, {0, 5}));
  table.Touch(Make({1}, {4, 5}));
  auto both = table.Touch(Make({1}, {4, 6}));
  EXPECT_EQ(both->lift_offset, (std::vector<bool>{true, true}));
  EXPECT_EQ(table.Touch(Make({1}, {9, 9})), both);
}

TEST(PlanTableTest, OneSitesOffsetsAreNoneOfAnothersBusiness) {
  PlanTable table(8);
  table.Touch(Make({1}, {0}));
  table.Touch(Make({1}, {4}));
  EXPECT_EQ(table.Touch(Make({2}, {0}))->lift_offset, std::vector<bool>{false});
}

TEST(PlanTableTest, TheLeastRecentlyUsedIsForgotten) {
  PlanTable table(3);
  for (uint64_t key : {1, 2, 3}) table.Touch(Make({key}));
  table.Touch(Make({1}));
  table.Touch(Make({4}));  // drops 2
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.Touch(Make({1}))->seen, 3);
  EXPECT_EQ(table.Touch(Make({3}))->seen, 2);
  EXPECT_EQ(table.Touch(Make({2}))->seen, 1) << "seen anew";
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.All().size(), 3u);
}

TEST(PlanTableTest, APlanInUseOutlivesItsTable) {
  PlanTable table(1);
  auto plan = table.Touch(Make({1}));
  table.Touch(Make({2}));
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(plan->seen, 1);
}

}  // namespace
}  // namespace dendrite::engine
