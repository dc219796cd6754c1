#include "csrc/compiler/worker_pool.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <thread>

#include "csrc/base/clock.h"
#include "csrc/compiler/compile_test_util.h"

namespace dendrite::compiler {
namespace {

// Long enough to be caught at work on any machine.
constexpr int kSlowChain = 1500;

class WorkerPoolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (TestWorker().empty()) GTEST_SKIP() << "DENDRITE_TEST_WORKER is unset; ctest sets it";
  }
  static std::future<WorkerResult> Submit(WorkerPool& pool, WorkerJob job, double priority = 0) {
    auto promise = std::make_shared<std::promise<WorkerResult>>();
    pool.Submit(std::move(job), priority,
                [promise](WorkerResult result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }
  // The pid of a worker that has been at a job for a moment; -1 after a minute without one.
  static pid_t WaitForWorkerAtWork(const WorkerPool& pool, pid_t other_than = 0) {
    for (const double deadline = NowSeconds() + 60; NowSeconds() < deadline;) {
      const auto pids = pool.pids();
      if (!pids.empty() && pids[0] != other_than) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return pids[0];
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << "no worker started";
    return -1;
  }
  static void Kill(pid_t pid) {
    ASSERT_GT(pid, 0);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
  }
};

TEST_F(WorkerPoolTest, CompilesWhatThisProcessCanLoad) {
  WorkerPool pool(TestWorker(), TestPlugin(), 1);
  EXPECT_EQ(pool.workers_started(), 0) << "workers start with the first job";
  const WorkerResult result = Submit(pool, {AddChain(3), "", {}}).get();
  ASSERT_TRUE(result.answer.status.ok()) << result.answer.status.ToString();
  EXPECT_GT(result.answer.seconds, 0);
  EXPECT_TRUE(TestClient()->Deserialize(result.answer.executable).ok());
  EXPECT_TRUE(Submit(pool, {AddChain(4), "", {}}).get().answer.status.ok());
  EXPECT_EQ(pool.workers_started(), 1);
}

TEST_F(WorkerPoolTest, CompileErrorsComeBackAndTheWorkerLivesOn) {
  WorkerPool pool(TestWorker(), TestPlugin(), 1);
  const WorkerResult bad = Submit(pool, {"module @m { nonsense }", "", {}}).get();
  EXPECT_FALSE(bad.answer.status.ok());
  EXPECT_FALSE(bad.answer.status.message().empty());
  EXPECT_TRUE(Submit(pool, {AddChain(3), "", {}}).get().answer.status.ok());
  EXPECT_EQ(pool.workers_started(), 1);
}

TEST_F(WorkerPoolTest, KernelsByNameCompileAgainstStubs) {
  WorkerPool pool(TestWorker(), TestPlugin(), 1);
  const std::string module =
      "module @m { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
      "  %0 = stablehlo.custom_call @dendrite_test_kernel(%a) {api_version = 4 : i32} : "
      "(tensor<4xf32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n} }\n";
  EXPECT_FALSE(Submit(pool, {module, "", {}}).get().answer.status.ok());
  for (int i = 0; i < 2; ++i) {  // registered once, used twice
    const WorkerResult result = Submit(pool, {module, "", {"dendrite_test_kernel"}}).get();
    EXPECT_TRUE(result.answer.status.ok()) << result.answer.status.ToString();
  }
}

TEST_F(WorkerPoolTest, AWorkerKilledAtWorkIsReplacedAndItsJobRunsAgain) {
  WorkerPool pool(TestWorker(), TestPlugin(), 1);
  auto result = Submit(pool, {AddChain(kSlowChain), "", {}});
  Kill(WaitForWorkerAtWork(pool));
  EXPECT_TRUE(result.get().answer.status.ok());
  EXPECT_EQ(pool.workers_started(), 2);
}

TEST_F(WorkerPoolTest, TwoDeathsFailTheJobAndTheNextOneWorks) {
  WorkerPool pool(TestWorker(), TestPlugin(), 1);
  auto result = Submit(pool, {AddChain(kSlowChain), "", {}});
  const pid_t first = WaitForWorkerAtWork(pool);
  Kill(first);
  Kill(WaitForWorkerAtWork(pool, first));
  const Status status = result.get().answer.status;
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("compiler crashed"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("signal 9"), std::string::npos) << status.message();
  EXPECT_TRUE(Submit(pool, {AddChain(3), "", {}}).get().answer.status.ok());
}

TEST_F(WorkerPoolTest, HigherPriorityGoesFirst) {
  WorkerPool pool(TestWorker(), TestPlugin(), 1);
  // First in the queue whenever the worker looks, and long enough for the others to be there after
  // it.
  auto blocker = Submit(pool, {AddChain(kSlowChain), "", {}}, 9);
  auto low = Submit(pool, {AddChain(5), "", {}}, 1);
  auto high = Submit(pool, {AddChain(6), "", {}}, 2);
  EXPECT_LT(high.get().end, low.get().begin + 1e-9);
  EXPECT_TRUE(blocker.get().answer.status.ok());
}

TEST_F(WorkerPoolTest, DestructionKillsAndCancelsQuickly) {
  auto pool = std::make_unique<WorkerPool>(TestWorker(), TestPlugin(), 1);
  auto running = Submit(*pool, {AddChain(kSlowChain), "", {}});
  auto waiting = Submit(*pool, {AddChain(4), "", {}});
  const pid_t pid = WaitForWorkerAtWork(*pool);
  const double begin = NowSeconds();
  pool.reset();
  EXPECT_LT(NowSeconds() - begin, 1.0);
  EXPECT_EQ(running.get().answer.status.code(), Code::kCancelled);
  EXPECT_EQ(waiting.get().answer.status.code(), Code::kCancelled);
  EXPECT_NE(::kill(pid, 0), 0) << "the worker outlived its pool";
}

TEST_F(WorkerPoolTest, AMissingProgramAndAPluginThatDoesNotLoadAreClearErrors) {
  WorkerPool missing("/no/such/worker", TestPlugin(), 1);
  const Status no_worker = Submit(missing, {AddChain(3), "", {}}).get().answer.status;
  EXPECT_NE(no_worker.message().find("/no/such/worker"), std::string::npos) << no_worker.ToString();
  WorkerPool bad(TestWorker(), "/no/such/plugin.so", 1);
  const Status no_plugin = Submit(bad, {AddChain(3), "", {}}).get().answer.status;
  EXPECT_NE(no_plugin.message().find("/no/such/plugin.so"), std::string::npos)
      << no_plugin.ToString();
}

}  // namespace
}  // namespace dendrite::compiler
