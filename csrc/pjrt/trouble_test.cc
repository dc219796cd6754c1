// What happens when a plugin is old, incomplete or fails: the fake plugin with trouble asked for,
// and the shim that counts and slows compiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "csrc/base/clock.h"
#include "csrc/base/sha256.h"
#include "csrc/pjrt/client.h"
#include "csrc/testing/temp_folder.h"

namespace dendrite::pjrt {
namespace {

using testing::ReadFile;
using testing::ScopedEnv;
using testing::TempFolder;
using testing::WriteFile;

constexpr ElementType kF32 = 11;
constexpr char kIdentity[] =
    "module @m {\n  func.func public @main(%a: tensor<4xf32>) -> (tensor<4xf32>) {\n"
    "    return %a : tensor<4xf32>\n  }\n}\n";

std::string FakePath() {
  const char* path = std::getenv("DENDRITE_TEST_FAKE_PLUGIN");
  return path == nullptr ? "" : path;
}

class PluginTroubleTest : public ::testing::Test {
 protected:
  // A plugin's table is made at load, and a library is loaded once: each test loads its own copy.
  Result<std::shared_ptr<Client>> MakeFresh(int num_devices = 0) {
    const std::string copy = folder_.File("fake" + std::to_string(copies_++) + ".so");
    std::filesystem::copy_file(FakePath(), copy);
    return Client::Create(copy, num_devices);
  }

  Result<Event> Launch(const Client& client, std::vector<Buffer>* outputs) {
    DENDRITE_ASSIGN_OR_RETURN(Executable executable, client.Compile(kIdentity));
    const float x[4] = {1, 2, 3, 4};
    DENDRITE_ASSIGN_OR_RETURN(Buffer a, client.FromHost(x, kF32, {4}, HostBuffer::kCopy));
    return executable.Execute({&a}, outputs);
  }

  TempFolder folder_;
  int copies_ = 0;
};

TEST_F(PluginTroubleTest, OldApiIsRefusedByTheCallsItLacks) {
  ScopedEnv env("DENDRITE_FAKE_TRUNCATE_AT", "PJRT_LoadedExecutable_Execute");
  auto client = MakeFresh();
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), Code::kUnimplemented);
  EXPECT_EQ(client.status().message(),
            "PJRT plugin " + folder_.File("fake0.so") +
                " (PJRT API 0.81) lacks calls that Dendrite cannot do without: "
                "PJRT_LoadedExecutable_Execute, PJRT_Buffer_Destroy, PJRT_Buffer_ToHostBuffer");
}

TEST_F(PluginTroubleTest, OldApiThatHasWhatWeNeedWorks) {
  // Cut after the required entries: pointers and statistics come later in the table.
  ScopedEnv env("DENDRITE_FAKE_TRUNCATE_AT", "PJRT_Buffer_UnsafePointer");
  auto client = MakeFresh();
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  EXPECT_FALSE((*client)->info().has_pointers);
  std::vector<Buffer> out;
  auto done = Launch(**client, &out);
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  ASSERT_TRUE(done->Await().ok());
  float back[4];
  ASSERT_TRUE(out[0].ToHost(back, sizeof(back)).ok());
  EXPECT_EQ(back[3], 4);
  EXPECT_EQ(out[0].UnsafePointer().status().message(),
            "PJRT plugin " + folder_.File("fake0.so") +
                " (PJRT API 0.81) lacks PJRT_Buffer_UnsafePointer, which is needed to see where a "
                "buffer lies in memory");
  auto stats = (*client)->Compile(kIdentity)->GetMemoryStats();
  EXPECT_EQ(stats.status().code(), Code::kUnimplemented);
}

TEST_F(PluginTroubleTest, EntryLeftOutIsNamed) {
  ScopedEnv env("DENDRITE_FAKE_WITHOUT", "PJRT_Event_Await,PJRT_Client_Compile");
  auto client = MakeFresh();
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.status().message().find(": PJRT_Event_Await, PJRT_Client_Compile"),
            std::string::npos)
      << client.status().ToString();
}

TEST_F(PluginTroubleTest, OtherMajorVersionIsRefused) {
  ScopedEnv env("DENDRITE_FAKE_API_MAJOR", "1");
  auto client = MakeFresh();
  ASSERT_FALSE(client.ok());
  EXPECT_NE(client.status().message().find("(PJRT API 1.81) has another major version"),
            std::string::npos)
      << client.status().ToString();
}

TEST_F(PluginTroubleTest, PluginWithoutSerializationSaysSo) {
  ScopedEnv env("DENDRITE_FAKE_NO_SERIALIZE", "1");
  auto client = MakeFresh();
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  EXPECT_FALSE((*client)->info().can_serialize);
  auto executable = (*client)->Compile(kIdentity);
  ASSERT_TRUE(executable.ok());
  EXPECT_EQ(executable->Serialize().status().code(), Code::kUnimplemented);
  EXPECT_EQ((*client)->Deserialize("x").status().code(), Code::kUnimplemented);
}

TEST_F(PluginTroubleTest, OptionThatThePluginRefusesIsItsOwnMessage) {
  auto client = MakeFresh(/*num_devices=*/2);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), Code::kInvalidArgument);
  EXPECT_NE(client.status().message().find("unknown option cpu_device_count"), std::string::npos)
      << client.status().ToString();
}

TEST_F(PluginTroubleTest, PluginWithoutDevicesIsUnavailable) {
  ScopedEnv env("DENDRITE_FAKE_DEVICES", "0");
  auto client = MakeFresh();
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), Code::kUnavailable);
}

TEST_F(PluginTroubleTest, CompileErrorKeepsThePluginsCodeAndMessage) {
  auto client = MakeFresh();
  ASSERT_TRUE(client.ok());
  ScopedEnv env("DENDRITE_FAKE_COMPILE_ERROR", "4xf32");
  auto executable = (*client)->Compile(kIdentity);
  ASSERT_FALSE(executable.ok());
  EXPECT_EQ(executable.status().ToString(),
            "INTERNAL: PJRT_Client_Compile: fake plugin: asked to refuse \"4xf32\"");
}

TEST_F(PluginTroubleTest, LaunchErrorComesFromTheCallOrFromTheEvent) {
  auto client = MakeFresh();
  ASSERT_TRUE(client.ok());
  std::vector<Buffer> out;
  {
    ScopedEnv env("DENDRITE_FAKE_EXECUTE_ERROR", "call");
    auto done = Launch(**client, &out);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.status().code(), Code::kInternal);
  }
  ScopedEnv env("DENDRITE_FAKE_EXECUTE_ERROR", "late");
  auto done = Launch(**client, &out);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->Await().message(), "execution: fake plugin: asked to fail while running");
}

TEST_F(PluginTroubleTest, EventFiresOnlyWhenTheLaunchIsComplete) {
  auto client = MakeFresh();
  ASSERT_TRUE(client.ok());
  ScopedEnv env("DENDRITE_FAKE_EXECUTE_DELAY_MS", "100");
  std::vector<Buffer> out;
  const double begin = NowSeconds();
  auto done = Launch(**client, &out);
  ASSERT_TRUE(done.ok());
  EXPECT_FALSE(done->IsReady());
  ASSERT_TRUE(done->Await().ok());
  EXPECT_TRUE(done->IsReady());
  EXPECT_GE(NowSeconds() - begin, 0.1);
}

TEST_F(PluginTroubleTest, WithoutDonationTheArgumentStays) {
  auto client = MakeFresh();
  ASSERT_TRUE(client.ok());
  ScopedEnv env("DENDRITE_FAKE_NO_DONATION", "1");
  auto executable = (*client)->Compile(
      "module @m {\n func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> "
      "(tensor<4xf32>) {\n return %a : tensor<4xf32>\n }\n}\n");
  ASSERT_TRUE(executable.ok());
  const float x[4] = {1, 2, 3, 4};
  auto a = (*client)->FromHost(x, kF32, {4}, HostBuffer::kCopy);
  std::vector<Buffer> out;
  ASSERT_TRUE(executable->Execute({&*a}, &out).ok());
  EXPECT_NE(*out[0].UnsafePointer(), *a->UnsafePointer());
}

TEST_F(PluginTroubleTest, FakeLogsEachCompileLoadAndLaunch) {
  auto client = MakeFresh();
  ASSERT_TRUE(client.ok());
  ScopedEnv env("DENDRITE_FAKE_LOG", folder_.File("log"));
  std::vector<Buffer> out;
  ASSERT_TRUE(Launch(**client, &out).ok());
  ASSERT_TRUE((*client)->Deserialize(*(*client)->Compile(kIdentity)->Serialize()).ok());
  EXPECT_EQ(ReadFile(folder_.File("log")), "compile\nlaunch\ncompile\nload\n");
}

TEST_F(PluginTroubleTest, FilesThatAreNoPluginsAreRefusedWithTheReason) {
  WriteFile(folder_.File("text.so"), "not a library");
  auto text = Client::Create(folder_.File("text.so"));
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.status().message().find("cannot be loaded"), std::string::npos)
      << text.status().ToString();
}

class ShimPluginTest : public PluginTroubleTest {
 protected:
  std::string FreshShim() {
    const auto built = std::filesystem::path(FakePath()).parent_path() / "libdendrite_shim_pjrt.so";
    const std::string copy = folder_.File("shim" + std::to_string(copies_++) + ".so");
    std::filesystem::copy_file(built, copy);
    return copy;
  }
};

TEST_F(ShimPluginTest, CountsAndSlowsCompilesOfTheRealPlugin) {
  const char* real = std::getenv("DENDRITE_TEST_PLUGIN");
  ASSERT_NE(real, nullptr);
  ScopedEnv target("DENDRITE_SHIM_TARGET", real);
  ScopedEnv log("DENDRITE_SHIM_LOG", folder_.File("log"));
  ScopedEnv delay("DENDRITE_SHIM_COMPILE_DELAY_MS", "80");
  auto client = Client::Create(FreshShim());
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  EXPECT_EQ((*client)->info().platform_name, "cpu");
  EXPECT_TRUE((*client)->info().has_ffi);
  const double begin = NowSeconds();
  std::vector<Buffer> out;
  auto done = Launch(**client, &out);
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_GE(NowSeconds() - begin, 0.08);
  ASSERT_TRUE(done->Await().ok());
  float back[4];
  ASSERT_TRUE(out[0].ToHost(back, sizeof(back)).ok());
  EXPECT_EQ(back[3], 4);
  EXPECT_EQ(ReadFile(folder_.File("log")), HexDigest(kIdentity) + "\n");
}

TEST_F(ShimPluginTest, WithoutATargetItIsNoPlugin) {
  ScopedEnv target("DENDRITE_SHIM_TARGET", std::nullopt);
  const std::string path = FreshShim();
  auto client = Client::Create(path);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().message(),
            path + " is not a PJRT plugin: GetPjrtApi returned no function table");
}

}  // namespace
}  // namespace dendrite::pjrt
