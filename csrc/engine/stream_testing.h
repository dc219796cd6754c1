// csrc/engine/stream_testing.h - the fixture of the stream's tests: blocks of known values, one
// operator, and a stream over stubs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/engine/engine_test_util.h"
#include "csrc/engine/stream.h"

namespace dendrite::engine {

class StreamTest : public ::testing::Test {
 protected:
  ~StreamTest() override {
    interpreter_.SetOpen(true);
    stream_.reset();
    for (Block* block : storages_) ReleaseMemory(block);
  }

  void Start(const std::function<void(StreamOptions&)>& change = {}) {
    StreamOptions options;
    options.interpreter = &interpreter_;
    options.counters = &counters_;
    options.trace = &trace_;
    options.site = [](int32_t id) { return tape::SourceSite{"model.py", id, "forward"}; };
    options.destroy_host_storage = [](void*) {};
    options.warn = [](const std::string& message) { Warnings().push_back(message); };
    options.compiler = compiler_.get();
    if (compiler_ != nullptr) options.client = FakeClient();
    if (change) change(options);
    Warnings().clear();
    Allocator::Options memory;
    memory.host_visible = options.host_visible;
    allocator_ = std::make_unique<Allocator>(memory);
    stream_ = std::make_unique<Stream>(std::move(options));
  }

  // A storage whose elements are all `value`.
  Block* Make(float value = 0) {
    auto block = allocator_->Allocate(kBytes, 0);
    EXPECT_TRUE(block.ok()) << block.status().ToString();
    storages_.push_back(*block);
    if ((*block)->host_data != nullptr) Fill(*block, value);
    return *block;
  }
  // The storage dies, as when the last tensor over it does.
  void Drop(Block* block) {
    storages_.erase(std::find(storages_.begin(), storages_.end(), block));
    block->storage_alive = false;
    ReleaseMemory(block);
  }
  static void Fill(Block* block, float value) {
    std::fill_n(static_cast<float*>(block->host_data), kElements, value);
  }
  static float Value(const Block* block) { return static_cast<const float*>(block->host_data)[0]; }

  void Append(const Op* op, Block* a, Block* b, Block* out, Mode mode, int32_t site = 1,
              int64_t offset = 0) {
    const Slot slots[] = {{a, offset}, {b, 0}, {out, 0}};
    stream_->Append(op, slots, nullptr, site, mode);
  }
  void Mul(Block* a, Block* b, Block* out, Mode mode) { Append(mul_, a, b, out, mode); }

  static std::vector<std::string>& Warnings() {
    static auto& warnings = *new std::vector<std::string>;
    return warnings;
  }

  const Op* mul_ = MakeOp("aten.mul.Tensor");
  StubInterpreter interpreter_;
  Counters counters_;
  Trace trace_;
  std::unique_ptr<ScriptedCompiler> compiler_;
  std::unique_ptr<Allocator> allocator_;
  std::vector<Block*> storages_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace dendrite::engine
