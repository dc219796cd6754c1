#include "csrc/planner/cutter.h"

#include <gtest/gtest.h>

#include <vector>

namespace dendrite::planner {
namespace {

std::vector<size_t> Cuts(const std::vector<uint64_t>& hashes, CutPolicy policy) {
  Cutter cutter(policy);
  std::vector<size_t> cuts;
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (cutter.Add(hashes[i], 4)) cuts.push_back(i);
  }
  return cuts;
}

TEST(CutterTest, BoundsOperatorsAndBytes) {
  const std::vector<uint64_t> hashes(100, 1);  // never a content cut
  EXPECT_EQ(Cuts(hashes, {.max_ops = 40}), (std::vector<size_t>{39, 79}));
  EXPECT_EQ(Cuts(hashes, {.max_ops = 40, .max_bytes = 80}),
            (std::vector<size_t>{19, 39, 59, 79, 99}));
}

TEST(CutterTest, EqualStretchesAreCutAlikeAfterResynchronising) {
  std::vector<uint64_t> layer;
  for (uint64_t i = 0; i < 50; ++i) layer.push_back(i == 37 ? 16 : 2 * i + 1);
  std::vector<uint64_t> tape(7, 1);  // a prologue that shifts every position
  for (int k = 0; k < 4; ++k) tape.insert(tape.end(), layer.begin(), layer.end());
  const auto cuts = Cuts(tape, {.max_ops = 64});
  ASSERT_GE(cuts.size(), 4u);
  for (size_t i = 1; i < cuts.size(); ++i) EXPECT_EQ(cuts[i] - cuts[i - 1], 50u);
}

}  // namespace
}  // namespace dendrite::planner
