#include "csrc/engine/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace dendrite::engine {
namespace {

constexpr size_t kPage = Arena::kPage;
constexpr uint64_t kDone = ~uint64_t{0};

TEST(ArenaTest, TheSmallestFreePieceThatFitsIsCut) {
  Arena arena(1 << 20);
  void* large = arena.Allocate(8 * kPage).data;
  arena.Allocate(kPage);  // between the two
  void* small = arena.Allocate(2 * kPage).data;
  arena.Allocate(kPage);
  arena.Free(large, 8 * kPage, 0);
  arena.Free(small, 2 * kPage, 0);
  EXPECT_EQ(arena.Allocate(2 * kPage).data, small);
  EXPECT_EQ(arena.Allocate(kPage).data, large);
  EXPECT_EQ(arena.Allocate(7 * kPage).data, static_cast<char*>(large) + kPage);
  EXPECT_EQ(arena.resident(), 12 * kPage) << "nothing new was needed";
}

TEST(ArenaTest, FreeNeighboursJoinAndKeepTheLatestUse) {
  for (const uint64_t first : {3, 9}) {
    Arena arena(1 << 20);
    char* pieces[4];
    for (char*& piece : pieces) piece = static_cast<char*>(arena.Allocate(kPage).data);
    arena.Free(pieces[0], kPage, first);
    arena.Free(pieces[2], kPage, 12 - first);
    arena.Free(pieces[1], kPage, 5);
    const Arena::Piece joined = arena.Allocate(3 * kPage);
    EXPECT_EQ(joined.data, pieces[0]);
    EXPECT_EQ(joined.last_use, 9u);
  }
}

TEST(ArenaTest, AFreeEndIsJoinedWithNewAddresses) {
  Arena arena(4 * kPage);
  void* first = arena.Allocate(kPage).data;
  void* second = arena.Allocate(2 * kPage).data;
  arena.Free(second, 2 * kPage, 4);
  const Arena::Piece wide = arena.Allocate(3 * kPage);
  EXPECT_EQ(wide.data, second);
  EXPECT_EQ(wide.last_use, 4u);
  EXPECT_EQ(arena.Allocate(kPage).data, nullptr) << "out of addresses";
  arena.Free(first, kPage, 0);
  EXPECT_EQ(arena.Allocate(kPage).data, first);
}

TEST(ArenaTest, WhatIsReleasedIsZeroAndCountedAgainWhenHandedOut) {
  Arena arena(1 << 20);
  auto* data = static_cast<char*>(arena.Allocate(4 * kPage).data);
  auto* live = static_cast<char*>(arena.Allocate(kPage).data);
  std::memset(data, 1, 4 * kPage);
  *live = 1;
  arena.Free(data, 4 * kPage, 7);
  EXPECT_EQ(arena.Release(kPage, 6), 0u) << "work up to 7 may still touch it";
  EXPECT_EQ(arena.Release(kPage, 7), 4 * kPage);
  EXPECT_EQ(arena.resident(), kPage);
  EXPECT_EQ(*live, 1);
  EXPECT_EQ(arena.Release(kPage, kDone), 0u) << "nothing is left to return";
  EXPECT_EQ(arena.Allocate(3 * kPage).data, data);
  EXPECT_EQ(data[0], 0);
  EXPECT_EQ(arena.resident(), 4 * kPage);
}

TEST(ArenaTest, TooManyAddressesAreFewerAndNotNone) {
  Arena arena(size_t{1} << 60);
  EXPECT_NE(arena.Allocate(kPage).data, nullptr);
}

// Against a plain model: no two live pieces overlap, contents stay, and what is counted is true.
TEST(ArenaTest, RandomPiecesNeverOverlap) {
  Arena arena(size_t{64} << 20);
  std::mt19937 random(5);
  struct Live {
    char* data;
    size_t nbytes;
    char mark;
  };
  std::vector<Live> live;
  size_t in_use = 0;
  for (int i = 0; i < 20000; ++i) {
    if (live.size() < 40 && random() % 2 == 0) {
      const size_t nbytes = (1 + random() % 30) * kPage;
      auto* data = static_cast<char*>(arena.Allocate(nbytes).data);
      ASSERT_NE(data, nullptr);
      for (const Live& other : live) {
        ASSERT_TRUE(data + nbytes <= other.data || other.data + other.nbytes <= data);
      }
      live.push_back({data, nbytes, static_cast<char>(i)});
      data[0] = data[nbytes - 1] = live.back().mark;
      in_use += nbytes;
    } else if (!live.empty()) {
      const size_t index = random() % live.size();
      const Live gone = live[index];
      ASSERT_EQ(gone.data[0], gone.mark);
      ASSERT_EQ(gone.data[gone.nbytes - 1], gone.mark);
      arena.Free(gone.data, gone.nbytes, 0);
      in_use -= gone.nbytes;
      live.erase(live.begin() + static_cast<ptrdiff_t>(index));
    }
    if (i % 100 == 0) arena.Release(random() % (1 << 20), kDone);
    ASSERT_EQ(arena.in_use(), in_use);
    ASSERT_GE(arena.resident(), in_use);
  }
  for (const Live& piece : live) arena.Free(piece.data, piece.nbytes, 0);
  arena.Release(~size_t{0}, kDone);
  EXPECT_EQ(arena.resident(), 0u);
}

}  // namespace
}  // namespace dendrite::engine
