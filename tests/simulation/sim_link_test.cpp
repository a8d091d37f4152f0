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
    const auto brings =
        std::span<const std::byte>(payload).first(std::min(payload.size(), request.max_answer_payload()));
    if (answers) request.answer(request.header(), brings, [] {});
  }
  std::uint64_t alive = 0;
  std::uint64_t last = 0;
  bool answers = true;
  std::vector<std::byte> payload;  ///< of each answer that has room for it
  std::vector<unsigned> seen;
};

class SimulatedLink : public testing::Test {
 protected:
  void make(std::uint64_t seed, LinkTimes times = {},
            replication::PathTransport transport = replication::PathTransport::tcp) {
    link.reset();
    sender = {};
    receiver = {};
    done = failed = 0;
    order.clear();
    scheduler.emplace(trace, SimRandom(seed));
    const SimLink::World world{.scheduler = *scheduler,
                               .trace = trace,
                               .verdict = verdict,
                               .network = network,
                               .transport = transport,
                               .payloads = {512, 512}};
    link.emplace(world, SimRandom(seed + 1), engine::NodeSide::a, times);
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

TEST_F(SimulatedLink, WhatIsTooLargeIsLostAndAllThatWasSentWithItOrAfterItStandsBehind) {
  make(1);
  network.largest[0] = 1500;
  link->passes_more_or_less();
  send(1);
  pass(kSecond);
  EXPECT_EQ(done, 1u);
  const std::vector<std::byte> large(8192);
  send(2);
  const std::byte header[1] = {std::byte{3}};
  link->send(header, large, {}, [this](auto answer) { ++(answer ? done : failed); });
  pass(kSecond);
  send(4);
  pass(2 * kSecond);
  EXPECT_EQ(receiver.seen, (std::vector<unsigned>{1}));
  link->reset();
  pass(kSecond);
  EXPECT_EQ(failed, 3u);
  send(5);
  pass(kSecond);
  EXPECT_EQ(receiver.seen, (std::vector<unsigned>{1, 5})) << "what is small passes on the next connection";
  EXPECT_EQ(done, 2u);
}

TEST_F(SimulatedLink, AnAnswerThatIsTooLargeHoldsUpThoseBehindIt) {
  make(1);
  network.largest[1] = 1500;
  link->passes_more_or_less();
  std::vector<std::byte> large(8192);
  receiver.payload.assign(8192, std::byte{1});
  const std::byte header[1] = {std::byte{1}};
  link->send(header, {}, large, [this](auto answer) { ++(answer ? done : failed); });
  pass(kSecond);
  send(2);
  pass(kSecond);
  EXPECT_EQ(receiver.seen, (std::vector<unsigned>{1, 2}));
  EXPECT_EQ(done, 0u);
  network.largest[1] = 0;
  link->passes_more_or_less();
  pass(kSecond);
  EXPECT_EQ(done, 2u);
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

/// Requests with a payload each way, which go through windows.
class SimulatedLinkOverRdma : public SimulatedLink {
 protected:
  static constexpr std::byte kBlank{2}, kAnswered{7};
  struct Large {
    std::vector<std::byte> out = std::vector<std::byte>(4096, std::byte{1});
    std::vector<std::byte> in = std::vector<std::byte>(4096, kBlank);
    std::optional<bool> answered = {};
    std::vector<std::byte> in_then = {};  ///< when it was called back
  };
  void begin(std::uint64_t seed) {
    make(seed, {}, replication::PathTransport::rdma);
    receiver.payload.assign(4096, kAnswered);
    requests.clear();
    for (unsigned i = 0; i < 5; ++i) send_large(*requests.emplace_back(std::make_unique<Large>()));
  }
  void send_large(Large& request) {
    const std::byte header[1] = {std::byte{1}};
    link->send(header, request.out, request.in, [&request](auto answer) {
      request.answered = answer.has_value();
      request.in_then = request.in;
      std::ranges::fill(request.out, std::byte{3});  // it is its owner's again
    });
  }
  [[nodiscard]] bool all_over() const {
    return std::ranges::all_of(requests, [](auto& r) { return r->answered.has_value(); });
  }

  std::vector<std::unique_ptr<Large>> requests;
};

TEST_F(SimulatedLinkOverRdma, PayloadsArriveBothWays) {
  begin(1);
  pass(kSecond);
  ASSERT_TRUE(all_over());
  for (const auto& request : requests) {
    EXPECT_TRUE(*request->answered);
    EXPECT_EQ(request->in, receiver.payload);
  }
  EXPECT_EQ(receiver.seen.size(), 5u);
  EXPECT_EQ(verdict.reason(), "");
}

TEST_F(SimulatedLinkOverRdma, ALossMayLeaveMemoryHalfWrittenAndTouchesNothingAfterTheCallback) {
  unsigned half_written = 0, written_and_lost = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    begin(seed);
    pass(seed % 100 * 20 * kMicrosecond);
    link->break_session();
    pass(3 * kSecond);
    ASSERT_TRUE(all_over()) << seed;
    for (const auto& request : requests) {
      ASSERT_EQ(request->in, request->in_then) << seed;
      const auto written = std::ranges::count(request->in, kAnswered);
      half_written += written != 0 && written != 4096 ? 1 : 0;
      written_and_lost += written == 4096 && !*request->answered ? 1 : 0;
    }
    ASSERT_EQ(verdict.reason(), "") << seed;
  }
  EXPECT_GT(half_written, 10u);
  EXPECT_GT(written_and_lost, 10u);
}

TEST_F(SimulatedLinkOverRdma, IsDownWhileADeviceIsAwayAndBackAfterwards) {
  begin(1);
  link->take_device(true);
  pass(5 * kSecond);
  EXPECT_TRUE(all_over());
  EXPECT_FALSE(link->is_up());
  link->take_device(false);
  pass(5 * kSecond);
  EXPECT_TRUE(link->is_up());
}

TEST_F(SimulatedLinkOverRdma, OfAProcessThatStandsStillTheMemoryIsReadAndWritten) {
  begin(1);
  scheduler->freeze(Owner::node_a);
  pass(kSecond);
  EXPECT_EQ(receiver.seen.size(), 5u);
  EXPECT_FALSE(all_over());
  for (const auto& request : requests) EXPECT_EQ(request->in, receiver.payload);
  scheduler->thaw(Owner::node_a);
  pass(kSecond);
  EXPECT_TRUE(all_over());
  EXPECT_EQ(verdict.reason(), "");
}

}  // namespace
}  // namespace lockstep::simulation
