// A link session over several simulated paths, without a mirror: every request is delivered once and in order as long
// as the session lasts, answered once, and no buffer is touched after its callback, whatever happens to the paths.
#include <deque>
#include <optional>

#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "replication/link/paths_link.hpp"
#include "replication/link/paths_service.hpp"
#include "tests/simulation/judged_paths.hpp"
#include "tests/simulation/sim_clock.hpp"
#include "tests/simulation/sim_link.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::PathSlot;

const engine::Uuid kSender = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
const engine::Uuid kReceiver = *engine::Uuid::parse("f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f");

/// What one end's path tells.
class PathEnd final : public replication::LinkEvents {
 public:
  PathEnd(replication::PathsLink* out, replication::PathsService* in, PathsJudge& judge, std::size_t path)
      : out_(out), in_(in), judge_(judge), path_(static_cast<PathSlot>(path)) {}
  void on_link_up() override { out_->on_path_up(path_); }
  void on_link_down() override {
    judge_.path_down(index_of(path_), !out_->is_ending());
    out_->on_path_down(path_);
  }
  void on_inbound_up(std::uint64_t) override { in_->on_path_up(path_); }
  void on_inbound_down(std::uint64_t) override { in_->on_path_down(path_); }
  void on_request(std::uint64_t, replication::InboundRequest& request) override { in_->on_request(path_, request); }

 private:
  replication::PathsLink* out_;
  replication::PathsService* in_;
  PathsJudge& judge_;
  PathSlot path_;
};

/// Sends numbers, and counts what comes back.
struct Sending final : replication::LinkEvents {
  explicit Sending(PathsJudge& j) : judge(j) {}
  void on_link_up() override { ++ups; }
  void on_link_down() override {
    judge.session_over();
    EXPECT_EQ(open, 0u) << "requests end before the link goes down";
    ++downs;
  }
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, replication::InboundRequest&) override {}
  PathsJudge& judge;
  unsigned ups = 0, downs = 0, open = 0, done = 0, failed = 0;
};

/// Checks the order, and answers after a while: with twice the payload's first byte.
struct Receiving final : replication::LinkEvents {
  Receiving(Scheduler& s, SimRandom r) : scheduler(s), random(r) {}
  void on_link_up() override {}
  void on_link_down() override {}
  void on_inbound_up(std::uint64_t session) override {
    EXPECT_EQ(alive, 0u);
    EXPECT_GT(session, last);
    alive = last = session;
    expected.reset();
    expected_beat = 0;
  }
  void on_inbound_down(std::uint64_t session) override {
    EXPECT_EQ(alive, session);
    alive = 0;
  }
  void on_request(std::uint64_t session, replication::InboundRequest& request) override {
    EXPECT_EQ(session, alive);
    const bool beat = replication::is_heartbeat(request.header());
    const std::uint64_t number = replication::decode(request.header())->number;
    if (beat) {
      EXPECT_GT(number, expected_beat) << "heartbeats come once, and in order";
      expected_beat = number;
    } else {
      EXPECT_EQ(number, expected.value_or(number)) << "out of order, or twice, or lost";
      expected = number + 1;
    }
    ++delivered;
    waiting.push_back({&request, scheduler.now(), std::vector<std::byte>(request.max_answer_payload()), false});
    scheduler.after(random.skewed(0, 20 * kMillisecond), Owner::node_b, &Receiving::on_answer, this);
  }
  static void on_answer(void* self, std::uint64_t) {
    auto& r = *static_cast<Receiving*>(self);
    // Any of them: answers come in any order.
    const std::size_t which = r.random.below(r.waiting.size());
    Waiting& one = r.waiting[which];
    const std::vector<std::byte> header(one.request->header().begin(), one.request->header().end());
    if (!one.early && one.payload.empty() && r.random.chance(200'000)) {
      one.early = true;
      one.request->answer_early(header);
      r.scheduler.after(r.random.skewed(0, 20 * kMillisecond), Owner::node_b, &Receiving::on_answer, self);
      return;
    }
    for (auto& byte : one.payload) byte = one.request->payload().front();
    Waiting taken = std::move(one);
    r.waiting.erase(r.waiting.begin() + static_cast<std::ptrdiff_t>(which));
    ++r.answers;
    auto kept = std::make_unique<std::vector<std::byte>>(std::move(taken.payload));
    const std::span<const std::byte> payload(*kept);
    taken.request->answer(header, payload, [&r, kept = std::move(kept)]() mutable {
      kept->assign(kept->size(), std::byte{0xEE});  // nobody may read it any more
      ++r.sent;
    });
  }
  struct Waiting {
    replication::InboundRequest* request;
    Nanos since;
    std::vector<std::byte> payload;
    bool early;
  };
  Scheduler& scheduler;
  SimRandom random;
  std::uint64_t alive = 0, last = 0, expected_beat = 0;
  std::optional<std::uint64_t> expected;
  unsigned delivered = 0, answers = 0, sent = 0;
  std::vector<Waiting> waiting;
};

struct NumberedWorld {
  NumberedWorld(std::uint64_t seed, std::size_t count, std::uint16_t sender_speaks = replication::kSeveralPaths)
      : random(seed),
        scheduler(trace, random.split()),
        clock_a(scheduler, random.split(), Owner::node_a, 1'000'000),
        clock_b(scheduler, random.split(), Owner::node_b, 1'000'000),
        networks(count),
        judge(clock_a, verdict),
        sending(judge),
        receiving(scheduler, random.split()) {
    LinkTimes times;
    times.late = 50'000;
    times.latest = 50 * kMillisecond;
    const SimLink::World base{scheduler, trace, verdict, networks[0], nullptr, nullptr};
    std::vector<replication::PathOut> out;
    for (std::size_t i = 0; i < count; ++i) {
      links.push_back(std::make_unique<SimLink>(
          SimLink::World{base.scheduler, base.trace, base.verdict, networks[i], nullptr, nullptr}, random.split(),
          NodeSide::a, times));
      const auto order = static_cast<std::uint8_t>(i / 2);
      judged.push_back(std::make_unique<JudgedPath>(*links[i], judge, i));
      out.push_back({*judged[i], replication::rank_of(replication::PathTransport::tcp, 10'000, order)});
    }
    way_out.emplace(clock_a, kSender, out);
    way_out->start(sending);
    judge.watch(*way_out);
    way_in.emplace(clock_b, kReceiver, receiving);
    for (std::size_t i = 0; i < count; ++i) {
      ends.push_back(std::make_unique<PathEnd>(&*way_out, &*way_in, judge, i));
      links[i]->receiver_started(*ends[i], replication::kSeveralPaths);
      links[i]->sender_started(*ends[i], sender_speaks);
    }
  }

  void send(bool beat) {
    requests.push_back({});
    Request& r = requests.back();
    r.out.assign(random.chance(500'000) ? random.between(1, 2000) : 1, static_cast<std::byte>(random.next()));
    r.in.resize(random.chance(300'000) ? random.between(1, 2000) : 0);
    replication::Message m;
    m.type = beat ? replication::MessageType::heartbeat : replication::MessageType::copy;
    m.number = beat ? ++last_beat : ++last_number;
    ++sending.open;
    way_out->send(replication::encode(m), r.out, r.in, [this, &r, m](const auto& result) {
      EXPECT_FALSE(std::exchange(r.done, true));
      --sending.open;
      ++(result ? sending.done : sending.failed);
      if (result) {
        EXPECT_EQ(replication::decode(result->header)->number, m.number) << "another one's answer";
        EXPECT_EQ(result->payload_bytes, r.in.size());
        if (!r.in.empty()) {
          EXPECT_EQ(r.in.front(), r.out.front());
        }
      }
      r.out.assign(r.out.size(), std::byte{0xAA});  // the simulated path tells when it reads this
    });
  }

  void break_something() {
    const std::size_t path = random.below(links.size());
    const Nanos time = random.skewed(kMillisecond, 2 * kSecond);
    switch (random.below(4)) {
      case 0:
        links[path]->break_session();
        break;
      case 1:
        networks[path].open[random.below(2)] = false;
        links[path]->network_changed();
        scheduler.after(time, Owner::world, &NumberedWorld::on_mend, this, path);
        break;
      default:
        links[path]->hold(static_cast<SimLink::Flow>(random.below(2)), true);
        scheduler.after(time, Owner::world, &NumberedWorld::on_mend, this, path);
        break;
    }
  }
  static void on_mend(void* self, std::uint64_t path) {
    auto& world = *static_cast<NumberedWorld*>(self);
    world.networks[path].open = {true, true};
    world.links[path]->network_changed();
    for (const auto flow : {SimLink::Flow::requests, SimLink::Flow::answers}) world.links[path]->hold(flow, false);
  }

  void pass(Nanos time) {
    const Nanos until = scheduler.now() + time;
    while (scheduler.now() < until && scheduler.step()) {
    }
  }
  void expect_quiet_end() {
    for (std::size_t i = 0; i < links.size(); ++i) on_mend(this, i);
    pass(20 * kSecond);
    EXPECT_TRUE(way_out->is_up());
    EXPECT_EQ(sending.open, 0u);
    EXPECT_EQ(receiving.answers, receiving.delivered);
    // Those of the last heartbeats are acknowledged by the next ones.
    EXPECT_GE(receiving.sent + replication::kAheadWindow, receiving.answers) << "answers are kept for ever";
    EXPECT_EQ(way_out->faults() + way_in->faults(), 0u) << way_out->problem() << way_in->problem();
    EXPECT_EQ(verdict.reason(), "");
  }

  struct Request {
    std::vector<std::byte> out, in;
    bool done = false;
  };
  SimRandom random;
  Trace trace;
  Verdict verdict;
  Scheduler scheduler;
  SimClock clock_a, clock_b;
  std::vector<Network> networks;
  PathsJudge judge;
  Sending sending;
  Receiving receiving;
  std::vector<std::unique_ptr<SimLink>> links;
  std::vector<std::unique_ptr<JudgedPath>> judged;
  std::optional<replication::PathsLink> way_out;
  std::optional<replication::PathsService> way_in;
  std::vector<std::unique_ptr<PathEnd>> ends;
  std::deque<Request> requests;
  std::uint64_t last_number = 0, last_beat = 0;
};

TEST(NumberedRequests, AreDeliveredOnceAndInOrderWhateverHappensToThePaths) {
  unsigned sessions = 0, answered = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    NumberedWorld world(seed, 1 + seed % 4);
    world.pass(2 * kSecond);
    for (int i = 0; i < 600; ++i) {
      world.send(world.random.chance(50'000));
      if (world.random.chance(30'000)) world.break_something();
      if (world.random.chance(1'000)) world.way_out->reset();
      world.pass(world.random.skewed(0, 10 * kMillisecond));
    }
    world.expect_quiet_end();
    sessions += world.sending.ups, answered += world.sending.done;
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(sessions, 200u);
  EXPECT_GT(answered, 60'000u);
}

TEST(NumberedRequests, LoseNothingWhileAPathIsLeft) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    NumberedWorld world(seed, 2);
    world.pass(5 * kSecond);
    for (int i = 0; i < 500; ++i) {
      world.send(world.random.chance(50'000));
      if (i == 100) world.links[seed % 2]->hold(static_cast<SimLink::Flow>(seed / 2 % 2), true);
      if (i == 300) NumberedWorld::on_mend(&world, seed % 2);
      if (i == 400) world.pass(2 * kSecond);
      if (i == 400) world.links[0]->break_session();
      world.pass(world.random.skewed(0, 10 * kMillisecond));
    }
    world.expect_quiet_end();
    EXPECT_EQ(world.sending.failed, 0u) << seed;
    EXPECT_EQ(world.sending.downs, 0u) << seed;
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(NumberedRequests, OfASenderThatKnowsNoNumbersAreHandedOnAsTheyAre) {
  NumberedWorld world(1, 2, replication::kSeveralPaths - 1);
  world.pass(kSecond);
  ASSERT_TRUE(world.way_out->is_up());
  EXPECT_EQ(world.way_out->version(), replication::kSeveralPaths - 1);
  for (int i = 0; i < 50; ++i) world.send(i % 10 == 0);
  world.pass(kSecond);
  EXPECT_EQ(world.sending.done, 50u);
  EXPECT_EQ(world.receiving.delivered, 50u);
}

TEST(NumberedRequests, WaitForTheWindowAndNotForOneThatHangs) {
  NumberedWorld world(1, 2);
  world.pass(5 * kSecond);
  for (int i = 0; i < 2000; ++i) world.send(false);
  world.pass(kMillisecond);
  EXPECT_LE(world.receiving.delivered, replication::kNumberedWindow);
  world.pass(20 * kSecond);
  EXPECT_EQ(world.sending.done, 2000u);
}

}  // namespace
}  // namespace lockstep::simulation
