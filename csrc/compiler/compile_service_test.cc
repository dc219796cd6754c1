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
  // What the job made; a failed one fails the test and gives an empty snippet.
  static std::shared_ptr<const LoadedSnippet> ExpectReady(CompileJob& job) {
    job.Wait();
    if (job.state() != CompileJob::State::kReady) {
      ADD_FAILURE() << job.error().ToString();
      return std::make_shared<LoadedSnippet>();
    }
    EXPECT_TRUE(job.loaded()->executable.defined());
    EXPECT_FALSE(job.loaded()->snippet.outs.empty());
    return job.loaded();
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

TEST(CompileServiceOptionsTest, ComeFromTheEnvironment) {
  testing::ScopedEnv dir("DENDRITE_CACHE_DIR", "/some/folder");
  testing::ScopedEnv limit("DENDRITE_CACHE_DISK_LIMIT", "1M");
  {
    testing::ScopedEnv workers("DENDRITE_COMPILE_WORKERS", "0");
    const auto options = CompileServiceOptionsFromConfig();
    ASSERT_TRUE(options.ok()) << options.status().ToString();
    EXPECT_EQ(options->num_workers, 0);
    EXPECT_EQ(options->cache_dir, "/some/folder");
    EXPECT_EQ(options->disk_limit_bytes, 1 << 20);
  }
  testing::ScopedEnv automatic("DENDRITE_COMPILE_WORKERS", std::nullopt);
  EXPECT_GE(CompileServiceOptionsFromConfig()->num_workers, 1);
  testing::ScopedEnv bad("DENDRITE_COMPILE_WORKERS", "many");
  EXPECT_EQ(CompileServiceOptionsFromConfig().status().code(), Code::kInvalidArgument);
}

TEST_F(CompileServiceTest, EqualTapesAreOneJobAndOneCompile) {
  auto service = MakeService();
  const TestTape tape(3), equal(3);
  const auto first = Submit(*service, tape);
  const auto second = Submit(*service, equal);
  EXPECT_EQ(first, second);
  const auto loaded = ExpectReady(*first);
  EXPECT_EQ(Submit(*service, equal), first);
  ASSERT_TRUE(service->WaitIdle(60));
  const CompileStats stats = service->stats();
  EXPECT_EQ(stats.compiles, 1);
  EXPECT_EQ(stats.misses, 1);
  EXPECT_GE(stats.hits_memory, 1);
  EXPECT_EQ(stats.workers_started, 1);
  EXPECT_EQ(stats.queued, 0);
  EXPECT_GT(loaded->compile_seconds, 0);
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
    const auto loaded = ExpectReady(*job);
    key = loaded->key;
    args = loaded->snippet.args.size();
    ASSERT_TRUE(service->WaitIdle(60));
  }
  auto service = MakeService();
  const auto job = Submit(*service, tape);
  const auto loaded = ExpectReady(*job);
  EXPECT_EQ(loaded->key, key);
  EXPECT_EQ(loaded->snippet.args.size(), args);
  EXPECT_TRUE(loaded->snippet.stablehlo.empty()) << "it was lowered again";
  EXPECT_EQ(loaded->compile_seconds, 0);
  const CompileStats stats = service->stats();
  EXPECT_EQ(stats.hits_disk, 1);
  EXPECT_EQ(stats.compiles, 0);
  EXPECT_EQ(stats.misses, 0);
  EXPECT_EQ(stats.workers_started, 0);
}

// Runs a snippet of TestTape whose input is all `x`; the last storage's first element.
float RunSnippet(const LoadedSnippet& loaded, size_t num_storages, float x) {
  constexpr int kElements = 8;
  struct alignas(64) Memory {
    float values[16] = {};
  };
  std::vector<Memory> storages(num_storages);
  for (float& value : storages[0].values) value = x;
  std::vector<pjrt::Buffer> buffers, outputs;
  std::vector<pjrt::Buffer*> args;
  for (const lowering::SnippetArg& arg : loaded.snippet.args) {
    auto buffer =
        TestClient()->FromHost(storages[static_cast<size_t>(arg.storage)].values,
                               pjrt::ElementTypeFromDType(static_cast<uint8_t>(arg.dtype)),
                               arg.dims, pjrt::HostBuffer::kMutableZeroCopy);
    EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
    buffers.push_back(std::move(buffer).value());
  }
  for (pjrt::Buffer& buffer : buffers) args.push_back(&buffer);
  auto event = loaded.executable.Execute(args, &outputs);
  EXPECT_TRUE(event.ok()) << event.status().ToString();
  EXPECT_TRUE(event->Await().ok());
  float result[kElements] = {};
  EXPECT_TRUE(outputs.at(0).ToHost(result, sizeof(result)).ok());
  return result[0];
}

TEST_F(CompileServiceTest, APrefetchLoadsWhatTheDiskHasAndCompilesNothing) {
  const TestTape tape(3), absent(4);
  {
    auto service = MakeService();
    ExpectReady(*Submit(*service, tape));
    ASSERT_TRUE(service->WaitIdle(60));
  }
  auto service = MakeService();
  for (const TestTape* wish : {&tape, &absent}) {
    lowering::SnippetOptions options;
    options.live = wish->Live();
    service->Prefetch(wish->get(), std::move(options), "test");
  }
  ASSERT_TRUE(service->WaitIdle(60));
  EXPECT_EQ(service->stats().hits_disk, 1);
  EXPECT_TRUE(Submit(*service, tape)->done());
  EXPECT_EQ(service->stats().compiles, 0);
  EXPECT_EQ(service->stats().failures, 0);
  EXPECT_EQ(service->stats().workers_started, 0);
  // The miss left nothing behind.
  ExpectReady(*Submit(*service, absent));
  EXPECT_EQ(service->stats().compiles, 1);
}

TEST_F(CompileServiceTest, PrefetchesEndWhereNothingIsEverFound) {
  const TestTape known(3);
  {
    auto service = MakeService();
    ExpectReady(*Submit(*service, known));
    ASSERT_TRUE(service->WaitIdle(60));
  }
  auto service = MakeService();
  const auto prefetch = [&](const TestTape& tape) {
    lowering::SnippetOptions options;
    options.live = tape.Live();
    service->Prefetch(tape.get(), std::move(options), "test");
    ASSERT_TRUE(service->WaitIdle(60));
  };
  for (int records = 5; records < 5 + 63; ++records) prefetch(TestTape(records));
  EXPECT_TRUE(service->WantsPrefetch());
  prefetch(known);
  for (int records = 80; records < 80 + 63; ++records) prefetch(TestTape(records));
  EXPECT_TRUE(service->WantsPrefetch()) << "a hit in between";
  prefetch(TestTape(150));
  EXPECT_FALSE(service->WantsPrefetch());
}

TEST_F(CompileServiceTest, CompiledAndCachedSnippetsCompute) {
  const TestTape tape(2);  // x * x * x
  for (int i = 0; i < 2; ++i) {
    auto service = MakeService();
    EXPECT_EQ(RunSnippet(*ExpectReady(*Submit(*service, tape)), 3, 2), 8);
    EXPECT_TRUE(service->WaitIdle(60));
    EXPECT_EQ(service->stats().compiles, i == 0 ? 1 : 0);
  }
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
  {
    auto service = MakeService();
    const auto job = Submit(*service, tape);
    ExpectReady(*job);
    EXPECT_TRUE(service->WaitIdle(60));
  }
  ASSERT_EQ(Entries("neff").size(), 1u);
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

// A copy of the fake plugin, so that its settings are read anew: a library is loaded once per path.
std::shared_ptr<pjrt::Client> FakeClient(const testing::TempFolder& folder) {
  const std::string copy = folder.File("fake.so");
  std::filesystem::copy_file(FromTestEnvironment("DENDRITE_TEST_FAKE_PLUGIN"), copy);
  auto client = pjrt::Client::Create(copy);
  EXPECT_TRUE(client.ok()) << client.status().ToString();
  return *client;
}

TEST_F(CompileServiceTest, APluginThatCannotSerialiseCompilesInThisProcess) {
  testing::TempFolder plugin;
  testing::ScopedEnv setting("DENDRITE_FAKE_NO_SERIALIZE", "1");
  CompileServiceOptions options;
  options.client = FakeClient(plugin);
  options.worker_path = TestWorker();
  options.cache_dir = folder_.path();
  auto service = std::move(CompileService::Create(options)).value();
  ExpectReady(*Submit(*service, TestTape(2)));
  ExpectReady(*Submit(*service, TestTape(3)));
  ASSERT_TRUE(service->WaitIdle(60));
  EXPECT_EQ(service->stats().compiles, 2);
  EXPECT_EQ(service->stats().workers_started, 1) << "one try is enough to know";
  EXPECT_TRUE(Entries("neff").empty());
}

std::vector<pid_t> Children() {
  std::vector<pid_t> pids;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "children");
    for (pid_t pid; file >> pid;) pids.push_back(pid);
  }
  return pids;
}

TEST_F(CompileServiceTest, AWorkerKilledWhileCompilingIsRetried) {
  testing::TempFolder plugin;
  testing::ScopedEnv delay("DENDRITE_FAKE_COMPILE_DELAY_MS", "500");
  CompileServiceOptions options;
  options.client = FakeClient(plugin);
  options.worker_path = TestWorker();
  auto service = std::move(CompileService::Create(options)).value();
  const auto job = Submit(*service, TestTape(2));
  while (Children().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (const pid_t pid : Children()) ::kill(pid, SIGKILL);
  ExpectReady(*job);
  EXPECT_EQ(service->stats().workers_started, 2);
  EXPECT_EQ(service->stats().failures, 0);
}

TEST_F(CompileServiceTest, WorkersCompileInParallel) {
  testing::TempFolder plugin;
  testing::ScopedEnv delay("DENDRITE_FAKE_COMPILE_DELAY_MS", "600");
  CompileServiceOptions options;
  options.client = FakeClient(plugin);
  options.worker_path = TestWorker();
  options.num_workers = 3;
  auto service = std::move(CompileService::Create(options)).value();
  std::vector<std::shared_ptr<CompileJob>> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(Submit(*service, TestTape(2 + i)));
  for (const auto& job : jobs) ExpectReady(*job);
  double first_end = 1e300, last_begin = 0;
  for (const CompileEvent& event : service->TakeEvents()) {
    first_end = std::min(first_end, event.end);
    last_begin = std::max(last_begin, event.begin);
  }
  EXPECT_LT(last_begin, first_end);
  EXPECT_EQ(service->stats().workers_started, 3);
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
