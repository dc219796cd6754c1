#include "csrc/planner/tier_choice.h"

#include <gtest/gtest.h>

namespace dendrite::planner {
namespace {

int RunMany(TierChoice& choice, int runs, double tier0, double tier1) {
  int compiled = 0;
  for (int i = 0; i < runs; ++i) {
    const int tier = choice.Choose();
    compiled += tier;
    choice.Sample(tier, tier == 0 ? tier0 : tier1);
  }
  return compiled;
}

TEST(TierChoiceTest, SettlesOnTheFasterTier) {
  TierChoice faster, slower;
  EXPECT_GT(RunMany(faster, 1000, 2.0, 1.0), 980);
  EXPECT_LT(RunMany(slower, 1000, 1.0, 2.0), 20);
}

TEST(TierChoiceTest, StaysWithinFivePercent) {
  TierChoice choice;
  EXPECT_GT(RunMany(choice, 1000, 0.97, 1.0), 980);
}

TEST(TierChoiceTest, ComesBackWhenTheLoserBecomesFaster) {
  TierChoice choice;
  RunMany(choice, 500, 1.0, 2.0);
  const int compiled = RunMany(choice, 20000, 1.0, 0.5);
  EXPECT_GT(compiled, 10000);
}

}  // namespace
}  // namespace dendrite::planner
