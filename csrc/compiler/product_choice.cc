#include "csrc/compiler/product_choice.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "csrc/base/config.h"
#include "csrc/base/log.h"
#include "csrc/tape/dtype.h"

namespace dendrite::compiler {
namespace {

constexpr int kSide = 384;  // large enough for both to reach their speed, some milliseconds a run
constexpr int kRuns = 7;
constexpr int kMaxWaits = 500;    // of 10 ms, for another process's measurement
constexpr double kMargin = 1.05;  // the compiler's own can be fused and needs no call: prefer it

std::string Program(bool by_name) {
  const std::string type =
      "tensor<" + std::to_string(kSide) + "x" + std::to_string(kSide) + "xf32>";
  const std::string types = " : (" + type + ", " + type + ") -> " + type;
  return "module @product {\n  func.func public @main(%a: " + type + ", %b: " + type + ") -> " +
         type + " {\n    %0 = " +
         (by_name ? "stablehlo.custom_call @dendrite.mm(%a, %b) {api_version = 4 : i32, "
                    "backend_config = {trans_a = false, trans_b = false}}" +
                        types
                  : "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]" + types) +
         "\n    return %0 : " + type + "\n  }\n}\n";
}

// Seconds of the fastest run of each program.
Result<std::array<double, 2>> Measure(const pjrt::Client& client, const std::string& options) {
  using Clock = std::chrono::steady_clock;
  std::array<pjrt::Executable, 2> programs;
  for (int by_name = 0; by_name < 2; ++by_name) {
    DENDRITE_ASSIGN_OR_RETURN(programs[static_cast<size_t>(by_name)],
                              client.Compile(Program(by_name != 0), options));
  }
  const std::vector<float> ones(static_cast<size_t>(kSide) * kSide, 1.0f);
  const auto f32 = pjrt::ElementTypeFromDType(static_cast<uint8_t>(tape::DType::kF32));
  DENDRITE_ASSIGN_OR_RETURN(
      pjrt::Buffer a, client.FromHost(ones.data(), f32, {kSide, kSide}, pjrt::HostBuffer::kCopy));
  DENDRITE_ASSIGN_OR_RETURN(
      pjrt::Buffer b, client.FromHost(ones.data(), f32, {kSide, kSide}, pjrt::HostBuffer::kCopy));
  std::array<double, 2> best{1e9, 1e9};
  for (int run = 0; run < kRuns; ++run) {
    for (size_t k = 0; k < 2; ++k) {
      std::vector<pjrt::Buffer> out;
      const auto begin = Clock::now();
      DENDRITE_ASSIGN_OR_RETURN(pjrt::Event event, programs[k].Execute({&a, &b}, &out));
      DENDRITE_RETURN_IF_ERROR(event.Await());
      best[k] = std::min(best[k], std::chrono::duration<double>(Clock::now() - begin).count());
    }
  }
  return best;
}

std::optional<bool> Answer(SnippetCache& cache, const cache::Key& key) {
  const auto entry = cache.Lookup(key);
  if (!entry || (entry->bytes != "name" && entry->bytes != "own")) return std::nullopt;
  return entry->bytes == "name";
}

}  // namespace

bool ProductsByName(const pjrt::Client& client, SnippetCache& cache,
                    const CompilerIdentity& identity) {
  const auto fixed = GetChoice(Knob::kProducts);
  if (fixed.ok() && *fixed > 0) return *fixed == 2;
  cache::Key key("choice");
  key.Add("plugin", identity.plugin_digest);
  key.Add("cpu", identity.cpu_features);
  key.Add("threads", identity.num_threads);
  if (const auto answer = Answer(cache, key)) return *answer;
  // One process of a host measures; the others take its answer, and do not wait for ever.
  std::unique_ptr<FileLock> lock;
  for (int i = 0; i < kMaxWaits && !cache.TryLock(key, &lock); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (const auto answer = Answer(cache, key)) return *answer;
  const auto best = Measure(client, identity.compile_options);
  if (!best.ok()) {
    DENDRITE_LOG(kInfo) << "products as compiled code: " << best.status().ToString();
    return false;
  }
  const bool by_name = (*best)[1] * kMargin < (*best)[0];
  DENDRITE_LOG(kInfo) << "products " << (by_name ? "by name" : "as compiled code") << ": "
                      << (*best)[1] * 1e6 << " us by name, " << (*best)[0] * 1e6 << " us compiled";
  cache.Put(key, by_name ? "name" : "own");
  return by_name;
}

}  // namespace dendrite::compiler
