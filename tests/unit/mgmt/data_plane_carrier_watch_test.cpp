// What is said of what carries the link's data.
#include <gtest/gtest.h>

#include "mgmt/data_plane/carrier_watch.hpp"

namespace lockstep::data_plane {
namespace {

using replication::PathTransport;
using namespace std::chrono_literals;

class CarrierWatchTest : public testing::Test {
 protected:
  std::string look(std::optional<PathTransport> carries, const std::string& why = "") {
    return watch.look(carries, why, now).value_or("");
  }
  CarrierWatch watch;
  engine::TimePoint now;
};

TEST_F(CarrierWatchTest, SaysNothingOfALinkThatGoesByTcpAlone) {
  EXPECT_EQ(look(std::nullopt), "");
  EXPECT_EQ(look(PathTransport::tcp, "There is no device."), "");
  now = now + 5s;
  EXPECT_EQ(look(PathTransport::tcp, "There is no device."), "");
}

TEST_F(CarrierWatchTest, SaysWhenTheDataGoesOverAndHowLongItWasElsewhere) {
  EXPECT_EQ(look(PathTransport::tcp), "");
  now = now + 3s;
  EXPECT_EQ(look(PathTransport::rdma), "RDMA carries the data, after 3.0 s by TCP.");
  EXPECT_EQ(look(PathTransport::rdma), "");
  now = now + 1h;
  EXPECT_EQ(look(PathTransport::tcp, "The port is down."),
            "TCP carries the data, after 3600.0 s by RDMA. The port is down.");
  now = now + 12'345ms;
  EXPECT_EQ(look(PathTransport::rdma), "RDMA carries the data, after 12.3 s by TCP.");
}

TEST_F(CarrierWatchTest, CountsHowOftenTheDataWentOverAndHowLongItWasByEach) {
  look(PathTransport::tcp, "RDMA has to prove itself.");
  now = now + 3s;
  look(PathTransport::rdma);
  EXPECT_EQ(watch.carried().to_rdma, 1u);
  ASSERT_TRUE(watch.carried().last);
  EXPECT_EQ(watch.carried().last->to, PathTransport::rdma);
  EXPECT_EQ(watch.carried().last->why, "");
  now = now + 10s;
  look(PathTransport::tcp, "The port is down.");
  const engine::TimePoint lost = now;
  now = now + 4s;
  look(PathTransport::tcp, "The port is down.");
  EXPECT_EQ(watch.carried().to_tcp, 1u);
  EXPECT_EQ(watch.carried().by_tcp, 7s);
  EXPECT_EQ(watch.carried().by_rdma, 10s);
  EXPECT_EQ(watch.carried().last->to, PathTransport::tcp);
  EXPECT_EQ(watch.carried().last->at, lost);
  EXPECT_EQ(watch.carried().last->after, 10s);
  EXPECT_EQ(watch.carried().last->why, "The port is down.");
}

TEST_F(CarrierWatchTest, WhatALinkBeginsWithIsNoSwitchAndNoTimePassesWhileItIsDown) {
  look(PathTransport::rdma);
  now = now + 2s;
  look(std::nullopt);
  now = now + 30s;
  look(PathTransport::rdma);
  now = now + 1s;
  look(PathTransport::rdma);
  EXPECT_EQ(watch.carried().by_rdma, 3s);
  EXPECT_EQ(watch.carried().to_rdma + watch.carried().to_tcp, 0u);
  EXPECT_FALSE(watch.carried().last);
}

TEST_F(CarrierWatchTest, ALinkThatWasDownIsAsItWasBefore) {
  EXPECT_EQ(look(PathTransport::rdma), "RDMA carries the data.");
  EXPECT_EQ(look(std::nullopt), "");
  EXPECT_EQ(look(PathTransport::rdma), "");
}

}  // namespace
}  // namespace lockstep::data_plane
