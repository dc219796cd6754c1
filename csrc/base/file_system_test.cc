#include "csrc/base/file_system.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

namespace dendrite {
namespace {

class FileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/dendrite_fs_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }

  FileSystem& fs_ = *RealFileSystem();
  std::string dir_;
};

TEST_F(FileSystemTest, PublishedFileIsWholeAndPrivate) {
  const std::string bytes("a\0b", 3);
  ASSERT_TRUE(PublishFile(fs_, dir_, "x", bytes).ok());
  EXPECT_EQ(*fs_.ReadFile(Path("x")), bytes);
  EXPECT_EQ(fs_.Stat(Path("x"))->mode, 0600u);
  ASSERT_TRUE(PublishFile(fs_, dir_, "x", "second").ok());
  EXPECT_EQ(*fs_.ReadFile(Path("x")), "second");
  EXPECT_EQ(fs_.List(dir_)->size(), 1u) << "a temporary file was left";
}

TEST_F(FileSystemTest, ErrorsNameThePath) {
  const auto missing = fs_.ReadFile(Path("none"));
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
  EXPECT_NE(missing.status().message().find("none"), std::string::npos);
  EXPECT_FALSE(PublishFile(fs_, Path("nofolder"), "x", "y").ok());
  EXPECT_TRUE(fs_.Remove(Path("none")).ok());
}

TEST_F(FileSystemTest, FoldersAreMadePrivate) {
  ASSERT_TRUE(fs_.MakeDirectories(Path("a/b/c")).ok());
  EXPECT_EQ(fs_.Stat(Path("a/b/c"))->mode, 0700u);
  ASSERT_TRUE(fs_.MakeDirectories(Path("a/b/c")).ok());
  ASSERT_TRUE(PublishFile(fs_, dir_, "file", "x").ok());
  EXPECT_FALSE(fs_.MakeDirectories(Path("file")).ok());
}

TEST_F(FileSystemTest, LockExcludesWithinAProcess) {
  auto first = fs_.TryLock(Path("l"));
  ASSERT_TRUE(first.ok());
  ASSERT_NE(*first, nullptr);
  EXPECT_EQ(fs_.TryLock(Path("l")).value(), nullptr);
}

TEST_F(FileSystemTest, ReleasedLockLeavesNoFileAndCanBeTakenAgain) {
  for (int i = 0; i < 3; ++i) {
    auto lock = fs_.TryLock(Path("l"));
    ASSERT_TRUE(lock.ok());
    EXPECT_NE(*lock, nullptr);
  }
  EXPECT_EQ(fs_.List(dir_)->size(), 0u);
}

TEST_F(FileSystemTest, LockOfADeadProcessIsFree) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto lock = fs_.TryLock(Path("l"));
    const char ok = lock.ok() && *lock ? 'y' : 'n';
    [[maybe_unused]] const ssize_t n = ::write(ready[1], &ok, 1);
    ::pause();
    ::_exit(0);
  }
  char got = 0;
  ASSERT_EQ(::read(ready[0], &got, 1), 1);
  ASSERT_EQ(got, 'y');
  auto blocked = fs_.TryLock(Path("l"));
  EXPECT_EQ(*blocked, nullptr);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  auto taken = fs_.TryLock(Path("l"));
  ASSERT_TRUE(taken.ok());
  EXPECT_NE(*taken, nullptr);
}

}  // namespace
}  // namespace dendrite
