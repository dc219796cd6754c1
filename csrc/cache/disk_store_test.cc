#include "csrc/cache/disk_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "csrc/base/log.h"
#include "csrc/cache/entry_format.h"
#include "csrc/cache/fault_file_system_test_util.h"

namespace dendrite::cache {
namespace {

class DiskStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/dendrite_disk_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    before_ = SetLogSink([this](LogLevel, const std::string& text) { log_ += text + "\n"; });
    Reopen();
    key_.Add("name", "k");
  }
  void TearDown() override {
    SetLogSink(before_);
    std::filesystem::remove_all(folder_);
  }
  void Reopen() {
    auto store = DiskStore::Create(folder_, 1 << 20, &fs_);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = std::move(store).value();
  }
  void Overwrite(const std::string& bytes) {
    std::ofstream(store_->PathOf(key_), std::ios::binary) << bytes;
  }
  bool Hits() {
    const auto entry = store_->Lookup(key_);
    EXPECT_TRUE(entry.ok()) << entry.status().ToString();
    return entry.ok() && entry->has_value();
  }
  // REQUIRES: what is on disk is bad.
  void ExpectCountedMissAndRemoved() {
    const int64_t before = store_->stats().corrupt_entries;
    EXPECT_FALSE(Hits());
    EXPECT_EQ(store_->stats().corrupt_entries, before + 1);
    EXPECT_FALSE(std::filesystem::exists(store_->PathOf(key_)));
    EXPECT_NE(log_.find("is removed"), std::string::npos);
  }

  std::string folder_, log_;
  LogSink before_;
  FaultFileSystem fs_;
  std::unique_ptr<DiskStore> store_;
  Key key_{"test"};
};

TEST_F(DiskStoreTest, EntriesSurviveTheProcess) {
  ASSERT_TRUE(store_->Put(key_, "value").ok());
  Reopen();
  const auto entry = store_->Lookup(key_);
  ASSERT_TRUE(entry.ok() && *entry);
  EXPECT_EQ((*entry)->bytes, "value");
  EXPECT_EQ((*entry)->level, "disk");
}

TEST_F(DiskStoreTest, EveryTruncationIsAMiss) {
  const std::string whole = EncodeEntry(key_, "some value");
  for (size_t size = 0; size < whole.size(); ++size) {
    Overwrite(whole.substr(0, size));
    ExpectCountedMissAndRemoved();
  }
}

TEST_F(DiskStoreTest, EveryBitFlipIsAMiss) {
  const std::string whole = EncodeEntry(key_, "some value");
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bad = whole;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    Overwrite(bad);
    ExpectCountedMissAndRemoved();
  }
}

TEST_F(DiskStoreTest, BytesAfterTheEndAreAMiss) {
  Overwrite(EncodeEntry(key_, "some value") + "x");
  ExpectCountedMissAndRemoved();
}

TEST_F(DiskStoreTest, AnotherKeysEntryUnderThisNameIsAMiss) {
  Key other("test");
  other.Add("name", "other");
  Overwrite(EncodeEntry(other, "some value"));
  ExpectCountedMissAndRemoved();
  EXPECT_NE(log_.find("another key"), std::string::npos);
}

TEST_F(DiskStoreTest, ATornWriteIsAMissAndThenHeals) {
  fs_.fault = FaultFileSystem::Fault::kTornWrite;
  ASSERT_TRUE(store_->Put(key_, "value").ok());
  fs_.fault = FaultFileSystem::Fault::kNone;
  ExpectCountedMissAndRemoved();
  ASSERT_TRUE(store_->Put(key_, "value").ok());
  EXPECT_TRUE(Hits());
}

TEST_F(DiskStoreTest, AFailedPutLeavesTheOldEntryAndNoTemporaryFile) {
  ASSERT_TRUE(store_->Put(key_, "old").ok());
  for (const auto fault :
       {FaultFileSystem::Fault::kWriteFails, FaultFileSystem::Fault::kRenameFails}) {
    fs_.fault = fault;
    EXPECT_EQ(store_->Put(key_, "new").code(), Code::kUnavailable);
    fs_.fault = FaultFileSystem::Fault::kNone;
    const auto entry = store_->Lookup(key_);
    ASSERT_TRUE(entry.ok() && *entry);
    EXPECT_EQ((*entry)->bytes, "old");
    EXPECT_EQ(fs_.List(folder_ + "/entries")->size(), 1u);
  }
}

TEST_F(DiskStoreTest, AnUnreadableEntryIsAnErrorNotACorruption) {
  ASSERT_TRUE(store_->Put(key_, "value").ok());
  fs_.fault = FaultFileSystem::Fault::kReadFails;
  EXPECT_FALSE(store_->Lookup(key_).ok());
  fs_.fault = FaultFileSystem::Fault::kNone;
  EXPECT_TRUE(Hits());
  EXPECT_EQ(store_->stats().corrupt_entries, 0);
}

TEST_F(DiskStoreTest, TheFolderIsMadePrivate) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  Reopen();
  EXPECT_EQ(fs_.Stat(folder_)->mode, 0700u);
}

TEST_F(DiskStoreTest, AnotherUsersFolderIsRefused) {
  fs_.foreign_owner = true;
  const auto store = DiskStore::Create(folder_, 1000, &fs_);
  EXPECT_EQ(store.status().code(), Code::kPermissionDenied);
  EXPECT_NE(store.status().message().find("DENDRITE_CACHE_DIR"), std::string::npos);
}

TEST_F(DiskStoreTest, LockPerKey) {
  Key other("test");
  other.Add("name", "other");
  auto lock = store_->TryLock(key_);
  ASSERT_TRUE(lock.ok() && *lock);
  auto second = store_->TryLock(key_);
  EXPECT_TRUE(second.ok() && !*second);
  auto unrelated = store_->TryLock(other);
  EXPECT_TRUE(unrelated.ok() && *unrelated);
}

TEST_F(DiskStoreTest, FolderFromEnvironment) {
  ::unsetenv("TORCH_NEURONX_NEFF_CACHE_DIR");
  ::setenv("HOME", "/home/me", 1);
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("DENDRITE_CACHE_DIR");
  EXPECT_EQ(*CacheFolderFromEnvironment(), "/home/me/.cache/dendrite");
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(*CacheFolderFromEnvironment(), "/xdg/dendrite");
  ::setenv("DENDRITE_CACHE_DIR", "/mine", 1);
  EXPECT_EQ(*CacheFolderFromEnvironment(), "/mine");
  ::setenv("DENDRITE_CACHE_DIR", "off", 1);
  EXPECT_EQ(*CacheFolderFromEnvironment(), "");
  ::unsetenv("DENDRITE_CACHE_DIR");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(CacheFolderFromEnvironment().status().code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace dendrite::cache
