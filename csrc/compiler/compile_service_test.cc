// The compile service on the real plugin, with real workers and a real cache folder.
#include "csrc/compiler/compile_service.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "csrc/base/byte_io.h"
#include "csrc/base/clock.h"
#include "csrc/base/log.h"
#include "csrc/base/sha256.h"
#include "csrc/compiler/compile_test_util.h"
#include "csrc/testing/temp_folder.h"

extern char** environ;

namespace dendrite::compiler {
namespace {

class CompileServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (TestWorker().empty()) GTEST_SKIP() << "DENDRITE_TEST_WORKER is unset; ctest sets it";
    before_ = SetLogSink([](LogLevel, const std::string&) {});
  }
  void TearDown() override { SetLogSink(before_); }

  std::unique_ptr<CompileService> MakeService(int num_workers = 1) {
    CompileServiceOptions options;
    options.client = TestClient();
    options.worker_path = TestWorker();
    options.num_workers = num_workers;
    options.cache_dir = folder_.path();
    options.target_name = "embedded";
    auto service = CompileService::Create(std::move(options));
    EXPECT_TRUE(service.ok()) << service.status().ToString();
    return std::move(service).value();
  }
  static std::shared_ptr<CompileJob> Submit(CompileService& service, const TestTape& tape,
                                            std::vector<bool> live) {
    lowering::SnippetOptions options;
    options.live = std::move(live);
    return service.Submit(tape.get(), std::move(options), 0, "test");
  }
  static std::shared_ptr<CompileJob> Submit(CompileService& service, const TestTape& tape) {
    return Submit(service, tape, tape.Live());
  }
  static void ExpectReady(CompileJob& job) {
    job.Wait();
    ASSERT_EQ(job.state(), CompileJob::State::kReady) << job.error().ToString();
    EXPECT_TRUE(job.loaded()->executable.defined());
    EXPECT_FALSE(job.loaded()->snippet.outs.empty());
  }
  std::vector<std::filesystem::path> Entries(const std::string& kind) const {
    std::vector<std::filesystem::path> found;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path() + "/entries")) {
      if (file.path().extension() == "." + kind) found.push_back(file.path());
    }
    return found;
  }
  // Flips a bit in the middle of each.
  static void Corrupt(const std::vector<std::filesystem::path>& files) {
    for (const auto& path : files) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      const auto middle = static_cast<int64_t>(std::filesystem::file_size(path)) * 3 / 4;
      file.seekg(middle);
      const char byte = static_cast<char>(file.get() ^ 4);
      file.seekp(middle);
      file.put(byte);
    }
  }

  testing::TempFolder folder_;
  LogSink before_;
};

TEST_F(CompileServiceTest, EqualTapesAreOneJobAndOneCompile) {
  auto service = MakeService();
  const TestTape tape(3), equal(3);
  const auto first = Submit(*service, tape);
  const auto second = Submit(*service, equal);
  EXPECT_EQ(first, second);
  ExpectReady(*first);
  EXPECT_EQ(Submit(*service, equal), first);
  ASSERT_TRUE(service->WaitIdle(60));
  const CompileStats stats = service->stats();
  EXPECT_EQ(stats.compiles, 1);
  EXPECT_EQ(stats.misses, 1);
  EXPECT_GE(stats.hits_memory, 1);
  EXPECT_EQ(stats.workers_started, 1);
  EXPECT_EQ(stats.queued, 0);
  EXPECT_GT(first->loaded()->compile_seconds, 0);
  const auto events = service->TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].label, "test");
  EXPECT_LT(events[0].begin, events[0].end);
}

TEST_F(CompileServiceTest, AJobWithMoreOutputsServesAWishForFewer) {
  auto service = MakeService();
  const TestTape tape(3);
  const auto wide = Submit(*service, tape, tape.Live(1));
  EXPECT_EQ(Submit(*service, tape), wide);
  EXPECT_NE(Submit(*service, tape, tape.Live(2)), wide);
}

TEST_F(CompileServiceTest, AWarmDiskNeedsNoWorkerAndNoText) {
  const TestTape tape(3);
  std::string key;
  size_t args;
  {
    auto service = MakeService();
    const auto job = Submit(*service, tape);
    ExpectReady(*job);
    key = job->loaded()->key;
    args = job->loaded()->snippet.args.size();
    ASSERT_TRUE(service->WaitIdle(60));
  }
  auto service = MakeService();
  const auto job = Submit(*service, tape);
  ExpectReady(*job);
  EXPECT_EQ(job->loaded()->key, key);
  EXPECT_EQ(job->loaded()->snippet.args.size(), args);
  EXPECT_TRUE(job->loaded()->snippet.stablehlo.empty()) << "it was lowered again";
  EXPECT_EQ(job->loaded()->compile_seconds, 0);
  const CompileStats stats = service->stats();
  EXPECT_EQ(stats.hits_disk, 1);
  EXPECT_EQ(stats.compiles, 0);
  EXPECT_EQ(stats.misses, 0);
  EXPECT_EQ(stats.workers_started, 0);
}

TEST_F(CompileServiceTest, TwoServicesAtOnceCompileOnce) {
  auto one = MakeService(), two = MakeService();
  const TestTape tape(300);
  const auto first = Submit(*one, tape), second = Submit(*two, tape);
  ExpectReady(*first);
  ExpectReady(*second);
  EXPECT_EQ(one->stats().compiles + two->stats().compiles, 1);
  EXPECT_EQ(one->stats().hits_disk + two->stats().hits_disk, 1);
}

// Compiles the tape in the folder of DENDRITE_TEST_CACHE_DIR, where the next test runs it, or its
// own.
TEST_F(CompileServiceTest, CompilesOnceAsOneOfSeveralProcesses) {
  const std::string report = FromTestEnvironment("DENDRITE_TEST_REPORT");
  CompileServiceOptions options;
  options.client = TestClient();
  options.worker_path = TestWorker();
  options.cache_dir =
      report.empty() ? folder_.path() : FromTestEnvironment("DENDRITE_TEST_CACHE_DIR");
  auto service = std::move(CompileService::Create(options)).value();
  const TestTape tape(400);
  ExpectReady(*Submit(*service, tape));
  const CompileStats stats = service->stats();
  EXPECT_EQ(stats.compiles + stats.hits_disk, 1);
  if (!report.empty()) std::ofstream(report) << stats.compiles;
}

TEST_F(CompileServiceTest, SeveralProcessesCompileOnce) {
  constexpr int kProcesses = 3;
  testing::TempFolder reports;
  std::vector<pid_t> pids;
  for (int i = 0; i < kProcesses; ++i) {
    testing::ScopedEnv dir("DENDRITE_TEST_CACHE_DIR", folder_.path());
    testing::ScopedEnv report("DENDRITE_TEST_REPORT", reports.File(std::to_string(i)));
    char self[] = "/proc/self/exe", quiet[] = "--gtest_brief=1",
         filter[] = "--gtest_filter=CompileServiceTest.CompilesOnceAsOneOfSeveralProcesses";
    char* argv[] = {self, filter, quiet, nullptr};
    pid_t pid = 0;
    ASSERT_EQ(::posix_spawn(&pid, self, nullptr, nullptr, argv, environ), 0);
    pids.push_back(pid);
  }
  int compiles = 0;
  for (int i = 0; i < kProcesses; ++i) {
    int status = -1;
    ::waitpid(pids[i], &status, 0);
    EXPECT_EQ(status, 0);
    compiles += std::atoi(testing::ReadFile(reports.File(std::to_string(i))).c_str());
  }
  EXPECT_EQ(compiles, 1);
}

TEST_F(CompileServiceTest, ATapeWithoutALoweringFailsQuicklyAndStaysFailed) {
  auto service = MakeService();
  const TestTape tape(2, 8, "test.no_such_operator.default");
  const auto job = Submit(*service, tape);
  job->Wait();
  ASSERT_EQ(job->state(), CompileJob::State::kFailed);
  EXPECT_EQ(job->error().code(), Code::kUnimplemented) << job->error().ToString();
  EXPECT_EQ(Submit(*service, tape), job);
  ASSERT_TRUE(service->WaitIdle(60));
  EXPECT_EQ(service->stats().workers_started, 0);
  EXPECT_EQ(service->stats().failures, 1);
  EXPECT_TRUE(Entries("snippet").empty()) << "failures are never cached";
}

TEST_F(CompileServiceTest, DamagedEntriesAreCompiledAgainAndHeal) {
  const TestTape tape(3);
  const auto run = [&] {
    auto service = MakeService();
    ExpectReady(*Submit(*service, tape));
    EXPECT_TRUE(service->WaitIdle(60));
    return service->stats();
  };
  run();
  ASSERT_EQ(Entries("neff").size(), 1u);
  Corrupt(Entries("neff"));
  CompileStats stats = run();
  EXPECT_EQ(stats.compiles, 1);
  EXPECT_EQ(stats.corrupt_entries, 1);
  Corrupt(Entries("snippet"));
  stats = run();
  EXPECT_EQ(stats.compiles, 0) << "the executable is still good";
  EXPECT_EQ(stats.hits_disk, 1);
  EXPECT_EQ(stats.corrupt_entries, 1);
  stats = run();
  EXPECT_EQ(stats.corrupt_entries, 0);
  EXPECT_EQ(stats.hits_disk, 1);
}

// Well-formed for the store, but not for the plugin.
TEST_F(CompileServiceTest, AnExecutableThatDoesNotLoadIsCompiledAgain) {
  const TestTape tape(3);
  CompileStats stats;
  std::string key;
  {
    auto service = MakeService();
    const auto job = Submit(*service, tape);
    ExpectReady(*job);
    EXPECT_TRUE(service->WaitIdle(60));
  }
  const auto path = Entries("neff")[0];
  const std::string entry = testing::ReadFile(path);
  // magic 8, version 1, key length 8, key.
  uint64_t key_size = 0;
  std::memcpy(&key_size, entry.data() + 9, 8);
  ByteWriter w;
  w.PutRaw(std::string_view(entry).substr(0, 17 + key_size));
  w.Put<uint64_t>(5);
  const Digest digest = Sha256Digest("bogus");
  w.PutRaw({reinterpret_cast<const char*>(digest.data()), digest.size()});
  w.PutRaw("bogus");
  testing::WriteFile(path, w.bytes());

  auto service = MakeService();
  ExpectReady(*Submit(*service, tape));
  EXPECT_TRUE(service->WaitIdle(60));
  EXPECT_EQ(service->stats().compiles, 1);
  EXPECT_EQ(service->stats().corrupt_entries, 1);
  EXPECT_EQ(service->stats().hits_disk, 0);
}

TEST_F(CompileServiceTest, WithoutWorkersTheProcessCompilesItselfAndFillsTheCache) {
  const TestTape tape(3);
  {
    auto service = MakeService(0);
    ExpectReady(*Submit(*service, tape));
    ASSERT_TRUE(service->WaitIdle(60));
    EXPECT_EQ(service->stats().compiles, 1);
    EXPECT_EQ(service->stats().workers_started, 0);
  }
  auto service = MakeService(0);
  ExpectReady(*Submit(*service, tape));
  EXPECT_EQ(service->stats().hits_disk, 1);
}

TEST_F(CompileServiceTest, AnUnusableCacheFolderOnlyCostsTheCache) {
  CompileServiceOptions options;
  options.client = TestClient();
  options.worker_path = TestWorker();
  options.cache_dir = "/proc/no/such/folder";
  auto service = std::move(CompileService::Create(options)).value();
  const TestTape tape(3);
  ExpectReady(*Submit(*service, tape));
}

TEST_F(CompileServiceTest, DestructionIsQuickAndFailsWhatIsUnfinished) {
  auto service = MakeService();
  std::vector<std::shared_ptr<CompileJob>> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Submit(*service, TestTape(1500 + i)));
  while (service->stats().running == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double begin = NowSeconds();
  service.reset();
  EXPECT_LT(NowSeconds() - begin, 2.0);
  for (const auto& job : jobs) {
    job->Wait();
    EXPECT_EQ(job->error().code(), Code::kCancelled);
  }
}

}  // namespace
}  // namespace dendrite::compiler
