#include "csrc/base/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace dendrite {
namespace {

class ConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < static_cast<int>(Knob::kCount); ++i) {
      const KnobInfo& knob = GetKnobInfo(static_cast<Knob>(i));
      ::unsetenv(knob.name);
      if (knob.also) ::unsetenv(knob.also);
    }
  }
  void TearDown() override { SetUp(); }
  static void Set(const char* name, const char* value) { ::setenv(name, value, 1); }
};

TEST_F(ConfigTest, RowsStandInTheOrderOfTheEnum) {
  for (int i = 0; i < static_cast<int>(Knob::kCount); ++i) {
    EXPECT_EQ(static_cast<int>(GetKnobInfo(static_cast<Knob>(i)).id), i);
  }
}

TEST_F(ConfigTest, DefaultsAreValid) {
  EXPECT_TRUE(CheckConfig().ok()) << CheckConfig().ToString();
  EXPECT_EQ(*GetString(Knob::kMode), "eager");
  EXPECT_EQ(*GetInt(Knob::kSnippetOps), 64);
  EXPECT_EQ(*GetInt(Knob::kCacheDiskLimit), int64_t{4} << 30);
  EXPECT_EQ(*GetInt(Knob::kCompileWorkers), kAuto);
  EXPECT_TRUE(*GetBool(Knob::kKernelsByName));
}

TEST_F(ConfigTest, ValuesAreReadAtTheCall) {
  EXPECT_EQ(*GetChoice(Knob::kTier), 0);
  Set("DENDRITE_TIER", "compiled");
  EXPECT_EQ(*GetChoice(Knob::kTier), 2);
  Set("DENDRITE_CACHE_DISK_LIMIT", "3k");
  EXPECT_EQ(*GetInt(Knob::kCacheDiskLimit), 3072);
  Set("DENDRITE_OPAQUE", "yes");
  EXPECT_TRUE(*GetBool(Knob::kOpaque));
}

TEST_F(ConfigTest, AnEmptyValueIsUnset) {
  Set("DENDRITE_SNIPPET_OPS", "");
  EXPECT_FALSE(IsSet(Knob::kSnippetOps));
  EXPECT_EQ(*GetInt(Knob::kSnippetOps), 64);
}

TEST_F(ConfigTest, BadValuesSayWhatWasExpectedAndGot) {
  Set("DENDRITE_MODE", "lazy");
  EXPECT_EQ(GetChoice(Knob::kMode).status().ToString(),
            "INVALID_ARGUMENT: DENDRITE_MODE: expected one of eager, adaptive, got \"lazy\"");
  EXPECT_EQ(CheckConfig().code(), Code::kInvalidArgument);
  Set("DENDRITE_COMPILE_WORKERS", "-2");
  EXPECT_EQ(GetInt(Knob::kCompileWorkers).status().message(),
            "DENDRITE_COMPILE_WORKERS: expected an integer from 0 to 256, or auto, got \"-2\"");
  for (const char* bad : {"12x", "x", "G", "1.5G", "99999999999T"}) {
    Set("DENDRITE_CACHE_DISK_LIMIT", bad);
    EXPECT_FALSE(GetInt(Knob::kCacheDiskLimit).ok()) << bad;
  }
  Set("DENDRITE_OPAQUE", "maybe");
  EXPECT_FALSE(GetBool(Knob::kOpaque).ok());
}

TEST_F(ConfigTest, TheOtherNameCountsUnlessOursIsSet) {
  Set("TORCH_NEURONX_NEFF_CACHE_DIR", "/theirs");
  EXPECT_EQ(*GetString(Knob::kCacheDir), "/theirs");
  Set("DENDRITE_CACHE_DIR", "/ours");
  EXPECT_EQ(*GetString(Knob::kCacheDir), "/ours");
}

TEST_F(ConfigTest, PlannedKnobsAreRefused) {
  Set("DENDRITE_SHARED_CACHE", "redis://host");
  EXPECT_EQ(CheckConfig().code(), Code::kUnimplemented);
}

TEST_F(ConfigTest, MisspeltNamesAreListed) {
  Set("DENDRITE_TEIR", "0");
  const auto unknown = UnknownKnobs();
  EXPECT_EQ(std::count(unknown.begin(), unknown.end(), "DENDRITE_TEIR"), 1);
  ::unsetenv("DENDRITE_TEIR");
}

// DENDRITE_TEST_UPDATE=1 rewrites the page.
TEST_F(ConfigTest, PageIsUpToDate) {
  const char* root = std::getenv("DENDRITE_SOURCE_DIR");
  if (!root) GTEST_SKIP() << "DENDRITE_SOURCE_DIR is unset; ctest sets it";
  const std::string path = std::string(root) + "/docs/config.md";
  if (std::getenv("DENDRITE_TEST_UPDATE")) std::ofstream(path) << ConfigMarkdown();
  std::stringstream page;
  page << std::ifstream(path).rdbuf();
  EXPECT_EQ(page.str(), ConfigMarkdown()) << "regenerate with DENDRITE_TEST_UPDATE=1 ctest -R base";
}

}  // namespace
}  // namespace dendrite
