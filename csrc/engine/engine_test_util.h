// csrc/engine/engine_test_util.h - operators, an interpreter and a compile service for this
// folder's tests.
//
// Tensors are f32[n] over whole blocks unless a test says otherwise. The interpreter multiplies, so
// values show what ran and in which order; the plugin behind compiled snippets is the fake one,
// which writes zeros, so values show on which tier it ran, too.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "csrc/compiler/compile_service.h"
#include "csrc/engine/op.h"
#include "csrc/lowering/snippet.h"
#include "csrc/pjrt/client.h"

namespace dendrite::engine {

constexpr int64_t kElements = 16;
constexpr size_t kBytes = kElements * sizeof(float);

inline std::shared_ptr<pjrt::Client> FakeClient() {
  static const auto client = [] {
    const char* path = std::getenv("DENDRITE_TEST_FAKE_PLUGIN");
    return pjrt::Client::Create(path == nullptr ? "" : path);
  }();
  EXPECT_TRUE(client.ok()) << client.status().ToString();
  return client.ok() ? *client : nullptr;
}

// `out = a op b`, all f32[elements]. Never freed, as interned operators are.
inline const Op* MakeOp(const std::string& name, int64_t elements = kElements) {
  static std::atomic<uint64_t> next_id{1};
  static auto& all = *new std::deque<Op>;
  Op& op = all.emplace_back();
  op.sig.id = next_id++;
  op.sig.op = name;
  tape::OperandType in;
  in.view = {tape::DType::kF32, {elements}, {1}, false, false};
  in.read = true;
  tape::OperandType out = in;
  out.read = false;
  out.written = true;
  op.sig.operands = {in, in, out};
  for (int64_t i = 0; i < 2; ++i) {
    tape::Arg arg;
    arg.kind = tape::Arg::Kind::kTensor;
    arg.ints = {i};
    op.sig.args.push_back(arg);
  }
  op.sig.results = {2};
  op.content_hash = ContentHash(op.sig) | 1;  // never a content-defined cut
  op.bytes_written = elements * 4;
  return &op;
}

// Multiplies, and remembers in which order. Can be held closed; an operator "test.fail" fails.
class StubInterpreter : public Interpreter {
 public:
  Status Run(const Op& op, const Slot* slots, const tape::Lifted*) override {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return open_; });
    ran_.push_back(op.sig.op);
    changed_.notify_all();
    if (op.sig.op == "test.fail") return Internal("it went wrong");
    const auto at = [&](size_t i) {
      return static_cast<float*>(slots[i].block->host_data) + slots[i].offset;
    };
    for (int64_t i = 0; i < op.sig.operands[2].view.numel(); ++i) {
      at(2)[i] = at(0)[i] * at(1)[i];
    }
    return {};
  }
  void SetOpen(bool open) {
    std::lock_guard lock(mu_);
    open_ = open;
    changed_.notify_all();
  }
  // False if fewer have run after ten seconds: then a test fails instead of hanging.
  bool WaitForRuns(size_t n) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return ran_.size() >= n; });
  }
  std::vector<std::string> ran() {
    std::lock_guard lock(mu_);
    return ran_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  // --- guarded by mu_
  bool open_ = true;
  std::vector<std::string> ran_;
};

// Compiles when the test says so, on the fake plugin.
class ScriptedCompiler : public compiler::CompileService {
 public:
  struct Submission {
    std::shared_ptr<const tape::Tape> tape;
    lowering::SnippetOptions options;
    std::shared_ptr<compiler::CompileJob> job;
  };

  std::shared_ptr<compiler::CompileJob> Submit(std::shared_ptr<const tape::Tape> tape,
                                               lowering::SnippetOptions options, double,
                                               std::string) override {
    std::lock_guard lock(mu_);
    submissions_.push_back({std::move(tape), std::move(options), MakeJob()});
    Submission& made = submissions_.back();
    if (made.tape->records.size() > most_records_) {
      SetFailed(*made.job, Internal("too large"));
    } else if (at_once_) {
      Compile(made);
    }
    return made.job;
  }
  void Prefetch(std::shared_ptr<const tape::Tape>, lowering::SnippetOptions options,
                std::string) override {
    std::lock_guard lock(mu_);
    prefetches_.push_back(std::move(options));
  }
  compiler::CompileStats stats() const override { return {}; }
  void ResetStats() override {}
  std::vector<compiler::CompileEvent> TakeEvents() override { return {}; }
  bool WaitIdle(double) override { return true; }

  // From now on every submission is compiled before Submit returns.
  void CompileAtOnce() { at_once_ = true; }
  // Larger tapes fail.
  void FailLargerThan(size_t records) { most_records_ = records; }
  void CompileAll() {
    std::lock_guard lock(mu_);
    for (auto& submission : submissions_) {
      if (!submission.job->done()) Compile(submission);
    }
  }
  void FailAll(const std::string& why) {
    std::lock_guard lock(mu_);
    for (auto& submission : submissions_) {
      if (!submission.job->done()) SetFailed(*submission.job, Internal(why));
    }
  }
  std::vector<Submission> submissions() {
    std::lock_guard lock(mu_);
    return {submissions_.begin(), submissions_.end()};
  }
  std::vector<lowering::SnippetOptions> prefetches() {
    std::lock_guard lock(mu_);
    return prefetches_;
  }

 private:
  static void Compile(const Submission& submission) {
    auto snippet = lowering::LowerTape(*submission.tape, submission.options);
    ASSERT_TRUE(snippet.ok()) << snippet.status().ToString();
    auto loaded = std::make_shared<compiler::LoadedSnippet>();
    auto executable = FakeClient()->Compile(snippet->stablehlo);
    ASSERT_TRUE(executable.ok()) << executable.status().ToString();
    loaded->executable = std::move(*executable);
    loaded->snippet = std::move(*snippet);
    SetReady(*submission.job, std::move(loaded));
  }
  std::mutex mu_;
  std::deque<Submission> submissions_;
  std::vector<lowering::SnippetOptions> prefetches_;
  bool at_once_ = false;
  size_t most_records_ = ~size_t{0};
};

}  // namespace dendrite::engine
