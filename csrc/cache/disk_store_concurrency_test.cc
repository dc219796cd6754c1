// One cache folder used by several threads and several processes at once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "csrc/base/log.h"
#include "csrc/cache/disk_store.h"
#include "csrc/testing/temp_folder.h"

namespace dendrite::cache {
namespace {

class DiskStoreConcurrencyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = SetLogSink([](LogLevel, const std::string&) {});
  }
  void TearDown() override { SetLogSink(before_); }

  std::unique_ptr<DiskStore> Open(int64_t limit = 1 << 20) {
    auto store = DiskStore::Create(folder_.path(), limit);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return std::move(store).value();
  }
  static Key MakeKey(int i) {
    Key key("test");
    key.Add("number", i);
    return key;
  }
  // Sizes differ, so that entries of different rounds are of different lengths.
  static std::string ValueOf(int i) {
    return std::string(100 + 50 * static_cast<size_t>(i), static_cast<char>('a' + i));
  }
  // Puts and looks up until told to stop; the number of wrong answers (a miss is none).
  static int Work(DiskStore& store, int rounds, int seed) {
    int wrong = 0;
    for (int k = 0; k < rounds; ++k) {
      const int i = (k * 7 + seed) % 10;
      wrong += store.Put(MakeKey(i), ValueOf(i)).ok() ? 0 : 1;
      const auto entry = store.Lookup(MakeKey((i + 3) % 10));
      if (!entry.ok() || (entry->has_value() && (*entry)->bytes != ValueOf((i + 3) % 10))) ++wrong;
    }
    return wrong;
  }
  // Exit codes of `count` forked children that run `body`.
  static std::vector<int> InProcesses(int count, const std::function<int(int)>& body) {
    std::vector<pid_t> pids;
    for (int i = 0; i < count; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) ::_exit(body(i));
      pids.push_back(pid);
    }
    std::vector<int> codes;
    for (const pid_t pid : pids) {
      int status = -1;
      ::waitpid(pid, &status, 0);
      codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    return codes;
  }

  testing::TempFolder folder_;
  LogSink before_;
};

TEST_F(DiskStoreConcurrencyTest, ProcessesNeverSeeHalfAnEntry) {
  const auto codes = InProcesses(3, [this](int seed) {
    auto store = Open();
    const int wrong = Work(*store, 60, seed);
    return wrong + static_cast<int>(store->stats().corrupt_entries);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0}));
  auto store = Open();
  for (int i = 0; i < 10; ++i) {
    const auto entry = store->Lookup(MakeKey(i));
    ASSERT_TRUE(entry.ok() && *entry) << i;
    EXPECT_EQ((*entry)->bytes, ValueOf(i));
  }
}

TEST_F(DiskStoreConcurrencyTest, EvictionUnderThreadsAndProcessesOnlyCausesMisses) {
  constexpr int64_t kSmall = 2500;  // holds some of the ten entries
  const auto codes = InProcesses(2, [this](int seed) {
    auto store = Open(kSmall);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] { wrong += Work(*store, 40, 3 * seed + t); });
    }
    for (auto& thread : threads) thread.join();
    const StoreStats stats = store->stats();
    return wrong + static_cast<int>(stats.corrupt_entries) + (stats.evictions > 0 ? 0 : 1);
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0}));
}

TEST_F(DiskStoreConcurrencyTest, ThreadsOfOneStoreCountEverything) {
  auto store = Open();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) threads.emplace_back([&, t] { wrong += Work(*store, 50, t); });
  for (int i = 0; i < 50; ++i) (void)store->stats();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const StoreStats stats = store->stats();
  EXPECT_EQ(stats.puts, 200);
  EXPECT_EQ(stats.hits + stats.misses, 200);
  EXPECT_EQ(stats.corrupt_entries, 0);
}

// The protocol of disk_store.h: take the lock, look again, work, put, release.
TEST_F(DiskStoreConcurrencyTest, ALockPerKeyDoesAPieceOfWorkOnce) {
  const std::string log = folder_.File("work");
  const auto codes = InProcesses(4, [&](int) {
    auto store = Open();
    for (int i = 0; i < 5;) {
      const auto known = store->Lookup(MakeKey(i));
      if (!known.ok()) return 1;
      if (known->has_value()) {
        ++i;
        continue;
      }
      auto lock = store->TryLock(MakeKey(i));
      if (!lock.ok()) return 2;
      if (!*lock) {
        ::usleep(500);
        continue;
      }
      const auto again = store->Lookup(MakeKey(i));
      if (again.ok() && again->has_value()) continue;
      std::ofstream(log, std::ios::app) << i << '\n';
      ::usleep(2000);  // work
      if (!store->Put(MakeKey(i), ValueOf(i)).ok()) return 3;
    }
    return 0;
  });
  EXPECT_EQ(codes, (std::vector<int>{0, 0, 0, 0}));
  EXPECT_EQ(testing::ReadFile(log), "0\n1\n2\n3\n4\n");
}

TEST_F(DiskStoreConcurrencyTest, AHolderThatDiesLeavesItsLockToTheNext) {
  auto store = Open();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto lock = store->TryLock(MakeKey(0));
    const char ok = lock.ok() && *lock ? 'y' : 'n';
    [[maybe_unused]] const ssize_t n = ::write(ready[1], &ok, 1);
    ::pause();
    ::_exit(0);
  }
  char got = 0;
  ASSERT_EQ(::read(ready[0], &got, 1), 1);
  ASSERT_EQ(got, 'y');
  std::atomic<bool> taken{false};
  std::thread waiting([&] {
    for (;;) {
      auto lock = store->TryLock(MakeKey(0));
      if (lock.ok() && *lock) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    taken = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(taken);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  waiting.join();
  EXPECT_TRUE(taken);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace dendrite::cache
