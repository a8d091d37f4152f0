// What one volume's disk at the partner may hold up: neither heartbeats nor other volumes.
#include "replication/core/link_budget.hpp"
#include "replication/core/pair_node.hpp"
#include "tests/unit/replication_link/link_fixture.hpp"

namespace lockstep::replication {
namespace {

std::string heartbeat(std::size_t payload = 0) {
  Message beat;
  beat.type = MessageType::heartbeat;
  beat.payload = static_cast<std::uint32_t>(payload);
  return text_of(encode(beat));
}

/// The partner answers heartbeats, and nothing else until it is told to.
class StalledPartner : public PartnerLink {
 protected:
  void connect_and_stall() {
    connect();
    run([this] {
      partner_.answering = false;
      partner_.answered_first = heartbeat().substr(0, 6);
    });
  }
  void expect_heartbeat(const char* when) {
    const auto ids = pattern(500 * 32, 2);
    std::vector<std::byte> granted(500);
    auto answer = send(heartbeat(ids.size()), ids, granted);
    ASSERT_EQ(answer.wait_for(3s), std::future_status::ready) << when;
    EXPECT_TRUE(answer.get().header) << when;
  }
  void answer_everything() {
    run([this] {
      partner_.answering = true;
      partner_.answer_held();
    });
  }
};

TEST_F(StalledPartner, IsHeardThoughItsWholeWindowIsTaken) {
  connect_and_stall();
  const auto out = pattern(4096, 1);
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 600; ++i) answers.push_back(send(std::to_string(i), out));
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == iscsi_target::kMaxQueueDepth; }));
  expect_heartbeat("600 requests were sent, of which the partner takes 240");
  answer_everything();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().header);
}

TEST_F(StalledPartner, IsHeardThoughEveryBufferIsTakenAndRequestsWaitForThem) {
  connect_and_stall();
  std::vector<engine::Buffer> taken;
  run([&, this] {
    while (auto buffer = reserve_.allocate(std::size_t{1} << 20)) taken.push_back(std::move(buffer));
  });
  const auto out = pattern(200000, 5);
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(send(std::to_string(i), out));
  expect_heartbeat("20 requests wait for a buffer");
  EXPECT_TRUE(run([this] { return partner_.held.empty(); }));
  run([&] { taken.clear(); });
  answer_everything();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().header);
  run([this] {
    int next = 0;
    for (const auto& seen : partner_.seen) {
      if (seen.header.starts_with(partner_.answered_first)) continue;
      EXPECT_EQ(seen.header, std::to_string(next++));
    }
    EXPECT_EQ(next, 20) << "in the order of their sending";
  });
}

TEST_F(StalledPartner, IsAskedByNoMoreHeartbeatsAtOnceThanItTakesBesideItsWindow) {
  connect_and_stall();
  run([this] { partner_.answered_first.clear(); });
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(send(heartbeat()));
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == LinkSession::kMaxAhead; }));
  auto other = send("other");
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == LinkSession::kMaxAhead + 1; }));
  answer_everything();
  for (auto& answer : answers) EXPECT_TRUE(answer.get().header);
  EXPECT_TRUE(other.get().header);
  EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"});
}

TEST_F(StalledPartner, LosesNothingOfWhatWaitsWhenTheWayBreaks) {
  connect_and_stall();
  run([this] { partner_.answered_first.clear(); });
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(send(heartbeat()));
  for (int i = 0; i < 300; ++i) answers.push_back(send("x"));
  ASSERT_TRUE(eventually([this] { return partner_.held.size() >= iscsi_target::kMaxQueueDepth; }));
  run([this] { link_->reset(); });
  for (auto& answer : answers) EXPECT_EQ(answer.get().header.error(), Errc::unknown_outcome);
  answer_everything();
  ASSERT_TRUE(eventually([this] { return node_.events.size() >= 3; }));
  expect_heartbeat("the next way");
}

/// Sends as a volume's mirror does: as long as its share of the budget lets it.
struct Volume {
  Volume(IscsiLink& l, LinkBudget& budget, std::string n, std::span<const std::byte> d)
      : link(l), share(budget, [this] { push(); }), name(std::move(n)), data(d) {}
  void push() {
    while (sent < wanted && share.ready()) {
      ++sent;
      share.take(data.size());
      link.send(as_bytes(name), data, {}, [this](const engine::IoResult<LinkAnswer>& result) {
        share.give_back(data.size());
        (result ? answered : failed) += 1;
      });
    }
  }
  IscsiLink& link;
  LinkShare share;
  std::string name;
  std::span<const std::byte> data;
  int wanted = 0, sent = 0, answered = 0, failed = 0;
};

TEST_F(StalledPartner, OfOneVolumeLetsHeartbeatsAndAnotherVolumesWritesThrough) {
  for (const std::size_t size : {std::size_t{4096}, kMaxLinkPayload}) {
    const int many = size == kMaxLinkPayload ? 100 : 2000;
    connect_and_stall();
    run([this] { partner_.answered_first.clear(); });
    const auto out = pattern(size, 3);
    auto budget = run([this] {
      const LinkLimits limits = NodeSettings{}.link_orders;
      return std::make_unique<LinkBudget>(reactor_, limits);
    });
    auto stalled = run([&, this] { return std::make_unique<Volume>(*link_, *budget, "stalled", out); });
    auto other = run([&, this] { return std::make_unique<Volume>(*link_, *budget, "other", out); });
    run([&] {
      stalled->wanted = many;
      stalled->push();
    });
    ASSERT_TRUE(eventually([&, this] { return partner_.held.size() == static_cast<std::size_t>(stalled->sent); }));
    EXPECT_LT(run([&] { return stalled->sent; }), 100);
    run([&, this] {
      partner_.answered_first = "other";
      other->wanted = many / 10;
      other->push();
    });
    EXPECT_TRUE(eventually([&] { return other->answered == many / 10; })) << run([&] { return other->answered; });
    run([this] { partner_.answered_first = heartbeat().substr(0, 6); });
    expect_heartbeat("one volume stands still");
    EXPECT_EQ(run([&] { return stalled->answered; }), 0);
    answer_everything();
    EXPECT_TRUE(eventually([&] { return stalled->answered == many; })) << run([&] { return stalled->answered; });
    EXPECT_EQ(run([&] { return budget->taken().bytes; }), 0u);
    EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"});
    run([&] { stalled.reset(), other.reset(), budget.reset(); });
    run([this] { link_.reset(); });
    stop_server();
    partner_ = {};
    node_ = {};
  }
}

}  // namespace
}  // namespace lockstep::replication
