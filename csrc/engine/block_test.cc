#include "csrc/engine/block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace dendrite::engine {
namespace {

std::atomic<int> destroyed{0};

class AllocatorTest : public ::testing::Test {
 protected:
  Allocator::Options Options(bool host_visible = true) {
    Allocator::Options options;
    options.host_visible = host_visible;
    options.completed = &completed_;
    options.destroy_host_storage = [](void*) { ++destroyed; };
    return options;
  }
  static Block* Make(Allocator& allocator, size_t nbytes, int pool = 0) {
    auto block = allocator.Allocate(nbytes, pool);
    EXPECT_TRUE(block.ok()) << block.status().ToString();
    return *block;
  }
  static Block* MakePlaced(Allocator& allocator, size_t nbytes, int pool = 0) {
    Block* block = Make(allocator, nbytes, pool);
    EXPECT_TRUE(allocator.Place(block).ok());
    return block;
  }
  std::atomic<uint64_t> completed_{0};
};

TEST_F(AllocatorTest, MemoryOfADeadStorageIsReusedAtOnce) {
  Allocator allocator(Options());
  Block* first = Make(allocator, 1000);
  void* memory = first->data;
  ReleaseMemory(first);
  Block* second = Make(allocator, 900);  // of the same capacity
  EXPECT_EQ(second->data, memory);
  ReleaseMemory(second);
}

TEST_F(AllocatorTest, MemoryThatTheOpenTapeKnowsIsNotReused) {
  Allocator allocator(Options());
  Block* block = Make(allocator, 1000);
  void* memory = block->data;
  RetainMemory(block);   // the tape
  ReleaseMemory(block);  // the storage dies
  Block* other = Make(allocator, 1000);
  EXPECT_NE(other->data, memory);
  ReleaseMemory(block);  // the tape is dispatched
  Block* third = Make(allocator, 1000);
  EXPECT_EQ(third->data, memory);
  ReleaseMemory(other);
  ReleaseMemory(third);
}

TEST_F(AllocatorTest, DispatchedWorkKeepsTheBlockAndNotItsMemory) {
  Allocator allocator(Options());
  Block* block = Make(allocator, 1000);
  void* memory = block->data;
  Retain(block);  // dispatched work
  ReleaseMemory(block);
  Block* next = Make(allocator, 1000);
  EXPECT_EQ(next->data, memory);
  EXPECT_EQ(block->data, memory) << "the work still finds its address";
  Release(block);
  ReleaseMemory(next);
}

TEST_F(AllocatorTest, PoolsAreOfOneStreamAndOneCapacity) {
  Allocator allocator(Options());
  Block* block = Make(allocator, 1000, 0);
  void* memory = block->data;
  ReleaseMemory(block);
  Block* of_another_stream = Make(allocator, 1000, 1);
  Block* bigger = Make(allocator, 5000, 0);
  EXPECT_NE(of_another_stream->data, memory);
  EXPECT_NE(bigger->data, memory);
  ReleaseMemory(of_another_stream);
  ReleaseMemory(bigger);
}

TEST_F(AllocatorTest, AReusedBlockRemembersTheLastUseOfItsMemory) {
  Allocator allocator(Options());
  Block* block = Make(allocator, 1000);
  block->last_use = 7;
  ReleaseMemory(block);
  Block* next = Make(allocator, 1000);
  EXPECT_EQ(next->last_use, 7u) << "a reader on the host must wait for that work";
  ReleaseMemory(next);
}

TEST_F(AllocatorTest, MemoryThatWorkMayTouchIsKeptFromTheSystem) {
  Allocator allocator(Options());
  Block* block = Make(allocator, 1000);
  block->last_use = 7;
  ReleaseMemory(block);
  completed_ = 6;
  allocator.EmptyCache();
  EXPECT_GT(allocator.stats().reserved, 0);
  completed_ = 7;
  allocator.EmptyCache();
  EXPECT_EQ(allocator.stats().reserved, 0);
}

TEST_F(AllocatorTest, AddressesAreAlignedAndUniqueEvenForNothing) {
  for (bool host_visible : {true, false}) {
    Allocator allocator(Options(host_visible));
    std::set<void*> seen;
    std::vector<Block*> blocks;
    for (size_t nbytes : {size_t{0}, size_t{0}, size_t{1}, size_t{513}, size_t{3} << 20}) {
      blocks.push_back(Make(allocator, nbytes));
      EXPECT_NE(blocks.back()->data, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()->data) % 64, 0u);
      EXPECT_TRUE(seen.insert(blocks.back()->data).second);
    }
    for (Block* block : blocks) ReleaseMemory(block);
  }
}

TEST_F(AllocatorTest, HostVisibleMemoryHoldsWhatWasAskedFor) {
  Allocator allocator(Options());
  Block* block = Make(allocator, 5000);
  EXPECT_EQ(block->host_data, block->data);
  std::memset(block->data, 1, 5000);
  ReleaseMemory(block);
}

using AllocatorDeathTest = AllocatorTest;

TEST_F(AllocatorDeathTest, AnOpaqueAddressFaultsWhenTouched) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Allocator allocator(Options(false));
  Block* block = Make(allocator, 64);
  EXPECT_EQ(block->host_data, nullptr);
  EXPECT_DEATH(*static_cast<volatile char*>(block->data) = 1, "");
  ReleaseMemory(block);
}

TEST_F(AllocatorTest, TooMuchIsAnErrorThatSaysHowMuch) {
  Allocator allocator(Options());
  Block* live = Make(allocator, 1000);
  auto block = allocator.Allocate(size_t{1} << 62, 0);
  ASSERT_FALSE(block.ok());
  EXPECT_EQ(block.status().code(), Code::kResourceExhausted);
  EXPECT_NE(block.status().message().find("4611686018427387904 bytes"), std::string::npos);
  EXPECT_NE(block.status().message().find("1000 bytes are held"), std::string::npos);
  ReleaseMemory(live);
}

TEST_F(AllocatorTest, StatisticsFollowStoragesAndTheirPeak) {
  Allocator allocator(Options());
  Block* a = Make(allocator, 1000);
  Block* b = Make(allocator, 2000);
  ReleaseMemory(a);
  EXPECT_EQ(allocator.stats().allocated, 2000);
  EXPECT_EQ(allocator.stats().peak_allocated, 3000);
  EXPECT_GE(allocator.stats().reserved, 3000);
  EXPECT_EQ(allocator.stats().allocations, 2);
  EXPECT_EQ(allocator.stats().frees, 1);
  allocator.ResetPeak();
  EXPECT_EQ(allocator.stats().peak_allocated, 2000);
  ReleaseMemory(b);
}

TEST_F(AllocatorTest, PooledMemoryIsBounded) {
  Allocator allocator(Options());
  std::vector<Block*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(MakePlaced(allocator, size_t{4} << 20));
  for (Block* block : blocks) ReleaseMemory(block);
  EXPECT_EQ(allocator.stats().allocated, 0);
  // As much as was in use before, in another size: what is pooled makes room for it.
  for (Block*& block : blocks) block = MakePlaced(allocator, size_t{3} << 20);
  const auto stats = allocator.stats();
  EXPECT_LE(stats.peak_reserved, (int64_t{400} << 20) * 33 / 32 + (int64_t{16} << 20));
  for (Block* block : blocks) ReleaseMemory(block);
}

TEST_F(AllocatorTest, WhatWasInUseBeforeStaysPooled) {
  Allocator allocator(Options());
  for (int step = 0; step < 3; ++step) {
    std::vector<Block*> blocks;
    for (int i = 0; i < 100; ++i) blocks.push_back(MakePlaced(allocator, size_t{4} << 20));
    for (Block* block : blocks) ReleaseMemory(block);
    EXPECT_EQ(allocator.stats().reserved, int64_t{400} << 20);
  }
}

TEST_F(AllocatorTest, LargeStoragesCostNothingUntilTheyArePlaced) {
  Allocator allocator(Options());
  Block* block = Make(allocator, size_t{8} << 20);
  EXPECT_EQ(block->host_data, nullptr);
  EXPECT_EQ(allocator.stats().reserved, 0);
  ASSERT_TRUE(allocator.Place(block).ok());
  void* memory = block->host_data;
  ASSERT_NE(memory, nullptr);
  EXPECT_NE(memory, block->data);
  std::memset(memory, 1, size_t{8} << 20);
  ASSERT_TRUE(allocator.Place(block).ok()) << "again: nothing happens";
  EXPECT_EQ(block->host_data, memory);
  EXPECT_EQ(allocator.stats().reserved, int64_t{8} << 20);
  Retain(block);  // dispatched work
  ReleaseMemory(block);
  EXPECT_EQ(block->host_data, memory) << "the work still finds it";
  Block* next = MakePlaced(allocator, size_t{8} << 20);
  EXPECT_EQ(next->host_data, memory);
  EXPECT_EQ(allocator.stats().reserved, int64_t{8} << 20);
  Release(block);
  ReleaseMemory(next);
}

TEST_F(AllocatorTest, LargeMemoryRemembersWorkThatMayTouchIt) {
  Allocator allocator(Options());
  Block* block = MakePlaced(allocator, size_t{1} << 20);
  block->last_use = 7;
  ReleaseMemory(block);
  Block* next = MakePlaced(allocator, size_t{1} << 19);
  EXPECT_EQ(next->last_use, 7u) << "a reader on the host must wait for that work";
  completed_ = 6;
  allocator.EmptyCache();
  EXPECT_EQ(allocator.stats().reserved, int64_t{1} << 20);
  completed_ = 7;
  allocator.EmptyCache();
  EXPECT_EQ(allocator.stats().reserved, int64_t{1} << 19) << "what is in use stays";
  ReleaseMemory(next);
}

TEST_F(AllocatorTest, TheCachedHostStorageDiesWithTheBlock) {
  Allocator allocator(Options());
  const int before = destroyed;
  Block* block = Make(allocator, 1000);
  block->host_storage = &completed_;
  Retain(block);
  ReleaseMemory(block);
  EXPECT_EQ(destroyed, before);
  Release(block);
  EXPECT_EQ(destroyed, before + 1);
}

TEST_F(AllocatorTest, FindsTheBlockAroundAnAddress) {
  Allocator allocator(Options());
  Block* a = Make(allocator, 1000);
  Block* b = Make(allocator, 1000);
  Block* found = allocator.Find(static_cast<char*>(b->data) + 999);
  EXPECT_EQ(found, b);
  EXPECT_EQ(allocator.Find(&completed_), nullptr);
  void* memory = b->data;
  ReleaseMemory(b);  // the storage; what Find gave still holds the memory
  Block* c = Make(allocator, 1000);
  EXPECT_NE(c->data, memory);
  ReleaseMemory(found);
  EXPECT_EQ(allocator.Find(memory), nullptr) << "in the pool";
  ReleaseMemory(a);
  ReleaseMemory(c);
}

}  // namespace
}  // namespace dendrite::engine
