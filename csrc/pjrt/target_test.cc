#include "csrc/pjrt/target.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "csrc/testing/temp_folder.h"

namespace dendrite::pjrt {
namespace {

using testing::ScopedEnv;
using testing::TempFolder;
using testing::WriteFile;

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class TargetTest : public ::testing::Test {
 protected:
  TargetTest() {
    WriteFile(folder_.File("cpu.so"), "");
    WriteFile(folder_.File("neuron.so"), "");
    WriteFile(folder_.File("other.so"), "");
    known_.embedded = folder_.File("cpu.so");
    known_.trainium = folder_.File("neuron.so");
  }

  // "name path-in-the-folder", or the error.
  std::string Choose() {
    auto choice = ChooseTarget(known_);
    if (!choice.ok()) return choice.status().ToString();
    return choice->name + " " + std::filesystem::path(choice->plugin_path).filename().string();
  }

  // The fake plugin under a path of its own, so that its table is made anew.
  std::string FreshFake() {
    const std::string copy = folder_.File("fake.so");
    std::filesystem::copy_file(Env("DENDRITE_TEST_FAKE_PLUGIN"), copy);
    return copy;
  }

  TempFolder folder_;
  KnownPlugins known_;
  // Whatever the developer has set must not decide.
  ScopedEnv target_{"DENDRITE_TARGET", std::nullopt};
  ScopedEnv opaque_{"DENDRITE_OPAQUE", std::nullopt};
  ScopedEnv plugin_{"DENDRITE_PJRT_PLUGIN", std::nullopt};
  ScopedEnv neuron_{"NEURON_PJRT_PLUGIN", std::nullopt};
};

TEST_F(TargetTest, EmbeddedIsTheDefaultWithoutAnAccelerator) {
  EXPECT_EQ(Choose(), "embedded cpu.so");
  known_.neuron_device = true;
  EXPECT_EQ(Choose(), "trainium neuron.so");
  known_.trainium.clear();
  EXPECT_EQ(Choose(), "embedded cpu.so");
}

TEST_F(TargetTest, OpaqueIsShortForTheTargetAndAnExplicitTargetWins) {
  ScopedEnv opaque("DENDRITE_OPAQUE", "1");
  EXPECT_EQ(Choose(), "opaque cpu.so");
  {
    ScopedEnv target("DENDRITE_TARGET", "embedded");
    EXPECT_EQ(Choose(), "embedded cpu.so");
  }
  ScopedEnv target("DENDRITE_TARGET", "auto");
  EXPECT_EQ(Choose(), "opaque cpu.so");
  ScopedEnv off("DENDRITE_OPAQUE", "0");
  EXPECT_EQ(Choose(), "embedded cpu.so");
}

TEST_F(TargetTest, PluginByPathKeepsTheExplicitRowOrWaitsForThePlatform) {
  ScopedEnv plugin("DENDRITE_PJRT_PLUGIN", folder_.File("other.so"));
  EXPECT_EQ(Choose(), " other.so");
  ScopedEnv target("DENDRITE_TARGET", "opaque");
  EXPECT_EQ(Choose(), "opaque other.so");
}

TEST_F(TargetTest, NeuronPluginVariableOverridesThePackage) {
  ScopedEnv target("DENDRITE_TARGET", "trainium");
  EXPECT_EQ(Choose(), "trainium neuron.so");
  ScopedEnv neuron("NEURON_PJRT_PLUGIN", folder_.File("other.so"));
  EXPECT_EQ(Choose(), "trainium other.so");
}

TEST_F(TargetTest, ErrorsSayWhatIsMissingAndWhatToDo) {
  known_ = {};
  EXPECT_EQ(Choose(),
            "NOT_FOUND: target embedded needs XLA's CPU plugin: install the package "
            "fastatomstruct-xla-cpu, or set DENDRITE_PJRT_PLUGIN to the path of a PJRT plugin");
  {
    ScopedEnv target("DENDRITE_TARGET", "trainium");
    EXPECT_EQ(Choose(),
              "NOT_FOUND: target trainium needs AWS's PJRT plugin: install the package "
              "libneuronxla, or set NEURON_PJRT_PLUGIN or DENDRITE_PJRT_PLUGIN to the path of "
              "libneuronpjrt.so");
    ScopedEnv neuron("NEURON_PJRT_PLUGIN", "/nowhere/n.so");
    EXPECT_EQ(Choose(), "NOT_FOUND: NEURON_PJRT_PLUGIN: /nowhere/n.so: no such file");
  }
  ScopedEnv plugin("DENDRITE_PJRT_PLUGIN", "/nowhere/p.so");
  EXPECT_EQ(Choose(), "NOT_FOUND: DENDRITE_PJRT_PLUGIN: /nowhere/p.so: no such file");
  ScopedEnv target("DENDRITE_TARGET", "gpu");
  EXPECT_NE(Choose().find("DENDRITE_TARGET"), std::string::npos);
}

TEST_F(TargetTest, RowsAreFoundByNameAndPlatform) {
  EXPECT_EQ(TargetForPlatform("cpu").name, "embedded");
  EXPECT_EQ(TargetForPlatform("neuron").name, "trainium");
  EXPECT_EQ(TargetForPlatform("cuda").name, "generic");
  EXPECT_EQ(TargetForPlatform("").name, "generic");
  ASSERT_NE(FindTarget("opaque"), nullptr);
  EXPECT_FALSE(FindTarget("opaque")->host_visible);
  EXPECT_FALSE(FindTarget("opaque")->kernels_by_name);
  EXPECT_TRUE(FindTarget("opaque")->has_f64);
  EXPECT_NE(FindTarget("trainium")->note.find("never run on hardware"), std::string::npos);
  EXPECT_EQ(FindTarget("auto"), nullptr);
}

TEST_F(TargetTest, EmbeddedTargetOpensWithItsTraits) {
  auto target = OpenTarget({"embedded", Env("DENDRITE_TEST_PLUGIN")}, /*num_devices=*/2);
  ASSERT_TRUE(target.ok()) << target.status().ToString();
  EXPECT_EQ(target->client->info().num_devices, 2);
  EXPECT_TRUE(target->traits.host_visible);
  EXPECT_TRUE(target->traits.serialization);
  EXPECT_TRUE(target->traits.kernels_by_name);
}

TEST_F(TargetTest, PlatformDecidesForAPluginByPath) {
  auto cpu = OpenTarget({"", Env("DENDRITE_TEST_PLUGIN")});
  ASSERT_TRUE(cpu.ok()) << cpu.status().ToString();
  EXPECT_EQ(cpu->traits.name, "embedded");
  auto fake = OpenTarget({"", Env("DENDRITE_TEST_FAKE_PLUGIN")});
  ASSERT_TRUE(fake.ok()) << fake.status().ToString();
  EXPECT_EQ(fake->traits.name, "generic");
  EXPECT_FALSE(fake->traits.host_visible);
  EXPECT_FALSE(fake->traits.donation);
}

TEST_F(TargetTest, TraitsThatThePluginDoesNotOfferAreTakenBack) {
  ScopedEnv without("DENDRITE_FAKE_NO_SERIALIZE", "1");
  ScopedEnv platform("DENDRITE_FAKE_PLATFORM", "cpu");
  auto target = OpenTarget({"embedded", FreshFake()});
  ASSERT_TRUE(target.ok()) << target.status().ToString();
  EXPECT_FALSE(target->traits.serialization);
  EXPECT_FALSE(target->traits.kernels_by_name) << "the fake has no FFI extension";
  EXPECT_TRUE(target->traits.host_visible);
}

TEST_F(TargetTest, EmbeddedRefusesAPluginOfAnotherPlatform) {
  const std::string fake = Env("DENDRITE_TEST_FAKE_PLUGIN");
  auto target = OpenTarget({"embedded", fake});
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(target.status().message(),
            "target embedded is for plugins of platform cpu, and " + fake +
                " is for fake: unset DENDRITE_TARGET, or set it to opaque");
  EXPECT_EQ(OpenTarget({"nothing", fake}).status().code(), Code::kInvalidArgument);
}

TEST_F(TargetTest, EmbeddedRefusesAPluginWithoutPointers) {
  ScopedEnv without("DENDRITE_FAKE_WITHOUT", "PJRT_Buffer_UnsafePointer");
  ScopedEnv platform("DENDRITE_FAKE_PLATFORM", "cpu");
  auto target = OpenTarget({"embedded", FreshFake()});
  ASSERT_FALSE(target.ok());
  EXPECT_EQ(target.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(target.status().message().find("DENDRITE_TARGET=opaque"), std::string::npos);
}

}  // namespace
}  // namespace dendrite::pjrt
