#include "csrc/engine/chunk.h"

#include <gtest/gtest.h>

#include "csrc/engine/engine_test_util.h"

namespace dendrite::engine {
namespace {

class ChunkTest : public ::testing::Test {
 protected:
  ~ChunkTest() override {
    for (Block* block : chunk_.blocks) ReleaseMemory(block);
    for (Block* block : made_) ReleaseMemory(block);
  }
  Block* Make(size_t nbytes = kBytes) {
    made_.push_back(*allocator_.Allocate(nbytes, 0));
    return made_.back();
  }
  void Add(const Op* op, std::vector<Slot> slots) {
    chunk_.calls.push_back({op, static_cast<uint32_t>(chunk_.slots.size()), 0, 0});
    for (const Slot& slot : slots) {
      NumberBlock(chunk_, slot.block);
      chunk_.slots.push_back(slot);
    }
  }
  Allocator allocator_{Allocator::Options{}};
  std::vector<Block*> made_;
  Chunk chunk_ = [] {
    Chunk chunk;
    chunk.epoch = 1000;
    return chunk;
  }();
};

TEST_F(ChunkTest, BlocksAreNumberedByFirstAppearance) {
  Block *a = Make(), *b = Make();
  EXPECT_EQ(NumberBlock(chunk_, b), 0);
  EXPECT_EQ(NumberBlock(chunk_, a), 1);
  EXPECT_EQ(NumberBlock(chunk_, b), 0);
  EXPECT_EQ(chunk_.blocks, (std::vector<Block*>{b, a}));
  EXPECT_EQ(b->memory_refs, 2) << "one for the storage, one for the tape, however often it appears";
}

TEST_F(ChunkTest, ANumberFromAnEarlierChunkDoesNotCount) {
  Block *a = Make(), *b = Make();
  NumberBlock(chunk_, a);
  NumberBlock(chunk_, b);
  Chunk next;
  next.epoch = 1001;
  EXPECT_EQ(NumberBlock(next, b), 0);
  ASSERT_EQ(next.blocks.size(), 1u);
  ReleaseMemory(b);
}

TEST_F(ChunkTest, TheTapeNamesStoragesAndOffsetsByNumber) {
  const Op* mul = MakeOp("aten.mul.Tensor", 4);
  Block *a = Make(), *b = Make();
  Add(mul, {{a, 8}, {a, 0}, {b, 0}});
  Add(mul, {{b, 0}, {a, 4}, {b, 4}});
  auto tape = MakeTape(chunk_, {false, false, false, false, true, true}, true, {{}, {}});
  ASSERT_EQ(tape->records.size(), 2u);
  ASSERT_EQ(tape->storages.size(), 2u);
  EXPECT_EQ(tape->storages[0].nbytes, static_cast<int64_t>(kBytes));
  EXPECT_EQ(tape->records[0].operands[0].storage, 0);
  EXPECT_EQ(tape->records[0].operands[0].offset, 8);
  EXPECT_EQ(tape->records[0].operands[0].offset_slot, -1);
  EXPECT_EQ(tape->records[1].operands[1].offset_slot, 0);
  EXPECT_EQ(tape->records[1].operands[2].offset_slot, 1);
  EXPECT_EQ(tape->records[1].site, 1);
  EXPECT_EQ(tape->num_lifted_offsets, 2);
}

TEST_F(ChunkTest, OnOpaqueTargetsTheTapeSaysWhatEachBufferHolds) {
  const Op* mul = MakeOp("aten.mul.Tensor");
  Block *written = Make(), *fresh = Make();
  written->form_dtype = fresh->form_dtype = tape::DType::kF32;
  written->initialized = true;
  Add(mul, {{written, 0}, {written, 0}, {fresh, 0}});
  auto tape = MakeTape(chunk_, {false, false, false}, false, {{}});
  EXPECT_TRUE(tape->storages[0].initialized);
  EXPECT_FALSE(tape->storages[1].initialized);
  EXPECT_EQ(tape->storages[0].form_dims, (tape::Dims{kElements}));
}

}  // namespace
}  // namespace dendrite::engine
