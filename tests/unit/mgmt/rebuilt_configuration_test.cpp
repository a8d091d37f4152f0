// A configuration made anew of what the replicas on one node say.
#include "mgmt/control/rebuilt_configuration.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mgmt/control/saved_configuration.hpp"
#include "tests/unit/mgmt/replica_files.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

using engine::MemberSet;
using test::ReplicaOnDisk;
using ::testing::HasSubstr;

class RebuiltConfiguration : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  const Uuid pair_ = random_uuid();
  std::vector<FoundReplica> found_;
  const Token token_{random_uuid(), "first", "digest", Role::admin, 1, 0};
  const Node here_{random_uuid(), NodeSide::a, "node-a", {"10.0.0.11:3260"}, "10.0.1.11:3261", "10.0.0.11:8443", "f"};

  ReplicaOnDisk replica(const std::string& name) const { return ReplicaOnDisk::of(pair_, name); }
  Outcome<Rebuild> rebuild(const std::optional<Uuid>& pair = {}) {
    found_ = replicas_read(folder_.path());
    return rebuild_from(found_, pair);
  }
  std::string why_not(const std::optional<Uuid>& pair = {}) {
    const auto made = rebuild(pair);
    return made ? "" : made.error().detail;
  }
  Outcome<Configuration> configuration(const RebuildWish& wish) {
    const auto made = rebuild();
    return made ? configuration_of(*made, wish, here_, token_) : std::unexpected(made.error());
  }
  const FoundReplica& found(const ReplicaOnDisk& replica) const {
    return *std::ranges::find_if(
        found_, [&](const FoundReplica& f) { return f.volume == replica.identity.volume && f.copy == replica.copy; });
  }
};

TEST_F(RebuiltConfiguration, HasThePairAndTheVolumesAsHostsKnowThemAndLetsNobodyIn) {
  ReplicaOnDisk one = replica("vm2").owned_by(NodeSide::b), other = replica("vm1").owned_by(NodeSide::b);
  one.identity.block_size = 4096;
  other.identity.key = engine::SealedKey{random_uuid(), {}};
  other.identity.size = 2 << 20;  // room that was made, and not served yet
  one.write(folder_.path());
  other.write(folder_.path());
  const auto made = configuration({.pair = {}, .name = "pair1", .target_name = "", .arbiter = {}});
  ASSERT_TRUE(made) << made.error().detail;
  EXPECT_EQ(made->pair->id, pair_);
  EXPECT_TRUE(made->pair->target_name.starts_with("iqn.2026-11.io.lockstep:pair1-")) << made->pair->target_name;
  const auto again = configuration({.pair = {}, .name = "pair1", .target_name = "", .arbiter = {}});
  ASSERT_TRUE(again);
  EXPECT_NE(again->pair->target_name, made->pair->target_name) << "waiting hosts know its LUNs as other volumes";
  EXPECT_EQ(made->pair->next_lun, 2);
  ASSERT_EQ(made->nodes.size(), 1U);
  EXPECT_EQ(made->nodes.front().side, NodeSide::b);
  ASSERT_EQ(made->volumes.size(), 2U);
  const Volume &vm1 = made->volumes[0], &vm2 = made->volumes[1];
  EXPECT_EQ(vm1.id, other.identity.volume);
  EXPECT_EQ(vm1.serial, other.identity.serial);
  EXPECT_EQ(vm1.size, 1 << 20);
  EXPECT_TRUE(vm1.encrypted);
  EXPECT_EQ(vm2.block_size, 4096);
  EXPECT_FALSE(vm2.encrypted);
  EXPECT_EQ((std::array{vm1.lun, vm2.lun}), (std::array<std::int64_t, 2>{0, 1}));
  for (const Volume& v : made->volumes) {
    EXPECT_TRUE(v.is_closed());
    EXPECT_EQ(v.lifecycle, Lifecycle::ready);
  }
  EXPECT_TRUE(made->initiators.empty());
  EXPECT_EQ(made->tokens, std::vector{token_});
  EXPECT_TRUE(lacks_a_known_side(*made));
}

TEST_F(RebuiltConfiguration, IsOneThatTheRestOfTheProgramTakes) {
  replica("vm1").write(folder_.path());
  const auto made = configuration({.pair = {}, .name = "pair1", .target_name = "", .arbiter = {}});
  ASSERT_TRUE(made) << made.error().detail;
  EXPECT_EQ(*from_document(to_document(*made)), *made);
  const auto saved = saved_from_file(to_file({{random_uuid(), 1, random_uuid()}, 1, here_.id, *made}));
  ASSERT_TRUE(saved) << saved.error().detail;
  EXPECT_EQ(saved->configuration, *made);
}

TEST_F(RebuiltConfiguration, HasFreshLinkSecretsEachTime) {
  replica("vm1").write(folder_.path());
  const RebuildWish wish{.pair = {}, .name = "pair1", .target_name = "iqn.2026-11.org.example:own", .arbiter = {}};
  const auto one = configuration(wish), other = configuration(wish);
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->pair->link.secret, other->pair->link.secret);
  EXPECT_NE(one->pair->link_mutual.secret, other->pair->link_mutual.secret);
  EXPECT_EQ(one->pair->target_name, "iqn.2026-11.org.example:own");
}

TEST_F(RebuiltConfiguration, IsOfOnePairThatAnOperatorNamesWhereThereAreSeveral) {
  replica("vm1").write(folder_.path());
  const ReplicaOnDisk foreign = ReplicaOnDisk::of(random_uuid(), "other");
  foreign.write(folder_.path());
  EXPECT_THAT(why_not(), HasSubstr(pair_.to_string() + " (vm1)"));
  EXPECT_THAT(why_not(), HasSubstr(foreign.identity.pair.to_string() + " (other)"));
  EXPECT_THAT(why_not(random_uuid()), HasSubstr("No replica of the pair"));
  const auto made = rebuild(pair_);
  ASSERT_TRUE(made) << made.error().detail;
  ASSERT_EQ(made->volumes.size(), 1U);
  EXPECT_EQ(made->volumes.front().volume.name, "vm1");
  EXPECT_EQ(found(foreign).left_alone, "It is of another pair, " + foreign.identity.pair.to_string() + ".");
}

TEST_F(RebuiltConfiguration, IsRefusedWhereReplicasOfBothSidesAreMixed) {
  replica("vm1").write(folder_.path());
  replica("vm2").owned_by(NodeSide::b).write(folder_.path());
  EXPECT_THAT(why_not(), HasSubstr("of side a vm1; of side b vm2"));
}

TEST_F(RebuiltConfiguration, IsRefusedWithoutAnyReplicaThatCanBeUsed) {
  EXPECT_EQ(why_not(), "No replica is here whose metadata could be used.");
  const ReplicaOnDisk bad = replica("vm1");
  bad.write(folder_.path());
  std::filesystem::resize_file(bad.files(folder_.path()).metadata, 5000);
  EXPECT_EQ(why_not(), "No replica is here whose metadata could be used.");
}

TEST_F(RebuiltConfiguration, LeavesDamagedReplicasOutAndSaysSo) {
  replica("vm1").write(folder_.path());
  const ReplicaOnDisk bad = replica("vm2");
  bad.write(folder_.path());
  std::filesystem::resize_file(bad.files(folder_.path()).data, 0);
  const auto made = rebuild();
  ASSERT_TRUE(made) << made.error().detail;
  EXPECT_EQ(made->volumes.size(), 1U);
  EXPECT_EQ(found(bad).left_alone, "Its data is missing.");
}

TEST_F(RebuiltConfiguration, TakesOfSeveralCopiesTheNewestThatWasWhole) {
  ReplicaOnDisk copy = replica("vm1");
  copy.write(folder_.path());
  copy.copy_number(2).in_force_for(MemberSet::only(NodeSide::b)).write(folder_.path());  // never whole, and replaced
  copy.copy_number(11).in_force_for(MemberSet::both()).write(folder_.path());
  const auto made = rebuild();
  ASSERT_TRUE(made) << made.error().detail;
  ASSERT_EQ(made->volumes.size(), 1U);
  EXPECT_EQ(made->volumes.front().volume.copy(NodeSide::a).number, 11);
  EXPECT_EQ(made->volumes.front().volume.copy(NodeSide::b).number, 1);
  EXPECT_EQ(found(copy.copy_number(1)).left_alone, "Copy 11 took its place.");
  EXPECT_EQ(found(copy.copy_number(2)).left_alone, "Copy 11 took its place.");
}

TEST_F(RebuiltConfiguration, IsRefusedWhereItCantBeToldWhichOfSeveralCopiesWasInUse) {
  ReplicaOnDisk copy = replica("vm1");
  copy.write(folder_.path());
  copy.copy_number(2).in_force_for(MemberSet::only(NodeSide::b)).write(folder_.path());
  EXPECT_THAT(why_not(), HasSubstr("The newest, number 2, was not whole yet"));
  copy.in_force_for(MemberSet::both()).write(folder_.path());
  std::filesystem::resize_file(copy.files(folder_.path()).metadata, 1);
  EXPECT_THAT(why_not(), HasSubstr("The newest, number 2, can't be used"));
}

TEST_F(RebuiltConfiguration, TakesACopyThatIsNotWholeWhereItIsTheOnlyOne) {
  replica("vm1").copy_number(2).in_force_for(MemberSet::only(NodeSide::b)).write(folder_.path());
  const auto made = rebuild();
  ASSERT_TRUE(made) << made.error().detail;
  EXPECT_EQ(made->volumes.front().volume.copy(NodeSide::a).number, 2);
}

TEST_F(RebuiltConfiguration, NamesEachVolumeOnceAndTheSameWayEachTime) {
  for (const char* name : {"vm1", "vm1", "", "no name", "\x1b[2J"}) replica(name).write(folder_.path());
  const auto made = rebuild();
  ASSERT_TRUE(made) << made.error().detail;
  std::set<std::string> names;
  for (const auto& v : made->volumes) {
    names.insert(v.volume.name);
    if (v.volume.name == "vm1")
      EXPECT_EQ(v.named, "");
    else
      EXPECT_EQ(v.volume.name, "volume-" + v.volume.id.to_string().substr(0, 8));
  }
  EXPECT_EQ(names.size(), 5U);
  EXPECT_TRUE(names.contains("vm1"));
  EXPECT_EQ(rebuild()->volumes, made->volumes);
}

TEST_F(RebuiltConfiguration, IsRefusedWhereTwoVolumesHaveOneSerial) {
  ReplicaOnDisk one = replica("vm1"), other = replica("vm2");
  one.identity.serial = other.identity.serial = "LS0001";
  one.write(folder_.path());
  other.write(folder_.path());
  EXPECT_THAT(why_not(), HasSubstr("vm1 and vm2 have the same serial, LS0001"));
}

// ---- the arbiter ----

class RebuiltArbiter : public RebuiltConfiguration {
 protected:
  void write(const std::string& name, const engine::ArbiterSettings& arbiter) {
    ReplicaOnDisk r = replica(name);
    r.epoch.arbiter = arbiter;
    r.write(folder_.path());
  }
  Outcome<Arbiter> arbiter(const std::optional<Arbiter>& wished = {}) {
    const auto made = configuration({.pair = {}, .name = "pair1", .target_name = "", .arbiter = wished});
    return made ? Outcome<Arbiter>(made->pair->arbiter) : std::unexpected(made.error());
  }
  static Arbiter preferred(NodeSide side) {
    return {.witness = false, .endpoints = {}, .preferred = side, .access = {}};
  }
  static Arbiter witness(const std::string& endpoint) {
    return {.witness = true, .endpoints = {endpoint}, .preferred = NodeSide::a, .access = {}};
  }
};

TEST_F(RebuiltArbiter, IsWhatTheRecordsName) {
  write("vm1", {engine::ArbiterKind::preferred, NodeSide::b, ""});
  EXPECT_EQ(arbiter().value(), preferred(NodeSide::b));
}

TEST_F(RebuiltArbiter, ThatIsAWitnessHasTheEndpointsThatTheRecordsName) {
  write("vm1", {engine::ArbiterKind::witness, NodeSide::a, "http://10.0.0.10:2379,http://10.0.0.11:2379"});
  EXPECT_EQ(arbiter()->endpoints, (std::vector<std::string>{"http://10.0.0.10:2379", "http://10.0.0.11:2379"}));
  EXPECT_EQ(arbiter(witness("http://10.0.0.99:2379"))->endpoints.front(), "http://10.0.0.99:2379");
}

TEST_F(RebuiltArbiter, ThatIsAWitnessBehindTlsHasToBeGivenWithWhatItIsSpokenToWith) {
  write("vm1", {engine::ArbiterKind::witness, NodeSide::a, "https://10.0.0.10:2379"});
  const auto refused = arbiter();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::invalid);
  EXPECT_EQ(refused.error().fields.front().pointer, "/arbiter/ca");
}

TEST_F(RebuiltArbiter, IsNotAnotherOneThanTheVolumesGoBy) {
  write("vm1", {engine::ArbiterKind::preferred, NodeSide::b, ""});
  for (const Arbiter& other : {preferred(NodeSide::a), witness("http://10.0.0.10:2379")})
    EXPECT_EQ(arbiter(other).error().kind, RefusalKind::invalid);
  EXPECT_TRUE(arbiter(preferred(NodeSide::b)));
}

TEST_F(RebuiltArbiter, HasToBeGivenWhereTheRecordsDisagreeOrNameNone) {
  write("vm1", {engine::ArbiterKind::preferred, NodeSide::b, ""});
  write("vm2", {engine::ArbiterKind::preferred, NodeSide::a, ""});
  EXPECT_EQ(arbiter().error().fields.front().pointer, "/arbiter");
  EXPECT_EQ(arbiter(preferred(NodeSide::a)).value(), preferred(NodeSide::a));
}

TEST_F(RebuiltArbiter, IsAFenceWhereTheRecordsNameIt) {
  write("vm1", {engine::ArbiterKind::fence, NodeSide::a, ""});
  ASSERT_TRUE(arbiter());
  EXPECT_TRUE(arbiter()->fence);
  EXPECT_EQ(arbiter(preferred(NodeSide::a)).error().kind, RefusalKind::invalid);
  EXPECT_EQ(arbiter(witness("http://10.0.0.10:2379")).error().kind, RefusalKind::invalid);
}

TEST_F(RebuiltArbiter, ThatIsHostileIsRefused) {
  write("vm1", {engine::ArbiterKind::witness, NodeSide::a, "http://10.0.0.10:2379,\x1b[2J"});
  EXPECT_EQ(arbiter().error().kind, RefusalKind::invalid);
}

}  // namespace
}  // namespace lockstep::mgmt
