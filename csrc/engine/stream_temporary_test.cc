// Large storages that live and die within what is dispatched: they get no memory of their own, and
// everything else is as if they had. Compiled snippets run on the fake plugin and write zeros.
#include <gtest/gtest.h>

#include "csrc/engine/scratch.h"
#include "csrc/engine/stream_testing.h"

namespace dendrite::engine {
namespace {

constexpr int64_t kMany = 1 << 16;
constexpr size_t kLargeBytes = kMany * sizeof(float);

class TemporaryStreamTest : public StreamTest {
 protected:
  ~TemporaryStreamTest() override { EXPECT_EQ(GetScratch().in_use(), 0u); }

  Block* MakeLarge() {
    auto block = allocator_->Allocate(kLargeBytes, 0);
    EXPECT_TRUE(block.ok());
    storages_.push_back(*block);
    return *block;
  }
  Block* MakeFilled(float value) {
    Block* block = MakeLarge();
    EXPECT_TRUE(allocator_->Place(block).ok());
    std::fill_n(static_cast<float*>(block->host_data), kMany, value);
    return block;
  }
  void Large(Block* a, Block* b, Block* out, Mode mode) { Append(large_, a, b, out, mode); }
  // out = x * x * x * x * x, through three storages that die before anything is dispatched.
  void Step(Block* out) {
    Block *a = MakeLarge(), *b = MakeLarge(), *c = MakeLarge();
    Large(x_, x_, a, Mode::kAdaptive);
    Large(a, x_, b, Mode::kAdaptive);
    Drop(a);
    Large(b, x_, c, Mode::kAdaptive);
    Drop(b);
    Large(c, x_, out, Mode::kAdaptive);
    Drop(c);
  }
  int64_t reserved() { return allocator_->stats().reserved; }
  static float Last(const Block* block) {
    return static_cast<const float*>(block->host_data)[kMany - 1];
  }

  const Op* large_ = MakeOp("aten.mul.Tensor", kMany);
  Block* x_ = nullptr;
};

TEST_F(TemporaryStreamTest, WhatOnlyTheChunkSeesGetsNoMemory) {
  Start();
  x_ = MakeFilled(2);
  Block* out = MakeLarge();
  Step(out);
  EXPECT_EQ(reserved(), static_cast<int64_t>(kLargeBytes)) << "nothing is dispatched yet: x alone";
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Last(out), 32);
  EXPECT_EQ(reserved(), static_cast<int64_t>(2 * kLargeBytes)) << "x and out";
}

TEST_F(TemporaryStreamTest, WhatSomebodyStillHoldsGetsMemory) {
  Start();
  x_ = MakeFilled(2);
  Block *kept = MakeLarge(), *out = MakeLarge();
  Large(x_, x_, kept, Mode::kAdaptive);
  Large(kept, x_, out, Mode::kAdaptive);
  ASSERT_TRUE(stream_->Synchronize().ok());
  Drop(out);
  // The open chunk is the last to know `kept` now, but the chunk before it has written it.
  Block* next = MakeLarge();
  Large(kept, x_, next, Mode::kAdaptive);
  Drop(kept);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Last(next), 8);
}

TEST_F(TemporaryStreamTest, WhatTheNextChunkReadsGetsMemory) {
  Start();
  x_ = MakeFilled(2);
  Block *between = MakeLarge(), *out = MakeLarge();
  Large(x_, x_, between, Mode::kAdaptive);
  Large(between, x_, out, Mode::kEager);  // another mode: a chunk of its own
  Drop(between);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Last(out), 8);
}

TEST_F(TemporaryStreamTest, ASilentCallersPrefixKeepsWhatTheRestNeeds) {
  Start();
  x_ = MakeFilled(2);
  Block *between = MakeLarge(), *out = MakeLarge();
  Large(x_, x_, between, Mode::kAdaptive);
  ASSERT_TRUE(interpreter_.WaitForRuns(1));
  Large(between, x_, out, Mode::kAdaptive);
  Drop(between);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Last(out), 8);
}

TEST_F(TemporaryStreamTest, AFailedOperatorLeavesNoScratchBehind) {
  Start();
  x_ = MakeFilled(2);
  Block *a = MakeLarge(), *out = MakeLarge();
  Append(MakeOp("test.fail", kMany), x_, x_, a, Mode::kAdaptive);
  Large(a, x_, out, Mode::kAdaptive);
  Drop(a);
  EXPECT_FALSE(stream_->WaitForBlock(out).ok());
  EXPECT_EQ(GetScratch().in_use(), 0u);
}

TEST_F(TemporaryStreamTest, SnippetsKeepThemToThemselves) {
  compiler_ = std::make_unique<ScriptedCompiler>();
  compiler_->CompileAtOnce();
  Start([](StreamOptions& options) { options.tier = TierPolicy::kCompiled; });
  x_ = MakeFilled(2);
  Block* out = MakeLarge();
  for (int i = 0; i < 4; ++i) {
    Step(out);
    ASSERT_TRUE(stream_->Synchronize().ok());
  }
  EXPECT_EQ(counters_.snippets_launched, 4);
  EXPECT_EQ(reserved(), static_cast<int64_t>(2 * kLargeBytes));
}

TEST_F(TemporaryStreamTest, AnOutputThatNobodyNeedsThisTimeGoesToScratch) {
  compiler_ = std::make_unique<ScriptedCompiler>();
  compiler_->CompileAtOnce();
  Start([](StreamOptions& options) { options.tier = TierPolicy::kCompiled; });
  x_ = MakeFilled(2);
  Block* out = MakeLarge();
  const auto step = [&](bool keep) {
    Block* y = MakeLarge();
    Large(x_, x_, y, Mode::kAdaptive);
    Large(y, x_, out, Mode::kAdaptive);
    if (!keep) Drop(y);
    EXPECT_TRUE(stream_->Synchronize().ok());
    if (keep) Drop(y);
  };
  for (int i = 0; i < 3; ++i) step(true);
  const int64_t launched = counters_.snippets_launched;
  ASSERT_GT(launched, 0);
  step(false);
  EXPECT_EQ(counters_.snippets_launched, launched + 1) << "with both outputs";
  EXPECT_EQ(compiler_->submissions().size(), 1u);
}

TEST_F(TemporaryStreamTest, ChildrenOfAMergedChunkHandThemOn) {
  compiler_ = std::make_unique<ScriptedCompiler>();
  compiler_->CompileAtOnce();
  compiler_->FailLargerThan(2);  // the merged one never runs as a whole
  Start([](StreamOptions& options) {
    options.cuts.max_ops = 2;
    options.merges.unit_ops = 2;
    options.merges.seconds_per_op = 0;
  });
  x_ = MakeFilled(0);  // compiled or not, every result is zero
  Block* out = MakeLarge();
  for (int i = 0; i < 30; ++i) {
    std::fill_n(static_cast<float*>(x_->host_data), kMany, 0.0f);
    Step(out);
    ASSERT_TRUE(stream_->Synchronize().ok());
    ASSERT_EQ(Last(out), 0);
    ASSERT_EQ(GetScratch().in_use(), 0u);
  }
  EXPECT_EQ(counters_.launch_errors, 0);
}

}  // namespace
}  // namespace dendrite::engine
