// The phases of a replica: every event in every one of them, and the table in docs/developer/phases.md.
#include "replication/core/phase.hpp"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using engine::MemberSet;
using engine::NodeSide;
using engine::TimePoint;
using Sessions = phase::Suspended::Sessions;
using std::chrono::seconds;
using testing::Contains;
using testing::Not;

constexpr TimePoint kEntered{seconds(100)}, kNow{seconds(200)};
constexpr Lease kLease{.from = {seconds(198)}, .until = {seconds(199)}};

template <class T>
struct Named {
  std::string name;
  T value;
};

std::vector<Named<ReplicaPhase>> all_phases() {
  const auto suspended = [](Sessions sessions) {
    return phase::Suspended{.since = kEntered, .sessions = sessions, .was_primary = false, .reads_here = false};
  };
  return {
      {"starting", phase::Starting{}},
      {"in sync", phase::InSync{.entered = kEntered, .reads_here = false, .lease = kLease}},
      {"solo", phase::Solo{}},
      {"suspended, sessions kept", suspended(Sessions::kept)},
      {"suspended, sessions held", suspended(Sessions::held)},
      {"suspended, sessions closed", suspended(Sessions::closed)},
      {"recording", phase::Recording{.ran = true}},
      {"recording for the first time", phase::Recording{.ran = false}},
      {"forwarding", phase::Forwarding{.entered = kEntered, .partner_went_on = false}},
      {"stopped", phase::Stopped{.ran = true}},
      {"failed", phase::Failed{.ran = true}},
      {"failed before it ran", phase::Failed{.ran = false}},
      {"closed", phase::Closed{}},
  };
}

std::vector<Named<PhaseEvent>> all_events() {
  return {
      {"record begins", event::RecordBegins{}},
      {"both recorded, stores equal", event::BothRecorded{.now = kNow, .equal = true, .primary = false}},
      {"both recorded, stores differ", event::BothRecorded{.now = kNow, .equal = false, .primary = false}},
      {"both recorded, stores differ, as primary", event::BothRecorded{.now = kNow, .equal = false, .primary = true}},
      {"alone recorded", event::AloneRecorded{}},
      {"partner recorded", event::PartnerRecorded{kNow}},
      {"not agreed", event::NotAgreed{kNow}},
      {"resumed", event::Resumed{.now = kNow, .primary = false}},
      {"lease granted", event::LeaseGranted{{.from = kNow, .until = {seconds(201)}}}},
      {"stores equal", event::StoresEqual{}},
      {"partner went on", event::PartnerWentOn{}},
      {"lease lost", event::LeaseLost{.now = kNow, .primary = false}},
      {"contact lost", event::ContactLost{.now = kNow, .primary = false}},
      {"not alone", event::NotAlone{}},
      {"sessions closed", event::SessionsClosed{}},
      {"unfit", event::Unfit{}},
      {"metadata lost", event::MetadataLost{}},
      {"late record, a member's", event::LateRecordReturned{.member = true}},
      {"late record, no member's", event::LateRecordReturned{.member = false}},
      {"detached", event::Detached{}},
  };
}

bool serves(const ReplicaPhase& p) {
  return std::holds_alternative<phase::InSync>(p) || std::holds_alternative<phase::Solo>(p) ||
         std::holds_alternative<phase::Forwarding>(p);
}
/// It answers from its own store, or orders.
bool is_serving_member(const ReplicaPhase& p) { return serves(p) && !std::holds_alternative<phase::Forwarding>(p); }

std::string told(const ReplicaPhase& next) {
  for (const auto& p : all_phases()) {
    if (p.value == next) return p.name;
  }
  if (const auto* s = std::get_if<phase::Suspended>(&next)) {
    static constexpr const char* kSessions[] = {"kept", "held", "closed"};
    return std::string("suspended, sessions ") + kSessions[static_cast<int>(s->sessions)];
  }
  std::string name = name_of(next);
  if (const auto* s = std::get_if<phase::InSync>(&next)) {
    name += s->reads_here ? ", reads here" : "";
    name += s->lease ? "" : ", no lease yet";
  }
  return name;
}

std::string table() {
  std::ostringstream out;
  for (const auto& p : all_phases()) {
    out << "\n## " << p.name << "\n| on | becomes | and does |\n| --- | --- | --- |\n";
    std::string never;
    for (const auto& e : all_events()) {
      const auto t = step(p.value, e.value);
      if (!t) {
        never += (never.empty() ? "" : "; ") + e.name;
        continue;
      }
      if (t->next == p.value && t->effects.empty()) continue;
      std::string effects;
      for (const Effect effect : t->effects) effects += (effects.empty() ? "" : "; ") + std::string(name_of(effect));
      out << "| " << e.name << " | " << (t->next == p.value ? "the same" : told(t->next)) << " | " << effects << " |\n";
    }
    if (!never.empty()) out << "\nCannot be: " << never << ".\n";
  }
  return out.str();
}

TEST(Phases, AreShownInTheDocuments) {
  const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/docs/developer/phases.md";
  std::stringstream file;
  file << std::ifstream(path).rdbuf();
  const std::string mark = "<!-- written by Phases.AreShownInTheDocuments -->\n";
  const std::string text = file.str();
  const auto at = text.find(mark);
  ASSERT_NE(at, std::string::npos);
  const std::string wanted = text.substr(0, at) + mark + table();
  if (std::getenv("LOCKSTEP_WRITE_DOCS")) std::ofstream(path) << wanted;
  EXPECT_EQ(text, wanted) << "LOCKSTEP_WRITE_DOCS=1 unit_replication --gtest_filter=Phases.* writes it anew";
}

TEST(Phases, OnlyARecordLeadsToServing) {
  const std::set<std::string> records{"both recorded", "alone recorded", "partner recorded", "resumed"};
  for (const auto& p : all_phases()) {
    for (const auto& e : all_events()) {
      const auto t = step(p.value, e.value);
      if (!t || serves(p.value) || !serves(t->next)) continue;
      EXPECT_TRUE(records.contains(name_of(e.value))) << p.name << ", " << e.name;
    }
  }
}

TEST(Phases, AMemberThatServesNothingAnyMoreHoldsOrClosesItsSessions) {
  for (const auto& p : all_phases()) {
    for (const auto& e : all_events()) {
      const auto t = step(p.value, e.value);
      if (!t || !is_serving_member(p.value) || serves(t->next)) continue;
      // A change holds new operations from its beginning; a detached volume has no sessions.
      if (std::holds_alternative<phase::Recording>(t->next) || std::holds_alternative<phase::Closed>(t->next)) continue;
      EXPECT_THAT(t->effects, testing::AnyOf(Contains(Effect::hold_new), Contains(Effect::close_sessions)))
          << p.name << ", " << e.name;
    }
  }
}

TEST(Phases, SessionsAreKeptOnlyBySuspendingAndOnlyToGoOnAlone) {
  for (const auto& p : all_phases()) {
    for (const auto& e : all_events()) {
      const auto t = step(p.value, e.value);
      if (!t) continue;
      const auto* before = std::get_if<phase::Suspended>(&p.value);
      const auto* after = std::get_if<phase::Suspended>(&t->next);
      const bool kept_before = before && before->sessions == Sessions::kept;
      const bool kept_after = after && after->sessions == Sessions::kept;
      if (kept_after && !kept_before) {
        EXPECT_TRUE(std::holds_alternative<phase::InSync>(p.value)) << p.name << ", " << e.name;
      }
      if (kept_before && serves(t->next)) {
        EXPECT_TRUE(std::holds_alternative<phase::Solo>(t->next)) << e.name;
        EXPECT_THAT(t->effects, Contains(Effect::drop_possibly_retried)) << e.name;
      }
    }
  }
}

TEST(Phases, NothingFollowsADetachedVolume) {
  for (const auto& e : all_events()) {
    const auto t = step(phase::Closed{}, e.value);
    ASSERT_TRUE(t.has_value());
    EXPECT_TRUE(std::holds_alternative<phase::Closed>(t->next)) << e.name;
    EXPECT_TRUE(t->effects.empty()) << e.name;
  }
}

TEST(Phases, WithoutMetadataNothingIsServed) {
  for (const auto& e : all_events()) {
    const auto t = step(phase::Failed{.ran = true}, e.value);
    ASSERT_TRUE(t.has_value()) << e.name;
    EXPECT_FALSE(serves(t->next)) << e.name;
  }
}

TEST(Phases, ALeaseOnlyGrowsAndEndsWithThePhase) {
  const phase::InSync was{.entered = kEntered, .reads_here = true, .lease = kLease};
  const auto older = step(was, event::LeaseGranted{{.from = kEntered, .until = {seconds(150)}}});
  EXPECT_EQ(std::get<phase::InSync>(older->next).lease, kLease);
  const auto again = step(was, event::Resumed{.now = kNow, .primary = false});
  EXPECT_FALSE(std::get<phase::InSync>(again->next).lease.has_value()) << "it was granted before the suspension";
}

TEST(Phases, ASuspensionBeginsWhenTheLeaseRanOutAndNotWhenThatWasSeen) {
  const phase::InSync was{.entered = kEntered, .reads_here = true, .lease = kLease};
  for (const PhaseEvent& lost :
       {PhaseEvent(event::LeaseLost{kNow, true}), PhaseEvent(event::ContactLost{kNow, true})}) {
    const auto next = std::get<phase::Suspended>(step(was, lost)->next);
    EXPECT_EQ(next.since, kLease.until);
    EXPECT_TRUE(next.was_primary);
    EXPECT_TRUE(next.reads_here);
  }
}

TEST(Phases, ThatThePartnerServesAloneIsKnownWhenItSaysSoAndNotByItsRecord) {
  const auto recorded = step(phase::Recording{.ran = true}, event::PartnerRecorded{kNow});
  ASSERT_TRUE(recorded);
  EXPECT_FALSE(std::get<phase::Forwarding>(recorded->next).partner_went_on);
  const auto told = step(recorded->next, event::PartnerWentOn{});
  ASSERT_TRUE(told);
  EXPECT_TRUE(std::get<phase::Forwarding>(told->next).partner_went_on);
}

TEST(Phases, ASuspensionMakesNoStoreEqual) {
  for (const bool equal : {false, true}) {
    const phase::InSync was{.entered = kEntered, .reads_here = equal, .lease = kLease};
    for (const PhaseEvent& lost : {PhaseEvent(event::LeaseLost{.now = kNow, .primary = false}),
                                   PhaseEvent(event::ContactLost{.now = kNow, .primary = false})}) {
      EXPECT_EQ(std::get<phase::Suspended>(step(was, lost)->next).reads_here, equal);
    }
  }
}

/// One that did not need not be asked for what it acknowledged, and is brought up to date.
TEST(Phases, AProcessThatStoppedHasRunIfItHadServed) {
  for (const bool served : {false, true}) {
    const ReplicaPhase before = served ? ReplicaPhase(phase::Solo{}) : ReplicaPhase(phase::Starting{});
    const auto stopped = step(before, event::Unfit{}), failed = step(before, event::MetadataLost{});
    EXPECT_EQ(ran(stopped->next), served);
    EXPECT_EQ(ran(failed->next), served);
    const auto member = step(failed->next, event::LateRecordReturned{.member = true});
    EXPECT_EQ(ran(member->next), served);
    const auto left = step(failed->next, event::LateRecordReturned{.member = false});
    EXPECT_FALSE(ran(left->next));
  }
}

TEST(Phases, ThatContradictTheRecordAreNamed) {
  engine::EpochRecord both, mine, theirs;
  both.members = MemberSet::both();
  mine.members = MemberSet::only(NodeSide::a);
  theirs.members = MemberSet::only(NodeSide::b);
  const auto fits = [](const ReplicaPhase& p, const engine::EpochRecord& r) {
    return contradiction(p, r, NodeSide::a).empty();
  };
  EXPECT_TRUE(fits(phase::InSync{}, both));
  EXPECT_FALSE(fits(phase::InSync{}, mine));
  EXPECT_FALSE(fits(phase::InSync{}, theirs));
  EXPECT_TRUE(fits(phase::Solo{}, mine));
  EXPECT_FALSE(fits(phase::Solo{}, both));
  EXPECT_FALSE(fits(phase::Solo{}, theirs));
  EXPECT_TRUE(fits(phase::Forwarding{}, theirs));
  EXPECT_FALSE(fits(phase::Forwarding{}, both));
  EXPECT_FALSE(fits(phase::Forwarding{}, mine));
  EXPECT_TRUE(fits(phase::Suspended{}, both));
  EXPECT_FALSE(fits(phase::Suspended{}, mine));
  for (const auto& r : {both, mine, theirs}) {
    EXPECT_TRUE(fits(phase::Starting{}, r));
    EXPECT_TRUE(fits(phase::Recording{}, r));
    EXPECT_TRUE(fits(phase::Stopped{}, r));
    EXPECT_TRUE(fits(phase::Failed{}, r));
    EXPECT_TRUE(fits(phase::Closed{}, r));
  }
}

}  // namespace
}  // namespace lockstep::replication
