// The compile service under several submitters, under observers, and at the end of its life. On the
// fake plugin, whose compiles take as long as a test says.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "csrc/base/clock.h"
#include "csrc/base/log.h"
#include "csrc/compiler/compile_service.h"
#include "csrc/compiler/compile_test_util.h"
#include "csrc/testing/temp_folder.h"

extern char** environ;

namespace dendrite::compiler {
namespace {

using std::chrono::milliseconds;

class CompileServiceConcurrencyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (TestWorker().empty()) GTEST_SKIP() << "DENDRITE_TEST_WORKER is unset; ctest sets it";
    before_ = SetLogSink([](LogLevel, const std::string&) {});
  }
  void TearDown() override { SetLogSink(before_); }

  static std::shared_ptr<pjrt::Client> FakeClient() {
    static const auto client =
        pjrt::Client::Create(FromTestEnvironment("DENDRITE_TEST_FAKE_PLUGIN"));
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    return *client;
  }
  static std::unique_ptr<CompileService> MakeService(int workers, const std::string& cache = "") {
    CompileServiceOptions options;
    options.client = FakeClient();
    options.worker_path = TestWorker();
    options.num_workers = workers;
    options.cache_dir = cache;
    options.target_name = "fake";
    auto service = CompileService::Create(std::move(options));
    EXPECT_TRUE(service.ok()) << service.status().ToString();
    return std::move(service).value();
  }
  static std::shared_ptr<CompileJob> Submit(CompileService& service, const TestTape& tape) {
    lowering::SnippetOptions options;
    options.live = tape.Live();
    return service.Submit(tape.get(), std::move(options), 0, "test");
  }
  static void Together(int count, const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
    for (auto& thread : threads) thread.join();
  }

  testing::TempFolder folder_;
  LogSink before_;
};

class SharingTest : public CompileServiceConcurrencyTest,
                    public ::testing::WithParamInterface<int> {};

TEST_P(SharingTest, SubmittersOfEqualTapesShareOneCompileEach) {
  constexpr int kTapes = 6;
  auto service = MakeService(GetParam(), folder_.path());
  std::vector<TestTape> tapes;
  for (int i = 0; i < kTapes; ++i) tapes.emplace_back(2 + i);
  std::atomic<bool> stop{false};
  std::thread observing([&] {
    while (!stop) {
      EXPECT_LE(service->stats().compiles, kTapes);
      for (const CompileEvent& event : service->TakeEvents()) EXPECT_TRUE(event.ok);
      (void)service->WaitIdle(0.001);
    }
  });
  Together(4, [&](int i) {
    for (int k = 0; k < 3 * kTapes; ++k) {
      const auto job = Submit(*service, tapes[static_cast<size_t>((k * (i + 1)) % kTapes)]);
      if (k % 3 == 0) job->Wait();
      if (job->done()) {
        EXPECT_EQ(job->state(), CompileJob::State::kReady);
        EXPECT_TRUE(job->loaded()->executable.defined());
      }
    }
  });
  for (const TestTape& tape : tapes) Submit(*service, tape)->Wait();
  stop = true;
  observing.join();
  ASSERT_TRUE(service->WaitIdle(60));
  EXPECT_EQ(service->stats().compiles, kTapes);
  EXPECT_EQ(service->stats().failures, 0);
  EXPECT_EQ(service->stats().queued + service->stats().running, 0);
}

INSTANTIATE_TEST_SUITE_P(Workers, SharingTest, ::testing::Values(0, 2),
                         [](const auto& info) { return std::to_string(info.param); });

TEST_F(CompileServiceConcurrencyTest, ServicesOfOneFolderServeOneAnother) {
  std::atomic<int64_t> compiles{0}, hits{0};
  Together(3, [&](int) {
    auto service = MakeService(1, folder_.path());
    for (int ops = 2; ops < 5; ++ops) {
      const auto job = Submit(*service, TestTape(ops));
      job->Wait();
      EXPECT_EQ(job->state(), CompileJob::State::kReady);
    }
    EXPECT_TRUE(service->WaitIdle(60));
    compiles += service->stats().compiles;
    hits += service->stats().hits_disk;
  });
  EXPECT_EQ(compiles, 3);
  EXPECT_EQ(hits, 6);
}

TEST_F(CompileServiceConcurrencyTest, DestructionWakesWhoeverWaits) {
  testing::ScopedEnv delay("DENDRITE_FAKE_COMPILE_DELAY_MS", "20000");
  auto service = MakeService(1);
  std::vector<std::shared_ptr<CompileJob>> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(Submit(*service, TestTape(2 + i)));
  std::atomic<int> waiting{0}, cancelled{0};
  std::thread waiters([&] {
    Together(4, [&](int i) {
      ++waiting;
      CompileJob& job = *jobs[static_cast<size_t>(i) % jobs.size()];
      job.Wait();
      if (job.state() == CompileJob::State::kFailed && job.error().code() == Code::kCancelled) {
        ++cancelled;
      }
    });
  });
  while (waiting < 4 || service->stats().running == 0) std::this_thread::sleep_for(milliseconds(1));
  const double begin = NowSeconds();
  service.reset();
  waiters.join();
  EXPECT_LT(NowSeconds() - begin, 10) << "it waited for the compile";
  EXPECT_EQ(cancelled, 4);
}

TEST_F(CompileServiceConcurrencyTest, AJobMayOutliveItsService) {
  auto service = MakeService(0);
  const auto job = Submit(*service, TestTape(2));
  job->Wait();
  service.reset();
  ASSERT_EQ(job->state(), CompileJob::State::kReady);
  EXPECT_TRUE(job->loaded()->executable.defined());
}

// The next test runs this one in a process of its own, with a compile that does not end, and kills
// it; by itself it compiles in a folder of its own.
TEST_F(CompileServiceConcurrencyTest, CompilesUnderTheHostsLock) {
  const std::string shared = FromTestEnvironment("DENDRITE_TEST_CACHE_DIR");
  auto service = MakeService(1, shared.empty() ? folder_.path() : shared);
  const auto job = Submit(*service, TestTape(7));
  job->Wait();
  EXPECT_EQ(job->state(), CompileJob::State::kReady);
}

TEST_F(CompileServiceConcurrencyTest, AProcessThatDiesWhileItCompilesIsReplaced) {
  pid_t holder = 0;
  {
    testing::ScopedEnv dir("DENDRITE_TEST_CACHE_DIR", folder_.path());
    testing::ScopedEnv delay("DENDRITE_FAKE_COMPILE_DELAY_MS", "20000");
    char self[] = "/proc/self/exe", quiet[] = "--gtest_brief=1",
         filter[] = "--gtest_filter=CompileServiceConcurrencyTest.CompilesUnderTheHostsLock";
    char* argv[] = {self, filter, quiet, nullptr};
    ASSERT_EQ(::posix_spawn(&holder, self, nullptr, nullptr, argv, environ), 0);
  }
  const std::string locks = folder_.path() + "/locks";
  const double deadline = NowSeconds() + 60;
  const auto locked = [&] {
    return std::filesystem::exists(locks) && !std::filesystem::is_empty(locks);
  };
  while (!locked() && NowSeconds() < deadline) std::this_thread::sleep_for(milliseconds(5));
  ASSERT_TRUE(locked());

  auto service = MakeService(1, folder_.path());
  const auto job = Submit(*service, TestTape(7));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_FALSE(job->done()) << "compiled beside the holder of the lock";
  EXPECT_EQ(service->stats().compiles, 0);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  job->Wait();
  EXPECT_EQ(job->state(), CompileJob::State::kReady);
  EXPECT_EQ(service->stats().compiles, 1);
}

}  // namespace
}  // namespace dendrite::compiler
