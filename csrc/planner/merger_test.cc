#include "csrc/planner/merger.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace dendrite::planner {
namespace {

using Release = Merger::Release;
using Unit = Merger::Unit;

class MergerTest : public ::testing::Test {
 protected:
  void Start(MergePolicy policy) {
    merger_ = std::make_unique<Merger>(policy, [this](int32_t group) { return savings_[group]; });
  }
  static MergePolicy Eager() {  // proposes whatever was seen twice
    MergePolicy policy;
    policy.seconds_per_op = 0;
    return policy;
  }
  // A hash that asks for no cut at any level.
  static Unit MakeUnit(int64_t id, double seconds = 1) {
    return {id, ~uint64_t{0}, 64, 1024, true, seconds};
  }

  // What leaves, as text: "1 2 (3 4)#0 5".
  std::string Run(const std::vector<int64_t>& ids, bool border = true) {
    std::vector<Release> out;
    for (const int64_t id : ids) {
      held_.push_back(id);
      merger_->Add(MakeUnit(id), &out);
    }
    if (border) merger_->Border(&out);
    return Text(out);
  }
  std::string Text(const std::vector<Release>& out) {
    std::string text;
    for (const Release& release : out) {
      if (!text.empty()) text += ' ';
      std::string ids;
      for (size_t i = 0; i < release.count; ++i) {
        ids += (i > 0 ? " " : "") + std::to_string(held_.at(i));
      }
      held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(release.count));
      text += release.group < 0 ? ids : "(" + ids + ")#" + std::to_string(release.group);
    }
    EXPECT_EQ(held_.size(), merger_->held());
    return text;
  }

  std::map<int32_t, Merger::Saving> savings_;
  std::unique_ptr<Merger> merger_;
  std::vector<int64_t> held_;
};

TEST_F(MergerTest, AStretchSeenTwiceBecomesAGroup) {
  Start(Eager());
  EXPECT_EQ(Run({1, 2, 3}), "1 2 3");
  EXPECT_EQ(Run({1, 2, 3}), "1 2 3");
  EXPECT_EQ(Run({1, 2, 3}), "(1 2 3)#0");
  EXPECT_EQ(merger_->num_groups(), 1);
}

TEST_F(MergerTest, ASingleUnitIsNoGroup) {
  Start(Eager());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Run({7}), "7");
  EXPECT_EQ(merger_->num_groups(), 0);
}

TEST_F(MergerTest, DivergenceReleasesWhatIsHeldInOrder) {
  Start(Eager());
  Run({1, 2, 3}), Run({1, 2, 3});
  EXPECT_EQ(Run({1, 2, 4, 1, 2, 3}), "1 2 4 (1 2 3)#0");
  EXPECT_EQ(Run({1, 1, 2, 3}), "1 (1 2 3)#0");
}

TEST_F(MergerTest, TheLongestActiveGroupLeaves) {
  Start(Eager());
  for (int i = 0; i < 2; ++i) Run({1, 2}), Run({1, 2, 3, 4});
  EXPECT_EQ(merger_->num_groups(), 2);
  EXPECT_EQ(Run({1, 2, 3, 4}), "(1 2 3 4)#1");
  EXPECT_EQ(Run({1, 2, 3, 5}), "(1 2)#0 3 5");
  merger_->SetActive(1, false);
  EXPECT_EQ(Run({1, 2, 3, 4}), "(1 2)#0 3 4");
}

TEST_F(MergerTest, AnInactiveGroupIsNotWaitedFor) {
  Start(Eager());
  Run({1, 2, 3}), Run({1, 2, 3});
  merger_->SetActive(0, false);
  EXPECT_EQ(Run({1, 2}, /*border=*/false), "1 2");
  EXPECT_EQ(Run({3}), "3");
  merger_->SetActive(0, true);
  EXPECT_EQ(Run({1, 2}, /*border=*/false), "");
  EXPECT_EQ(Run({3}), "(1 2 3)#0");
}

TEST_F(MergerTest, SilenceReleasesButIsNoBorder) {
  Start(Eager());
  for (int i = 0; i < 2; ++i) {
    Run({1, 2}, /*border=*/false);
    std::vector<Release> out;
    merger_->Flush(&out);
    EXPECT_TRUE(out.empty());
    EXPECT_EQ(Run({3}), "3");
  }
  EXPECT_EQ(Run({1, 2}, /*border=*/false), "");
  std::vector<Release> out;
  merger_->Flush(&out);
  EXPECT_EQ(Text(out), "1 2");
  EXPECT_EQ(Run({3}), "3");
}

TEST_F(MergerTest, UnitsThatAreNotMeasuredYetAreLeftAlone) {
  Start(Eager());
  for (int i = 0; i < 4; ++i) {
    std::vector<Release> out;
    for (const int64_t id : {1, 2}) {
      Unit unit = MakeUnit(id);
      unit.settled = false;
      merger_->Add(unit, &out);
    }
    merger_->Border(&out);
  }
  EXPECT_EQ(merger_->num_groups(), 0);
}

TEST_F(MergerTest, ACompileMustHaveEarnedItself) {
  MergePolicy policy;
  policy.seconds_per_op = 1;  // 128 s for the group, and 2 * 0.15 s saved in each sighting
  Start(policy);
  int runs = 0;
  while (merger_->num_groups() == 0 && runs < 1000) Run({1, 2}), ++runs;
  EXPECT_EQ(runs, 427);
  merger_->Learn(128, 1.28);  // a hundredth of what was thought
  runs = 0;
  while (merger_->num_groups() == 1 && runs < 1000) Run({3, 4}), ++runs;
  EXPECT_EQ(runs, 5);
}

TEST_F(MergerTest, GroupsAreBoundedAndTheNextLevelFollowsWhereTheFirstPaid) {
  MergePolicy policy = Eager();
  policy.factor = 2;  // two units, then four
  Start(policy);
  Run({1, 2, 3, 4}), Run({1, 2, 3, 4});
  EXPECT_EQ(Run({1, 2, 3, 4}), "(1 2)#0 (3 4)#1");
  EXPECT_EQ(merger_->num_groups(), 2);
  savings_[0] = savings_[1] = {true, 0.0};
  Run({1, 2, 3, 4});
  EXPECT_EQ(merger_->num_groups(), 2);
  savings_[0] = {true, 0.1};
  Run({1, 2, 3, 4});
  EXPECT_EQ(Run({1, 2, 3, 4}), "(1 2 3 4)#2");
}

TEST_F(MergerTest, EqualStretchesAreGroupedAlikeWhereverTheyStand) {
  MergePolicy policy = Eager();
  policy.factor = 4;
  policy.levels = 1;
  Start(policy);
  const auto add = [&](int64_t id, bool cut) {
    std::vector<Release> out;
    Unit unit = MakeUnit(id);
    unit.content_hash = cut ? 0 : ~uint64_t{0};
    held_.push_back(id);
    merger_->Add(unit, &out);
    return Text(out);
  };
  // A layer of three units that asks for a cut at its end, after one and after two others.
  std::string text;
  for (int i = 0; i < 3; ++i) {
    text = add(10, true) + add(11, true);
    for (int layer = 0; layer < 3; ++layer) {
      for (int64_t id = 1; id <= 3; ++id) text += " " + add(id, id == 3);
    }
  }
  EXPECT_EQ(text.substr(text.size() - 9), "(1 2 3)#0") << text;
}

TEST_F(MergerTest, TooManyGroupsAreForgotten) {
  MergePolicy policy = Eager();
  policy.max_nodes = 16;
  Start(policy);
  for (int64_t i = 0; !merger_->full(); ++i) {
    ASSERT_LT(i, 20);
    Run({2 * i, 2 * i + 1}), Run({2 * i, 2 * i + 1});
  }
  EXPECT_EQ(Run({0, 1}), "(0 1)#0");
  merger_->Forget();
  EXPECT_FALSE(merger_->full());
  EXPECT_EQ(merger_->num_groups(), 0);
  EXPECT_EQ(Run({0, 1}), "0 1");
  EXPECT_EQ(Run({0, 1}), "0 1");
  EXPECT_EQ(Run({0, 1}), "(0 1)#0") << "ids begin anew";
}

}  // namespace
}  // namespace dendrite::planner
