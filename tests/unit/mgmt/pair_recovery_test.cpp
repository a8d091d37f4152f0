// A node without a database and without a saved copy finds its way back by its replicas, or stays as it is.
#include "mgmt/control/pair_recovery.hpp"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/mgmt/fake_data_plane.hpp"
#include "tests/unit/mgmt/replica_files.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

using engine::MemberSet;
using test::ReplicaOnDisk;
using ::testing::HasSubstr;

class PairRecoveryTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  test::FakeDataPlane plane_;
  std::unique_ptr<NodeCore> core_;
  std::unique_ptr<PairRecovery> recovery_;
  int recovered_ = 0;
  const Token token_{random_uuid(), "first", "digest", Role::admin, 1, 0};
  ReplicaOnDisk vm1_ = ReplicaOnDisk::of(random_uuid(), "vm1");

  void SetUp() override {
    plane_.uptime_ms = 3'600'000;
    vm1_.write(volumes());
    restart();
  }
  void restart() {
    recovery_.reset();
    core_.reset();
    LocalSettings local;
    local.data_folder = folder_.path() / "mgmt";
    local.volume_folder = volumes();
    local.node_name = "node-a";
    local.portals = {"127.0.0.1:3260"};
    local.link_address = "127.0.0.1:3261";
    local.management_address = "127.0.0.1:8443";
    auto core = NodeCore::open(local);
    ASSERT_TRUE(core) << core.error().message;
    core_ = std::move(*core);
    recovery_ = std::make_unique<PairRecovery>(*core_, plane_, [this] { ++recovered_; });
  }
  void lose_the_database() {
    recovery_.reset();
    core_.reset();
    std::filesystem::remove_all(folder_.path() / "mgmt");
    recovered_ = 0;
    restart();
  }
  std::filesystem::path volumes() const { return folder_.path() / "volumes"; }
  std::filesystem::path saved() const { return volumes() / "configuration.saved"; }

  static RecoveryWish wish(const std::string& name, const std::string& confirm) {
    return {.confirm = confirm,
            .rebuild = RebuildWish{.pair = {}, .name = name, .target_name = "", .arbiter = {}},
            .node = {}};
  }
  Outcome<void> recover() { return recovery_->recover(wish("pair1", "pair1"), token_); }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(volumes()))
      all[entry.path().filename()] = entry.is_regular_file() ? *read_file(entry.path()) : "";
    return all;
  }
  /// Refused with such a sentence, and nothing is other than before.
  void expect_refused(const RecoveryWish& asked, RefusalKind kind, const std::string& why) {
    const auto before = files();
    const auto done = recovery_->recover(asked, token_);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, kind) << done.error().detail;
    EXPECT_THAT(done.error().detail, HasSubstr(why));
    EXPECT_FALSE(core_->configuration()->pair);
    EXPECT_EQ(core_->revisions.state().head.n, 0);
    EXPECT_EQ(files(), before);
    EXPECT_EQ(recovered_, 0);
  }
  void expect_refused(const std::string& why) {
    EXPECT_THAT(recovery_->look().problem, HasSubstr(why));
    expect_refused(wish("pair1", "pair1"), RefusalKind::conflict, why);
  }
};

TEST_F(PairRecoveryTest, WithoutADatabaseAndASavedCopyTheReplicasAreTakenIn) {
  const RecoveryView found = recovery_->look();
  EXPECT_EQ(found.problem, "");
  EXPECT_FALSE(found.saved);
  ASSERT_TRUE(found.rebuild);
  EXPECT_EQ(found.rebuild->pair, vm1_.identity.pair);
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().detail;
  EXPECT_EQ(recovered_, 1);
  restart();
  const auto configuration = core_->configuration();
  EXPECT_EQ(configuration->pair->id, vm1_.identity.pair);
  EXPECT_EQ(core_->side(), NodeSide::a);
  EXPECT_EQ(configuration->volumes.front().id, vm1_.identity.volume);
  EXPECT_TRUE(core_->missing_replicas().empty());
  EXPECT_TRUE(core_->saved_file.read()) << "there is a copy beside the volumes again";
  EXPECT_EQ(core_->events.list(0, 10).front().kind, "pair.recovered");
  EXPECT_THAT(recovery_->look().problem, HasSubstr("there is nothing to recover"));
}

TEST_F(PairRecoveryTest, TheFirstRevisionIsBeyondAllThatThePairCanHaveHad) {
  ASSERT_TRUE(recover());
  EXPECT_GT(core_->revisions.state().head.n, 1'000'000'000);
}

TEST_F(PairRecoveryTest, WhatLockstepdIsToldNamesTheReplicaThatIsThereAndNoHostAndNoPartner) {
  std::filesystem::remove_all(volumes());
  vm1_.copy_number(3).write(volumes());
  ASSERT_TRUE(recover());
  const auto told = nlohmann::json::parse(apply_parameters(*core_->configuration(), 1, NodeSide::a, volumes()));
  const auto& volume = told["volumes"].front();
  EXPECT_EQ(volume["data"], vm1_.files(volumes()).data);
  EXPECT_EQ(volume["serial"], vm1_.identity.serial);
  EXPECT_EQ(volume["any_initiator"], false);
  EXPECT_TRUE(volume["access"].empty());
  EXPECT_TRUE(told["partner"].is_null());
  EXPECT_TRUE(core_->missing_replicas().empty());
}

TEST_F(PairRecoveryTest, ItTakesAPairsNameAndItsConfirmation) {
  expect_refused(wish("", ""), RefusalKind::invalid, "Correct the fields");
  expect_refused({}, RefusalKind::invalid, "Correct the fields");
  expect_refused(wish("Not A Name", "Not A Name"), RefusalKind::invalid, "Correct the fields");
  expect_refused(wish("pair1", ""), RefusalKind::confirmation_needed, "no host may use a volume until it is let in");
  expect_refused(wish("pair1", "pair2"), RefusalKind::confirmation_needed, "pair1");
  RecoveryWish nowhere = wish("pair1", "pair1");
  nowhere.node.link_address = "0.0.0.0:3261";
  expect_refused(nowhere, RefusalKind::invalid, "Correct the fields");
  EXPECT_TRUE(recover());
}

TEST_F(PairRecoveryTest, ALockstepdThatIsAwayOrServesIsRefused) {
  plane_.away = true;
  expect_refused("lockstepd on this node does not answer");
  plane_.away = false;
  plane_.applied = {{"revision", 7}, {"volumes", {{{"id", random_uuid().to_string()}, {"size", 1 << 20}}}}};
  expect_refused("lockstepd on this node still serves a volume");
  plane_.restart("p2");
  EXPECT_TRUE(recover());
}

TEST_F(PairRecoveryTest, APartnerThatMayStillHoldALeaseIsWaitedFor) {
  plane_.uptime_ms = 74'000;
  expect_refused("Try again in 1 seconds.");
  plane_.uptime_ms = 75'000;
  EXPECT_TRUE(recover());
}

TEST_F(PairRecoveryTest, ANodeThatWasAloneHasGrantedNoLease) {
  vm1_.in_force_for(MemberSet::only(NodeSide::a)).write(volumes());
  plane_.uptime_ms = 5;
  EXPECT_TRUE(recover());
}

TEST_F(PairRecoveryTest, ASavedCopyThatIsOfNoUseIsNotPassedOver) {
  std::ofstream(saved()) << "lockstep-configuration 2 ";
  expect_refused("a newer version of Lockstep made it");
  std::filesystem::remove(saved());
  EXPECT_TRUE(recover());
}

TEST_F(PairRecoveryTest, ACopyOfThePairsThatWasPutAsideIsUsedInstead) {
  const std::string aside = saved().string() + "." + vm1_.identity.pair.to_string();
  std::ofstream(aside) << "x";
  expect_refused("was put aside as " + aside);
  std::filesystem::rename(aside, saved().string() + "." + random_uuid().to_string());
  EXPECT_TRUE(recover());
}

TEST_F(PairRecoveryTest, ASavedCopyIsAllThatCounts) {
  ASSERT_TRUE(recover());
  lose_the_database();
  const auto found = recovery_->look();
  EXPECT_TRUE(found.saved);
  EXPECT_FALSE(found.rebuild);
  expect_refused(wish("other", "other"), RefusalKind::invalid, "There is a saved copy");
  const Token another{random_uuid(), "second", "another digest", Role::admin, 1, 0};
  EXPECT_TRUE(recovery_->recover({.confirm = "pair1", .rebuild = {}, .node = {}}, another));
}

/// The copy could not be written for a while: lockstepd was told of more than it has.
TEST_F(PairRecoveryTest, OfACopyThatIsOlderThanLockstepdsOrdersItIsToldWhatIsLostAndWhatIsInUseIsKept) {
  ASSERT_TRUE(recover());
  auto old = *core_->saved_file.read();
  const Volume whole = old.configuration.volumes.front();
  const auto add = [&](const char* name, Lifecycle lifecycle, const char* secret) {
    Volume v = whole;
    v.id = random_uuid();
    v.name = v.serial = name;
    v.lun = static_cast<std::int64_t>(old.configuration.volumes.size());
    v.lifecycle = lifecycle;
    v.import_secret = secret;
    old.configuration.volumes.push_back(v);
    return v.id;
  };
  const auto filled = add("filled", Lifecycle::ready, "0123456789abcdef");
  const auto made = add("made", Lifecycle::creating, "");
  const auto never = add("never", Lifecycle::creating, "");
  const auto gone = add("gone", Lifecycle::deleting, "");
  old.configuration.sort();
  lose_the_database();
  ASSERT_TRUE(core_->saved_file.write(old));
  plane_.applied = {{"revision", old.revision.n + 10}, {"volumes", nlohmann::json::array()}};
  const Uuid later = random_uuid();
  for (const auto& id : {whole.id, filled, made, gone, later})
    plane_.applied["volumes"].push_back({{"id", id.to_string()}, {"size", 1 << 20}});

  const RecoveryWish asked{.confirm = "", .rebuild = {}, .node = {}};
  const auto unconfirmed = recovery_->recover(asked, token_);
  ASSERT_FALSE(unconfirmed);
  EXPECT_THAT(unconfirmed.error().detail, HasSubstr(later.to_string()));
  EXPECT_THAT(unconfirmed.error().detail, HasSubstr("before you rely on it: filled."));
  EXPECT_THAT(unconfirmed.error().detail, HasSubstr("was under way: gone, never."));
  ASSERT_TRUE(recovery_->recover({.confirm = "pair1", .rebuild = {}, .node = {}}, token_));
  const auto now = core_->configuration();
  for (const auto& id : {whole.id, filled, made}) {
    EXPECT_EQ(now->volume(id)->lifecycle, Lifecycle::ready);
    EXPECT_EQ(now->volume(id)->import_secret, "");
  }
  for (const auto& id : {never, gone}) EXPECT_EQ(now->volume(id)->lifecycle, Lifecycle::deleting);
}

/// A copy from a backup, on a machine whose lockstepd was started since: nothing tells how old it is.
class FromABackup : public PairRecoveryTest {
 protected:
  SavedConfiguration old_;

  void SetUp() override {
    PairRecoveryTest::SetUp();
    ASSERT_TRUE(recover());
    old_ = *core_->saved_file.read();
  }
  Volume& vm1_then() { return old_.configuration.volumes.front(); }
  void find_it() {
    lose_the_database();
    ASSERT_TRUE(core_->saved_file.write(old_));
  }
  const Volume& vm1_now() const { return core_->configuration()->volumes.front(); }
  Outcome<void> confirm(const char* name = "pair1") {
    return recovery_->recover({.confirm = name, .rebuild = {}, .node = {}}, token_);
  }
  /// What is told when the confirmation is asked for.
  std::string told() { return confirm("").error().detail; }
};

TEST_F(FromABackup, AnImportThatWasUnderWayThenIsKeptForNobodyUntilItIsLookedAt) {
  vm1_then().import_secret = "0123456789abcdef";
  vm1_then().any_initiator = true;
  find_it();
  EXPECT_THAT(told(), HasSubstr("if anything was changed since revision"));
  EXPECT_THAT(told(), HasSubstr("no host may use it. Compare it with its source, and let the hosts in, or delete it: "
                                "vm1."));
  ASSERT_TRUE(confirm());
  EXPECT_EQ(vm1_now().lifecycle, Lifecycle::ready);
  EXPECT_EQ(vm1_now().import_secret, "");
  EXPECT_TRUE(vm1_now().is_closed());
}

TEST_F(FromABackup, AVolumeThatWasBeingMadeThenIsKept) {
  vm1_then().lifecycle = Lifecycle::creating;
  vm1_then().any_initiator = true;
  find_it();
  EXPECT_THAT(told(), HasSubstr("Delete it if it never was: vm1."));
  ASSERT_TRUE(confirm());
  EXPECT_EQ(vm1_now().lifecycle, Lifecycle::ready);
  EXPECT_TRUE(vm1_now().any_initiator);
}

TEST_F(FromABackup, OneThatWasBeingDeletedThenIsDeleted) {
  vm1_then().lifecycle = Lifecycle::deleting;
  find_it();
  EXPECT_THAT(told(), HasSubstr("was under way: vm1."));
  ASSERT_TRUE(confirm());
  EXPECT_EQ(vm1_now().lifecycle, Lifecycle::deleting);
}

TEST_F(FromABackup, AReplicaThatLockstepdsLaterOrdersLackForTheMomentKeepsItsVolumeLikewise) {
  vm1_then().import_secret = "0123456789abcdef";
  find_it();
  plane_.applied = {{"revision", old_.revision.n + 10}, {"volumes", nlohmann::json::array()}};
  ASSERT_TRUE(confirm());
  EXPECT_EQ(vm1_now().lifecycle, Lifecycle::ready);
  EXPECT_TRUE(vm1_now().is_closed());
}

TEST_F(FromABackup, ACopyThatTookThePlaceOfTheOneThatWasInUseThenIsUsed) {
  find_it();
  ReplicaOnDisk later = vm1_;
  later.copy_number(2).write(volumes());
  EXPECT_THAT(told(), HasSubstr("It is the one that is used: vm1."));
  ASSERT_TRUE(confirm());
  EXPECT_EQ(vm1_now().copy(NodeSide::a).number, 2);
}

TEST_F(FromABackup, ACopyThatWasMadeAfterTheOtherNodesIsUsed) {
  vm1_then().copy(NodeSide::a) = {.number = 1, .folder = "", .retired = true, .unmade = true};
  find_it();
  ASSERT_TRUE(confirm());
  EXPECT_FALSE(vm1_now().copy(NodeSide::a).unmade);
  EXPECT_FALSE(vm1_now().copy(NodeSide::a).retired);
}

TEST_F(FromABackup, ALaterCopyThatIsNotInForceOrCantBeReadLeavesAChoice) {
  find_it();
  ReplicaOnDisk later = vm1_;
  later.in_force_for(MemberSet::only(NodeSide::b)).copy_number(2).write(volumes());
  const RecoveryWish asked{.confirm = "pair1", .rebuild = {}, .node = {}};
  expect_refused(asked, RefusalKind::conflict,
                 "number 2, is here than the saved configuration names. It was not whole");
  std::ofstream(later.files(volumes()).metadata) << "x";
  expect_refused(asked, RefusalKind::conflict, "It can't be used, so that it can't be told which one was in use");
  plane_.applied = {{"revision", old_.revision.n}, {"volumes", nlohmann::json::array()}};
  EXPECT_TRUE(confirm()) << "lockstepd knows that the copy is of now: a replacement was under way";
  EXPECT_EQ(vm1_now().copy(NodeSide::a).number, 1);
}

TEST_F(FromABackup, AnotherPairsOrTheOtherSidesFilesOfALaterNumberAreNobodysLaterCopy) {
  find_it();
  ReplicaOnDisk others = vm1_;
  others.owned_by(NodeSide::b).copy_number(2).write(volumes());
  others = vm1_;
  others.identity.pair = random_uuid();
  others.copy_number(3).write(volumes());
  ASSERT_TRUE(confirm());
  EXPECT_EQ(vm1_now().copy(NodeSide::a).number, 1);
}

TEST_F(FromABackup, VolumesThatWereMadeSinceAreNamed) {
  find_it();
  ReplicaOnDisk::of(vm1_.identity.pair, "vm9").write(volumes());
  ReplicaOnDisk::of(random_uuid(), "another-pairs").write(volumes());
  EXPECT_THAT(told(), HasSubstr("the copy does not know are out of service then, though their files stay: vm9."));
}

/// A partner that has a pair in force, at an earlier revision than the copy here.
class Behind final : public MembershipPeer {
 public:
  Outcome<JoinOffer> ask_to_join(const JoinRequest&) override { return refuse(RefusalKind::conflict, ""); }
  Outcome<void> confirm_join(const RevisionId&) override { return refuse(RefusalKind::conflict, ""); }
  Outcome<CurrentRevision> ask() override { return refuse(RefusalKind::conflict, ""); }
  Outcome<Uuid> who() override { return refuse(RefusalKind::conflict, ""); }
  Outcome<NodeStanding> standing(const Uuid&) override {
    NodeStanding standing;
    standing.head = 1;
    return standing;
  }
};

TEST_F(PairRecoveryTest, WhereThePartnerLacksWhatThisNodeChangedAloneThatIsSaid) {
  ASSERT_TRUE(recover());
  auto mine = *core_->saved_file.read();
  Node b = mine.configuration.nodes.front();
  b.id = random_uuid();
  b.side = NodeSide::b;
  b.name = "node-b";
  b.portals = {"127.0.0.2:3260"};
  b.link_address = "127.0.0.2:3261";
  b.management_address = "127.0.0.2:8443";
  mine.configuration.nodes.push_back(b);
  lose_the_database();
  ASSERT_TRUE(core_->saved_file.write(mine));
  recovery_ = std::make_unique<PairRecovery>(
      *core_, plane_, [] {}, [](const HttpsTarget&) { return std::make_unique<Behind>(); });
  EXPECT_THAT(recovery_->look().problem, HasSubstr("what this node changed alone since is lost when it joins"));
}

TEST_F(PairRecoveryTest, AnImportThatLockstepdWasToldOfLastIsCutOff) {
  ASSERT_TRUE(recover());
  auto last = *core_->saved_file.read();
  last.configuration.volumes.front().import_secret = "0123456789abcdef";
  lose_the_database();
  ASSERT_TRUE(core_->saved_file.write(last));
  plane_.applied = {{"revision", last.revision.n},
                    {"volumes", {{{"id", vm1_.identity.volume.to_string()}, {"size", 1 << 20}}}}};
  ASSERT_TRUE(recovery_->recover({.confirm = "pair1", .rebuild = {}, .node = {}}, token_));
  EXPECT_EQ(core_->configuration()->volumes.front().lifecycle, Lifecycle::deleting);
}

TEST_F(PairRecoveryTest, AWitnessThatSaysNoIsRefused) {
  vm1_.epoch.arbiter = {engine::ArbiterKind::witness, NodeSide::a, "http://10.0.0.10:2379"};
  vm1_.write(volumes());
  plane_.tried["http://10.0.0.10:2379"] = "it is no etcd";
  expect_refused(wish("pair1", "pair1"), RefusalKind::invalid, "the witness cannot be used like this");
  plane_.tried["http://10.0.0.10:2379"] = "";  // it does not answer now
  ASSERT_TRUE(recover());
  EXPECT_TRUE(core_->configuration()->pair->arbiter.witness);
}

TEST_F(PairRecoveryTest, ReplicasThatLeaveAChoiceAreRefusedUntilItIsMade) {
  const ReplicaOnDisk other = ReplicaOnDisk::of(random_uuid(), "vm1");
  other.write(volumes());
  expect_refused("Replicas of several pairs are here");
  RecoveryWish chosen = wish("pair1", "pair1");
  chosen.rebuild->pair = other.identity.pair;
  EXPECT_TRUE(recovery_->look(other.identity.pair).rebuild);
  ASSERT_TRUE(recovery_->recover(chosen, token_));
  EXPECT_EQ(core_->configuration()->pair->id, other.identity.pair);
  EXPECT_EQ(core_->configuration()->volumes.size(), 1U);
}

TEST_F(PairRecoveryTest, OnSideBAloneTheConfigurationCanBeChanged) {
  vm1_.owned_by(NodeSide::b).write(volumes());
  ASSERT_TRUE(recover());
  EXPECT_EQ(core_->side(), NodeSide::b);
  EXPECT_TRUE(core_->orders_changes());
  EXPECT_TRUE(core_->change("Any host", [](Configuration& c) -> Outcome<void> {
    c.volumes.front().any_initiator = true;
    return {};
  }));
}

}  // namespace
}  // namespace lockstep::mgmt
