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
#include "csrc/lowering/kernels_by_name.h"
#include "csrc/tape/dtype.h"

namespace dendrite::compiler {
namespace {

constexpr int kMinRuns = 3, kMaxRuns = 9;
constexpr double kMaxWork = 1 << 28;  // multiplications: some milliseconds a run
constexpr double kSeconds = 0.03;     // for the timed runs of a shape
constexpr int kMaxWaits = 500;        // of 10 ms, for another process's measurement
constexpr double kMargin = 1.05;  // the compiler's own can be fused and needs no call: prefer it

using lowering::ProductShape;
using tape::Dims;

int64_t RoundUp(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power >= 4 && power / 4 * 3 >= n ? power / 4 * 3 : power;
}

Dims MatrixDims(const ProductShape& s, int64_t rows, int64_t columns, bool transposed) {
  Dims dims;
  if (s.batch > 1) dims.push_back(s.batch);
  dims.push_back(transposed ? columns : rows);
  dims.push_back(transposed ? rows : columns);
  return dims;
}

std::string TypeText(const Dims& dims) {
  std::string text = "tensor<";
  for (const int64_t size : dims) text += std::to_string(size) + "x";
  return text + "f32>";
}

std::string Program(const ProductShape& s, bool by_name) {
  const int batched = s.batch > 1 ? 1 : 0;
  const std::string a = TypeText(MatrixDims(s, s.m, s.k, s.trans_a));
  const std::string b = TypeText(MatrixDims(s, s.k, s.n, s.trans_b));
  const std::string out = TypeText(MatrixDims(s, s.m, s.n, false));
  const std::string types = " : (" + a + ", " + b + ") -> " + out;
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  std::string product;
  if (by_name) {
    product = std::string("stablehlo.custom_call @") +
              (batched ? lowering::kBmmKernel : lowering::kMmKernel).data() +
              "(%a, %b) {api_version = 4 : i32, backend_config = {trans_a = " + flag(s.trans_a) +
              ", trans_b = " + flag(s.trans_b) + "}}";
  } else {
    product = std::string("stablehlo.dot_general %a, %b, ") +
              (batched ? "batching_dims = [0] x [0], " : "") + "contracting_dims = [" +
              std::to_string(batched + (s.trans_a ? 0 : 1)) + "] x [" +
              std::to_string(batched + (s.trans_b ? 1 : 0)) + "]";
  }
  return "module @product {\n  func.func public @main(%a: " + a + ", %b: " + b + ") -> " + out +
         " {\n    %0 = " + product + types + "\n    return %0 : " + out + "\n  }\n}\n";
}

// Seconds of the fastest run of each program: compiled, by name.
Result<std::array<double, 2>> Measure(const pjrt::Client& client, const ProductShape& shape,
                                      const std::string& options) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::array<pjrt::Executable, 2> programs;
  for (int by_name = 0; by_name < 2; ++by_name) {
    DENDRITE_ASSIGN_OR_RETURN(programs[static_cast<size_t>(by_name)],
                              client.Compile(Program(shape, by_name != 0), options));
  }
  const auto f32 = pjrt::ElementTypeFromDType(static_cast<uint8_t>(tape::DType::kF32));
  const auto make = [&](const Dims& dims) {
    const std::vector<float> ones(static_cast<size_t>(tape::NumElements(dims)), 1.0f);
    return client.FromHost(ones.data(), f32, dims, pjrt::HostBuffer::kCopy);
  };
  DENDRITE_ASSIGN_OR_RETURN(pjrt::Buffer a,
                            make(MatrixDims(shape, shape.m, shape.k, shape.trans_a)));
  DENDRITE_ASSIGN_OR_RETURN(pjrt::Buffer b,
                            make(MatrixDims(shape, shape.k, shape.n, shape.trans_b)));
  std::array<double, 2> best{1e9, 1e9};
  const auto start = Clock::now();
  for (int run = 0; run < kMaxRuns && (run < kMinRuns || since(start) < kSeconds); ++run) {
    for (size_t k = 0; k < 2; ++k) {
      std::vector<pjrt::Buffer> out;
      const auto begin = Clock::now();
      DENDRITE_ASSIGN_OR_RETURN(pjrt::Event event, programs[k].Execute({&a, &b}, &out));
      DENDRITE_RETURN_IF_ERROR(event.Await());
      best[k] = std::min(best[k], since(begin));
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

ProductShape Rounded(const ProductShape& s) {
  ProductShape r = {RoundUp(s.batch), RoundUp(s.m), RoundUp(s.n),
                    RoundUp(s.k),     s.trans_a,    s.trans_b};
  const auto work = [&r] {  // may be beyond int64_t
    return static_cast<double>(r.batch) * static_cast<double>(r.m) * static_cast<double>(r.n) *
           static_cast<double>(r.k);
  };
  while (work() > kMaxWork) {
    *std::max({&r.batch, &r.m, &r.n, &r.k}, [](auto* a, auto* b) { return *a < *b; }) /= 2;
  }
  return r;
}

bool MeasuredProducts::ByName(const ProductShape& shape) {
  const auto fixed = GetChoice(Knob::kProducts);
  if (fixed.ok() && *fixed > 0) return *fixed == 2;
  const ProductShape rounded = Rounded(shape);
  const auto known = known_.find(rounded);
  if (known != known_.end()) return known->second;
  return known_[rounded] = Ask(rounded);
}

std::string MeasuredProducts::Describe() const {
  const auto fixed = GetChoice(Knob::kProducts);
  if (fixed.ok() && *fixed > 0) return *fixed == 2 ? "by name" : "compiled";
  return "measured on " + std::to_string(identity_.num_threads) + " of " + identity_.cpu_features;
}

bool MeasuredProducts::Ask(const ProductShape& shape) {
  cache::Key key("choice");
  key.Add("plugin", identity_.plugin_digest);
  key.Add("cpu", identity_.cpu_features);
  key.Add("threads", identity_.num_threads);
  key.Add("batch", shape.batch);
  key.Add("m", shape.m);
  key.Add("n", shape.n);
  key.Add("k", shape.k);
  key.Add("transposed", shape.trans_a * 2 + shape.trans_b);
  if (const auto answer = Answer(cache_, key)) return *answer;
  // One process of a host measures; the others take its answer, and do not wait for ever.
  std::unique_ptr<FileLock> lock;
  for (int i = 0; i < kMaxWaits && !cache_.TryLock(key, &lock); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (const auto answer = Answer(cache_, key)) return *answer;
  const auto best = Measure(client_, shape, identity_.compile_options);
  if (!best.ok()) {
    DENDRITE_LOG(kInfo) << "products as compiled code: " << best.status().ToString();
    return false;
  }
  const bool by_name = (*best)[1] * kMargin < (*best)[0];
  DENDRITE_LOG(kInfo) << shape.batch << " x [" << shape.m << ", " << shape.k << "] x [" << shape.k
                      << ", " << shape.n << "] " << (by_name ? "by name" : "compiled") << ": "
                      << (*best)[1] * 1e6 << " us by name, " << (*best)[0] * 1e6 << " us compiled";
  cache_.Put(key, by_name ? "name" : "own");
  return by_name;
}

}  // namespace dendrite::compiler
