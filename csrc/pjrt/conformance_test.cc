// What every plugin must do for us, run on each plugin at hand: the embedded one, the fake, and,
// where their packages are installed, the two other builds of XLA's CPU plugin (other API
// versions). The programs return arguments or zeros, which the fake can do too.
#include <gtest/gtest.h>
#include <xla/ffi/api/c_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "csrc/pjrt/client.h"

namespace dendrite::pjrt {
namespace {

constexpr ElementType kF32 = 11;
constexpr size_t kAlignment = 64;

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A file of another package, beside the package that the embedded plugin is in.
std::string Sibling(const std::string& relative) {
  const std::filesystem::path embedded = Env("DENDRITE_TEST_PLUGIN");
  return (embedded.parent_path().parent_path() / relative).string();
}

struct PluginCase {
  const char* name;
  bool optional;  // skipped if the file is not there
  std::string (*path)();
};

constexpr PluginCase kCases[] = {
    {"Embedded", false, [] { return Env("DENDRITE_TEST_PLUGIN"); }},
    {"Fake", false, [] { return Env("DENDRITE_TEST_FAKE_PLUGIN"); }},
    {"LammpsJax", true, [] { return Sibling("lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"); }},
    {"XlaCpuPjrt", true, [] { return Sibling("xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"); }},
};

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};

class AlignedFloats {
 public:
  AlignedFloats(size_t n, float value) : n_(n) {
    const size_t bytes = (n * sizeof(float) / kAlignment + 1) * kAlignment;
    memory_.reset(static_cast<float*>(std::aligned_alloc(kAlignment, bytes)));
    for (size_t i = 0; i < n; ++i) memory_.get()[i] = value;
  }
  float* get() { return memory_.get(); }
  float& operator[](size_t i) { return memory_.get()[i]; }
  size_t size() const { return n_; }

 private:
  size_t n_;
  std::unique_ptr<float, FreeDeleter> memory_;
};

std::string Module(const std::string& signature, const std::string& body) {
  return "module @m {\n  func.func public @main(" + signature + " {\n    " + body + "\n  }\n}\n";
}

std::string Identity(const std::string& type) {
  return Module("%a: " + type + ") -> (" + type + ")", "return %a : " + type);
}

// An FFI kernel: adds 10 to each element. At registration XLA asks for its API version first; the
// answer is the lower of the header's and the plugin's, since an older plugin drops a newer
// handler.
XLA_FFI_Error* AddTen(XLA_FFI_CallFrame* frame) {
  auto* extension = frame->extension_start;
  if (extension != nullptr && extension->type == XLA_FFI_Extension_Metadata) {
    auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version =
        std::min(XLA_FFI_API_MINOR, frame->api->api_version.minor_version);
    return nullptr;
  }
  const auto* in = static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  auto* out = static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0]);
  for (int64_t i = 0; i < in->dims[0]; ++i) {
    static_cast<float*>(out->data)[i] = static_cast<const float*>(in->data)[i] + 10;
  }
  return nullptr;
}

class PluginConformanceTest : public ::testing::TestWithParam<PluginCase> {
 protected:
  void SetUp() override {
    const std::string path = GetParam().path();
    if (GetParam().optional && !std::filesystem::exists(path)) {
      GTEST_SKIP() << "the package of " << path << " is not installed";
    }
    auto made = Client::Create(path);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    client_ = *made;
  }

  Executable Compile(const std::string& text) {
    auto executable = client_->Compile(text);
    EXPECT_TRUE(executable.ok()) << executable.status().ToString();
    return executable.ok() ? std::move(*executable) : Executable();
  }

  Buffer Floats(AlignedFloats& memory, HostBuffer semantics) {
    auto buffer =
        client_->FromHost(memory.get(), kF32, {static_cast<int64_t>(memory.size())}, semantics);
    EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
    return std::move(*buffer);
  }

  std::vector<Buffer> Run(const Executable& executable, const std::vector<Buffer*>& args,
                          const std::vector<int64_t>& non_donatable = {}) {
    std::vector<Buffer> outputs;
    auto done = executable.Execute(args, &outputs, non_donatable);
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    if (done.ok()) {
      const Status status = done->Await();
      EXPECT_TRUE(status.ok()) << status.ToString();
      EXPECT_TRUE(done->IsReady());
    }
    return outputs;
  }

  std::shared_ptr<Client> client_;
};

TEST_P(PluginConformanceTest, DescribesItself) {
  EXPECT_FALSE(client_->info().platform_name.empty());
  EXPECT_FALSE(client_->info().platform_version.empty());
  EXPECT_GE(client_->info().num_devices, 1);
  EXPECT_GT(client_->info().api_minor, 0);
  EXPECT_TRUE(client_->info().has_pointers);
  EXPECT_TRUE(client_->info().can_serialize);
}

TEST_P(PluginConformanceTest, EveryElementTypeGoesThereAndBack) {
  struct Type {
    uint8_t dtype;
    const char* name;
    size_t bytes;
  };
  // By tape::DType's values, which this layer may not include.
  constexpr Type kTypes[] = {{1, "i1", 1},    {2, "ui8", 1},           {3, "i8", 1},
                             {4, "i16", 2},   {5, "i32", 4},           {6, "i64", 8},
                             {7, "f16", 2},   {8, "bf16", 2},          {9, "f32", 4},
                             {10, "f64", 8},  {11, "complex<f32>", 8}, {12, "complex<f64>", 16},
                             {13, "ui16", 2}, {14, "ui32", 4},         {15, "ui64", 8}};
  for (const Type& type : kTypes) {
    SCOPED_TRACE(type.name);
    Executable executable = Compile(Identity("tensor<3x" + std::string(type.name) + ">"));
    ASSERT_TRUE(executable.defined());
    std::string in(3 * type.bytes, '\0');
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<char>(type.dtype == 1 ? i % 2 : i);
    auto buffer =
        client_->FromHost(in.data(), ElementTypeFromDType(type.dtype), {3}, HostBuffer::kCopy);
    ASSERT_TRUE(buffer.ok()) << buffer.status().ToString();
    auto out = Run(executable, {&*buffer});
    ASSERT_EQ(out.size(), 1u);
    std::string back(in.size(), '\xff');
    const Status status = out[0].ToHost(back.data(), back.size());
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(back, in);
  }
}

TEST_P(PluginConformanceTest, ScalarsAndEmptyTensorsPass) {
  Executable scalar = Compile(Identity("tensor<f32>"));
  const float x = 2.5;
  auto buffer = client_->FromHost(&x, kF32, {}, HostBuffer::kCopy);
  ASSERT_TRUE(buffer.ok());
  float back = 0;
  ASSERT_TRUE(Run(scalar, {&*buffer})[0].ToHost(&back, sizeof(back)).ok());
  EXPECT_EQ(back, x);

  Executable empty = Compile(Identity("tensor<0x4xf32>"));
  auto nothing = client_->FromHost(&x, kF32, {0, 4}, HostBuffer::kCopy);
  ASSERT_TRUE(nothing.ok());
  EXPECT_EQ(*nothing->OnDeviceSize(), 0u);
  EXPECT_TRUE(Run(empty, {&*nothing})[0].ToHost(&back, 0).ok());
}

TEST_P(PluginConformanceTest, CopiedSourceMayChangeAfterTheCall) {
  AlignedFloats source(1 << 16, 1);
  Buffer buffer = Floats(source, HostBuffer::kCopy);
  for (size_t i = 0; i < source.size(); ++i) source[i] = 9;
  AlignedFloats back(source.size(), 0);
  ASSERT_TRUE(buffer.ToHost(back.get(), back.size() * sizeof(float)).ok());
  EXPECT_EQ(back[0], 1);
  EXPECT_EQ(back[back.size() - 1], 1);
}

TEST_P(PluginConformanceTest, ToHostIsRowMajor) {
  std::vector<float> in(2 * 3 * 5);
  std::iota(in.begin(), in.end(), 0.0f);
  auto buffer = client_->FromHost(in.data(), kF32, {2, 3, 5}, HostBuffer::kCopy);
  ASSERT_TRUE(buffer.ok());
  std::vector<float> out(in.size());
  ASSERT_TRUE(buffer->ToHost(out.data(), out.size() * sizeof(float)).ok());
  EXPECT_EQ(out, in);
  EXPECT_EQ(*buffer->OnDeviceSize(), in.size() * sizeof(float));
}

TEST_P(PluginConformanceTest, ZeroCopyBufferIsOurMemoryIfAligned) {
  AlignedFloats memory(64, 1);
  for (HostBuffer semantics : {HostBuffer::kImmutableZeroCopy, HostBuffer::kMutableZeroCopy}) {
    EXPECT_EQ(*Floats(memory, semantics).UnsafePointer(), memory.get());
    auto unaligned = client_->FromHost(memory.get() + 1, kF32, {32}, semantics);
    ASSERT_TRUE(unaligned.ok());
    EXPECT_NE(*unaligned->UnsafePointer(), memory.get() + 1);
  }
  EXPECT_NE(*Floats(memory, HostBuffer::kCopy).UnsafePointer(), memory.get());
}

TEST_P(PluginConformanceTest, DonatedArgumentIsConsumedAndReused) {
  Executable executable =
      Compile(Module("%a: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<64xf32>)",
                     "return %a : tensor<64xf32>"));
  AlignedFloats memory(64, 3);
  Buffer a = Floats(memory, HostBuffer::kMutableZeroCopy);
  auto out = Run(executable, {&a});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(*out[0].UnsafePointer(), memory.get());
  float back[64];
  EXPECT_FALSE(a.ToHost(back, sizeof(back)).ok()) << "a donated buffer can still be read";
  ASSERT_TRUE(out[0].ToHost(back, sizeof(back)).ok());
  EXPECT_EQ(back[63], 3);
}

TEST_P(PluginConformanceTest, ImmutableOrNonDonatableArgumentStays) {
  Executable executable = Compile(Module(
      "%a: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<64xf32>)",
      "%0 = stablehlo.constant dense<0.0> : tensor<64xf32>\n    return %0 : tensor<64xf32>"));
  AlignedFloats memory(64, 3);
  Buffer immutable = Floats(memory, HostBuffer::kImmutableZeroCopy);
  Buffer kept = Floats(memory, HostBuffer::kMutableZeroCopy);
  std::vector<Buffer> from_immutable = Run(executable, {&immutable});
  std::vector<Buffer> from_kept = Run(executable, {&kept}, {0});
  EXPECT_EQ(memory[0], 3);
  EXPECT_NE(*from_immutable[0].UnsafePointer(), memory.get());
  EXPECT_NE(*from_kept[0].UnsafePointer(), memory.get());
  float back[64];
  ASSERT_TRUE(kept.ToHost(back, sizeof(back)).ok());
  EXPECT_EQ(back[0], 3);
}

TEST_P(PluginConformanceTest, UnreadDestinationArgumentReceivesTheResult) {
  Executable executable = Compile(Module(
      "%dst: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<64xf32>)",
      "%0 = stablehlo.constant dense<0.0> : tensor<64xf32>\n    return %0 : tensor<64xf32>"));
  AlignedFloats memory(64, 7);
  Buffer dst = Floats(memory, HostBuffer::kMutableZeroCopy);
  auto out = Run(executable, {&dst});
  EXPECT_EQ(*out[0].UnsafePointer(), memory.get());
  EXPECT_EQ(memory[0], 0);
  EXPECT_EQ(memory[63], 0);
}

TEST_P(PluginConformanceTest, ManyArgumentsAndResultsPass) {
  constexpr int kCount = 150;  // past what a launch keeps on the stack
  std::string signature, types, names;
  for (int i = 0; i < kCount; ++i) {
    const std::string comma = i ? ", " : "";
    signature += comma + "%a" + std::to_string(i) + ": tensor<4xf32>";
    types += comma + "tensor<4xf32>";
    names += comma + "%a" + std::to_string(kCount - 1 - i);
  }
  Executable executable =
      Compile(Module(signature + ") -> (" + types + ")", "return " + names + " : " + types));
  EXPECT_EQ(executable.num_outputs(), static_cast<size_t>(kCount));
  std::vector<Buffer> buffers;
  std::vector<Buffer*> args;
  for (int i = 0; i < kCount; ++i) {
    AlignedFloats memory(4, static_cast<float>(i));
    buffers.push_back(Floats(memory, HostBuffer::kCopy));
  }
  for (Buffer& buffer : buffers) args.push_back(&buffer);
  auto out = Run(executable, args);
  ASSERT_EQ(out.size(), static_cast<size_t>(kCount));
  float back[4];
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(out[static_cast<size_t>(i)].ToHost(back, sizeof(back)).ok());
    EXPECT_EQ(back[3], static_cast<float>(kCount - 1 - i));
  }
}

TEST_P(PluginConformanceTest, SerializedExecutableRunsAfterLoading) {
  auto bytes = Compile(Identity("tensor<4xf32>")).Serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
  EXPECT_FALSE(bytes->empty());
  auto loaded = client_->Deserialize(*bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->num_outputs(), 1u);
  AlignedFloats memory(4, 6);
  Buffer a = Floats(memory, HostBuffer::kCopy);
  float back[4];
  ASSERT_TRUE(Run(*loaded, {&a})[0].ToHost(back, sizeof(back)).ok());
  EXPECT_EQ(back[3], 6);
}

TEST_P(PluginConformanceTest, ForeignBytesDoNotLoad) {
  EXPECT_FALSE(client_->Deserialize("").ok());
  auto foreign = client_->Deserialize("no executable at all");
  ASSERT_FALSE(foreign.ok());
  EXPECT_FALSE(foreign.status().message().empty());
}

TEST_P(PluginConformanceTest, KernelByNameRunsInsideAGraph) {
  void* handler = reinterpret_cast<void*>(&AddTen);
  const Status registered = client_->RegisterFfiHandler("dendrite_test_add_ten", handler);
  if (!client_->info().has_ffi) {
    EXPECT_EQ(registered.code(), Code::kUnimplemented);
    EXPECT_NE(registered.message().find("FFI extension"), std::string::npos);
    return;
  }
  ASSERT_TRUE(registered.ok()) << registered.ToString();
  // The same handler again is no error: two clients of one plugin share its registry.
  EXPECT_TRUE(client_->RegisterFfiHandler("dendrite_test_add_ten", handler).ok());
  Executable executable = Compile(
      Module("%a: tensor<8xf32>) -> (tensor<8xf32>)",
             "%0 = stablehlo.custom_call @dendrite_test_add_ten(%a) {api_version = 4 : i32} : "
             "(tensor<8xf32>) -> tensor<8xf32>\n    %1 = stablehlo.add %0, %0 : tensor<8xf32>\n"
             "    return %1 : tensor<8xf32>"));
  ASSERT_TRUE(executable.defined());
  AlignedFloats memory(8, 1);
  Buffer a = Floats(memory, HostBuffer::kImmutableZeroCopy);
  float back[8];
  ASSERT_TRUE(Run(executable, {&a})[0].ToHost(back, sizeof(back)).ok());
  EXPECT_EQ(back[7], 22);
}

TEST_P(PluginConformanceTest, UnknownKernelIsNamed) {
  if (!client_->info().has_ffi) return;  // the fake does not read bodies
  auto executable = client_->Compile(
      Module("%a: tensor<8xf32>) -> (tensor<8xf32>)",
             "%0 = stablehlo.custom_call @dendrite_test_nobody(%a) {api_version = 4 : i32} : "
             "(tensor<8xf32>) -> tensor<8xf32>\n    return %0 : tensor<8xf32>"));
  ASSERT_FALSE(executable.ok());
  EXPECT_NE(executable.status().message().find("dendrite_test_nobody"), std::string::npos)
      << executable.status().ToString();
}

TEST_P(PluginConformanceTest, MemoryStatsCountArgumentsAndAliases) {
  Executable executable =
      Compile(Module("%a: tensor<1024xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<1024xf32>)",
                     "return %a : tensor<1024xf32>"));
  auto stats = executable.GetMemoryStats();
  ASSERT_TRUE(stats.ok()) << stats.status().ToString();
  EXPECT_EQ(stats->argument_bytes, 4096);
  EXPECT_EQ(stats->alias_bytes, 4096);
  EXPECT_EQ(stats->temp_bytes, 0);
}

TEST_P(PluginConformanceTest, BadProgramIsAnErrorWithTheCallsName) {
  auto executable = client_->Compile("this is no program");
  ASSERT_FALSE(executable.ok());
  EXPECT_NE(executable.status().message().find("PJRT_Client_Compile: "), std::string::npos);
  EXPECT_GT(executable.status().message().size(), std::strlen("PJRT_Client_Compile: "));
}

TEST_P(PluginConformanceTest, WrongArgumentsAreErrors) {
  Executable executable = Compile(Identity("tensor<4xf32>"));
  std::vector<Buffer> out;
  EXPECT_FALSE(executable.Execute({}, &out).ok());
  Buffer undefined;
  EXPECT_EQ(executable.Execute({&undefined}, &out).status().message(),
            "Execute: argument 0 is not defined");
  EXPECT_FALSE(Executable().Execute({}, &out).ok());
  EXPECT_FALSE(undefined.UnsafePointer().ok());
  EXPECT_TRUE(Event().Await().ok());
  EXPECT_TRUE(Event().IsReady());
}

TEST_P(PluginConformanceTest, PortableExecutableRunsOnEveryDevice) {
  // The option that sets the number of devices is known to the CPU plugins only.
  if (client_->info().platform_name != "cpu") return;
  auto client = Client::Create(GetParam().path(), 2);
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  auto compiled = (*client)->Compile(Identity("tensor<4xf32>"), kPortableCompileOptions);
  ASSERT_TRUE(compiled.ok()) << compiled.status().ToString();
  auto loaded = (*client)->Deserialize(*compiled->Serialize());
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  for (const Executable* executable : {&*compiled, &*loaded}) {
    for (int device : {0, 1}) {
      const float x[4] = {1, 2, 3, 4};
      auto a = (*client)->FromHost(x, kF32, {4}, HostBuffer::kCopy, device);
      ASSERT_TRUE(a.ok());
      std::vector<Buffer> out;
      auto done = executable->Execute({&*a}, &out, {}, device);
      ASSERT_TRUE(done.ok()) << done.status().ToString();
      ASSERT_TRUE(done->Await().ok());
      float back[4];
      ASSERT_TRUE(out[0].ToHost(back, sizeof(back)).ok());
      EXPECT_EQ(back[3], 4);
      EXPECT_FALSE(executable->Execute({&*a}, &out, {}, 1 - device).ok()) << "argument elsewhere";
    }
  }
  std::vector<Buffer> out;
  EXPECT_EQ(compiled->Execute({}, &out, {}, 2).status().code(), Code::kInvalidArgument);
}

TEST_P(PluginConformanceTest, MovedHandlesReleaseOnce) {
  AlignedFloats memory(4, 1);
  Buffer a = Floats(memory, HostBuffer::kCopy);
  Buffer b = std::move(a);
  EXPECT_FALSE(a.defined());
  ASSERT_TRUE(b.defined());
  b = Floats(memory, HostBuffer::kCopy);
  Executable e = Compile(Identity("tensor<4xf32>"));
  Executable f = std::move(e);
  EXPECT_FALSE(e.defined());
  EXPECT_EQ(f.num_outputs(), 1u);
  e = std::move(f);
  EXPECT_EQ(Run(e, {&b}).size(), 1u);
}

TEST_P(PluginConformanceTest, ThreadsCompileAndLaunchAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      const std::string type = "tensor<" + std::to_string(10 + t) + "xf32>";
      Executable executable = Compile(Identity(type));
      AlignedFloats memory(static_cast<size_t>(10 + t), static_cast<float>(t));
      for (int i = 0; i < 50; ++i) {
        Buffer a = Floats(memory, HostBuffer::kImmutableZeroCopy);
        auto out = Run(executable, {&a});
        AlignedFloats back(memory.size(), -1);
        EXPECT_TRUE(out[0].ToHost(back.get(), back.size() * sizeof(float)).ok());
        EXPECT_EQ(back[0], static_cast<float>(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Plugins, PluginConformanceTest, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dendrite::pjrt
