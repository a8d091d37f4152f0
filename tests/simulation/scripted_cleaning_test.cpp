// Bits of the dirty map are cleared by the node that orders, after a flush on both that began after the last write.
#include <algorithm>

#include "engine/base/byte_order.hpp"
#include "tests/simulation/played_epochs.hpp"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kRegion = 4096;

bool is_flush(const Message& m) { return is(m, MessageType::flush); }

struct Cleaning : PlayedB {
  explicit Cleaning(const ScriptedPair::Adjust& adjust = patient) : PlayedB(adjust) {}
  [[nodiscard]] std::size_t flushes() const { return b.received(MessageType::flush).size(); }
  [[nodiscard]] bool cleared() const { return !b.received(MessageType::clear).empty(); }
  void write_something() { ASSERT_EQ(pair.written(kA, kBlockOfBoth, 1), std::error_code{}); }
  void wait_for_a_flush() {
    const std::size_t before = flushes();
    ASSERT_TRUE(pair.wait_for([&] { return flushes() > before; }));
  }
};

TEST(Cleaning, IsAfterAFlushOnBoth) {
  Cleaning world;
  world.b.says = [](const Message& m) { return is_flush(m) ? Errc::io_error : Errc::ok; };
  world.write_something();
  world.wait_for_a_flush();
  world.pair.run_for(3 * kSecond);
  EXPECT_FALSE(world.cleared());
  EXPECT_EQ(world.pair.status(kA).dirty_bytes, kRegion);
  world.b.says = [](const Message&) { return Errc::ok; };
  EXPECT_TRUE(world.pair.wait_for([&] { return world.cleared(); }, 3 * kSecond));
}

/// In any epoch, also after one in which the two were made equal.
TEST(Cleaning, LeavesWhatWasWrittenSinceTheFlushBegan) {
  for (const bool anew : {false, true}) {
    Cleaning world;
    if (anew) agree_anew(world);
    world.b.keeps = is_flush;
    world.write_something();
    world.wait_for_a_flush();
    world.write_something();
    world.b.let_go(Errc::ok);
    world.pair.run_for(10 * kSoon);
    EXPECT_FALSE(world.cleared());
    EXPECT_EQ(world.pair.status(kA).dirty_bytes, kRegion);
  }
}

TEST(Cleaning, IsOfColdRegions) {
  for (const bool anew : {false, true}) {
    Cleaning world([](Scenario& s) {
      patient(s);
      s.clean_after = 10 * kSecond;
    });
    if (anew) agree_anew(world);
    world.write_something();
    world.pair.run_for(8 * kSecond);
    EXPECT_EQ(world.flushes(), 0u);
    EXPECT_TRUE(world.pair.wait_for([&] { return world.cleared(); }, 4 * kSecond));
  }
}

/// An order of B's that is over on both.
void have_a_follow(Cleaning& world) {
  ASSERT_TRUE(world.b.ask(world.order(1), PlayedB::block_of(1)).ended_with(Errc::ok));
  Message m = world.b.message(MessageType::watermark);
  m.watermark = PlayedB::kNumbers + 1;
  world.b.ask(m);
}

TEST(Cleaning, IsNotForAMemberThatFollows) {
  Cleaning world(b_orders);
  have_a_follow(world);
  world.pair.run_for(5 * kSecond);
  EXPECT_EQ(world.flushes(), 0u);
  EXPECT_EQ(world.pair.status(kA).dirty_bytes, kRegion);
}

TEST(Cleaning, CountsNoFlushOfAnEpochBefore) {
  Cleaning world;
  world.write_something();
  hang(world.pair, kA);
  world.wait_for_a_flush();
  world.pair.run_for(kSoon);
  world.pair.spoil(kA, [](StoreFaults& f) { f.hang = 0; });
  world.b.keeps = is_flush;
  agree_anew(world);
  world.wait_for_a_flush();
  world.pair.run_for(10 * kSoon);
  world.pair.host(kA).data(0).release_first_hung();
  world.pair.run_for(10 * kSoon);
  EXPECT_FALSE(world.cleared()) << "B has flushed before";
  world.b.let_go(Errc::ok);
  EXPECT_TRUE(world.pair.wait_for([&] { return world.cleared(); }, 3 * kSecond));
}

/// While the other bits of a write are made durable, one that it found is cleared.
TEST(Cleaning, OfAWritesRegionBeforeItIsIssuedIsTakenBack) {
  Cleaning world;
  ASSERT_EQ(world.pair.written(kA, kBlockOfBoth, 1, 16), std::error_code{});
  ASSERT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).dirty_bytes == 0; }));
  world.write_something();
  world.b.keeps = is_flush;
  world.wait_for_a_flush();
  world.pair.run_for(10 * kSoon);
  world.hang_metadata();
  auto& write = world.pair.write(kA, kBlockOfBoth, 2, 16);
  world.pair.run_for(kSoon);
  world.spoil_metadata([](StoreFaults& f) { f.hang = 0; });
  const std::size_t before = world.b.received(MessageType::clear).size();
  world.b.let_go(Errc::ok);
  ASSERT_TRUE(world.pair.wait_for([&] { return world.b.received(MessageType::clear).size() > before; }, 10 * kSoon));
  world.pair.host(kA).metadata(0).release_first_hung();
  ASSERT_TRUE(world.pair.wait_for([&] { return write.done; }, 10 * kSoon));
  EXPECT_EQ(world.pair.status(kA).dirty_bytes, 2 * kRegion);
}

/// A node that has made room for a larger volume may have bits beyond what the other one has.
TEST(Cleaning, OfRegionsThatAReplicaDoesNotHaveIsOfAllTheOthers) {
  Cleaning world(b_orders);
  have_a_follow(world);
  ASSERT_EQ(world.pair.status(kA).dirty_bytes, kRegion);
  std::vector<std::byte> regions(3 * 8);
  engine::store_be<std::uint64_t>(&regions[0], world.pair.world().scenario.regions);
  engine::store_be<std::uint64_t>(&regions[8], kBlockOfBoth * kBlock / kRegion);
  engine::store_be<std::uint64_t>(&regions[16], ~std::uint64_t{0});
  EXPECT_TRUE(world.b.ask(world.b.message(MessageType::clear), regions).ended_with(Errc::ok));
  EXPECT_EQ(world.pair.status(kA).dirty_bytes, 0u);
}

// ---- the bound ---------------------------------------------------------------------------------------------------

constexpr std::uint64_t kPiece = std::uint64_t{256} << 10;  ///< bytes of one write: 64 regions, each noted by itself

/// 64 MiB of 4 KiB regions, of which half may be dirty; none grows cold by itself.
void of_many_regions(Scenario& s) {
  patient(s);
  s.regions = 16384;
  s.dirty_bound = s.volume_size() / 2;
  s.clean_after = 1000 * kSecond;
}

/// Writes all of it, one piece after another; the most that was dirty meanwhile.
std::uint64_t most_dirty(ScriptedPair& pair, engine::NodeSide through, Nanos between) {
  std::uint64_t most = 0;
  for (std::uint64_t at = 0; at < pair.world().scenario.volume_size(); at += kPiece) {
    auto& write = pair.write(through, at / kBlock, 7, kPiece / kBlock);
    pair.run_for(between);
    EXPECT_TRUE(pair.wait_for([&] { return write.done; }));
    EXPECT_EQ(write.status(), std::error_code{});
    for (const auto side : {kA, kB}) most = std::max(most, pair.status(side).dirty_bytes);
  }
  return most;
}

/// In the proportion of 10 GB/s to 4 GiB: what may be dirty is written in less than half a second.
TEST(DirtyBound, HoldsOnBothWhateverIsWrittenASecond) {
  for (const auto through : {kA, kB}) {
    ScriptedPair pair(pair_program(), of_many_regions);
    const std::uint64_t bound = pair.world().scenario.dirty_bound;
    const std::uint64_t most = most_dirty(pair, through, kMillisecond);
    EXPECT_LE(most, bound);
    EXPECT_GT(most, bound / 4) << "what is written again soon costs nothing";
    EXPECT_EQ(pair.violation(), "");
  }
}

/// A writer does not wait for what can't be cleaned.
TEST(DirtyBound, HoldsNoWriterUpWhereNothingIsCleaned) {
  Cleaning world([](Scenario& s) {
    patient(s);
    s.dirty_bound = 2 * kRegion;
  });
  world.b.says = [](const Message& m) { return is_flush(m) ? Errc::io_error : Errc::ok; };
  for (std::uint64_t region = 0; region < 8; ++region) {
    ASSERT_EQ(world.pair.written(kA, region * kRegion / kBlock, 1), std::error_code{});
    world.pair.run_for(kSecond / 2);
  }
  EXPECT_GT(world.flushes(), 0u);
  EXPECT_EQ(world.pair.status(kA).dirty_bytes, 8 * kRegion);
  world.b.says = [](const Message&) { return Errc::ok; };
  EXPECT_TRUE(world.pair.wait_for([&] { return world.pair.status(kA).dirty_bytes <= 2 * kRegion; }, 3 * kSecond));
}

}  // namespace
}  // namespace lockstep::simulation
