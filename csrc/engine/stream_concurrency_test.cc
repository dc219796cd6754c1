// Several threads at one stream, and several streams at one allocator: what the thread sanitizer is
// to see. Values are checked as well, so each test also says something without it.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "csrc/engine/stream_testing.h"

namespace dendrite::engine {
namespace {

using std::chrono::microseconds;

// Starts `count` threads at once, each with its number, and joins them.
void Together(int count, const std::function<void(int)>& body) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ++ready;
      while (ready < count) std::this_thread::yield();
      body(i);
    });
  }
  for (auto& thread : threads) thread.join();
}

class StreamConcurrencyTest : public StreamTest {
 protected:
  void StartCompiling(const std::function<void(StreamOptions&)>& change = {}) {
    compiler_ = std::make_unique<ScriptedCompiler>();
    Start(change);
  }
  // Multiplies `x` by two `times` times, in runs of 16 that a plan can recognise.
  void Double(Block* x, Block* two, int times, Mode mode) {
    for (int i = 0; i < times; ++i) {
      Mul(x, two, x, mode);
      if (i % 16 == 15) stream_->Flush();
    }
  }
};

TEST_F(StreamConcurrencyTest, TwoSubmittersInDifferentModesDoNotMixTheirWork) {
  Start();
  Block *two = Make(2), *a = Make(1), *b = Make(1);
  Together(2, [&](int i) {
    Double(i == 0 ? a : b, two, 100, i == 0 ? Mode::kEager : Mode::kAdaptive);
    EXPECT_TRUE(stream_->WaitForBlock(i == 0 ? a : b).ok());
  });
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Value(a), std::ldexp(1.0f, 100));
  EXPECT_EQ(Value(b), std::ldexp(1.0f, 100));
}

TEST_F(StreamConcurrencyTest, SynchronisingWhileAnotherThreadSubmitsWaitsForWhatWasThere) {
  Start();
  Block *one = Make(1), *x = Make(3);
  std::atomic<bool> done{false};
  std::thread submitting([&] {
    for (int i = 0; i < 2000; ++i) Mul(x, one, x, Mode::kAdaptive);
    done = true;
  });
  int synchronised = 0;
  while (!done) {
    const uint64_t before = stream_->completed();
    EXPECT_TRUE(stream_->Synchronize().ok());
    EXPECT_GE(stream_->completed(), before);
    ++synchronised;
  }
  submitting.join();
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_GT(synchronised, 0);
  EXPECT_EQ(interpreter_.ran().size(), 2000u) << "nothing is lost, and nothing runs twice";
  EXPECT_TRUE(stream_->Idle());
}

TEST_F(StreamConcurrencyTest, OneThreadsErrorsAreNoneOfAnothersBusiness) {
  Start();
  const Op* fail = MakeOp("test.fail");
  Block *two = Make(2), *bad = Make(1), *good = Make(1);
  Together(2, [&](int i) {
    for (int k = 0; k < 50; ++k) {
      if (i == 0) {
        Append(fail, two, two, bad, Mode::kAdaptive);
        EXPECT_FALSE(stream_->WaitForBlock(bad).ok());
      } else {
        Mul(two, two, good, Mode::kAdaptive);
        EXPECT_TRUE(stream_->WaitForBlock(good).ok());
      }
    }
  });
  EXPECT_EQ(Value(good), 4);
  EXPECT_FALSE(stream_->WaitForBlock(bad).ok());
}

TEST_F(StreamConcurrencyTest, AnErrorInFlightIsReportedToOneOfTheSynchronisers) {
  interpreter_.SetOpen(false);
  Start();
  Block *two = Make(2), *bad = Make();
  Append(MakeOp("test.fail"), two, two, bad, Mode::kEager);
  std::atomic<int> errors{0};
  std::thread opening([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    interpreter_.SetOpen(true);
  });
  Together(4, [&](int) { errors += stream_->Synchronize().ok() ? 0 : 1; });
  opening.join();
  EXPECT_EQ(errors, 1);
}

TEST_F(StreamConcurrencyTest, CompilesThatFinishLateTakeOverBetweenTwoRuns) {
  StartCompiling();
  std::atomic<bool> stop{false};
  std::thread compiling([&] {
    while (!stop) {
      std::this_thread::sleep_for(microseconds(300));
      compiler_->CompileAll();
    }
  });
  // Each thread has a stretch of its own size, and so a snippet of its own.
  std::vector<Block*> x, out;
  for (int i = 0; i < 3; ++i) {
    x.push_back(Make(2));
    out.push_back(Make());
  }
  for (int step = 0; step < 200; ++step) {
    // Together, so that chunks of one thread are cut where another's begin, too.
    for (size_t i = 0; i < x.size(); ++i) {
      for (size_t k = 0; k <= i; ++k) Mul(x[i], x[i], out[i], Mode::kAdaptive);
      ASSERT_TRUE(stream_->WaitForBlock(out[i]).ok());
      // The kernel's product, or the zero of the fake plugin.
      EXPECT_TRUE(Value(out[i]) == 4 || Value(out[i]) == 0) << Value(out[i]);
    }
  }
  stop = true;
  compiling.join();
  EXPECT_GT(counters_.snippets_launched, 0);
  EXPECT_GE(compiler_->submissions().size(), 3u);
}

TEST_F(StreamConcurrencyTest, SubmittersShareWhatIsCompiledMeanwhile) {
  StartCompiling();
  std::atomic<bool> stop{false};
  std::thread compiling([&] {
    while (!stop) {
      compiler_->CompileAll();
      std::this_thread::yield();
    }
  });
  std::vector<Block*> x, out;
  for (int i = 0; i < 3; ++i) {
    x.push_back(Make(2));
    out.push_back(Make());
  }
  Together(3, [&](int i) {
    const auto at = static_cast<size_t>(i);
    for (int step = 0; step < 100; ++step) {
      Mul(x[at], x[at], out[at], Mode::kAdaptive);
      EXPECT_TRUE(stream_->WaitForBlock(out[at]).ok());
      EXPECT_TRUE(Value(out[at]) == 4 || Value(out[at]) == 0) << Value(out[at]);
    }
  });
  stop = true;
  compiling.join();
  EXPECT_GT(counters_.snippets_launched, 0);
}

TEST_F(StreamConcurrencyTest, ObserversMayAskAtAnyTime) {
  StartCompiling();
  std::atomic<bool> stop{false};
  std::thread asking([&] {
    while (!stop) {
      compiler_->CompileAll();
      trace_.Start();
      EXPECT_NE(stream_->Explain().find("snippets known"), std::string::npos);
      (void)stream_->Idle();
      (void)stream_->IsFull();
      (void)counters_.fallback_ops();
      (void)allocator_->stats();
      for (const TraceEvent& event : trace_.Stop()) EXPECT_LE(event.begin, event.end);
    }
  });
  Block *x = Make(2), *out = Make();
  for (int step = 0; step < 300; ++step) {
    for (int k = 0; k < 1 + step % 4; ++k) Mul(x, x, out, Mode::kAdaptive);
    EXPECT_TRUE(stream_->Synchronize().ok());
  }
  stop = true;
  asking.join();
}

TEST_F(StreamConcurrencyTest, DestructionFinishesWorkInFlightAndWhatIsOpen) {
  interpreter_.SetOpen(false);
  Start();
  Block *two = Make(2), *x = Make(1);
  for (int i = 0; i < 20; ++i) Mul(x, two, x, Mode::kEager);
  auto marker = stream_->RecordMarker();
  for (int i = 0; i < 5; ++i) Mul(x, two, x, Mode::kAdaptive);
  std::thread opening([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    interpreter_.SetOpen(true);
  });
  stream_.reset();
  opening.join();
  EXPECT_TRUE(marker->done);
  EXPECT_EQ(Value(x), std::ldexp(1.0f, 25));
}

TEST_F(StreamConcurrencyTest, DestructionDoesNotWaitForACompileThatNobodyWaitsFor) {
  StartCompiling();
  Block *x = Make(2), *out = Make();
  for (int i = 0; i < 3; ++i) {
    Mul(x, x, out, Mode::kAdaptive);
    ASSERT_TRUE(stream_->Synchronize().ok());
  }
  ASSERT_EQ(compiler_->submissions().size(), 1u);
  stream_.reset();  // a hang here fails the test by its time limit
  EXPECT_EQ(Value(out), 4);
  compiler_->CompileAll();  // late: the job outlives the stream
}

TEST_F(StreamConcurrencyTest, MarkersFireForEveryWaiterAndKeepTheirOrder) {
  Start();
  Block *two = Make(2), *x = Make(1);
  Together(3, [&](int i) {
    double last = 0;
    for (int k = 0; k < 100; ++k) {
      if (i == 0) Mul(two, two, x, Mode::kAdaptive);
      auto marker = stream_->RecordMarker();
      if (k % 7 == 0) marker->Wait();
      if (marker->done) {
        EXPECT_GE(marker->time, last);
        last = marker->time;
      }
    }
  });
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_F(StreamConcurrencyTest, HostTasksOfSeveralCallersRunOneAtATime) {
  Start();
  Block* x = Make(0);
  int running = 0;  // the executor's: a second task at once would be a race
  Together(3, [&](int i) {
    for (int k = 0; k < 100; ++k) {
      const auto task = [&running, x]() -> Status {
        EXPECT_EQ(++running, 1);
        *static_cast<float*>(x->host_data) += 1;
        --running;
        return {};
      };
      EXPECT_TRUE(stream_->RunOnHost(task, {x}, /*wait=*/(k + i) % 3 == 0).ok());
    }
  });
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(Value(x), 300);
}

TEST_F(StreamConcurrencyTest, ThrottledCallersAllGoOn) {
  Start([](StreamOptions& options) { options.max_ops_in_flight = 8; });
  Block* two = Make(2);
  std::vector<Block*> own = {Make(1), Make(1), Make(1)};
  Together(3, [&](int i) {
    for (int k = 0; k < 100; ++k) {
      Block* x = own[static_cast<size_t>(i)];
      Mul(x, two, x, Mode::kEager);
      if (stream_->IsFull()) stream_->WaitForRoom();
    }
  });
  ASSERT_TRUE(stream_->Synchronize().ok());
  for (Block* x : own) EXPECT_EQ(Value(x), std::ldexp(1.0f, 100));
}

TEST_F(StreamConcurrencyTest, StoragesDieWhileTheirWorkIsInFlight) {
  Start();
  Block* two = Make(2);
  Allocator::Options options;
  options.completed = &stream_->completed();
  Allocator allocator(options);
  std::atomic<int> wrong{0};
  Together(3, [&](int) {
    for (int k = 0; k < 100; ++k) {
      auto made = allocator.Allocate(kBytes, 0);
      ASSERT_TRUE(made.ok());
      Block* x = *made;
      Mul(two, two, x, Mode::kAdaptive);
      if (k % 4 == 0) wrong += stream_->WaitForBlock(x).ok() && Value(x) == 4 ? 0 : 1;
      x->storage_alive = false;
      ReleaseMemory(x);  // the tape or the executor is the last to know it
      if (k % 16 == 0) allocator.EmptyCache();
    }
  });
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(allocator.stats().allocated, 0);
  EXPECT_EQ(allocator.stats().frees, 300);
}

TEST_F(StreamConcurrencyTest, StreamsOfSeveralDevicesShareCountersTraceAndCompiler) {
  StartCompiling();
  compiler_->CompileAtOnce();
  trace_.Start();
  Together(3, [&](int) {
    Allocator allocator({});
    StreamOptions options = stream_->options();
    options.compiler = nullptr;  // ScriptedCompiler's jobs would be shared, the blocks are not
    Stream stream(options);
    auto x = allocator.Allocate(kBytes, 0);
    ASSERT_TRUE(x.ok());
    Fill(*x, 1);
    const Slot slots[] = {{*x, 0}, {*x, 0}, {*x, 0}};
    for (int k = 0; k < 200; ++k) {
      stream.Append(mul_, slots, nullptr, 1, k % 2 == 0 ? Mode::kEager : Mode::kAdaptive);
    }
    EXPECT_TRUE(stream.Synchronize().ok());
    EXPECT_EQ(Value(*x), 1);
    ReleaseMemory(*x);
  });
  EXPECT_EQ(counters_.ops_captured, 600);
  EXPECT_EQ(counters_.ops_by_tier[0], 600);
  EXPECT_FALSE(trace_.Stop().empty());
}

TEST(AllocatorConcurrencyTest, ThreadsAllocateFindAndTrimAtOnce) {
  std::atomic<uint64_t> completed{0};
  Allocator::Options options;
  options.completed = &completed;
  Allocator allocator(options);
  Together(4, [&](int i) {
    for (int k = 0; k < 300; ++k) {
      const size_t nbytes = size_t{64} << (k % 12);  // also large enough to be placed late
      auto made = allocator.Allocate(nbytes, i % 2);
      ASSERT_TRUE(made.ok());
      Block* block = *made;
      ASSERT_TRUE(allocator.Place(block).ok());
      std::memset(block->host_data, i, nbytes);
      if (k % 5 == 0) {
        Block* found = allocator.Find(block->data);
        EXPECT_EQ(found, block);
        ReleaseMemory(found);
      }
      if (k % 31 == 0) allocator.EmptyCache();
      if (k % 17 == 0) completed.fetch_add(1);
      // Memory that another thread was given would show its number.
      for (size_t at = 0; at < nbytes; ++at) {
        ASSERT_EQ(static_cast<char*>(block->host_data)[at], static_cast<char>(i));
      }
      ReleaseMemory(block);
    }
  });
  EXPECT_EQ(allocator.stats().allocated, 0);
  EXPECT_EQ(allocator.stats().allocations, 1200);
}

}  // namespace
}  // namespace dendrite::engine
