#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "csrc/testing/manual_clock.h"
#include "csrc/testing/temp_folder.h"

namespace dendrite::testing {
namespace {

TEST(TempFolderTest, IsGoneWithItsScope) {
  std::string path;
  {
    TempFolder folder;
    path = folder.path();
    WriteFile(folder.File("a"), std::string("b\0c", 3));
    EXPECT_EQ(ReadFile(folder.File("a")), std::string("b\0c", 3));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ScopedEnvTest, PutsTheOldValueBack) {
  ScopedEnv outer("DENDRITE_TEST_SCOPED", "1");
  {
    ScopedEnv inner("DENDRITE_TEST_SCOPED", std::nullopt);
    EXPECT_EQ(std::getenv("DENDRITE_TEST_SCOPED"), nullptr);
  }
  EXPECT_STREQ(std::getenv("DENDRITE_TEST_SCOPED"), "1");
}

TEST(ManualClockTest, MovesOnlyWhenTurned) {
  ManualClock clock;
  const double before = clock.NowSeconds();
  EXPECT_EQ(clock.NowSeconds(), before);
  clock.AdvanceSeconds(2.5);
  EXPECT_DOUBLE_EQ(clock.NowSeconds() - before, 2.5);
}

}  // namespace
}  // namespace dendrite::testing
