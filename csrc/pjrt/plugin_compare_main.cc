// csrc/pjrt/plugin_compare_main.cc - dendrite-plugin-compare <plugin.so>: what docs/decisions/0001
// rests on.
//
// Prints one "name: value" line per measurement of one plugin: correctness where PyTorch and XLA
// differ, in-place writes, speed of launches, code and compiles. One plugin per process, so that
// plugins do not share thread pools or memory; compare by running it in turn on each. Times are the
// least of several.
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "csrc/base/clock.h"
#include "csrc/pjrt/client.h"

namespace dendrite::pjrt {
namespace {

constexpr ElementType kF32 = 11;
constexpr ElementType kS32 = 4;
constexpr size_t kAlignment = 64;

template <typename T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}
void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

struct FreeDeleter {
  void operator()(float* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float[], FreeDeleter>;

Floats MakeFloats(size_t n, float value) {
  Floats p(static_cast<float*>(
      std::aligned_alloc(kAlignment, (n * sizeof(float) / kAlignment + 1) * kAlignment)));
  std::fill(p.get(), p.get() + n, value);
  return p;
}

std::string Module(const std::string& signature, const std::string& body) {
  return "module @m {\n  func.func public @main(" + signature + " {\n" + body + "\n  }\n}\n";
}

template <typename F>
double LeastSeconds(int repeats, const F& run) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    const double begin = NowSeconds();
    run();
    least = std::min(least, NowSeconds() - begin);
  }
  return least;
}

class Comparison {
 public:
  explicit Comparison(std::shared_ptr<Client> client) : client_(std::move(client)) {}

  void Correctness() {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float denormal = 1e-40f;
    const std::string max_reduce =
        "    %z = stablehlo.constant dense<0xFF800000> : tensor<f32>\n"
        "    %r = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across dimensions = [0] "
        ": (tensor<64xf32>, tensor<f32>) -> tensor<f32>\n    return %r : tensor<f32>";
    std::vector<float> values(64, 1.0f);
    for (size_t at : {size_t{0}, size_t{31}, size_t{63}}) {
      values.assign(64, 1.0f);
      values[at] = nan;
      const float r = One(Module("%a: tensor<64xf32>) -> tensor<f32>", max_reduce), values);
      Print("reduce max with NaN at " + std::to_string(at), std::isnan(r) ? "NaN" : "NaN lost");
    }
    values.assign(64, 1.0f);
    values[5] = nan;
    const float m = One(Module("%a: tensor<64xf32>) -> tensor<64xf32>",
                               "    %0 = stablehlo.constant dense<0.0> : tensor<64xf32>\n"
                               "    %1 = stablehlo.maximum %a, %0 : tensor<64xf32>\n"
                               "    return %1 : tensor<64xf32>"),
                        values, 5);
    Print("elementwise max with NaN", std::isnan(m) ? "NaN" : "NaN lost");
    values.assign(64, denormal);
    const std::string twice =
        "    %0 = stablehlo.add %a, %a : tensor<64xf32>\n    return %0 : tensor<64xf32>";
    const float d = One(Module("%a: tensor<64xf32>) -> tensor<64xf32>", twice), values);
    Print("denormal + denormal", d == 2 * denormal ? "kept" : "flushed");
  }

  // A row written into 64 MiB, then sixteen of them, through an N-dimensional and a flat argument.
  void InPlace() {
    const std::string nd = "16384x1024", flat = "16777216";
    for (int writes : {1, 16}) {
      for (bool is_flat : {false, true}) {
        const std::string type = "tensor<" + (is_flat ? flat : nd) + "xf32>";
        const std::string form = "tensor<" + nd + "xf32>";
        std::string body = "    %z = stablehlo.constant dense<0> : tensor<i32>\n";
        std::string last = "%a";
        for (int i = 0; i < writes; ++i) {
          const std::string n = std::to_string(i);
          if (is_flat) {
            body += "    %f" + n + " = stablehlo.reshape " + last + " : (" + type + ") -> " + form +
                    "\n";
            last = "%f" + n;
          }
          body += "    %w" + n + " = stablehlo.dynamic_update_slice " + last +
                  ", %row, %i, %z : (" + form +
                  ", tensor<1x1024xf32>, tensor<i32>, tensor<i32>) -> " + form + "\n";
          last = "%w" + n;
          if (is_flat) {
            body += "    %b" + n + " = stablehlo.reshape " + last + " : (" + form + ") -> " + type +
                    "\n";
            last = "%b" + n;
          }
        }
        body += "    return " + last + " : " + type;
        const Executable executable = Must(client_->Compile(
            Module("%a: " + type + " {tf.aliasing_output = 0 : i32}, %row: tensor<1x1024xf32>, " +
                       "%i: tensor<i32>) -> " + type,
                   body)));
        const Floats storage = MakeFloats(16777216, 0), row = MakeFloats(1024, 1);
        const std::vector<int64_t> dims =
            is_flat ? std::vector<int64_t>{16777216} : std::vector<int64_t>{16384, 1024};
        alignas(64) const int32_t index = 7;
        const double seconds = LeastSeconds(9, [&] {
          Buffer a =
              Must(client_->FromHost(storage.get(), kF32, dims, HostBuffer::kMutableZeroCopy));
          Buffer r =
              Must(client_->FromHost(row.get(), kF32, {1, 1024}, HostBuffer::kImmutableZeroCopy));
          Buffer i = Must(client_->FromHost(&index, kS32, {}, HostBuffer::kImmutableZeroCopy));
          Wait(executable, {&a, &r, &i});
        });
        const bool right = storage[7 * 1024] == 1 && storage[8 * 1024 - 1] == 1 && storage[0] == 0;
        const MemoryStats stats = Must(executable.GetMemoryStats());
        Print(std::to_string(writes) + " row write(s) in 64 MiB, " + (is_flat ? "flat" : "2-d"),
              Micros(seconds) + ", temp " + std::to_string(stats.temp_bytes >> 20) + " MiB" +
                  (right ? "" : ", WRONG"));
      }
    }
  }

  void Speed() {
    const std::string square = "tensor<1024x1024xf32>";
    const std::string two = "%a: " + square + ", %b: " + square + ") -> " + square;
    const auto dot = [&](const char* contracting) {
      return Module(two, "    %0 = stablehlo.dot_general %a, %b, contracting_dims = " +
                             std::string(contracting) + " : (" + square + ", " + square + ") -> " +
                             square + "\n    return %0 : " + square);
    };
    const Floats a = MakeFloats(1 << 22, 0.5f), b = MakeFloats(1 << 22, 0.25f);
    Timed("matmul 1024", dot("[1] x [0]"), a, b, {1024, 1024}, 15);
    Timed("matmul 1024, b transposed", dot("[1] x [1]"), a, b, {1024, 1024}, 15);
    const auto chain = [](int ops, const std::string& type) {
      std::string body, last = "%a";
      for (int i = 0; i < ops; ++i) {
        constexpr const char* kOps[] = {"add", "multiply", "subtract", "maximum"};
        const std::string next = "%v" + std::to_string(i);
        body +=
            "    " + next + " = stablehlo." + kOps[i % 4] + " " + last + ", %b : " + type + "\n";
        last = next;
      }
      return Module("%a: " + type + ", %b: " + type + ") -> " + type,
                    body + "    return " + last + " : " + type);
    };
    Timed("16 pointwise operators on 16 MiB", chain(16, "tensor<4194304xf32>"), a, b, {4194304},
          15);
    const std::string vector = "tensor<4194304xf32>";
    Timed("tanh on 16 MiB",
          Module("%a: " + vector + ", %b: " + vector + ") -> " + vector,
                 "    %0 = stablehlo.tanh %a : " + vector + "\n    return %0 : " + vector),
          a, b, {4194304}, 15);
    Timed("launch, 2 arguments", chain(1, "tensor<16xf32>"), a, b, {16}, 5000);
    for (int ops : {24, 100, 400}) {
      const std::string text = chain(ops, "tensor<4096xf32>");
      const double seconds = LeastSeconds(3, [&] { Must(client_->Compile(text)); });
      Print("compile " + std::to_string(ops) + " pointwise operators", Micros(seconds));
    }
    const Executable kept = Must(client_->Compile(chain(24, "tensor<4096xf32>")));
    std::string bytes;
    const double store = LeastSeconds(5, [&] { bytes = Must(kept.Serialize()); });
    const double load = LeastSeconds(5, [&] { Must(client_->Deserialize(bytes)); });
    Print("serialise 24 operators", Micros(store) + ", " + std::to_string(bytes.size()) + " bytes");
    Print("load 24 operators", Micros(load));
  }

  void Arguments() {
    constexpr int kCount = 100;
    std::string signature, body = "    %v0 = stablehlo.add %a0, %a1 : tensor<16xf32>\n";
    for (int i = 0; i < kCount; ++i) {
      signature += (i ? ", %a" : "%a") + std::to_string(i) + ": tensor<16xf32>";
      if (i >= 2) {
        body += "    %v" + std::to_string(i - 1) + " = stablehlo.add %v" + std::to_string(i - 2) +
                ", %a" + std::to_string(i) + " : tensor<16xf32>\n";
      }
    }
    body += "    return %v" + std::to_string(kCount - 2) + " : tensor<16xf32>";
    const Executable executable =
        Must(client_->Compile(Module(signature + ") -> tensor<16xf32>", body)));
    const Floats memory = MakeFloats(16, 1);
    std::vector<Buffer> buffers(kCount);
    const double make = LeastSeconds(500, [&] {
      for (Buffer& buffer : buffers) {
        buffer = Must(client_->FromHost(memory.get(), kF32, {16}, HostBuffer::kImmutableZeroCopy));
      }
    });
    std::vector<Buffer*> args;
    for (Buffer& buffer : buffers) args.push_back(&buffer);
    const double launch = LeastSeconds(500, [&] { Wait(executable, args); });
    Print("make and drop a zero-copy buffer", Micros(make / kCount));
    Print("launch, 100 arguments", Micros(launch));
  }

  static void Print(const std::string& name, const std::string& value) {
    std::printf("%s: %s\n", name.c_str(), value.c_str());
  }
  static std::string Micros(double seconds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.4g us", seconds * 1e6);
    return text;
  }

 private:
  static std::vector<Buffer> Wait(const Executable& executable, const std::vector<Buffer*>& args) {
    std::vector<Buffer> outputs;
    Event done = Must(executable.Execute(args, &outputs));
    Must(done.Await());
    return outputs;
  }

  // Element `at` of the result of a program with one argument of 64 floats.
  float One(const std::string& text, const std::vector<float>& values, size_t at = 0) {
    const Executable executable = Must(client_->Compile(text));
    Buffer a = Must(client_->FromHost(values.data(), kF32, {64}, HostBuffer::kCopy));
    std::vector<Buffer> out = Wait(executable, {&a});
    std::vector<float> back(Must(out[0].OnDeviceSize()) / sizeof(float));
    Must(out[0].ToHost(back.data(), back.size() * sizeof(float)));
    return back[at];
  }

  void Timed(const std::string& name, const std::string& text, const Floats& a, const Floats& b,
             const std::vector<int64_t>& dims, int repeats) {
    const double begin = NowSeconds();
    const Executable executable = Must(client_->Compile(text));
    const double compile = NowSeconds() - begin;
    Buffer ab = Must(client_->FromHost(a.get(), kF32, dims, HostBuffer::kImmutableZeroCopy));
    Buffer bb = Must(client_->FromHost(b.get(), kF32, dims, HostBuffer::kImmutableZeroCopy));
    const double seconds = LeastSeconds(repeats, [&] { Wait(executable, {&ab, &bb}); });
    Print(name, Micros(seconds) + ", compile " + Micros(compile));
  }

  std::shared_ptr<Client> client_;
};

int Main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: dendrite-plugin-compare <plugin.so>\n");
    return 2;
  }
  const double begin = NowSeconds();
  std::shared_ptr<Client> client = Must(Client::Create(argv[1]));
  const double load = NowSeconds() - begin;
  const PluginInfo& info = client->info();
  Comparison::Print("plugin", info.path);
  Comparison::Print("API", std::to_string(info.api_major) + "." + std::to_string(info.api_minor));
  Comparison::Print("platform version", info.platform_version);
  Comparison::Print("digest", Must(PluginDigest(argv[1])));
  Comparison::Print("load and make a client", Comparison::Micros(load));
  Comparison comparison(std::move(client));
  comparison.Correctness();
  comparison.InPlace();
  comparison.Speed();
  comparison.Arguments();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  Comparison::Print("peak resident memory", std::to_string(usage.ru_maxrss >> 10) + " MiB");
  return 0;
}

}  // namespace
}  // namespace dendrite::pjrt

int main(int argc, char** argv) { return dendrite::pjrt::Main(argc, argv); }
