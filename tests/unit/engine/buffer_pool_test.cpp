#include "engine/runtime/buffer_pool.hpp"

#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

constexpr std::size_t kMiB = 1 << 20;

TEST(BufferPool, RoundsItsCapacityUpToWholeLargestBuffers) {
  EXPECT_EQ(BufferPool(1).capacity(), 32 * kMiB);
  EXPECT_EQ(BufferPool(33 * kMiB).capacity(), 64 * kMiB);
  EXPECT_EQ(BufferPool(33 * kMiB).arena().size(), 64 * kMiB);
}

TEST(BufferPool, BuffersAreAlignedAndHaveTheSizeAskedFor) {
  BufferPool pool(16 * kMiB);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{512}, std::size_t{4096}, std::size_t{4097}, kMiB + 1}) {
    const Buffer buffer = pool.allocate(bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % BufferPool::kAlignment, 0u);
    EXPECT_GE(buffer.data(), pool.arena().data());
    EXPECT_LE(buffer.data() + bytes, pool.arena().data() + pool.arena().size());
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BufferPool, GivesAnEmptyBufferForWhatItCannotServe) {
  BufferPool pool(32 * kMiB);
  EXPECT_FALSE(pool.allocate(0));
  EXPECT_FALSE(pool.allocate(BufferPool::kMaxBuffer + 1));
  const Buffer all = pool.allocate(BufferPool::kMaxBuffer);
  ASSERT_TRUE(all);
  EXPECT_FALSE(pool.allocate(1));
}

TEST(BufferPool, SizesInZonesOfTheirOwnNeitherBreakOneAnotherUpNorRunOneAnotherDry) {
  BufferPool pool(256 * kMiB, BufferPool::Layout::by_size);
  ASSERT_EQ(pool.zones(), 3u);
  std::vector<Buffer> small, medium;
  while (Buffer buffer = pool.allocate(4096)) small.push_back(std::move(buffer));
  EXPECT_EQ(small.size() * 4096, pool.zone_capacity(pool.zone_of(4096)));
  while (Buffer buffer = pool.allocate(kMiB)) medium.push_back(std::move(buffer));
  EXPECT_EQ(medium.size() * kMiB, pool.zone_capacity(pool.zone_of(kMiB)));
  std::vector<Buffer> large;
  while (Buffer buffer = pool.allocate(BufferPool::kMaxBuffer)) large.push_back(std::move(buffer));
  EXPECT_EQ(pool.in_use(), pool.capacity());
}

TEST(BufferPool, ASmallPoolHasFewerZonesAndServesAllSizes) {
  for (const std::size_t capacity : {32 * kMiB, 64 * kMiB, 96 * kMiB}) {
    BufferPool pool(capacity, BufferPool::Layout::by_size);
    for (const std::size_t bytes : {std::size_t{1}, kMiB, BufferPool::kMaxBuffer}) EXPECT_TRUE(pool.allocate(bytes));
  }
}

TEST(BufferPool, ABufferIsResizedWithinItsBlock) {
  BufferPool pool(32 * kMiB);
  Buffer buffer = pool.allocate(4097);
  EXPECT_TRUE(buffer.resize(8192));
  EXPECT_TRUE(buffer.resize(1));
  EXPECT_EQ(buffer.size(), 1u);
  EXPECT_FALSE(buffer.resize(8193));
  EXPECT_FALSE(buffer.resize(0));
  buffer.reset();
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BufferPool, ServesItsWholeCapacityInSmallBuffersAndThenInLargeOnesAgain) {
  BufferPool pool(64 * kMiB);
  std::vector<Buffer> held;
  while (Buffer buffer = pool.allocate(4096)) held.push_back(std::move(buffer));
  EXPECT_EQ(held.size(), 64 * kMiB / 4096);
  EXPECT_EQ(pool.in_use(), pool.capacity());
  held.clear();
  EXPECT_EQ(pool.in_use(), 0u);
  const Buffer first = pool.allocate(BufferPool::kMaxBuffer), second = pool.allocate(BufferPool::kMaxBuffer);
  EXPECT_TRUE(first && second) << "what was kept whole is merged when it is needed";
}

TEST(BufferPool, AMovedBufferGoesBackOnce) {
  BufferPool pool(8 * kMiB);
  Buffer a = pool.allocate(4096);
  Buffer b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT: moved from is empty
  Buffer c = pool.allocate(8192);
  c = std::move(b);
  EXPECT_EQ(pool.in_use(), 4096u);
  c.reset();
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(BufferPool, NoTwoBuffersEverShareAByte) {
  BufferPool pool(32 * kMiB);
  std::mt19937 random(11);
  std::vector<std::pair<Buffer, unsigned char>> held;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 || held.empty()) {
      const std::size_t bytes = 1 + random() % (std::size_t{4096} << random() % 7);
      Buffer buffer = pool.allocate(bytes);
      if (!buffer) continue;
      const auto mark = static_cast<unsigned char>(step);
      std::memset(buffer.data(), mark, std::min<std::size_t>(bytes, 64));
      std::memset(buffer.data() + bytes - 1, mark, 1);
      held.emplace_back(std::move(buffer), mark);
    } else {
      auto& pick = held[random() % held.size()];
      ASSERT_EQ(pick.first.data()[0], std::byte{pick.second});
      ASSERT_EQ(pick.first.data()[pick.first.size() - 1], std::byte{pick.second});
      std::swap(pick, held.back());
      held.pop_back();
    }
  }
  held.clear();
  EXPECT_EQ(pool.in_use(), 0u);
}

}  // namespace
}  // namespace lockstep::engine
