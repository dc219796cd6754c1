// What only the embedded plugin (or a broken file) can show. What every plugin must do is in
// conformance_test.cc.
#include "csrc/pjrt/client.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace dendrite::pjrt {
namespace {

constexpr ElementType kF32 = 11;
constexpr size_t kAlignment = 64;

std::string EnvOr(const char* name, const char* fallback) {
  const char* value = std::getenv(name);
  return value == nullptr ? fallback : value;
}

struct FreeDeleter {
  void operator()(float* p) const { std::free(p); }
};
using AlignedFloats = std::unique_ptr<float[], FreeDeleter>;

AlignedFloats MakeFloats(size_t n, float value) {
  const size_t bytes = (n * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  AlignedFloats p(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
  for (size_t i = 0; i < n; ++i) p[i] = value;
  return p;
}

std::string Module(const std::string& signature, const std::string& body) {
  return "module @m { func.func public @main(" + signature + " { " + body + " } }";
}

const std::shared_ptr<Client>& Embedded() {
  static const std::shared_ptr<Client>& client = *new std::shared_ptr<Client>([] {
    auto made = Client::Create(EnvOr("DENDRITE_TEST_PLUGIN", ""));
    if (!made.ok()) {
      ADD_FAILURE() << made.status().ToString();
      std::abort();
    }
    return *made;
  }());
  return client;
}

TEST(ClientTest, ReportsPlatformAndVersion) {
  const PluginInfo& info = Embedded()->info();
  EXPECT_EQ(info.platform_name, "cpu");
  EXPECT_FALSE(info.platform_version.empty());
  EXPECT_EQ(info.api_major, 0);
  EXPECT_GE(info.api_minor, 81);
  EXPECT_GE(info.num_devices, 1);
  EXPECT_TRUE(info.has_ffi);
  EXPECT_TRUE(info.can_serialize);
}

TEST(ClientTest, MakesAsManyDevicesAsAsked) {
  auto client = Client::Create(EnvOr("DENDRITE_TEST_PLUGIN", ""), 3);
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  EXPECT_EQ((*client)->info().num_devices, 3);
  const float x = 4;
  auto buffer = (*client)->FromHost(&x, kF32, {}, HostBuffer::kCopy, 2);
  ASSERT_TRUE(buffer.ok()) << buffer.status().ToString();
  float back = 0;
  ASSERT_TRUE(buffer->ToHost(&back, sizeof(back)).ok());
  EXPECT_EQ(back, 4);
  EXPECT_EQ((*client)->FromHost(&x, kF32, {}, HostBuffer::kCopy, 3).status().code(),
            Code::kInvalidArgument);
}

TEST(ClientTest, MissingFileIsNamed) {
  auto client = Client::Create("/nowhere/libpjrt.so");
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().ToString(), "NOT_FOUND: PJRT plugin /nowhere/libpjrt.so: no such file");
}

TEST(ClientTest, LibraryThatIsNoPluginIsNamed) {
  auto client = Client::Create("/proc/self/exe");
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), Code::kInvalidArgument);
  EXPECT_NE(client.status().message().find("/proc/self/exe"), std::string::npos)
      << client.status().ToString();
}

TEST(ClientTest, PluginDigestIsStableAndRefusesAMissingFile) {
  auto first = PluginDigest(EnvOr("DENDRITE_TEST_PLUGIN", ""));
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ(first->size(), 64u);
  EXPECT_EQ(*PluginDigest(EnvOr("DENDRITE_TEST_PLUGIN", "")), *first);
  EXPECT_EQ(PluginDigest("/nowhere").status().code(), Code::kNotFound);
}

TEST(ClientTest, DonatedZeroCopyArgumentIsUpdatedInOurMemory) {
  auto executable = Embedded()->Compile(
      Module("%p: tensor<4096xf32> {tf.aliasing_output = 0 : i32}, %g: tensor<4096xf32>) -> "
             "tensor<4096xf32>",
             "%0 = stablehlo.add %p, %g : tensor<4096xf32> return %0 : tensor<4096xf32>"));
  ASSERT_TRUE(executable.ok()) << executable.status().ToString();
  auto p = MakeFloats(4096, 1);
  auto g = MakeFloats(4096, 2);
  auto pb = Embedded()->FromHost(p.get(), kF32, {4096}, HostBuffer::kMutableZeroCopy);
  auto gb = Embedded()->FromHost(g.get(), kF32, {4096}, HostBuffer::kImmutableZeroCopy);
  ASSERT_TRUE(pb.ok() && gb.ok());
  EXPECT_EQ(*pb->UnsafePointer(), p.get());
  std::vector<Buffer> out;
  auto done = executable->Execute({&*pb, &*gb}, &out);
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  ASSERT_TRUE(done->Await().ok());
  EXPECT_TRUE(done->IsReady());
  EXPECT_EQ(*out[0].UnsafePointer(), p.get());
  EXPECT_EQ(p[0], 3);
  EXPECT_EQ(p[4095], 3);
  EXPECT_EQ(g[0], 2);
}

TEST(ClientTest, NonDonatableArgumentKeepsItsValue) {
  auto executable = Embedded()->Compile(
      Module("%p: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64xf32>",
             "%0 = stablehlo.add %p, %p : tensor<64xf32> return %0 : tensor<64xf32>"));
  ASSERT_TRUE(executable.ok()) << executable.status().ToString();
  auto p = MakeFloats(64, 1);
  auto pb = Embedded()->FromHost(p.get(), kF32, {64}, HostBuffer::kMutableZeroCopy);
  std::vector<Buffer> out;
  auto done = executable->Execute({&*pb}, &out, {0});
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  ASSERT_TRUE(done->Await().ok());
  EXPECT_EQ(p[0], 1);
  float result[64];
  ASSERT_TRUE(out[0].ToHost(result, sizeof(result)).ok());
  EXPECT_EQ(result[63], 2);
}

TEST(ClientTest, UnreadDestinationArgumentReceivesTheResult) {
  auto executable = Embedded()->Compile(
      Module("%a: tensor<256xf32>, %dst: tensor<256xf32> {tf.aliasing_output = 0 : i32}) -> "
             "tensor<256xf32>",
             "%0 = stablehlo.tanh %a : tensor<256xf32> return %0 : tensor<256xf32>"));
  ASSERT_TRUE(executable.ok()) << executable.status().ToString();
  auto a = MakeFloats(256, 1);
  auto dst = MakeFloats(256, 0);
  auto ab = Embedded()->FromHost(a.get(), kF32, {256}, HostBuffer::kImmutableZeroCopy);
  auto db = Embedded()->FromHost(dst.get(), kF32, {256}, HostBuffer::kMutableZeroCopy);
  std::vector<Buffer> out;
  auto done = executable->Execute({&*ab, &*db}, &out);
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  ASSERT_TRUE(done->Await().ok());
  EXPECT_EQ(*out[0].UnsafePointer(), dst.get());
  EXPECT_NEAR(dst[255], std::tanh(1.0f), 1e-6);
}

TEST(ClientTest, UnalignedMemoryIsCopiedAndUnsafePointerTells) {
  auto memory = MakeFloats(64, 7);
  float* unaligned = memory.get() + 1;
  auto buffer = Embedded()->FromHost(unaligned, kF32, {32}, HostBuffer::kMutableZeroCopy);
  ASSERT_TRUE(buffer.ok()) << buffer.status().ToString();
  EXPECT_NE(*buffer->UnsafePointer(), unaligned);
}

TEST(ClientTest, BuffersAndExecutablesKeepTheirClientAlive) {
  auto client = Client::Create(EnvOr("DENDRITE_TEST_PLUGIN", ""));
  ASSERT_TRUE(client.ok());
  std::weak_ptr<Client> weak = *client;
  float x = 5;
  auto buffer = (*client)->FromHost(&x, kF32, {}, HostBuffer::kCopy);
  ASSERT_TRUE(buffer.ok());
  client = Status(Code::kCancelled, "dropped");
  EXPECT_FALSE(weak.expired());
  float back = 0;
  ASSERT_TRUE(buffer->ToHost(&back, sizeof(back)).ok());
  EXPECT_EQ(back, 5);
  buffer = Status(Code::kCancelled, "dropped");
  EXPECT_TRUE(weak.expired());
}

TEST(ClientTest, ElementTypesMatchTheHeader) {
  // tape::DType values on the left (this layer may not include tape).
  EXPECT_EQ(ElementTypeFromDType(0), 0);    // undefined -> INVALID
  EXPECT_EQ(ElementTypeFromDType(1), 1);    // bool -> PRED
  EXPECT_EQ(ElementTypeFromDType(2), 6);    // u8
  EXPECT_EQ(ElementTypeFromDType(6), 5);    // i64 -> S64
  EXPECT_EQ(ElementTypeFromDType(8), 13);   // bf16
  EXPECT_EQ(ElementTypeFromDType(9), 11);   // f32
  EXPECT_EQ(ElementTypeFromDType(12), 15);  // c128
  EXPECT_EQ(ElementTypeFromDType(15), 9);   // u64
  EXPECT_EQ(ElementTypeFromDType(16), 0);   // out of range -> INVALID
}

}  // namespace
}  // namespace dendrite::pjrt
