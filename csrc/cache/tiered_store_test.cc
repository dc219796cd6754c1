#include "csrc/cache/tiered_store.h"

#include <gtest/gtest.h>

#include "csrc/base/log.h"
#include "csrc/cache/memory_store.h"

namespace dendrite::cache {
namespace {

class BrokenStore final : public Store {
 public:
  const char* name() const override { return "broken"; }
  Result<std::optional<Entry>> Lookup(const Key&) override { return Unavailable("down"); }
  Status Put(const Key&, std::string_view) override { return Unavailable("down"); }
  Status Discard(const Key&) override { return Unavailable("down"); }
  StoreStats stats() const override { return {}; }
};

TEST(TieredStoreTest, AHitFartherAwayIsCopiedNearer) {
  const auto near = std::make_shared<MemoryStore>(1000);
  const auto far = std::make_shared<MemoryStore>(1000);
  const Key key("test");
  ASSERT_TRUE(far->Put(key, "x").ok());
  TieredStore store({near, far});
  EXPECT_TRUE(store.Lookup(key)->has_value());
  EXPECT_TRUE(near->Lookup(key)->has_value());
}

TEST(TieredStoreTest, ABrokenLevelIsReportedAndSkipped) {
  int warnings = 0;
  LogSink before = SetLogSink([&](LogLevel, const std::string&) { ++warnings; });
  const auto good = std::make_shared<MemoryStore>(1000);
  TieredStore store({std::make_shared<BrokenStore>(), good});
  const Key key("test");
  EXPECT_TRUE(store.Put(key, "x").ok());
  const auto entry = store.Lookup(key);
  SetLogSink(before);
  ASSERT_TRUE(entry.ok());
  ASSERT_TRUE(entry->has_value());
  EXPECT_EQ((*entry)->bytes, "x");
  EXPECT_GE(warnings, 2);
}

}  // namespace
}  // namespace dendrite::cache
