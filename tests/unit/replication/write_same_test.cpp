// WRITE SAME on a store that has no such operation: what it takes of the pool, and what is written.
#include "replication/core/write_same.hpp"

#include <deque>
#include <optional>

#include <gtest/gtest.h>

#include "tests/unit/iser/event_clock.hpp"

namespace lockstep::replication {
namespace {

using engine::Durability;
using engine::Extent;

/// Writes wait until they are let go.
class HeldStore final : public engine::Store {
 public:
  [[nodiscard]] const engine::StoreInfo& info() const override { return info_; }
  void read(std::uint64_t, std::span<std::byte>, engine::IoCallback) override { FAIL(); }
  void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability,
             engine::IoCallback done) override {
    std::ranges::copy(from, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    durable += durability == Durability::durable;
    held.push_back(std::move(done));
  }
  void write_zeroes(Extent, Durability, engine::IoCallback) override { FAIL(); }
  void discard(Extent, Durability, engine::IoCallback) override { FAIL(); }
  void flush(engine::IoCallback done) override {
    EXPECT_TRUE(held.empty()) << "what is not written yet may not be covered";
    ++flushes;
    held.push_back(std::move(done));
  }
  void let_go(std::error_code error = {}) {
    auto done = std::move(held.front());
    held.pop_front();
    done(error);
  }

  std::vector<std::byte> bytes = std::vector<std::byte>(std::size_t{4} << 20);
  std::deque<engine::IoCallback> held;
  unsigned flushes = 0, durable = 0;

 private:
  engine::StoreInfo info_;
};

struct WriteSame : ::testing::Test {
  void start(Extent extent, Durability durability) {
    write_same(store, pool, clock, extent, block, durability, since, [this](std::error_code error) { ended = error; });
  }
  HeldStore store;
  engine::BufferPool pool{std::size_t{32} << 20};
  test::EventClock clock;
  std::vector<std::byte> block = std::vector<std::byte>(512, std::byte{7});
  engine::TimePoint since;
  std::optional<std::error_code> ended;
};

TEST_F(WriteSame, LeavesThePoolToOthersWhileManyRangesAreWritten) {
  for (int i = 0; i < 128; ++i) start({0, store.bytes.size()}, Durability::cached);
  EXPECT_LE(pool.in_use(), pool.capacity() / 4);
  while (!store.held.empty()) store.let_go();
  EXPECT_EQ(ended, std::error_code{});
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(WriteSame, WritesTheWholeExtentAndFlushesOnceAtItsEnd) {
  const Extent extent{512, (std::size_t{3} << 20) + 1024};
  start(extent, Durability::durable);
  while (!store.held.empty()) store.let_go();
  EXPECT_EQ(ended, std::error_code{});
  EXPECT_EQ(store.flushes, 1u);
  EXPECT_EQ(store.durable, 0u);
  for (std::size_t at = 0; at < store.bytes.size(); at += 512) {
    ASSERT_EQ(store.bytes[at], extent.contains({at, 512}) ? std::byte{7} : std::byte{0}) << at;
  }
}

TEST_F(WriteSame, OfOnePieceIsDurableByItself) {
  start({0, 4096}, Durability::durable);
  while (!store.held.empty()) store.let_go();
  EXPECT_EQ(ended, std::error_code{});
  EXPECT_EQ(store.flushes, 0u);
  EXPECT_EQ(store.durable, 1u);
}

TEST_F(WriteSame, EndsOnceAndWithTheFirstErrorWhenNothingIsUnderWayAnyMore) {
  start({0, store.bytes.size()}, Durability::durable);
  const auto under_way = store.held.size();
  ASSERT_GT(under_way, 2u);
  store.let_go();
  store.let_go(make_error_code(engine::Errc::io_error));
  EXPECT_EQ(store.held.size(), under_way - 1) << "one began when the first had ended, and none since";
  while (store.held.size() > 1) {
    store.let_go(make_error_code(engine::Errc::no_space));
    EXPECT_FALSE(ended);
  }
  store.let_go();
  EXPECT_EQ(ended, make_error_code(engine::Errc::io_error));
  EXPECT_EQ(store.flushes, 0u);
  EXPECT_EQ(pool.in_use(), 0u);
}

/// Or it would be one that hangs: this replica would leave for want of memory.
TEST_F(WriteSame, IsTheStoresOnlyWhenThereIsMemoryForIt) {
  std::vector<engine::Buffer> taken;
  while (auto buffer = pool.allocate(4096)) taken.push_back(std::move(buffer));
  start({0, store.bytes.size()}, Durability::durable);
  clock.run_for(std::chrono::seconds(20));
  ASSERT_TRUE(store.held.empty());
  EXPECT_GT(since, engine::TimePoint{std::chrono::seconds(19)});
  taken.clear();
  clock.run_for(std::chrono::seconds(20));
  ASSERT_FALSE(store.held.empty());
  EXPECT_LT(since, engine::TimePoint{std::chrono::seconds(21)}) << "now the store has it";
  while (!store.held.empty()) store.let_go();
  EXPECT_EQ(ended, std::error_code{});
}

}  // namespace
}  // namespace lockstep::replication
