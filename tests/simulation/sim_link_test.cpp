// The simulated link keeps the rules of replication/core/link.hpp.
#include "tests/simulation/sim_link.hpp"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

namespace lockstep::simulation {
namespace {

class Sender final : public replication::LinkEvents {
 public:
  void on_link_up() override { ++ups; }
  void on_link_down() override { ++downs; }
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, replication::InboundRequest&) override {}
  unsigned ups = 0;
  unsigned downs = 0;
};

class Receiver final : public replication::LinkEvents {
 public:
  void on_link_up() override {}
  void on_link_down() override {}
  void on_inbound_up(std::uint64_t s) override {
    EXPECT_EQ(alive, 0u) << "a session was let in before the old one was destroyed";
    EXPECT_GT(s, last);
    alive = last = s;
  }
  void on_inbound_down(std::uint64_t s) override {
    EXPECT_EQ(alive, s);
    alive = 0;
  }
  void on_request(std::uint64_t s, replication::InboundRequest& request) override {
    EXPECT_EQ(s, alive);
    seen.push_back(static_cast<unsigned>(request.header()[0]));
    if (answers) request.answer(request.header(), {}, [] {});
  }
  std::uint64_t alive = 0;
  std::uint64_t last = 0;
  bool answers = true;
  std::vector<unsigned> seen;
};

class SimulatedLink : public testing::Test {
 protected:
  void make(std::uint64_t seed, LinkTimes times = {}) {
    link.reset();
    sender = {};
    receiver = {};
    done = failed = 0;
    order.clear();
    scheduler.emplace(trace, SimRandom(seed));
    link.emplace(SimLink::World{*scheduler, trace, verdict, network}, SimRandom(seed + 1), engine::NodeSide::a, times);
    link->receiver_started(receiver, replication::kPartnerVersions.highest);
    link->sender_started(sender, replication::kPartnerVersions.highest);
    while (!link->is_up() && scheduler->step()) {
    }
  }
  void send(unsigned number) {
    const std::byte header[1] = {static_cast<std::byte>(number)};
    link->send(header, {}, {}, [this, number](auto answer) {
      ++(answer ? done : failed);
      order.push_back(number);
    });
  }
  void pass(Nanos time) {
    const Nanos until = scheduler->now() + time;
    while (scheduler->now() < until && scheduler->step()) {
    }
  }

  Trace trace;
  Verdict verdict;
  Network network;
  Sender sender;
  Receiver receiver;
  unsigned done = 0;
  unsigned failed = 0;
  std::vector<unsigned> order;  ///< in which answers came
  std::optional<Scheduler> scheduler;
  std::optional<SimLink> link;
};

TEST_F(SimulatedLink, RequestsArriveInOrderAndAreAnsweredOnce) {
  make(1);
  for (unsigned i = 0; i < 50; ++i) send(i);
  pass(kSecond);
  ASSERT_EQ(receiver.seen.size(), 50u);
  for (unsigned i = 0; i < 50; ++i) EXPECT_EQ(receiver.seen[i], i);
  EXPECT_EQ(done, 50u);
}

TEST_F(SimulatedLink, ABreakEndsEveryRequestOnceDeliversAPrefixAndIsMended) {
  unsigned cut_short = 0;
  unsigned unanswered_but_delivered = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    make(seed);
    for (unsigned i = 0; i < 20; ++i) send(i);
    pass(100 * kMicrosecond);
    link->break_session();
    pass(2 * kSecond);
    ASSERT_EQ(done + failed, 20u) << seed;
    ASSERT_EQ(sender.downs, 1u);
    ASSERT_EQ(sender.ups, 2u);
    for (unsigned i = 0; i < receiver.seen.size(); ++i) ASSERT_EQ(receiver.seen[i], i);
    if (receiver.seen.size() < 20) ++cut_short;
    if (receiver.seen.size() > done) ++unanswered_but_delivered;
  }
  EXPECT_GT(cut_short, 10u);
  EXPECT_GT(unanswered_but_delivered, 10u);
}

TEST_F(SimulatedLink, ACutWireHoldsRequestsUntilItIsMendedOrTheSessionDies) {
  make(3);
  network.open[0] = false;
  link->network_changed();
  send(1);
  pass(500 * kMillisecond);
  EXPECT_EQ(receiver.seen.size(), 0u);
  network.open[0] = true;
  link->network_changed();
  pass(10 * kSecond);
  EXPECT_EQ(done + failed, 1u);
  EXPECT_TRUE(link->is_up());
}

TEST_F(SimulatedLink, ASendWhileDownEndsWithUnknownOutcomeButNeverFromInsideTheCall) {
  make(4);
  link->reset();
  while (link->is_up() && scheduler->step()) {
  }
  send(1);
  EXPECT_EQ(failed, 0u);
  pass(kSecond);
  EXPECT_EQ(failed, 1u);
}

TEST_F(SimulatedLink, ADirectionThatStandsStillDeliversInOrderWhenItGoesOn) {
  for (const auto flow : {SimLink::Flow::requests, SimLink::Flow::answers}) {
    make(1);
    link->hold(flow, true);
    for (unsigned i = 0; i < 6; ++i) send(i);
    pass(2 * kSecond);
    EXPECT_EQ(receiver.seen.size(), flow == SimLink::Flow::requests ? 0u : 6u);
    EXPECT_TRUE(order.empty());
    link->hold(flow, false);
    pass(kSecond);
    EXPECT_EQ(receiver.seen, (std::vector<unsigned>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(done, 6u);
  }
}

TEST_F(SimulatedLink, AnswersMayBeOvertaken) {
  LinkTimes times;
  times.late = 500'000;
  times.latest = kSecond;
  make(1, times);
  for (unsigned i = 0; i < 20; ++i) send(i);
  pass(5 * kSecond);
  EXPECT_EQ(receiver.seen.size(), 20u);
  ASSERT_EQ(order.size(), 20u);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  EXPECT_TRUE(std::ranges::is_sorted(receiver.seen)) << "requests are delivered in order";
}

}  // namespace
}  // namespace lockstep::simulation
