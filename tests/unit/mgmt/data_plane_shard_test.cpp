// What a shard has for itself beside its mirror: ports, names, and what it knows of the others and of its thread.
#include <chrono>
#include <future>

#include <gtest/gtest.h>

#include "mgmt/data_plane/pair_shard.hpp"
#include "mgmt/data_plane/shard_seams.hpp"
#include "replication/core/stall_watch.hpp"

namespace lockstep::data_plane {
namespace {

using namespace std::chrono_literals;

PartnerSpec a_partner(std::uint16_t port) {
  PartnerSpec partner;
  partner.link.listen = {"10.0.0.1", port};
  partner.link.connect = {"10.0.0.2", port};
  partner.link.listen_beside = SocketAddress{"10.0.0.3", port};
  partner.link.connect_beside = SocketAddress{"10.0.0.4", port};
  partner.link.more_paths.push_back({{"10.1.0.1", port}, {"10.1.0.2", port}, true});
  return partner;
}

TEST(AShard, HasTheLinksAddressesWithPortsOfItsOwn) {
  const auto moved = partner_of_shard(a_partner(3261), 2);
  ASSERT_TRUE(moved);
  EXPECT_EQ(*moved, a_partner(3263));
  EXPECT_EQ(partner_of_shard(a_partner(3261), 0), a_partner(3261));
}

TEST(AShard, HasNoLinkWhereThereAreNotSoManyPorts) {
  EXPECT_TRUE(partner_of_shard(a_partner(65533), 2));
  EXPECT_FALSE(partner_of_shard(a_partner(65534), 2));
  PartnerSpec high_path = a_partner(3261);
  high_path.link.more_paths.front().connect.port = 65535;
  const auto moved = partner_of_shard(high_path, 2);
  ASSERT_TRUE(moved) << "the others are as good as before";
  EXPECT_TRUE(moved->link.more_paths.empty());
}

TEST(AShard, HasATargetThatOnlyTheSameShardOfThePartnerKnows) {
  const engine::Uuid pair = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
  const std::string first = replication::link_target_name(pair, engine::NodeSide::a, 0);
  EXPECT_EQ(first, replication::link_name(pair, engine::NodeSide::a)) << "as in a program of before";
  EXPECT_EQ(replication::link_target_name(pair, engine::NodeSide::a, 3), first + ".3");
}

TEST(AShard, KnowsOfAVolumeThatAnotherOneHas) {
  const engine::Uuid here = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
  const engine::Uuid there = *engine::Uuid::parse("10112233-4455-6677-8899-aabbccddeeff");
  VolumeShards all;
  all.put(here, 1);
  all.put(there, 2);
  const OtherShards others(1, all);
  EXPECT_FALSE(others.have(here));
  EXPECT_TRUE(others.have(there));
  all.remove(there);
  EXPECT_FALSE(others.have(there)) << "nobody has it any more";
}

/// What another thread does first may be an answer.
TEST(AShard, TellsFromItsOwnThreadAndAtOnceThatItsProcessWasSetBack) {
  engine::Reactor home, own;  // that nobody runs
  SessionFence sessions({.join = [](unsigned) {}, .close = [](engine::Callback<>) {}});
  std::string heard;
  ShardObserver observer(
      {home, own}, 1, [] {}, [&heard](const std::string& why) { heard = why; }, sessions);
  observer.on_set_back("why");
  EXPECT_EQ(heard, "why");
}

engine::TimePoint at(engine::Duration since) { return {std::chrono::hours(1) + since}; }

TEST(AThreadThatStoodStill, TakesWhatItReadsForAsOldAsThat) {
  replication::StallWatch stalls;
  EXPECT_FALSE(stalls.look(at(0ms), 150ms)) << "nothing is known of the time before";
  EXPECT_FALSE(stalls.look(at(100ms), 150ms));
  EXPECT_EQ(stalls.receipt().since, at(100ms));
  EXPECT_TRUE(stalls.look(at(2100ms), 150ms));
  EXPECT_EQ(stalls.receipt().since, at(100ms));
  EXPECT_EQ(stalls.receipt().taken, at(2100ms));
  EXPECT_FALSE(stalls.look(at(2200ms), 150ms));
  EXPECT_EQ(stalls.receipt().since, at(100ms)) << "it may not have read all yet";
  EXPECT_FALSE(stalls.look(at(2299ms), 150ms));
  EXPECT_FALSE(stalls.look(at(2301ms), 150ms));
  EXPECT_EQ(stalls.receipt().since, at(2301ms));
}

TEST(AThreadThatStoodStill, SaysSoOfWhatItBringsToOthers) {
  engine::Reactor reactor;
  WorkerStalls stalls(reactor);
  EXPECT_EQ(stalls.came_since(), engine::TimePoint()) << "nobody watches";
  stalls.watch(20ms);
  const engine::TimePoint before = reactor.now();
  EXPECT_EQ(stalls.came_since(), engine::TimePoint());
  const auto until = std::chrono::steady_clock::now() + 50ms;
  while (std::chrono::steady_clock::now() < until) continue;
  const engine::TimePoint since = stalls.came_since();
  EXPECT_NE(since, engine::TimePoint());
  EXPECT_LT(since - before, 50ms);
}

}  // namespace
}  // namespace lockstep::data_plane
