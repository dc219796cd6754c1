// What a stream compiles, when it launches it, and what it does when that fails. Compiled snippets
// run on the fake plugin and write zeros, so a zero says that a snippet ran.
#include <gtest/gtest.h>

#include "csrc/engine/stream_testing.h"
#include "csrc/testing/temp_folder.h"

namespace dendrite::engine {
namespace {

class SnippetStreamTest : public StreamTest {
 protected:
  SnippetStreamTest() { compiler_ = std::make_unique<ScriptedCompiler>(); }

  // One step of a program: y = x * x; out = y * x, with y dying at once. Returns `out`'s value.
  float Step(Mode mode = Mode::kAdaptive) {
    Fill(x_, 2);
    Block* y = Make();
    Mul(x_, x_, y, mode);
    Mul(y, x_, out_, mode);
    Drop(y);
    EXPECT_TRUE(stream_->Synchronize().ok());
    return Value(out_);
  }
  void StartProgram(const std::function<void(StreamOptions&)>& change = {}) {
    Start(change);
    x_ = Make(2);
    out_ = Make();
  }
  size_t submitted() { return compiler_->submissions().size(); }

  Block* x_ = nullptr;
  Block* out_ = nullptr;
};

TEST_F(SnippetStreamTest, CompilesAtTheSecondSightingAndNobodyWaits) {
  StartProgram();
  EXPECT_EQ(Step(), 8);
  EXPECT_EQ(submitted(), 0u);
  EXPECT_EQ(Step(), 8);
  EXPECT_EQ(submitted(), 1u);
  EXPECT_EQ(Step(), 8) << "still compiling: tier 0";
  EXPECT_EQ(counters_.ops_by_tier[1], 0);
  compiler_->CompileAll();
  EXPECT_EQ(Step(), 0) << "the snippet";
  EXPECT_EQ(counters_.ops_by_tier[0], 6);
  EXPECT_EQ(counters_.ops_by_tier[1], 2);
  EXPECT_EQ(counters_.snippets_launched, 1);
  EXPECT_EQ(counters_.compile_wait_ns, 0);
  EXPECT_EQ(submitted(), 1u);
}

TEST_F(SnippetStreamTest, TheFirstSightingOnlyAsksTheCaches) {
  StartProgram();
  Step();
  EXPECT_EQ(submitted(), 0u);
  ASSERT_EQ(compiler_->prefetches().size(), 1u);
  Step();
  EXPECT_EQ(compiler_->prefetches().size(), 1u);
  ASSERT_EQ(submitted(), 1u);
  EXPECT_EQ(compiler_->prefetches()[0].live, compiler_->submissions()[0].options.live);
}

TEST_F(SnippetStreamTest, DeterministicCompilesAtTheSecondSightingAndWaits) {
  StartProgram();
  EXPECT_EQ(Step(Mode::kAdaptive), 8);
  EXPECT_EQ(Step(Mode::kDeterministic), 8) << "plans of the other mode are not its own";
  EXPECT_EQ(submitted(), 0u);
  compiler_->CompileAtOnce();
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(Step(Mode::kDeterministic), 0) << "the snippet, however fast tier 0 was";
  }
  ASSERT_EQ(submitted(), 1u);
  EXPECT_TRUE(compiler_->submissions()[0].options.fixed_choices);
  EXPECT_EQ(compiler_->prefetches().size(), 1u) << "the adaptive step's: a cache decides nothing";
  EXPECT_EQ(counters_.snippets_launched, 30);
}

TEST_F(SnippetStreamTest, DeterministicWorkDoesNotStartBecauseTheCallerIsSilent) {
  StartProgram();
  compiler_->CompileAtOnce();
  Fill(x_, 2);
  Mul(x_, x_, out_, Mode::kDeterministic);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_TRUE(interpreter_.ran().empty()) << "where a chunk is cut in two would be chance";
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Value(out_), 4);
}

TEST_F(SnippetStreamTest, ASnippetHasOnlyLiveStoragesAsOutputs) {
  StartProgram();
  Step();
  Step();
  ASSERT_EQ(submitted(), 1u);
  const auto made = compiler_->submissions()[0];
  ASSERT_EQ(made.tape->storages.size(), 3u);  // x, y, out
  EXPECT_EQ(made.options.live, (std::vector<bool>{false, false, true}));
}

TEST_F(SnippetStreamTest, AResultThatIsKeptForOnceRecompilesOnceWithBothOutputs) {
  StartProgram();
  compiler_->CompileAtOnce();
  Step();
  Step();
  for (int i = 0; i < 2; ++i) {
    Block* kept = Make();
    Mul(x_, x_, kept, Mode::kAdaptive);
    Mul(kept, x_, out_, Mode::kAdaptive);
    ASSERT_TRUE(stream_->Synchronize().ok());
    ASSERT_EQ(submitted(), 2u);
    EXPECT_EQ(compiler_->submissions()[1].options.live, (std::vector<bool>{false, true, true}));
  }
  Step();
  EXPECT_EQ(submitted(), 2u) << "more outputs than are needed do no harm";
}

TEST_F(SnippetStreamTest, SilenceMovesDispatchesAndNotCuts) {
  StartProgram();
  Step();
  Block* y = Make();
  Fill(x_, 2);
  Mul(x_, x_, y, Mode::kAdaptive);
  ASSERT_TRUE(interpreter_.WaitForRuns(3));  // the executor took it, for the caller was silent
  Mul(y, x_, out_, Mode::kAdaptive);
  Drop(y);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Value(out_), 8);
  EXPECT_EQ(interpreter_.ran().size(), 4u);
  ASSERT_EQ(submitted(), 1u) << "the same stretch, seen twice";
  EXPECT_EQ(compiler_->submissions()[0].tape->records.size(), 2u);
}

TEST_F(SnippetStreamTest, SilenceDoesNotMoveTheNextCut) {
  StartProgram([](StreamOptions& options) { options.cuts.max_ops = 4; });
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 1; i <= 6; ++i) {
      Mul(x_, x_, out_, Mode::kAdaptive);
      if (pass == 1 && i == 2) {
        ASSERT_TRUE(interpreter_.WaitForRuns(6 + 2));
      }
    }
    ASSERT_TRUE(stream_->Synchronize().ok());
  }
  ASSERT_GE(submitted(), 2u) << "both stretches were seen twice";
  EXPECT_EQ(compiler_->submissions()[0].tape->records.size(), 4u);
  EXPECT_EQ(compiler_->submissions()[1].tape->records.size(), 2u);
}

TEST_F(SnippetStreamTest, AnOperatorWithoutALoweringEndsASnippetAndRunsAtTierZero) {
  StartProgram();
  compiler_->CompileAtOnce();
  const Op* strange = MakeOp("test.strange");
  for (int i = 0; i < 3; ++i) {
    Fill(x_, 2);
    Mul(x_, x_, out_, Mode::kAdaptive);
    Append(strange, x_, x_, x_, Mode::kAdaptive);
    Mul(x_, x_, out_, Mode::kAdaptive);
    ASSERT_TRUE(stream_->Synchronize().ok());
  }
  EXPECT_EQ(Value(x_), 4);
  ASSERT_GE(submitted(), 1u);
  for (const auto& made : compiler_->submissions()) EXPECT_EQ(made.tape->records.size(), 1u);
  EXPECT_GT(counters_.ops_by_tier[1], 0);
}

TEST_F(SnippetStreamTest, AMovingViewIsOneSnippet) {
  StartProgram();
  compiler_->CompileAtOnce();
  const Op* row = MakeOp("aten.mul.Tensor", 4);
  for (int i = 0; i < 12; ++i) {
    Append(row, x_, x_, out_, Mode::kAdaptive, 1, 4 * (i % 4));
    ASSERT_TRUE(stream_->Synchronize().ok());
  }
  ASSERT_EQ(submitted(), 1u);
  EXPECT_EQ(compiler_->submissions()[0].tape->num_lifted_offsets, 1);
  EXPECT_GT(counters_.snippets_launched, 0);
}

TEST_F(SnippetStreamTest, EagerModeCompilesNothing) {
  StartProgram();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Step(Mode::kEager), 8);
  EXPECT_EQ(submitted(), 0u);
}

TEST_F(SnippetStreamTest, TierZeroCompilesNothing) {
  StartProgram([](StreamOptions& options) { options.tier = TierPolicy::kZero; });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Step(), 8);
  EXPECT_EQ(submitted(), 0u);
}

TEST_F(SnippetStreamTest, TierCompiledWaitsAndCountsTheWait) {
  StartProgram([](StreamOptions& options) { options.tier = TierPolicy::kCompiled; });
  std::thread compiling([this] {
    while (submitted() == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    compiler_->CompileAll();
  });
  EXPECT_EQ(Step(), 0);
  compiling.join();
  EXPECT_EQ(counters_.ops_by_tier[1], 2);
  EXPECT_GE(counters_.compile_wait_ns, 1000000);
}

TEST_F(SnippetStreamTest, ASnippetThatDoesNotCompileWarnsOnceAndStaysAtTierZero) {
  StartProgram();
  Step();
  Step();
  compiler_->FailAll("too hard");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Step(), 8);
  ASSERT_EQ(Warnings().size(), 1u);
  EXPECT_NE(Warnings()[0].find("too hard"), std::string::npos);
  EXPECT_NE(Warnings()[0].find("model.py:1, 2 ops"), std::string::npos);
  EXPECT_EQ(submitted(), 1u) << "not tried again";
}

TEST_F(SnippetStreamTest, ARegionIsOneSnippetAndItsEndWaits) {
  StartProgram();
  compiler_->CompileAtOnce();
  stream_->BeginRegion();
  for (int i = 0; i < 200; ++i) Mul(x_, x_, out_, Mode::kEager);
  EXPECT_TRUE(stream_->EndRegion().ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  ASSERT_EQ(submitted(), 1u);
  EXPECT_EQ(compiler_->submissions()[0].tape->records.size(), 200u);
  EXPECT_EQ(Value(out_), 0);
}

TEST_F(SnippetStreamTest, ARegionThatDoesNotCompileIsAnError) {
  StartProgram();
  std::thread failing([this] {
    while (submitted() == 0) std::this_thread::yield();
    compiler_->FailAll("too hard");
  });
  stream_->BeginRegion();
  Mul(x_, x_, out_, Mode::kEager);
  const Status status = stream_->EndRegion();
  failing.join();
  EXPECT_EQ(status.message(), "too hard");
}

TEST_F(SnippetStreamTest, ALaunchThatFailsLatePoisonsWhatItWouldHaveWritten) {
  StartProgram();
  compiler_->CompileAtOnce();
  Step();
  Step();
  {
    testing::ScopedEnv late("DENDRITE_FAKE_EXECUTE_ERROR", "late");
    Mul(x_, x_, out_, Mode::kAdaptive);
    Mul(out_, x_, out_, Mode::kAdaptive);
    ASSERT_TRUE(stream_->Synchronize().ok()) << "another stretch, seen once: tier 0";
    Fill(x_, 2);
    Block* y = Make();
    Mul(x_, x_, y, Mode::kAdaptive);
    Mul(y, x_, out_, Mode::kAdaptive);
    Drop(y);
    const Status status = stream_->WaitForBlock(out_);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("called at model.py:1"), std::string::npos)
        << status.ToString();
    EXPECT_TRUE(stream_->WaitForBlock(x_).ok()) << "only read";
  }
  EXPECT_EQ(counters_.launch_errors, 1);
  Mul(x_, x_, out_, Mode::kEager);
  EXPECT_TRUE(stream_->WaitForBlock(out_).ok());
  EXPECT_EQ(Value(out_), 4);
}

TEST_F(SnippetStreamTest, APoisonedArgumentSendsTheSnippetToTierZero) {
  StartProgram();
  compiler_->CompileAtOnce();
  Step();
  Step();
  const int64_t launched = counters_.snippets_launched;
  Append(MakeOp("test.fail"), out_, out_, x_, Mode::kEager);
  Block* y = Make();
  Mul(x_, x_, y, Mode::kAdaptive);
  Mul(y, x_, out_, Mode::kAdaptive);
  Drop(y);
  EXPECT_FALSE(stream_->WaitForBlock(out_).ok());
  EXPECT_EQ(counters_.snippets_launched, launched);
}

class OpaqueStreamTest : public SnippetStreamTest {
 protected:
  void StartOpaque(TierPolicy tier = TierPolicy::kAuto) {
    compiler_->CompileAtOnce();
    Start([&](StreamOptions& options) {
      options.host_visible = false;
      options.tier = tier;
    });
    x_ = Make();
    out_ = Make();
  }
  Status Upload(Block* block, float value) {
    return stream_->RunOnHost(
        [block, value]() -> Status {
          const std::vector<float> data(kElements, value);
          auto buffer = FakeClient()->FromHost(
              data.data(), pjrt::ElementTypeFromDType(static_cast<uint8_t>(tape::DType::kF32)),
              {kElements}, pjrt::HostBuffer::kCopy);
          if (!buffer.ok()) return buffer.status();
          block->form_dtype = tape::DType::kF32;
          block->initialized = true;
          block->buffer = std::move(*buffer);
          return {};
        },
        {block}, /*wait=*/true);
  }
  float Download(Block* block) {
    std::vector<float> data(kElements, -1);
    EXPECT_TRUE(stream_->ReadBlock(block, data.data()).ok());
    return data[0];
  }
};

TEST_F(OpaqueStreamTest, StoragesThatNobodyWroteReadAsZeros) {
  StartOpaque();
  EXPECT_EQ(Download(x_), 0);
  ASSERT_TRUE(Upload(x_, 5).ok());
  EXPECT_EQ(Download(x_), 5);
}

TEST_F(OpaqueStreamTest, OperatorsRunInSnippetsFromTheFirstSighting) {
  StartOpaque();
  ASSERT_TRUE(Upload(x_, 5).ok());
  Mul(x_, x_, out_, Mode::kAdaptive);
  EXPECT_EQ(Download(out_), 0);
  EXPECT_EQ(counters_.ops_by_tier[1], 1);
  EXPECT_TRUE(interpreter_.ran().empty()) << "no kernel of the host";
}

TEST_F(OpaqueStreamTest, TierZeroIsOneOperatorASnippet) {
  StartOpaque(TierPolicy::kZero);
  ASSERT_TRUE(Upload(x_, 5).ok());
  for (int i = 0; i < 3; ++i) Mul(x_, x_, out_, Mode::kAdaptive);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(counters_.snippets_launched, 3);
  for (const auto& made : compiler_->submissions()) EXPECT_EQ(made.tape->records.size(), 1u);
}

TEST_F(OpaqueStreamTest, AnOperatorWithoutALoweringGoesToTheHostAndBack) {
  StartOpaque();
  ASSERT_TRUE(Upload(x_, 5).ok());
  Append(MakeOp("test.strange"), x_, x_, out_, Mode::kAdaptive);
  EXPECT_EQ(Download(out_), 25);
  EXPECT_EQ(counters_.fallback_ops(), (std::map<std::string, int64_t>{{"test.strange", 1}}));
  EXPECT_EQ(counters_.ops_host, 1);
  EXPECT_EQ(x_->host_data, nullptr) << "the staging copy is gone";
}

}  // namespace
}  // namespace dendrite::engine
