// StoreDisk: a disk out of a store that does one thing at a time, when it is told to.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "engine/store_disk.hpp"

namespace lockstep::engine {
namespace {

/// Keeps its operations until step(); they take effect then, in order.
class SlowStore final : public Store {
 public:
  explicit SlowStore(std::uint64_t size) : bytes(size) {
    info_.size = size;
    info_.name = "slow";
  }
  struct Seen {
    std::string what;
    Extent extent;
    Durability durability = Durability::cached;
  };
  std::vector<std::byte> bytes;
  std::vector<Seen> log;
  std::error_code fail_with;  ///< the next operation to take effect

  [[nodiscard]] const StoreInfo& info() const override { return info_; }
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override {
    keep({"read", {offset, into.size()}}, std::move(done),
         [this, offset, into] { std::memcpy(into.data(), &bytes[offset], into.size()); });
  }
  void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) override {
    keep({"write", {offset, from.size()}, durability}, std::move(done),
         [this, offset, from] { std::memcpy(&bytes[offset], from.data(), from.size()); });
  }
  void write_zeroes(Extent extent, Durability durability, IoCallback done) override {
    keep({"zero", extent, durability}, std::move(done),
         [this, extent] { std::memset(&bytes[extent.offset], 0, extent.length); });
  }
  void discard(Extent extent, Durability durability, IoCallback done) override {
    keep({"discard", extent, durability}, std::move(done),
         [this, extent] { std::memset(&bytes[extent.offset], 0, extent.length); });
  }
  void flush(IoCallback done) override {
    keep({"flush", {}}, std::move(done), [] {});
  }

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  void step() {
    auto [effect, done] = std::move(waiting_.front());
    waiting_.pop_front();
    const auto error = std::exchange(fail_with, {});
    if (!error) effect();
    done(error);
  }
  void run() {
    while (!waiting_.empty()) step();
  }

 private:
  void keep(Seen seen, IoCallback done, Callback<> effect) {
    log.push_back(std::move(seen));
    waiting_.emplace_back(std::move(effect), std::move(done));
  }
  StoreInfo info_;
  std::deque<std::pair<Callback<>, IoCallback>> waiting_;
};

struct Request : DiskRequest {
  Request(DiskOpcode what, Extent where, std::vector<std::byte> with = {}) : bytes(std::move(with)) {
    opcode = what;
    extent = where;
    data = bytes;
    done = [](DiskRequest& r) { ++static_cast<Request&>(r).completions; };
  }
  std::vector<std::byte> bytes;
  int completions = 0;
};

std::vector<std::byte> filled(std::size_t size, int value) { return std::vector<std::byte>(size, std::byte(value)); }

class StoreDiskTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSize = std::uint64_t{8} << 20;
  StoreDiskTest() { make({}); }
  void make(DiskInfo info) {
    info.size = kSize;
    disk = std::make_unique<StoreDisk>(store, pool, info);
  }
  std::unique_ptr<Request> begin(DiskOpcode opcode, Extent extent, std::vector<std::byte> data = {}) {
    auto r = std::make_unique<Request>(opcode, extent, std::move(data));
    disk->submit(*r);
    return r;
  }
  std::error_code run(DiskOpcode opcode, Extent extent, std::vector<std::byte> data = {}) {
    const auto r = begin(opcode, extent, std::move(data));
    store.run();
    EXPECT_EQ(r->completions, 1);
    return r->status;
  }
  [[nodiscard]] bool holds(Extent extent, int value) const {
    return std::all_of(store.bytes.begin() + static_cast<std::ptrdiff_t>(extent.offset),
                       store.bytes.begin() + static_cast<std::ptrdiff_t>(extent.end()),
                       [&](std::byte b) { return b == std::byte(value); });
  }

  SlowStore store{kSize};
  BufferPool pool{std::size_t{16} << 20};
  std::unique_ptr<StoreDisk> disk;
};

TEST_F(StoreDiskTest, OverlappingOperationsTakePlaceInTheOrderInWhichTheyCame) {
  const auto first = begin(DiskOpcode::write, {0, 4096}, filled(4096, 1));
  const auto reader = begin(DiskOpcode::read, {2048, 1024}, filled(1024, 0));
  const auto second = begin(DiskOpcode::write, {512, 512}, filled(512, 2));
  const auto apart = begin(DiskOpcode::write, {8192, 512}, filled(512, 3));
  EXPECT_EQ(store.waiting(), 2u) << "the first and the one that overlaps nothing";
  store.run();
  EXPECT_EQ(reader->bytes, filled(1024, 1));
  EXPECT_TRUE(holds({512, 512}, 2));
  EXPECT_TRUE(holds({1024, 3072}, 1));
  for (const auto* r : {first.get(), reader.get(), second.get(), apart.get()}) EXPECT_EQ(r->completions, 1);
}

TEST_F(StoreDiskTest, OfTwoCompareAndWritesThatExpectTheSameExactlyOneWins) {
  auto both = filled(1024, 0);
  std::fill(both.begin() + 512, both.end(), std::byte{7});
  const auto one = begin(DiskOpcode::compare_and_write, {512, 512}, both);
  std::fill(both.begin() + 512, both.end(), std::byte{9});
  const auto other = begin(DiskOpcode::compare_and_write, {512, 512}, both);
  store.run();
  EXPECT_FALSE(one->status);
  EXPECT_EQ(other->status, Errc::miscompare);
  EXPECT_EQ(other->miscompare_offset, 0u);
  EXPECT_TRUE(holds({512, 512}, 7));
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(StoreDiskTest, AMiscompareSaysWhereAndWritesNothing) {
  store.bytes[512 + 300] = std::byte{1};
  auto both = filled(2048, 0);
  std::fill(both.begin() + 1024, both.end(), std::byte{7});
  const auto r = begin(DiskOpcode::compare_and_write, {512, 1024}, both);
  store.run();
  EXPECT_EQ(r->status, Errc::miscompare);
  EXPECT_EQ(r->miscompare_offset, 300u);
  EXPECT_TRUE(holds({512 + 301, 700}, 0));
}

TEST_F(StoreDiskTest, WriteSameFillsExtentsLargerThanItsBufferAndNothingElse) {
  const std::uint64_t length = 2 * StoreDisk::kBounce + 4096 + 512;
  EXPECT_FALSE(run(DiskOpcode::write_same, {512, length}, filled(512, 5)));
  EXPECT_TRUE(holds({512, length}, 5));
  EXPECT_TRUE(holds({0, 512}, 0));
  EXPECT_TRUE(holds({512 + length, 4096}, 0));
  EXPECT_EQ(store.log.size(), 3u);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(StoreDiskTest, VerifyFindsADifferenceBeyondItsBuffer) {
  const std::uint64_t length = StoreDisk::kBounce + 8192;
  auto data = filled(length, 0);
  EXPECT_FALSE(run(DiskOpcode::verify, {0, length}, data));
  store.bytes[StoreDisk::kBounce + 77] = std::byte{1};
  const auto r = begin(DiskOpcode::verify, {0, length}, data);
  store.run();
  EXPECT_EQ(r->status, Errc::miscompare);
  EXPECT_EQ(r->miscompare_offset, StoreDisk::kBounce + 77);
}

TEST_F(StoreDiskTest, WithoutAWriteCacheEveryChangeIsDurableWhenItIsDone) {
  for (const auto opcode : {DiskOpcode::write, DiskOpcode::write_zeroes, DiskOpcode::unmap, DiskOpcode::write_same}) {
    EXPECT_FALSE(run(opcode, {0, 4096}, filled(4096, 0)));
  }
  EXPECT_FALSE(run(DiskOpcode::compare_and_write, {0, 512}, filled(1024, 0)));
  for (const auto& seen : store.log) {
    if (seen.what != "read") {
      EXPECT_EQ(seen.durability, Durability::durable) << seen.what;
    }
  }
}

TEST_F(StoreDiskTest, WithAWriteCacheOnlyForcedChangesAre) {
  DiskInfo cached;
  cached.write_cache = true;
  make(cached);
  run(DiskOpcode::write, {0, 512}, filled(512, 0));
  EXPECT_EQ(store.log.back().durability, Durability::cached);
  Request forced(DiskOpcode::write, {0, 512}, filled(512, 0));
  forced.fua = true;
  disk->submit(forced);
  store.run();
  EXPECT_EQ(store.log.back().durability, Durability::durable);
}

TEST_F(StoreDiskTest, ZeroesGiveSpaceBackOnlyWhenTheyMay) {
  run(DiskOpcode::write_zeroes, {0, 4096});
  EXPECT_EQ(store.log.back().what, "zero");
  Request may(DiskOpcode::write_zeroes, {0, 4096});
  may.may_unmap = true;
  disk->submit(may);
  EXPECT_EQ(store.log.back().what, "discard");
  store.run();
  run(DiskOpcode::unmap, {0, 4096});
  EXPECT_EQ(store.log.back().what, "discard");
}

TEST_F(StoreDiskTest, WhatLiesOutsideOrBetweenBlocksIsRefusedAndNothingIsDoneForNothing) {
  EXPECT_EQ(run(DiskOpcode::unmap, {kSize - 512, 1024}), Errc::out_of_range);
  EXPECT_EQ(run(DiskOpcode::unmap, {~std::uint64_t{0} - 511, 512}), Errc::out_of_range);
  EXPECT_EQ(run(DiskOpcode::unmap, {100, 512}), Errc::misaligned);
  EXPECT_FALSE(run(DiskOpcode::unmap, {kSize, 0}));
  EXPECT_TRUE(store.log.empty());
}

TEST_F(StoreDiskTest, AFailureIsReportedAndTheNextInLineGoesOn) {
  const auto fails = begin(DiskOpcode::write, {0, 512}, filled(512, 1));
  const auto waits = begin(DiskOpcode::write, {0, 512}, filled(512, 2));
  store.fail_with = Errc::no_space;
  store.run();
  EXPECT_EQ(fails->status, Errc::no_space);
  EXPECT_FALSE(waits->status);
  EXPECT_TRUE(holds({0, 512}, 2));
  const auto cut = begin(DiskOpcode::write_same, {0, 2 * StoreDisk::kBounce}, filled(512, 3));
  store.step();
  store.fail_with = Errc::io_error;
  store.run();
  EXPECT_EQ(cut->status, Errc::io_error);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(StoreDiskTest, AfterAFailedFlushTheDiskServesNothingMore) {
  EXPECT_FALSE(run(DiskOpcode::flush, {}));
  EXPECT_EQ(disk->access_state(), AccessState::active_optimized);
  const auto flushing = begin(DiskOpcode::flush, {});
  store.fail_with = Errc::io_error;
  store.run();
  EXPECT_EQ(flushing->status, Errc::io_error);
  EXPECT_EQ(disk->access_state(), AccessState::unavailable);
  EXPECT_EQ(run(DiskOpcode::read, {0, 512}, filled(512, 0)), Errc::not_serving);
  EXPECT_EQ(run(DiskOpcode::flush, {}), Errc::not_serving);
}

TEST_F(StoreDiskTest, WithoutABufferOrBeyondItsBoundAnOperationIsTurnedAway) {
  std::vector<Buffer> all;
  while (auto buffer = pool.allocate(BufferPool::kMaxBuffer)) all.push_back(std::move(buffer));
  EXPECT_EQ(run(DiskOpcode::verify, {0, 512}, filled(512, 0)), Errc::resource_exhausted);
  EXPECT_EQ(run(DiskOpcode::write_same, {0, 512}, filled(512, 0)), Errc::resource_exhausted);
  all.clear();

  std::vector<std::unique_ptr<Request>> many;
  for (std::size_t i = 0; i <= StoreDisk::kMaxOperations; ++i) many.push_back(begin(DiskOpcode::flush, {}));
  EXPECT_EQ(many.back()->status, Errc::resource_exhausted);
  EXPECT_EQ(many.front()->completions, 0);
  store.run();
  for (const auto& r : many) EXPECT_EQ(r->completions, 1);
  EXPECT_FALSE(run(DiskOpcode::flush, {}));
}

}  // namespace
}  // namespace lockstep::engine
