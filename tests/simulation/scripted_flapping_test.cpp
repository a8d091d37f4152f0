// Contact that is lost and made again, again and again: a path that loses what is large, and a partner that stands
// still for less than it takes to be left. A healthy node goes on alone meanwhile, and its hosts keep their sessions.
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::ArbiterKind;
using engine::NodeSide;
using replication::MirrorState;

constexpr std::size_t kLargest = 1500;
constexpr std::uint32_t kLarge = 16;  ///< blocks

void as_shipped(Scenario& s) {
  s.lease = 1500 * kMillisecond;
  s.heartbeat = s.lease / 6;
  s.store_deadline = 8 * kSecond;
}

// ---- what is large is lost ------------------------------------------------------------------------------------------

struct Arbiter {
  const char* name;
  engine::ArbiterSettings settings;
};
void PrintTo(const Arbiter& arbiter, std::ostream* out) { *out << arbiter.name; }
const Arbiter kArbiters[] = {{"PreferredA", {ArbiterKind::preferred, kA, {}}},
                             {"PreferredB", {ArbiterKind::preferred, kB, {}}},
                             {"Fence", {ArbiterKind::fence, kA, {}}},
                             {"Witness", {ArbiterKind::witness, kA, "http://192.0.2.1:2379"}}};

/// All of one link.
struct Paths {
  const char* name;
  std::size_t all, over_rdma;
  bool numbered = true;
};
void PrintTo(const Paths& paths, std::ostream* out) { *out << paths.name; }
const Paths kPaths[] = {
    {"PlainPath", 1, 0, false}, {"OnePath", 1, 0}, {"TwoPaths", 2, 0}, {"TcpAndRdma", 2, 1}, {"TwoNetworks", 4, 2}};

class LargeIsLost : public testing::TestWithParam<std::tuple<Arbiter, Paths>> {
 protected:
  LargeIsLost()
      : pair(pair_program(), [](Scenario& s) {
          as_shipped(s);
          s.arbiter = std::get<Arbiter>(GetParam()).settings;
          s.paths = std::get<Paths>(GetParam()).all;
          s.rdma_paths = std::get<Paths>(GetParam()).over_rdma;
          s.several_paths = std::get<Paths>(GetParam()).numbered;
        }) {
    for (const NodeSide side : {kA, kB}) pair.host(side).fence().hold();
    pair.run_for(4 * kSecond);
  }
  [[nodiscard]] Nanos now() { return pair.world().scheduler.now(); }
  [[nodiscard]] Nanos lease() { return pair.world().scenario.lease; }
  void lose_from(NodeSide side) { let_pass_from(side, kLargest); }
  void lose_nothing() {
    for (const NodeSide side : {kA, kB}) let_pass_from(side, 0);
  }
  void let_pass_from(NodeSide side, std::size_t largest) {
    for (std::size_t path = 0; path < pair.world().networks.size(); ++path) {
      pair.world().lose_large(path, side, largest);
    }
  }
  [[nodiscard]] bool mirrors() { return pair.is(kA, MirrorState::in_sync) && pair.is(kB, MirrorState::in_sync); }
  /// As a host does, on one path: what fails is tried again.
  [[nodiscard]] bool is_written_at(NodeSide path, Nanos time) {
    for (const Nanos end = now() + time; now() < end;) {
      auto& io = pair.write(path, 8, 1, kLarge);
      pair.wait_for([&] { return io.done; }, time);
      if (io.done && !io.status()) return true;
      pair.run_for(20 * kMillisecond);
    }
    return false;
  }
  ScriptedPair pair;
};

TEST_P(LargeIsLost, AWriteEndsAllTheSame) {
  for (const NodeSide side : {kA, kB}) lose_from(side);
  EXPECT_TRUE(is_written_at(kA, 20 * lease()));
  EXPECT_EQ(pair.violation(), "");
}

/// Whichever node the host has to take in the end.
TEST_P(LargeIsLost, OneWayAWriteThroughTheNodeThatDoesNotOrderEndsToo) {
  for (const NodeSide from : {kB, kA}) {
    lose_from(from);
    const Nanos end = now() + 20 * lease();
    bool written = false;
    while (!written && now() < end) written = is_written_at(kB, 4 * lease()) || is_written_at(kA, kSecond);
    EXPECT_TRUE(written) << "lost from " << (from == kA ? "A" : "B");
    lose_nothing();
    EXPECT_TRUE(pair.wait_for([&] { return mirrors(); }, 120 * kSecond)) << pair.status(kA).reason;
  }
  EXPECT_EQ(pair.violation(), "");
}

/// The copy there is tried again, ever more seldom, and hosts wait then. In between they don't.
TEST_P(LargeIsLost, HostsGoOnMostOfTheTimeAndTheCopyJoinsWhenThePathIsMended) {
  for (const NodeSide side : {kA, kB}) lose_from(side);
  EXPECT_TRUE(is_written_at(kA, 20 * lease()));
  Nanos longest = 0, waited = 0;
  const Nanos began = now();
  while (now() < began + 120 * kSecond) {
    const Nanos sent = now();
    ASSERT_EQ(pair.written(kA, 8, 2, kLarge), std::error_code{});
    longest = std::max(longest, now() - sent);
    waited += now() - sent;
    pair.run_for(20 * kMillisecond);
  }
  EXPECT_LT(longest, 3 * lease());
  EXPECT_LT(waited, 20 * kSecond);
  EXPECT_TRUE(pair.is(kA, MirrorState::solo)) << "the path is not used for a long time any more";
  // Where an arbiter has decided, and no contact is made before data pass, it is the link that has a reason.
  const std::string reason = pair.status(kA).reason;
  EXPECT_TRUE(reason.empty() || reason.find("contact") != std::string::npos) << reason;
  lose_nothing();
  EXPECT_TRUE(pair.wait_for([&] { return mirrors() && pair.status(kA).reason.empty(); }, 120 * kSecond));
  EXPECT_EQ(pair.value_at(kB, 8), 2);
  EXPECT_EQ(pair.violation(), "");
}

INSTANTIATE_TEST_SUITE_P(By, LargeIsLost, testing::Combine(testing::ValuesIn(kArbiters), testing::ValuesIn(kPaths)),
                         [](const auto& it) {
                           return std::string(std::get<Arbiter>(it.param).name) + std::get<Paths>(it.param).name;
                         });

// ---- a node that stands still, again and again ----------------------------------------------------------------------

/// Stands still for `stall` of each `period`.
class Limping : public testing::TestWithParam<NodeSide> {
 protected:
  Limping() : pair(pair_program(), as_shipped), limps(GetParam()), healthy(other(GetParam())) {
    next_ = now() + 200 * kMillisecond;
  }
  [[nodiscard]] Nanos now() { return pair.world().scheduler.now(); }
  bool wait_for(const std::function<bool()>& what, Nanos patience) {
    return pair.wait_for(
        [&] {
          limp();
          return what();
        },
        patience);
  }
  void limp() {
    if (!goes_on_limping || now() < next_) return;
    const bool frozen = pair.host(limps).frozen();
    frozen ? pair.host(limps).thaw() : pair.host(limps).freeze();
    next_ = now() + (frozen ? period - stall : stall);
  }
  /// One write after the other on the healthy node for that long: the longest time without one that ended well.
  Nanos longest_pause_of_hosts(Nanos time) {
    Nanos longest = 0, last = now();
    for (const Nanos end = now() + time; now() < end;) {
      auto& io = pair.write(healthy, 8, 1);
      wait_for([&] { return io.done; }, 10 * kSecond);
      if (io.done && !io.status()) longest = std::max(longest, now() - std::exchange(last, now()));
      const Nanos again = now() + 5 * kMillisecond;
      wait_for([&] { return now() >= again; }, kSecond);
    }
    return std::max(longest, now() - last);
  }

  ScriptedPair pair;
  NodeSide limps, healthy;
  Nanos stall = 1400 * kMillisecond, period = 1700 * kMillisecond;
  bool goes_on_limping = true;

 private:
  Nanos next_ = 0;
};

TEST_P(Limping, TheHealthyNodesHostsGoOnAndKeepTheirSessions) {
  longest_pause_of_hosts(20 * kSecond);
  const unsigned closed = pair.host(healthy).fences();
  Nanos waited = 0;
  for (int i = 0; i < 12; ++i) waited += longest_pause_of_hosts(5 * kSecond);
  EXPECT_LE(pair.host(healthy).fences() - closed, 3u) << "within a minute";
  EXPECT_LT(waited, 10 * kSecond);
  EXPECT_TRUE(pair.is(healthy, MirrorState::solo) || pair.is(healthy, MirrorState::syncing_source));
  goes_on_limping = false;
  pair.host(limps).thaw();
  EXPECT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, 120 * kSecond)) << pair.status(healthy).reason;
  EXPECT_EQ(pair.violation(), "");
}

INSTANTIATE_TEST_SUITE_P(EitherNode, Limping, testing::Values(kA, kB),
                         [](const auto& it) { return it.param == kA ? "TheOneThatOrders" : "TheOther"; });

// ---- what does not count --------------------------------------------------------------------------------------------

/// Nobody says that it waits for contact to hold.
[[nodiscard]] bool joins_at_once(ScriptedPair& pair) {
  bool waits = false;
  const bool joined = pair.wait_for([&] {
    for (const NodeSide side : {kA, kB}) waits |= pair.status(side).reason.find("again and again") != std::string::npos;
    return pair.in_sync();
  });
  return joined && !waits;
}

TEST(NotFlapping, APartnerWhoseProcessIsAnotherOneJoinsAtOnce) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program(), as_shipped);
    for (int i = 0; i < 6; ++i) {
      pair.host(side).end(Host::End::killed);
      ASSERT_TRUE(pair.wait_for([&] { return pair.is(other(side), MirrorState::solo); }));
      pair.host(side).boot();
      ASSERT_TRUE(joins_at_once(pair)) << i << ": " << pair.status(other(side)).reason;
    }
  }
}

TEST(NotFlapping, WhoLeftByAgreementJoinsAtOnce) {
  ScriptedPair pair(pair_program(), as_shipped);
  for (int i = 0; i < 6; ++i) {
    pair.host(kB).shut_down();
    ASSERT_TRUE(pair.wait_for([&] { return !pair.host(kB).running(); }));
    pair.host(kB).boot();
    ASSERT_TRUE(joins_at_once(pair)) << i << ": " << pair.status(kA).reason;
  }
}

TEST(NotFlapping, BothNodesThatRestartAgreeAtOnce) {
  ScriptedPair pair(pair_program(), as_shipped);
  for (int i = 0; i < 6; ++i) {
    for (const NodeSide side : {kA, kB}) pair.host(side).end(Host::End::power_cut);
    for (const NodeSide side : {kA, kB}) pair.host(side).boot();
    ASSERT_TRUE(pair.wait_for([&] { return pair.in_sync(); }, 5 * kSecond)) << i;
    pair.run_for(kSecond);
  }
}

TEST(NotFlapping, TwoLossesOfContactInAMinuteAreAPauseEach) {
  ScriptedPair pair(pair_program(), [](Scenario& s) {
    as_shipped(s);
    s.arbiter = {ArbiterKind::preferred, kA, {}};
  });
  for (int i = 0; i < 6; ++i) {
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, false);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::suspended); }));
    for (const NodeSide side : {kA, kB}) pair.world().cut(side, true);
    bool alone = false;
    EXPECT_TRUE(pair.wait_for([&] {
      alone |= pair.is(kA, MirrorState::solo);
      return pair.is(kA, MirrorState::in_sync) && pair.is(kB, MirrorState::in_sync);
    }));
    EXPECT_FALSE(alone);
    pair.run_for(35 * kSecond);
  }
}

}  // namespace
}  // namespace lockstep::simulation
