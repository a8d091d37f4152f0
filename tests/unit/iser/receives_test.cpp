// The receives of one connection, when memory is short and comes back.
#include "engine/iser/receives.hpp"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

using iser::MessageMemory;
using iser::Receives;

/// Takes every post and tells nothing.
struct DeadPair final : rdma::QueuePair {
  void receive(std::span<std::byte>, std::span<std::byte>, std::uint64_t id) override { posted.push_back(id); }
  void send(const rdma::Send&) override {}
  void write(std::span<const std::byte>, const rdma::Remote&, std::uint64_t) override {}
  void read(std::span<std::byte>, const rdma::Remote&, std::uint64_t) override {}
  [[nodiscard]] bool is_registered(std::span<const std::byte>) const override { return true; }
  [[nodiscard]] rdma::Remote expose(std::span<std::byte>, rdma::Access) override { return {}; }
  void hide(std::uint32_t, std::uint64_t) override {}
  void await_sends() override {}
  void close(engine::Callback<>) override {}
  [[nodiscard]] const rdma::Limits& limits() const override { return limit; }
  [[nodiscard]] const std::string& local_address() const override { return name; }
  [[nodiscard]] const std::string& peer_address() const override { return name; }
  std::vector<std::uint64_t> posted;
  rdma::Limits limit;
  std::string name;
};

/// A connection's, whose commands come one after the other.
struct OneConnection {
  OneConnection(MessageMemory& memory, std::string address) : receives(memory, iser::kHosts, std::move(address)) {
    slots = receives.reserve();
    receives.start(pair, slots.span().first(iser::kHosts.receive_memory()));
    opened = receives.open_session(0) == MessageMemory::Room::there;
  }
  void carry_out(int commands) {
    for (int i = 0; i < commands; ++i) {
      const auto slot = static_cast<std::uint32_t>(pair.posted.front());
      pair.posted.erase(pair.posted.begin());
      receives.came(slot);
      receives.post_after_command(slot);
    }
  }
  DeadPair pair;
  engine::Buffer slots;
  Receives receives;
  bool opened = false;
};

class IserReceives : public testing::Test {
 protected:
  void begin(std::uint32_t at_once = 0) {
    slots = receives.reserve();
    ASSERT_TRUE(slots);
    receives.start(pair, slots.span().first(iser::kHosts.receive_memory()));
    ASSERT_EQ(receives.open_session(at_once), MessageMemory::Room::there);
  }
  /// A command with data came, and the device server has its buffer.
  void take_command() {
    const auto slot = static_cast<std::uint32_t>(pair.posted.front());
    pair.posted.erase(pair.posted.begin());
    receives.came(slot);
    taken.push_back(receives.take(slot));
    receives.post_after_command(slot);
  }
  /// Many more than there may be receives, one after the other.
  void carry_out_commands() {
    for (int i = 0; i < 300; ++i) {
      take_command();
      give_all_back();
    }
  }
  void give_all_back() {
    for (std::size_t i = 0; i < taken.size(); ++i) receives.give_back();
    taken.clear();
  }

  engine::BufferPool pool{std::size_t{32} << 20};
  MessageMemory memory{pool};
  DeadPair pair;
  engine::Buffer slots;
  std::vector<engine::Buffer> taken;
  Receives receives{memory, iser::kHosts, {}};
};

TEST_F(IserReceives, GrowByOneWithEachCommandUpToTheMost) {
  begin();
  EXPECT_EQ(receives.posted(), iser::kHosts.first);
  carry_out_commands();
  EXPECT_EQ(receives.posted(), iser::kHosts.most);
}

TEST_F(IserReceives, AreAsManyAsIsAskedForFromTheBeginning) {
  begin(40);
  EXPECT_EQ(receives.posted(), 40u);
}

TEST_F(IserReceives, AreNoMoreThanTheFloorWhileMemoryIsShort) {
  memory.set_limit(std::size_t{256} << 10);
  begin(40);
  EXPECT_GE(receives.posted(), iser::kHosts.first);
  EXPECT_LE(memory.committed(), memory.limit() / 4 * 3 + MessageMemory::kData);
  EXPECT_FALSE(receives.starved());
}

TEST_F(IserReceives, ShrinkWithUseUntilMemoryIsShortNoMore) {
  begin();
  carry_out_commands();
  memory.set_limit(memory.committed());
  carry_out_commands();
  EXPECT_LT(receives.posted(), iser::kHosts.most);
  EXPECT_LE(memory.committed(), memory.limit() / 4 * 3 + MessageMemory::kData);
}

// Accounts say that memory is back a moment before the pool has it.
TEST_F(IserReceives, HaveTheirFloorAgainWhenThePoolHasMemoryAgain) {
  begin();
  carry_out_commands();
  memory.set_limit(memory.committed());
  for (std::uint32_t i = 0; i < iser::kHosts.most - iser::Shape::kUnasked; ++i) take_command();
  EXPECT_EQ(receives.posted(), iser::Shape::kUnasked);
  std::vector<engine::Buffer> hog;
  while (engine::Buffer buffer = pool.allocate(MessageMemory::kData)) hog.push_back(std::move(buffer));
  give_all_back();
  hog.clear();
  receives.post_starved();
  EXPECT_EQ(receives.posted(), iser::kHosts.first);
  EXPECT_FALSE(receives.starved());
}

TEST_F(IserReceives, OfOneAddressGrowWithinItsShareAndLeaveOthersRoomToGrow) {
  memory.set_limit(std::size_t{8} << 20);
  std::vector<std::unique_ptr<OneConnection>> busy;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(std::make_unique<OneConnection>(memory, "10.0.0.2"));
    ASSERT_TRUE(busy.back()->opened);
  }
  for (int round = 0; round < 20; ++round)
    for (const auto& one : busy) one->carry_out(10);
  EXPECT_GT(busy.front()->receives.posted(), iser::kHosts.first);
  EXPECT_LE(memory.committed(), memory.limit() / 2);
  OneConnection other(memory, "10.0.0.3");
  ASSERT_TRUE(other.opened);
  other.carry_out(200);
  EXPECT_EQ(other.receives.posted(), iser::kHosts.most);
}

// What others need now the busy ones of an address with too much give back, down to their floors.
TEST_F(IserReceives, ShrinkWhenOthersComeUntilTheirAddressHasItsShare) {
  memory.set_limit(std::size_t{8} << 20);
  std::vector<std::unique_ptr<OneConnection>> busy, others;
  for (int i = 0; i < 4; ++i) busy.push_back(std::make_unique<OneConnection>(memory, "10.0.0.2"));
  for (const auto& one : busy) one->carry_out(300);
  const std::size_t alone = memory.committed();
  for (int i = 0; i < 10; ++i) {
    others.push_back(std::make_unique<OneConnection>(memory, "10.0.0." + std::to_string(3 + i)));
    ASSERT_TRUE(others.back()->opened);
  }
  const std::size_t theirs = memory.committed() - alone;
  for (const auto& one : busy) one->carry_out(300);
  const std::size_t part = memory.limit() / 4 * 3, held = memory.committed() - theirs;
  EXPECT_LT(held, alone);
  EXPECT_LE(held, 2 * (part - memory.committed()));
  for (const auto& one : busy) EXPECT_GE(one->receives.posted(), iser::kHosts.first);
}

}  // namespace
}  // namespace lockstep::test
