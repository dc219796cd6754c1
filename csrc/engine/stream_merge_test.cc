// What a stream merges, and that held chunks lose nothing. Compiled snippets run on the fake plugin
// and write zeros.
#include <gtest/gtest.h>

#include "csrc/engine/stream_testing.h"

namespace dendrite::engine {
namespace {

class MergeStreamTest : public StreamTest {
 protected:
  void StartProgram(const std::function<void(StreamOptions&)>& change = {}) {
    compiler_ = std::make_unique<ScriptedCompiler>();
    compiler_->CompileAtOnce();
    Start([&](StreamOptions& options) {
      options.cuts.max_ops = 2;
      options.merges.unit_ops = 2;
      options.merges.seconds_per_op = 0;
      if (change) change(options);
    });
    x_ = Make(2);
    out_ = Make();
  }
  // Two units: y = x * x; y = y * x, and out = y * x; out = out * x, with y dying at once.
  float Step() {
    Fill(x_, 2);
    Block* y = Make();
    Mul(x_, x_, y, Mode::kAdaptive);
    Mul(y, x_, y, Mode::kAdaptive);
    Mul(y, x_, out_, Mode::kAdaptive);
    Drop(y);
    Mul(out_, x_, out_, Mode::kAdaptive);
    EXPECT_TRUE(stream_->Synchronize().ok());
    return Value(out_);
  }
  std::vector<ScriptedCompiler::Submission> submissions() { return compiler_->submissions(); }
  // Steps until a snippet of `records` operators was submitted; false: it never was.
  bool StepUntil(size_t records) {
    for (int i = 0; i < 50; ++i) {
      Step();
      for (const auto& made : submissions()) {
        if (made.tape->records.size() == records) return true;
      }
    }
    return false;
  }

  Block* x_ = nullptr;
  Block* out_ = nullptr;
};

TEST_F(MergeStreamTest, NeighboursThatRecurBecomeOneWithoutWhatPassedBetweenThem) {
  StartProgram();
  ASSERT_TRUE(StepUntil(4));
  const auto merged = submissions().back();
  ASSERT_EQ(merged.tape->storages.size(), 3u);  // x, y, out
  EXPECT_EQ(merged.options.live, (std::vector<bool>{false, false, true}));
  const size_t count = submissions().size();
  for (int i = 0; i < 20; ++i) Step();
  EXPECT_GT(counters_.ops_by_tier[2], 0);
  EXPECT_EQ(submissions().size(), count) << "nothing more to compile";
}

TEST_F(MergeStreamTest, EveryOperatorIsCountedOnceAndEveryMemoryReturns) {
  StartProgram();
  int64_t steps = 0;
  for (; steps < 60; ++steps) Step();
  int64_t sum = 0;
  for (const auto& n : counters_.ops_by_tier) sum += n;
  EXPECT_EQ(sum, 4 * steps);
  EXPECT_EQ(counters_.ops_captured, 4 * steps);
  EXPECT_EQ(allocator_->stats().allocated, 2 * static_cast<int64_t>(kBytes));  // x, out
}

TEST_F(MergeStreamTest, WhatIsHeldRunsWhenTheStepGoesAnotherWay) {
  StartProgram();
  ASSERT_TRUE(StepUntil(4));
  Step();  // the merged snippet is known to be ready
  const size_t count = submissions().size();
  Block* y = Make();
  Fill(x_, 2);
  Mul(x_, x_, y, Mode::kAdaptive);
  Mul(y, x_, y, Mode::kAdaptive);
  // A read in the place of the second unit.
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(Value(y) == 0 || Value(y) == 8) << Value(y);
  EXPECT_EQ(submissions().size(), count) << "the first unit by itself is known";
}

TEST_F(MergeStreamTest, SilenceReleasesWhatIsHeld) {
  StartProgram([](StreamOptions& options) { options.merges.levels = 1; });
  ASSERT_TRUE(StepUntil(4));
  Step();
  const uint64_t before = stream_->completed();
  Block* y = Make();
  Mul(x_, x_, y, Mode::kAdaptive);
  Mul(y, x_, y, Mode::kAdaptive);  // a unit, held
  const auto begin = std::chrono::steady_clock::now();
  while (stream_->completed() == before) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  }
  Mul(y, x_, out_, Mode::kAdaptive);
  Mul(out_, x_, out_, Mode::kAdaptive);
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_F(MergeStreamTest, AMergedSnippetThatDoesNotCompileLeavesItsPartsAlone) {
  StartProgram([](StreamOptions& options) { options.merges.levels = 1; });
  compiler_->FailLargerThan(2);
  ASSERT_TRUE(StepUntil(4));
  for (int i = 0; i < 20; ++i) Step();
  EXPECT_EQ(counters_.ops_by_tier[2], 0);
  EXPECT_GT(counters_.ops_by_tier[1], 0);
  EXPECT_EQ(Warnings().size(), 1u);
}

TEST_F(MergeStreamTest, NothingIsMergedWhereItIsTurnedOff) {
  StartProgram([](StreamOptions& options) { options.merges.levels = 0; });
  EXPECT_FALSE(StepUntil(4));
}

}  // namespace
}  // namespace dendrite::engine
