// A stream's order, waits, errors and throttling, with a stub in place of PyTorch's kernels. What
// is compiled and when: stream_snippet_test.cc.
#include "csrc/engine/stream.h"

#include <gtest/gtest.h>

#include "csrc/engine/stream_testing.h"

namespace dendrite::engine {
namespace {

using Names = std::vector<std::string>;

TEST_F(StreamTest, OperatorsRunInProgramOrder) {
  Start();
  Block* x = Make(2);
  for (int i = 0; i < 100; ++i) Mul(x, x, Make(), Mode::kEager);
  Block* y = Make(3);
  Mul(y, y, y, Mode::kEager);  // 9
  Mul(x, y, y, Mode::kEager);  // 18
  Mul(y, y, x, Mode::kEager);  // 324
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Value(x), 324);
  EXPECT_EQ(Value(y), 18);
  EXPECT_EQ(counters_.ops_captured, 103);
  EXPECT_EQ(counters_.ops_by_tier[0], 103);
  EXPECT_TRUE(stream_->Idle());
}

TEST_F(StreamTest, NothingRunsBeforeItIsDispatchedButTheTapeKeepsGrowing) {
  interpreter_.SetOpen(false);
  Start();
  Block* x = Make(2);
  for (int i = 0; i < 10; ++i) Mul(x, x, Make(), Mode::kAdaptive);
  EXPECT_TRUE(interpreter_.ran().empty());
  interpreter_.SetOpen(true);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(interpreter_.ran().size(), 10u);
}

TEST_F(StreamTest, WorkStartsWhenTheCallerFallsSilent) {
  Start();
  Block *x = Make(2), *y = Make();
  Mul(x, x, y, Mode::kAdaptive);  // nothing ends the chunk
  EXPECT_TRUE(interpreter_.WaitForRuns(1));
  stream_->WaitForSequence(1);
  EXPECT_EQ(Value(y), 4);
}

TEST_F(StreamTest, SilenceStartsWhatCameAfterEarlierSilence) {
  Start();
  Block* x = Make(2);
  for (size_t i = 1; i <= 3; ++i) {
    Mul(x, x, x, Mode::kAdaptive);
    ASSERT_TRUE(interpreter_.WaitForRuns(i));
  }
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(interpreter_.ran().size(), 3u) << "what ran is not run again";
  EXPECT_EQ(Value(x), 256);
}

TEST_F(StreamTest, DestructionFinishesWhatWasRecorded) {
  Start();
  Block* x = Make(2);
  Mul(x, x, x, Mode::kAdaptive);
  stream_.reset();
  EXPECT_EQ(Value(x), 4);
}

TEST_F(StreamTest, MemoryThatTheOpenTapeReadsIsNotGivenToItsLaterResults) {
  interpreter_.SetOpen(false);
  Start();
  Block *x = Make(2), *y = Make();
  void* memory = x->data;
  Mul(x, x, y, Mode::kAdaptive);
  Drop(x);
  Block* while_open = Make();
  EXPECT_NE(while_open->data, memory);
  stream_->Flush();
  Block* after_dispatch = Make();
  EXPECT_EQ(after_dispatch->data, memory) << "later work of the stream comes later";
  interpreter_.SetOpen(true);
}

TEST_F(StreamTest, AnErrorNamesOperatorShapesAndLine) {
  Start();
  Block *x = Make(2), *y = Make();
  Append(MakeOp("test.fail"), x, x, y, Mode::kEager, /*site=*/7);
  const Status status = stream_->WaitForBlock(y);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_EQ(status.message(),
            "it went wrong\n  in operator test.fail(f32[16], f32[16], f32[16]), called at "
            "model.py:7 (forward)");
}

TEST_F(StreamTest, WhatDependsOnAnErrorIsPoisonedAndTheRestRuns) {
  Start();
  Block *x = Make(2), *y = Make(), *z = Make(), *other = Make();
  Append(MakeOp("test.fail"), x, x, y, Mode::kEager);
  Mul(y, x, z, Mode::kEager);
  Mul(x, x, other, Mode::kEager);
  EXPECT_EQ(stream_->WaitForBlock(z).message(), stream_->WaitForBlock(y).message());
  EXPECT_FALSE(stream_->WaitForBlock(z).ok());
  EXPECT_TRUE(stream_->WaitForBlock(other).ok());
  EXPECT_EQ(Value(other), 4);
  EXPECT_EQ(interpreter_.ran(), (Names{"test.fail", "aten.mul.Tensor"})) << "z is not computed";
}

TEST_F(StreamTest, AWholeWriteHealsAndAPartialOneDoesNot) {
  Start();
  Block *x = Make(2), *y = Make();
  Append(MakeOp("test.fail"), x, x, y, Mode::kEager);
  Append(MakeOp("aten.mul.Tensor", 4), x, x, y, Mode::kEager);  // four of sixteen elements
  EXPECT_FALSE(stream_->WaitForBlock(y).ok());
  Mul(x, x, y, Mode::kEager);
  EXPECT_TRUE(stream_->WaitForBlock(y).ok());
  EXPECT_EQ(Value(y), 4);
}

TEST_F(StreamTest, SynchronizeReportsAnErrorOnceUnlessAReaderHasSeenIt) {
  Start();
  Block *x = Make(2), *y = Make();
  Append(MakeOp("test.fail"), x, x, y, Mode::kEager);
  EXPECT_FALSE(stream_->Synchronize().ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
  Append(MakeOp("test.fail"), x, x, y, Mode::kEager);
  EXPECT_FALSE(stream_->WaitForBlock(y).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_F(StreamTest, MarkersFireInOrderAfterTheWorkBeforeThem) {
  interpreter_.SetOpen(false);
  Start();
  Block* x = Make(2);
  auto before = stream_->RecordMarker();
  Mul(x, x, x, Mode::kAdaptive);
  auto after = stream_->RecordMarker();
  before->Wait();
  EXPECT_FALSE(after->done);
  interpreter_.SetOpen(true);
  after->Wait();
  EXPECT_EQ(Value(x), 4);
  EXPECT_GE(after->time, before->time);
}

TEST_F(StreamTest, ACallerWhoIsFarAheadIsHeldUntilHalfIsDone) {
  interpreter_.SetOpen(false);
  Start([](StreamOptions& options) { options.max_ops_in_flight = 8; });
  Block* x = Make(1);
  int appended = 0;
  while (!stream_->IsFull() && appended < 1000) {
    Mul(x, x, x, Mode::kEager);
    ++appended;
  }
  EXPECT_LT(appended, 1000);
  EXPECT_GT(appended, 8);
  interpreter_.SetOpen(true);
  stream_->WaitForRoom();
  EXPECT_FALSE(stream_->IsFull());
  EXPECT_GE(interpreter_.ran().size(), 4u);
}

TEST_F(StreamTest, HostTasksRunInOrderAndMayBeWaitedFor) {
  Start();
  Block* x = Make(2);
  Mul(x, x, x, Mode::kAdaptive);
  float seen = 0;
  const auto look = [&]() -> Status {
    seen = Value(x);
    return {};
  };
  EXPECT_TRUE(stream_->RunOnHost(look, {x}, /*wait=*/true).ok());
  EXPECT_EQ(seen, 4);
  const auto set = [&]() -> Status {
    Fill(x, 10);
    return {};
  };
  EXPECT_TRUE(stream_->RunOnHost(set, {x}, /*wait=*/false).ok());
  Mul(x, x, x, Mode::kAdaptive);
  ASSERT_TRUE(stream_->WaitForBlock(x).ok());
  EXPECT_EQ(Value(x), 100);
}

TEST_F(StreamTest, AHostTaskThatFailsPoisonsItsBlocks) {
  Start();
  Block* x = Make(2);
  const auto fail = [] { return Internal("no such file"); };
  EXPECT_EQ(stream_->RunOnHost(fail, {x}, /*wait=*/true).message(), "no such file");
  EXPECT_EQ(stream_->WaitForBlock(x).message(), "no such file");
}

TEST_F(StreamTest, AHostTaskKeepsItsBlocksAlive) {
  interpreter_.SetOpen(false);
  Start();
  Block *x = Make(2), *y = Make(5);
  Mul(x, x, x, Mode::kEager);  // holds the executor
  float seen = 0;
  const auto look = [&seen, y]() -> Status {
    seen = Value(y);
    return {};
  };
  EXPECT_TRUE(stream_->RunOnHost(look, {y}, /*wait=*/false).ok());
  Drop(y);
  interpreter_.SetOpen(true);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(seen, 5);
}

TEST_F(StreamTest, ReadersWaitForTheirBlockAlone) {
  Start();
  Block *x = Make(2), *y = Make();
  Mul(x, x, y, Mode::kAdaptive);
  ASSERT_TRUE(stream_->WaitForBlock(y).ok());
  interpreter_.SetOpen(false);
  Block* z = Make();
  Mul(x, x, z, Mode::kEager);
  EXPECT_TRUE(stream_->WaitForBlock(y).ok()) << "returns though z is not made";
  EXPECT_FALSE(stream_->Idle());
  interpreter_.SetOpen(true);
}

TEST_F(StreamTest, ManyCallersMayAppend) {
  Start();
  std::vector<std::thread> callers;
  std::vector<Block*> own;
  for (int i = 0; i < 4; ++i) own.push_back(Make(1.5f));
  const Op* mul = MakeOp("aten.mul.Tensor");
  Block* one = Make(1);
  for (Block* block : own) {
    callers.emplace_back([this, block, mul, one] {
      for (int i = 0; i < 500; ++i) Append(mul, block, one, block, Mode::kAdaptive);
      EXPECT_TRUE(stream_->WaitForBlock(block).ok());
    });
  }
  for (auto& caller : callers) caller.join();
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(interpreter_.ran().size(), 2000u);
  for (Block* block : own) EXPECT_EQ(Value(block), 1.5f);
}

TEST_F(StreamTest, TraceHasWhatRanAndWhereItCameFrom) {
  Start();
  Block* x = Make(2);
  trace_.Start();
  Append(MakeOp("aten.mul.Tensor"), x, x, x, Mode::kEager, /*site=*/3);
  ASSERT_TRUE(stream_->Synchronize().ok());
  const auto events = trace_.Stop();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].lane, "stream");
  EXPECT_EQ(events[0].site, "model.py:3");
  EXPECT_EQ(events[0].tier, 0);
  EXPECT_LE(events[0].begin, events[0].end);
}

}  // namespace
}  // namespace dendrite::engine
