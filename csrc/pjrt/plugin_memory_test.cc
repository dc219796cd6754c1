#include "csrc/pjrt/plugin_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "csrc/pjrt/client.h"

namespace dendrite::pjrt {
namespace {

constexpr ElementType kF32 = 11;

// What the plugin holds, and how often it took and gave back. Outlives the plugin.
struct Ledger {
  std::mutex mu;
  std::map<const void*, size_t> live;
  int taken = 0, given = 0;
};

Ledger& TheLedger() {
  static auto& ledger = *new Ledger;
  return ledger;
}

void* Take(size_t nbytes) {
  Ledger& ledger = TheLedger();
  const std::lock_guard lock(ledger.mu);
  const size_t rounded =
      (nbytes + kPluginMemoryAlignment - 1) / kPluginMemoryAlignment * kPluginMemoryAlignment;
  void* data = std::aligned_alloc(kPluginMemoryAlignment, rounded);
  ledger.live[data] = rounded;
  ++ledger.taken;
  return data;
}

size_t Size(const void* data) {
  Ledger& ledger = TheLedger();
  const std::lock_guard lock(ledger.mu);
  const auto it = ledger.live.find(data);
  return it == ledger.live.end() ? 0 : it->second;
}

bool GiveBack(void* data) {
  Ledger& ledger = TheLedger();
  const std::lock_guard lock(ledger.mu);
  if (ledger.live.erase(data) == 0) return false;
  ++ledger.given;
  std::free(data);
  return true;
}

constexpr PluginMemory kMemory = {&Take, &Size, &GiveBack};

class PluginMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("DENDRITE_TEST_PLUGIN");
    ASSERT_NE(path, nullptr);
    path_ = path;
    auto client = Client::Create(path_);
    ASSERT_TRUE(client.ok()) << client.status().ToString();
    client_ = *client;
  }

  // A buffer of the plugin's own memory.
  Buffer Copied(const std::vector<float>& values) {
    auto buffer = client_->FromHost(values.data(), kF32, {static_cast<int64_t>(values.size())},
                                    HostBuffer::kCopy);
    EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
    return std::move(*buffer);
  }

  std::string path_;
  std::shared_ptr<Client> client_;
};

TEST_F(PluginMemoryTest, LargeAllocationsAreOursAndComeBack) {
  std::vector<float> values(1 << 18);
  std::iota(values.begin(), values.end(), 0.0f);
  const Ledger& ledger = TheLedger();
  {
    Buffer before = Copied(values);
    ASSERT_TRUE(ServePluginMemory(path_, kMemory).ok());
    const int taken = ledger.taken;
    Buffer after = Copied(values);
    EXPECT_EQ(ledger.taken, taken + 1);
    const Buffer small = Copied({1, 2, 3});
    EXPECT_EQ(ledger.taken, taken + 1);
    for (Buffer* buffer : {&before, &after}) {
      std::vector<float> back(values.size());
      ASSERT_TRUE(buffer->ToHost(back.data(), back.size() * sizeof(float)).ok());
      EXPECT_EQ(back, values);
    }
  }
  EXPECT_EQ(ledger.given, ledger.taken);
  EXPECT_TRUE(ledger.live.empty());
}

TEST_F(PluginMemoryTest, OneMemoryForTheProcess) {
  static constexpr PluginMemory kOther = {&Take, &Size, &GiveBack};
  ASSERT_TRUE(ServePluginMemory(path_, kMemory).ok());
  EXPECT_EQ(ServePluginMemory(path_, kOther).code(), Code::kFailedPrecondition);
}

TEST_F(PluginMemoryTest, APluginThatIsNotLoadedIsRefused) {
  EXPECT_EQ(ServePluginMemory("/nowhere/plugin.so", kMemory).code(), Code::kFailedPrecondition);
}

}  // namespace
}  // namespace dendrite::pjrt
