// Conformance suite of Store, run on each implementation.
#include "csrc/cache/store.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "csrc/cache/disk_store.h"
#include "csrc/cache/memory_store.h"
#include "csrc/cache/tiered_store.h"

namespace dendrite::cache {
namespace {

constexpr int64_t kLimit = 100'000;

struct Implementation {
  const char* name;
  std::function<std::shared_ptr<Store>(const std::string& folder)> make;
};

std::shared_ptr<Store> MakeDisk(const std::string& folder) {
  return std::shared_ptr<Store>(std::move(DiskStore::Create(folder, kLimit)).value());
}

class StoreTest : public ::testing::TestWithParam<Implementation> {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/dendrite_store_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    store_ = GetParam().make(folder_);
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  static Key MakeKey(std::string_view name) {
    Key key("test");
    key.Add("name", name);
    return key;
  }
  // The bytes under `name`, or "(miss)".
  std::string Get(std::string_view name) {
    auto entry = store_->Lookup(MakeKey(name));
    EXPECT_TRUE(entry.ok()) << entry.status().ToString();
    return entry.ok() && *entry ? (*entry)->bytes : "(miss)";
  }
  void Put(std::string_view name, std::string_view bytes) {
    const Status status = store_->Put(MakeKey(name), bytes);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  std::string folder_;
  std::shared_ptr<Store> store_;
};

TEST_P(StoreTest, MissThenHit) {
  EXPECT_EQ(Get("a"), "(miss)");
  Put("a", "value");
  EXPECT_EQ(Get("a"), "value");
  EXPECT_EQ(Get("b"), "(miss)");
  EXPECT_GE(store_->stats().hits, 1);
  EXPECT_GE(store_->stats().misses, 2);
}

TEST_P(StoreTest, AnyBytesSurvive) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  Put("all", all);
  Put("empty", "");
  EXPECT_EQ(Get("all"), all);
  EXPECT_EQ(Get("empty"), "");
}

TEST_P(StoreTest, PutReplaces) {
  Put("a", "first");
  Put("a", "second");
  EXPECT_EQ(Get("a"), "second");
}

TEST_P(StoreTest, DiscardedEntryIsAMissAndCounted) {
  Put("a", "value");
  EXPECT_TRUE(store_->Discard(MakeKey("a")).ok());
  EXPECT_EQ(Get("a"), "(miss)");
  EXPECT_GE(store_->stats().corrupt_entries, 1);
  EXPECT_TRUE(store_->Discard(MakeKey("never there")).ok());
}

TEST_P(StoreTest, CollidingHashesDoNotMixEntries) {
  const std::string hex(64, 'c');
  const Key a = Key::WithHexForTest(MakeKey("a"), hex);
  const Key b = Key::WithHexForTest(MakeKey("b"), hex);
  ASSERT_TRUE(store_->Put(a, "for a").ok());
  const auto entry = store_->Lookup(b);
  ASSERT_TRUE(entry.ok());
  EXPECT_FALSE(entry->has_value());
}

TEST_P(StoreTest, AnEntryOverTheLimitIsNotKept) {
  Put("big", std::string(kLimit + 1, 'x'));
  EXPECT_EQ(Get("big"), "(miss)");
}

TEST_P(StoreTest, TheLeastRecentlyUsedGoesFirst) {
  const std::string tenth(kLimit / 10, 'x');
  Put("old", tenth);
  // Modification times must differ for the disk to order them.
  const auto tick = [] { std::this_thread::sleep_for(std::chrono::milliseconds(12)); };
  tick();
  Put("used", tenth);
  tick();
  for (int i = 0; i < 20; ++i) {
    EXPECT_NE(Get("used"), "(miss)") << i;
    Put("filler" + std::to_string(i), tenth);
    tick();
  }
  EXPECT_EQ(Get("old"), "(miss)");
  EXPECT_NE(Get("used"), "(miss)");
  EXPECT_GT(store_->stats().evictions, 0);
}

TEST_P(StoreTest, ThreadsMayShareIt) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 10; ++i) {
        const std::string name = std::to_string((i + t) % 5);
        Put(name, "value of " + name);
        const std::string got = Get(name);
        EXPECT_EQ(got, "value of " + name);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(
    All, StoreTest,
    ::testing::Values(
        Implementation{"Memory",
                       [](const std::string&) { return std::make_shared<MemoryStore>(kLimit); }},
        Implementation{"Disk", MakeDisk},
        Implementation{"Tiered",
                       [](const std::string& folder) {
                         return std::make_shared<TieredStore>(std::vector<std::shared_ptr<Store>>{
                             std::make_shared<MemoryStore>(kLimit), MakeDisk(folder)});
                       }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dendrite::cache
