// Who may have a connection when there are more who want one than may.
#include "ui-api/rest/doorkeeper.hpp"

#include <gtest/gtest.h>

#include "ui-api/rest/body_budget.hpp"

namespace lockstep::ui_api {
namespace {

constexpr DoorLimits kSmall{.strangers = 4,
                            .strangers_of_a_network = 2,
                            .local_strangers = 2,
                            .partner_strangers = 2,
                            .known = 2,
                            .local_known = 1,
                            .partner = 1};

class DoorkeeperTest : public ::testing::Test {
 protected:
  Doorkeeper door_{kSmall};
  std::optional<std::uint64_t> from(const char* address, std::uint64_t id) {
    return door_.enter(id, Entrance::outside, address);
  }
};

TEST_F(DoorkeeperTest, ANetworkWithItsShareGivesUpItsOwnOldest) {
  EXPECT_EQ(from("10.0.0.1", 1), std::nullopt);
  EXPECT_EQ(from("10.0.0.2", 2), std::nullopt);
  EXPECT_EQ(from("10.0.0.2", 3), std::nullopt);
  EXPECT_EQ(from("10.0.0.2", 4), 2u);
}

TEST_F(DoorkeeperTest, AFullHouseTakesFromWhoHasMost) {
  EXPECT_EQ(from("10.0.0.1", 1), std::nullopt);
  EXPECT_EQ(from("10.0.0.2", 2), std::nullopt);
  EXPECT_EQ(from("10.0.0.3", 3), std::nullopt);
  EXPECT_EQ(from("10.0.0.3", 4), std::nullopt);
  EXPECT_EQ(from("10.0.0.4", 5), 3u);
}

TEST_F(DoorkeeperTest, WhoIsKnownGivesWayToNobody) {
  (void)from("10.0.0.2", 1);
  EXPECT_TRUE(door_.recognize(1, Standing::known));
  for (std::uint64_t id = 2; id < 100; ++id) EXPECT_NE(from("10.0.0.2", id), 1u);
  EXPECT_EQ(door_.standing(1), Standing::known);
}

TEST_F(DoorkeeperTest, StrangersTakeNoPlaceOfThePartnersOrOfThisMachine) {
  for (std::uint64_t id = 1; id < 100; ++id) (void)from("10.0.0.2", id);
  EXPECT_EQ(door_.enter(200, Entrance::local, "127.0.0.1"), std::nullopt);
  EXPECT_EQ(door_.enter(201, Entrance::partner, "10.0.0.9"), std::nullopt);
  EXPECT_EQ(door_.enter(202, Entrance::local, "127.0.0.1"), std::nullopt);
  EXPECT_EQ(door_.enter(203, Entrance::local, "127.0.0.1"), 200u) << "among themselves they are bounded, too";
}

TEST_F(DoorkeeperTest, TheKnownAreBoundedByKind) {
  for (std::uint64_t id = 1; id < 5; ++id) {
    (void)from("10.0.0.1", id);
    EXPECT_EQ(door_.recognize(id, Standing::known), id < 3) << id;
    if (id >= 3) door_.leave(id);
  }
  (void)from("10.0.0.1", 9);
  EXPECT_TRUE(door_.recognize(9, Standing::partner)) << "the partner's place is its own";
  (void)door_.enter(10, Entrance::local, "::1");
  EXPECT_TRUE(door_.recognize(10, Standing::known)) << "as is this machine's";
  door_.leave(1);
  (void)from("10.0.0.1", 11);
  EXPECT_TRUE(door_.recognize(11, Standing::known)) << "who leaves makes room";
}

TEST_F(DoorkeeperTest, WhoHasGivenWayIsNotRecognizedAnyMore) {
  (void)from("10.0.0.1", 1);
  (void)from("10.0.0.1", 2);
  EXPECT_EQ(from("10.0.0.1", 3), 1u);
  EXPECT_FALSE(door_.recognize(1, Standing::known));
}

TEST(Network, OfIpv6IsItsFirst64Bits) {
  EXPECT_EQ(network_of("2001:db8::1:2:3:4"), network_of("2001:db8::ffff"));
  EXPECT_NE(network_of("2001:db8::1"), network_of("2001:db8:0:1::1"));
  EXPECT_EQ(network_of("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_NE(network_of("10.0.0.1"), network_of("10.0.0.2"));
}

TEST(Network, OfThisMachineIsItsLoopbackAddress) {
  EXPECT_TRUE(is_local("127.0.0.1"));
  EXPECT_TRUE(is_local("::1"));
  EXPECT_TRUE(is_local("::ffff:127.0.0.1"));
  EXPECT_FALSE(is_local("10.0.0.1"));
}

TEST(BodyBudget, IsGivenBackWithTheShare) {
  BodyBudget budget(10);
  {
    const auto share = budget.take(7);
    ASSERT_TRUE(share);
    EXPECT_FALSE(budget.take(4));
    EXPECT_TRUE(budget.take(3));
  }
  EXPECT_TRUE(budget.take(10));
}

}  // namespace
}  // namespace lockstep::ui_api
