// csrc/compiler/compile_test_util.h - programs and tapes for this folder's tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <string>

#include "csrc/pjrt/client.h"
#include "csrc/tape/record.h"

namespace dendrite::compiler {

inline std::string FromTestEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}
inline std::string TestPlugin() { return FromTestEnvironment("DENDRITE_TEST_PLUGIN"); }
inline std::string TestWorker() { return FromTestEnvironment("DENDRITE_TEST_WORKER"); }

// One client for the whole test program: plugins are never unloaded.
inline std::shared_ptr<pjrt::Client> TestClient() {
  static const auto client = pjrt::Client::Create(TestPlugin());
  EXPECT_TRUE(client.ok()) << client.status().ToString();
  return client.ok() ? *client : nullptr;
}

// x + x + ... over f32[n], `adds` times: compile time grows with `adds`.
inline std::string AddChain(int adds, int n = 8) {
  const std::string t = "tensor<" + std::to_string(n) + "xf32>";
  std::string s = "module @m { func.func public @main(%v0: " + t + ") -> " + t + " {\n";
  for (int i = 0; i < adds; ++i) {
    s += "  %v" + std::to_string(i + 1) + " = stablehlo.add %v" + std::to_string(i) +
         ", %v0 : " + t + "\n";
  }
  return s + "  return %v" + std::to_string(adds) + " : " + t + "\n} }\n";
}

// A tape of `ops` additions: storage 0 is the input, storage k holds the k-th result. Owns its
// signatures.
class TestTape {
 public:
  explicit TestTape(int ops, int64_t n = 8, const std::string& op = "aten.mul.Tensor") {
    auto tape = std::make_shared<tape::Tape>();
    tape::OperandType in, out;
    in.view = {tape::DType::kF32, {n}, {1}, false, false};
    in.read = true;
    out.view = in.view;
    out.written = true;
    auto sig = std::make_shared<tape::Signature>();
    sig->id = 1;
    sig->op = op;
    sig->operands = {in, in, out};
    for (int64_t i = 0; i < 2; ++i) {
      tape::Arg arg;
      arg.kind = tape::Arg::Kind::kTensor;
      arg.ints = {i};
      sig->args.push_back(arg);
    }
    sig->results = {2};
    tape->storages.resize(static_cast<size_t>(ops) + 1);
    for (auto& storage : tape->storages) storage.nbytes = n * 4;
    tape->sites.resize(1);
    for (int i = 0; i < ops; ++i) {
      tape::Record record;
      record.sig = sig.get();
      record.operands = {{i, 0, -1}, {0, 0, -1}, {i + 1, 0, -1}};
      tape->records.push_back(record);
    }
    // The tape keeps its signature alive, as interning does in the program.
    tape_ = std::shared_ptr<const tape::Tape>(tape.get(), [tape, sig](const tape::Tape*) {});
  }
  const std::shared_ptr<const tape::Tape>& get() const { return tape_; }
  // Only the last result lives on, and `also` if it is not negative.
  std::vector<bool> Live(int also = -1) const {
    std::vector<bool> live(tape_->storages.size(), false);
    live.back() = true;
    if (also >= 0) live[static_cast<size_t>(also)] = true;
    return live;
  }

 private:
  std::shared_ptr<const tape::Tape> tape_;
};

}  // namespace dendrite::compiler
