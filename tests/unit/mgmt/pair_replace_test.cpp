// A node's place is taken by another machine: with each message lost and each machine ending at each of them, both ends
// agree afterwards, or nothing has changed and it can be tried again.
#include <filesystem>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/fake_data_plane.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

struct Ended {};  // no exception of the program's: nothing in it may take it for one of its own

enum class Fault : std::uint8_t {
  none,
  lost,
  answer_lost,
  asker_ends_before,
  asker_ends_after,
  other_ends_before,
  other_ends_after
};
constexpr Fault kFaults[] = {Fault::lost,
                             Fault::answer_lost,
                             Fault::asker_ends_before,
                             Fault::asker_ends_after,
                             Fault::other_ends_before,
                             Fault::other_ends_after};

struct World;

/// One machine's management without its threads.
struct Machine {
  Machine(World& w, std::filesystem::path f, std::string n, std::string a)
      : world(w), folder(std::move(f)), name(std::move(n)), address(std::move(a)) {
    start();
  }
  void start();
  void turns(int count = 4) {
    for (int i = 0; i < count; ++i) part->runner.turn();
  }
  [[nodiscard]] NodeCore& core() const { return *part->core; }
  [[nodiscard]] const Configuration configuration() const { return *core().configuration(); }

  struct Parts {
    Parts(Machine& machine, std::unique_ptr<NodeCore> c);
    std::unique_ptr<NodeCore> core;
    ReplicaAgent agent;
    JobRunner runner;
    PairService pair;
  };
  World& world;
  std::filesystem::path folder;
  std::string name;
  std::string address;
  test::FakeDataPlane plane;
  std::unique_ptr<Parts> part;
};

struct World {
  int fault_at = -1;
  Fault fault = Fault::none;
  int messages = 0;
  std::map<std::string, Machine*> at;  ///< by address
};

/// What stands between two machines.
class Wire final : public MembershipPeer {
 public:
  Wire(Machine& from, HttpsTarget target) : from_(from), target_(std::move(target)) {}

  Outcome<JoinOffer> ask_to_join(const JoinRequest& join) override {
    const std::string fingerprint = from_.core().identity.fingerprint;
    return carry<JoinOffer>([&](Machine& to) { return to.part->pair.on_join(join, fingerprint); });
  }
  Outcome<void> confirm_join(const RevisionId& id) override {
    const std::string fingerprint = from_.core().identity.fingerprint;
    return carry<void>([&](Machine& to) { return to.part->pair.on_confirm(id, fingerprint); });
  }
  Outcome<CurrentRevision> ask() override {
    return carry<CurrentRevision>([&](Machine& to) -> Outcome<CurrentRevision> {
      if (!is_partner(to)) return refuse(RefusalKind::forbidden, "This is for the partner node only.");
      return to.core().revisions.current();
    });
  }
  Outcome<Uuid> who() override {
    return carry<Uuid>([](Machine& to) -> Outcome<Uuid> { return to.core().node_id; });
  }
  Outcome<NodeStanding> standing(const Uuid&) override {
    return carry<NodeStanding>([](Machine& to) -> Outcome<NodeStanding> {
      NodeStanding standing;
      if (to.core().configuration()->pair) standing.head = to.core().revisions.state().head.n;
      return standing;
    });
  }

 private:
  bool is_partner(const Machine& to) const {
    const auto configuration = to.core().configuration();
    const Node* partner = to.core().partner(*configuration);
    return partner && partner->id == from_.core().node_id && partner->fingerprint == from_.core().identity.fingerprint;
  }
  template <class T>
  Outcome<T> carry(const std::function<Outcome<T>(Machine&)>& deliver) {
    World& world = from_.world;
    const Fault fault = ++world.messages == world.fault_at ? world.fault : Fault::none;
    const auto gone = refuse(RefusalKind::not_current, "cannot be reached");
    if (fault == Fault::asker_ends_before) throw Ended();
    const auto found = world.at.find(target_.address);
    if (fault == Fault::lost || found == world.at.end()) return gone;
    Machine& to = *found->second;
    if (to.core().identity.fingerprint != target_.fingerprint)
      return std::unexpected(Refusal{.kind = RefusalKind::not_current,
                                     .detail = "shows another certificate",
                                     .fields = {},
                                     .other_certificate = true});
    if (fault == Fault::other_ends_before) {
      ended_.push_back(&to);
      return gone;
    }
    auto answer = deliver(to);
    if (fault == Fault::asker_ends_after) throw Ended();
    if (fault == Fault::other_ends_after) ended_.push_back(&to);
    if (fault == Fault::answer_lost || fault == Fault::other_ends_after) return gone;
    return answer;
  }

 public:
  /// They begin anew when nobody is within them.
  static inline std::vector<Machine*> ended_;

 private:
  Machine& from_;
  HttpsTarget target_;
};

Machine::Parts::Parts(Machine& machine, std::unique_ptr<NodeCore> c)
    : core(std::move(c)),
      agent(*core, machine.plane),
      runner(*core, [](const Job&) { return true; }),
      pair(*core, runner, agent, machine.plane,
           [&machine](const HttpsTarget& target) { return std::make_unique<Wire>(machine, target); }) {}

void Machine::start() {
  part.reset();
  LocalSettings local;
  local.data_folder = folder / "mgmt";
  local.volume_folder = folder / "volumes";
  local.node_name = name;
  local.portals = {address.substr(0, address.find(':')) + ":3260"};
  local.link_address = address.substr(0, address.find(':')) + ":3261";
  local.management_address = address;
  auto core = NodeCore::open(local);
  if (!core) throw std::runtime_error(core.error().message);
  part = std::make_unique<Parts>(*this, std::move(*core));
}

constexpr const char* kAddressA = "127.0.0.1:8443";
constexpr const char* kAddressB = "127.0.0.2:8443";

Token token(const std::string& name) { return {random_uuid(), name, sha256_hex(name), Role::admin, 1, 0}; }

std::string secret_of(const std::string& invitation) { return invitation.substr(invitation.rfind('.') + 1); }

class PairReplace : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  World world_;
  std::unique_ptr<Machine> a_, b_, fresh_;
  Machine* left_ = nullptr;
  NodeSide lost_ = NodeSide::b;
  int round_ = 0;

  // The pair is made once; each round begins with copies of it.
  void make_pair() {
    Machine a(world_, folder_.path() / "a", "node-a", kAddressA), b(world_, folder_.path() / "b", "node-b", kAddressB);
    world_.at = {{kAddressA, &a}, {kAddressB, &b}};
    ASSERT_TRUE(a.part->pair.create({.name = "pair1", .target_name = "", .node = {}, .arbiter = {}, .settings = {}}));
    const auto invitation = a.part->pair.invite();
    ASSERT_TRUE(invitation);
    ASSERT_TRUE(b.part->pair.join(invitation->text, {}, token("b")));
    b.turns();
    ASSERT_EQ(b.configuration(), a.configuration());
  }

  void SetUp() override { make_pair(); }

  /// One side is gone, and a machine that knows nothing stands at its address.
  void begin(NodeSide lost) {
    fresh_.reset();
    a_.reset();
    b_.reset();
    world_ = {};
    lost_ = lost;
    const auto here = folder_.path() / fmt::format("round{}", ++round_);
    std::filesystem::create_directory(here);
    for (const char* name : {"a", "b"})
      std::filesystem::copy(folder_.path() / name, here / name, std::filesystem::copy_options::recursive);
    a_ = std::make_unique<Machine>(world_, here / "a", "node-a", kAddressA);
    b_ = std::make_unique<Machine>(world_, here / "b", "node-b", kAddressB);
    left_ = lost == NodeSide::b ? a_.get() : b_.get();
    const std::string address = lost == NodeSide::b ? kAddressB : kAddressA;
    fresh_ = std::make_unique<Machine>(world_, here / "fresh", lost == NodeSide::b ? "node-b" : "node-a", address);
    world_.at = {{left_->address, left_}, {address, fresh_.get()}};
  }
  std::string lost_name() const { return lost_ == NodeSide::b ? "node-b" : "node-a"; }
  std::string invite() {
    const auto invitation = left_->part->pair.invite_in_place_of(lost_, lost_name());
    EXPECT_TRUE(invitation) << invitation.error().detail;
    return invitation ? invitation->text : "";
  }
  void begin_those_that_ended() {
    for (Machine* machine : std::exchange(Wire::ended_, {})) machine->start();
  }
  /// The join, and turns until its job has ended, whatever ends meanwhile.
  Job join(const std::string& invitation) {
    const auto job = fresh_->part->pair.join(invitation, {}, token("fresh"));
    EXPECT_TRUE(job) << job.error().detail;
    if (!job) return {};
    for (int i = 0; i < 8 && !fresh_->core().jobs.get(job->id)->finished(); ++i) {
      try {
        fresh_->part->runner.turn();
      } catch (const Ended&) {
        fresh_->start();
      }
      begin_those_that_ended();
    }
    return *fresh_->core().jobs.get(job->id);
  }
  void expect_whole() {
    EXPECT_EQ(fresh_->configuration(), left_->configuration());
    EXPECT_EQ(fresh_->core().revisions.state().head, left_->core().revisions.state().head);
    EXPECT_EQ(fresh_->core().side(), lost_);
    const auto configuration = left_->configuration();
    EXPECT_EQ(configuration.nodes.size(), 2U);
    EXPECT_EQ(left_->core().partner(configuration)->id, fresh_->core().node_id);
    const Machine& old = lost_ == NodeSide::b ? *b_ : *a_;
    EXPECT_TRUE(left_->core().replaced.find(old.core().node_id.to_string(), ""));
    EXPECT_NE(configuration.pair->link, old.configuration().pair->link);
    EXPECT_NE(configuration.pair->link_mutual, old.configuration().pair->link_mutual);
    EXPECT_GT(left_->core().revisions.state().head.n, old.core().revisions.state().head.n);
    EXPECT_EQ(compare_revisions(old.core().revisions.state(), left_->core().revisions.state()),
              RevisionVerdict::conflict);
  }
  /// As if nobody had asked.
  void expect_undone() {
    const Machine& old = lost_ == NodeSide::b ? *b_ : *a_;
    EXPECT_EQ(left_->configuration(), old.configuration());
    EXPECT_FALSE(fresh_->core().side());
    EXPECT_FALSE(fresh_->core().revision_tables.tentative());
  }
};

TEST_F(PairReplace, ASurvivorOfEitherSideHandsOverEverything) {
  for (const NodeSide lost : {NodeSide::b, NodeSide::a}) {
    begin(lost);
    EXPECT_EQ(join(invite()).state, JobState::done);
    expect_whole();
  }
}

TEST_F(PairReplace, WithEachMessageLostAndEachMachineEndingAtItEndsWholeOrUndoneAndCanBeTriedAgain) {
  int whole = 0, undone = 0;
  for (const NodeSide lost : {NodeSide::b, NodeSide::a})
    for (const Fault fault : kFaults)
      for (int at = 1;; ++at) {
        SCOPED_TRACE(fmt::format("side {} lost, fault {} at message {}", side_name(lost), static_cast<int>(fault), at));
        begin(lost);
        const std::string invitation = invite();
        world_.messages = 0;
        world_.fault = fault;
        world_.fault_at = at;
        const Job job = join(invitation);
        if (world_.messages < at) {
          EXPECT_EQ(job.state, JobState::done);
          break;  // every message had its turn
        }
        ASSERT_TRUE(job.finished()) << job.step << ": " << job.message;
        world_.fault_at = -1;
        if (job.state == JobState::failed) {
          ++undone;
          expect_undone();
          Job again = join(invitation);
          if (again.state == JobState::failed) {  // spent, though nothing came of it
            EXPECT_NE(again.message.find("used already"), std::string::npos) << again.message;
            again = join(invite());
          }
          EXPECT_EQ(again.state, JobState::done) << again.message;
        } else {
          ++whole;
        }
        expect_whole();
      }
  EXPECT_GT(whole, 10);
  EXPECT_GT(undone, 10);
}

TEST_F(PairReplace, ANodeWithItsOldDatabaseAndANewCertificateIsToldWhatKeepsItFromJoining) {
  begin(NodeSide::b);
  b_->part.reset();
  for (const char* file : {"tls.crt", "tls.key"}) std::filesystem::remove(b_->folder / "mgmt" / file);
  b_->start();
  world_.at[kAddressB] = b_.get();
  const auto refused = b_->part->pair.join(invite(), {}, token("b"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_NE(refused.error().detail.find("move mgmt.db"), std::string::npos) << refused.error().detail;
  b_->part.reset();
  std::filesystem::remove_all(b_->folder / "mgmt");
  b_->start();
  const auto joined = b_->part->pair.join(invite(), {}, token("b"));
  EXPECT_TRUE(joined) << joined.error().detail;
}

TEST_F(PairReplace, AMachineThatEndsBetweenItsCommitAndTheJobsNextStepFindsItselfInThePair) {
  begin(NodeSide::b);
  const auto job = fresh_->part->pair.join(invite(), {}, token("fresh"));
  ASSERT_TRUE(job);
  world_.messages = 0;
  world_.fault = Fault::asker_ends_after;
  world_.fault_at = 4;  // behind asking to join, and what the survivor asks before it answers: the confirmation
  EXPECT_THROW(fresh_->part->runner.turn(), Ended);
  fresh_->start();
  ASSERT_EQ(fresh_->core().jobs.get(job->id)->step, "confirm");
  const auto tentative = fresh_->core().revision_tables.tentative();
  ASSERT_TRUE(tentative);
  fresh_->core().revisions.commit_new_epoch(tentative->id, "Joined the pair", *from_document(tentative->document));
  fresh_->start();
  world_.fault_at = -1;
  fresh_->turns();
  EXPECT_EQ(fresh_->core().jobs.get(job->id)->state, JobState::done);
  expect_whole();
}

TEST_F(PairReplace, AChangeThatTheLostNodeHadProposedAndPerhapsDecidedIsPartOfIt) {
  begin(NodeSide::a);
  Configuration next = b_->configuration();
  next.tokens.push_back(token("promised"));
  next.sort();
  const RevisionId base = b_->core().revisions.state().head;
  const Uuid process = random_uuid();
  const CurrentRevision of_a{a_->core().revisions.state(), to_document(a_->configuration()), process};
  ASSERT_TRUE(b_->core().revisions.on_bring_up_to_date(of_a));
  const Proposal proposal{
      base, {base.epoch, base.n + 1, random_uuid()}, "Token promised made", to_document(next), process, 1};
  ASSERT_EQ(b_->core().revisions.on_prepare(proposal), PrepareAnswer::kept);
  const auto invitation = b_->part->pair.invite_in_place_of(NodeSide::a, "node-a");
  ASSERT_TRUE(invitation);
  EXPECT_EQ(invitation->undecided, "Token promised made");
  EXPECT_EQ(join(invitation->text).state, JobState::done);
  expect_whole();
  const auto tokens = b_->configuration().tokens;
  EXPECT_TRUE(std::ranges::any_of(tokens, [](const Token& t) { return t.name == "promised"; }));
  EXPECT_EQ(b_->core().revisions.state().head.n, base.n + 2) << "beyond anything that the lost node may have decided";
}

TEST_F(PairReplace, AChangeThatComesBetweenTheOfferAndItsConfirmationIsNotLost) {
  begin(NodeSide::a);
  JoinRequest request{.secret = secret_of(invite()), .node = b_->configuration().nodes.front(), .token = token("t")};
  request.node.id = fresh_->core().node_id;
  const auto fingerprint = fresh_->core().identity.fingerprint;
  const auto offer = b_->part->pair.on_join(request, fingerprint);
  ASSERT_TRUE(offer) << offer.error().detail;
  // Side A was not lost, but cut off, and is back at this very moment.
  const Uuid process = random_uuid();
  const RevisionId base = b_->core().revisions.state().head;
  ASSERT_TRUE(b_->core().revisions.on_bring_up_to_date(
      {a_->core().revisions.state(), to_document(a_->configuration()), process}));
  ASSERT_EQ(b_->core().revisions.on_prepare(
                {base, {base.epoch, base.n + 1, random_uuid()}, "s", to_document(b_->configuration()), process, 1}),
            PrepareAnswer::kept);
  const auto confirmed = b_->part->pair.on_confirm(offer->id, fingerprint);
  ASSERT_FALSE(confirmed);
  EXPECT_NE(confirmed.error().detail.find("changed meanwhile"), std::string::npos);
  EXPECT_EQ(b_->core().revisions.state().head, base);
}

TEST_F(PairReplace, ANodeThatAnswersAndHasTheConfigurationIsNotReplaced) {
  begin(NodeSide::b);
  world_.at[kAddressB] = b_.get();
  const auto refused = a_->part->pair.invite_in_place_of(NodeSide::b, "node-b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_NE(refused.error().detail.find("stop lockstep-mgmtd there first"), std::string::npos);
  const auto not_lost = a_->part->pair.look_for_lost(*a_->configuration().node(NodeSide::b), ShutOut::let_go);
  ASSERT_FALSE(not_lost);
  EXPECT_NE(not_lost.error().detail.find("Leave --lost off: `lockstep pair leave b`"), std::string::npos)
      << not_lost.error().detail;
  EXPECT_EQ(not_lost.error().detail.find("place"), std::string::npos) << not_lost.error().detail;
  world_.at.erase(kAddressB);
  EXPECT_TRUE(a_->part->pair.look_for_lost(*a_->configuration().node(NodeSide::b), ShutOut::let_go));
  EXPECT_EQ(a_->part->pair.invite_in_place_of(NodeSide::b, "").error().kind, RefusalKind::confirmation_needed);
  EXPECT_TRUE(a_->part->pair.invite_in_place_of(NodeSide::b, "node-b"));
  EXPECT_EQ(a_->part->pair.invite_in_place_of(NodeSide::a, "node-a").error().kind, RefusalKind::conflict);
}

/// It takes another node for its partner, and so refuses what is asked first.
TEST_F(PairReplace, AnAnswerThatIsLostIsNotTakenForThatOfANodeThatHasLostItsDatabase) {
  begin(NodeSide::b);
  world_.at[kAddressB] = b_.get();
  Configuration theirs = b_->configuration();
  theirs.nodes.front().id = random_uuid();
  b_->core().revisions.commit_new_epoch({random_uuid(), 100, random_uuid()}, "A test's own", theirs);
  const Node lost = *a_->configuration().node(NodeSide::b);
  world_.fault = Fault::answer_lost;
  world_.fault_at = world_.messages + 2;
  const auto unknown = a_->part->pair.look_for_lost(lost, ShutOut::replaced);
  ASSERT_FALSE(unknown) << unknown->found;
  EXPECT_EQ(unknown.error().kind, RefusalKind::not_current) << unknown.error().detail;
  const auto has_it = a_->part->pair.look_for_lost(lost, ShutOut::replaced);
  ASSERT_FALSE(has_it) << has_it->found;
  EXPECT_EQ(has_it.error().kind, RefusalKind::conflict) << has_it.error().detail;
}

TEST_F(PairReplace, ANodeThatHasChangedTheConfigurationAloneIsReplacedOnlyWithTheWordThatThatIsLost) {
  begin(NodeSide::b);
  CurrentRevision theirs = a_->core().revisions.current();
  const RevisionState before = theirs.state;
  theirs.state.epoch = before.epoch.next(random_uuid(), engine::MemberSet::only(NodeSide::b), before.head, 0);
  theirs.state.head = {theirs.state.epoch.id, before.head.n + 1, random_uuid()};
  ASSERT_TRUE(a_->core().revisions.on_bring_up_to_date(theirs));
  const auto refused = a_->part->pair.invite_in_place_of(NodeSide::b, "node-b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::confirmation_needed);
  EXPECT_NE(refused.error().detail.find("what it has changed is lost"), std::string::npos) << refused.error().detail;
  EXPECT_TRUE(a_->part->pair.invite_in_place_of(NodeSide::b, "node-b without its changes"));
}

/// Side B's management is silent. A third machine is there to take the place, and side A's lockstepd has a volume.
class PairReplaceOfASilentNode : public PairReplace {
 protected:
  void SetUp() override {
    PairReplace::SetUp();
    begin(NodeSide::b);
    fresh_ = std::make_unique<Machine>(world_, folder_.path() / "third", "node-c", kAddressC);
    world_.at = {{kAddressA, a_.get()}, {kAddressC, fresh_.get()}};
    Configuration with = a_->configuration();
    Volume v;
    v.id = random_uuid();
    v.first_epoch = random_uuid();
    v.name = v.serial = "vm1";
    v.size = 1 << 20;
    v.lifecycle = Lifecycle::ready;
    with.volumes = {v};
    const auto state = a_->core().revisions.state();
    ASSERT_TRUE(a_->core().revisions.begin_epoch(state, {random_uuid(), state.head.n + 1, random_uuid()}, "v", with));
    const nlohmann::json served{{"id", v.id.to_string()}, {"size", v.size}};
    a_->plane.applied = {{"revision", 1}, {"volumes", nlohmann::json::array({served})}};
    serve_alone();
  }
  void serve_alone() { be("solo", "a"); }
  void be(const char* state, const char* members) {
    a_->plane.state = state;
    a_->plane.members = members;
  }
  [[nodiscard]] Outcome<NewInvitation> replace(const std::string& confirm) {
    return a_->part->pair.invite_in_place_of(NodeSide::b, confirm);
  }
  static constexpr const char* kAddressC = "127.0.0.3:8443";
};

TEST_F(PairReplaceOfASilentNode, OneWhoseLockstepdIsConnectedIsNotShutOut) {
  be("in_sync", "both");
  a_->plane.linked = true;
  for (const char* confirm : {"", "node-b", "node-b without its changes"}) {
    const auto refused = replace(confirm);
    ASSERT_FALSE(refused) << confirm;
    EXPECT_EQ(refused.error().kind, RefusalKind::conflict) << confirm;
    EXPECT_NE(refused.error().detail.find("its lockstepd runs and is connected"), std::string::npos)
        << refused.error().detail;
    EXPECT_NE(refused.error().detail.find("Start lockstep-mgmtd on node-b"), std::string::npos)
        << refused.error().detail;
  }
  a_->plane.linked = false;
  serve_alone();
  EXPECT_TRUE(replace("node-b"));
}

TEST_F(PairReplaceOfASilentNode, NobodyIsShutOutByANodeWhoseOwnLockstepdIsAway) {
  a_->plane.away = true;
  const auto refused = replace("node-b");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("Start lockstepd here first"), std::string::npos) << refused.error().detail;
}

TEST_F(PairReplaceOfASilentNode, WhatThisNodeDoesNotServeAloneIsLostOnlyWithTheWordForThat) {
  be("waiting", "both");
  const auto refused = replace("node-b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::confirmation_needed);
  EXPECT_NE(refused.error().detail.find("node-a does not serve all volumes alone: vm1 is waiting"), std::string::npos)
      << refused.error().detail;
  EXPECT_NE(refused.error().detail.find("Send `node-b without its changes` as `confirm`"), std::string::npos)
      << refused.error().detail;
  const auto invitation = replace("node-b without its changes");
  ASSERT_TRUE(invitation) << invitation.error().detail;
  EXPECT_EQ(join(invitation->text).state, JobState::done) << "it was agreed to";
  EXPECT_EQ(a_->configuration().node(NodeSide::b)->name, "node-c");
}

TEST_F(PairReplaceOfASilentNode, OneThatIsBackWhenItsPlaceIsTakenKeepsIt) {
  const auto invitation = replace("node-b");
  ASSERT_TRUE(invitation) << invitation.error().detail;
  be("in_sync", "both");
  a_->plane.linked = true;
  Job job = join(invitation->text);
  EXPECT_EQ(job.state, JobState::failed);
  EXPECT_NE(job.message.find("its lockstepd runs and is connected"), std::string::npos) << job.message;
  a_->plane.linked = false;
  be("suspended", "both");
  job = join(invitation->text);
  EXPECT_EQ(job.state, JobState::failed);
  EXPECT_NE(job.message.find("vm1 is suspended"), std::string::npos) << job.message;
  EXPECT_NE(job.message.find("lockstep node replace b --without-its-changes"), std::string::npos) << job.message;
  EXPECT_EQ(a_->configuration().node(NodeSide::b)->name, "node-b");
  serve_alone();
  EXPECT_EQ(join(invitation->text).state, JobState::done);
}

TEST_F(PairReplace, VolumesWhoseJobsAreLostWithSideAAreDeleted) {
  begin(NodeSide::a);
  Configuration with = b_->configuration();
  for (const auto& [name, lifecycle] : {std::pair{"made", Lifecycle::creating}, {"ready", Lifecycle::ready}}) {
    Volume v;
    v.id = random_uuid();
    v.first_epoch = random_uuid();
    v.name = v.serial = name;
    v.lun = static_cast<std::int64_t>(with.volumes.size());
    v.size = 1 << 20;
    v.lifecycle = lifecycle;
    with.volumes.push_back(v);
  }
  with.sort();
  const auto state = b_->core().revisions.state();
  ASSERT_TRUE(b_->core().revisions.begin_epoch(state, {random_uuid(), state.head.n + 1, random_uuid()}, "v", with));
  ASSERT_EQ(join(invite()).state, JobState::done);
  const auto after = fresh_->configuration();
  EXPECT_EQ(after.volumes[0].lifecycle, Lifecycle::deleting);
  EXPECT_EQ(after.volumes[1].lifecycle, Lifecycle::ready);
  const auto jobs = fresh_->core().jobs.newest(10);
  EXPECT_EQ(std::ranges::count_if(
                jobs, [&](const Job& j) { return j.kind == "volume.delete" && j.volume == after.volumes[0].id; }),
            1);
}

/// The lost machine had a disk that the one which takes its place has not.
TEST_F(PairReplace, AFolderOfTheLostMachinesCopyIsNamedWithHowToChooseAnother) {
  begin(NodeSide::b);
  Configuration with = a_->configuration();
  Volume v;
  v.id = random_uuid();
  v.first_epoch = random_uuid();
  v.name = v.serial = "vm1";
  v.size = 1 << 20;
  v.lifecycle = Lifecycle::ready;
  v.copy(NodeSide::b).folder = "/nowhere/new-disk";
  with.volumes = {v};
  const auto state = a_->core().revisions.state();
  ASSERT_TRUE(a_->core().revisions.begin_epoch(state, {random_uuid(), state.head.n + 1, random_uuid()}, "v", with));
  const Job job = join(invite());
  EXPECT_EQ(job.state, JobState::done) << job.message;
  EXPECT_NE(job.message.find("It was in /nowhere/new-disk"), std::string::npos) << job.message;
  EXPECT_NE(job.message.find("`lockstep replica replace vm1 --node b --store FOLDER`"), std::string::npos)
      << job.message;
}

/// Of one node, made of its replicas: the machine that is left knows of no other.
Configuration made_anew(const Machine& machine, NodeSide side) {
  Configuration c = machine.configuration();
  std::erase_if(c.nodes, [&](const Node& n) { return n.side != side; });
  Volume v;
  v.id = random_uuid();
  v.name = v.serial = "vm1";
  v.size = 1 << 20;
  v.lifecycle = Lifecycle::ready;
  c.volumes = {v};
  return c;
}

TEST_F(PairReplace, AConfigurationThatWasMadeAnewLetsTheOtherNodeInWithTheReplicasThatItHas) {
  for (const NodeSide lost : {NodeSide::b, NodeSide::a}) {
    begin(lost);
    const auto before = left_->core().revisions.state();
    const Configuration alone = made_anew(*left_, engine::other(lost));
    ASSERT_TRUE(
        left_->core().revisions.begin_epoch(before, {random_uuid(), before.head.n + 1, random_uuid()}, "anew", alone));
    EXPECT_EQ(left_->part->pair.invite_in_place_of(lost, lost_name()).error().kind, RefusalKind::conflict);
    const auto invitation = left_->part->pair.invite();
    ASSERT_TRUE(invitation) << invitation.error().detail;
    EXPECT_EQ(join(invitation->text).state, JobState::done);
    EXPECT_EQ(fresh_->plane.count("replica.create"), 0) << "the mirror knows what its own replicas are good for";
    EXPECT_EQ(fresh_->configuration(), left_->configuration());
    EXPECT_EQ(fresh_->core().side(), lost);
    EXPECT_NE(left_->configuration().pair->link, alone.pair->link);
    EXPECT_FALSE(left_->part->pair.invite()) << "the place is taken";
  }
}

TEST_F(PairReplace, AJobOnAVolumeHoldsUpWhoeverWouldTakeAnOpenPlace) {
  begin(NodeSide::b);
  const auto before = left_->core().revisions.state();
  ASSERT_TRUE(left_->core().revisions.begin_epoch(before, {random_uuid(), before.head.n + 1, random_uuid()}, "anew",
                                                  made_anew(*left_, NodeSide::a)));
  const auto invitation = left_->part->pair.invite();
  ASSERT_TRUE(invitation);
  left_->core().jobs.put(make_job(left_->core(), "volume.grow", "room_here", "Grows."));
  const Job job = join(invitation->text);
  EXPECT_EQ(job.state, JobState::failed);
  EXPECT_NE(job.message.find("A job on a volume is under way"), std::string::npos) << job.message;
}

/// A node that changed the configuration alone before it was lost has a copy with a higher number than the pair's next.
TEST_F(PairReplace, TheCopyOfALineThatEndedIsPutAsideByWhoTakesThePlace) {
  begin(NodeSide::b);
  auto ended = *left_->core().saved_file.read();
  ended.revision.n += 30;
  Volume alone;
  alone.id = random_uuid();
  alone.name = alone.serial = "vm9";
  alone.size = 1 << 20;
  alone.lifecycle = Lifecycle::ready;
  ended.configuration.volumes = {alone};
  ASSERT_TRUE(fresh_->core().saved_file.write(ended));
  ASSERT_EQ(join(invite()).state, JobState::done);
  EXPECT_EQ(fresh_->core().copy.newer(), 0);
  EXPECT_EQ(fresh_->core().saved_file.read()->revision, fresh_->core().revisions.state().head);
  const auto aside = fmt::format("{}.before-join-{}", fresh_->core().saved_file.path().string(),
                                 fresh_->core().revisions.state().head.n);
  EXPECT_TRUE(std::filesystem::exists(aside)) << "it is not lost";
  const auto events = fresh_->core().events.list(0, 20);
  const auto told = std::ranges::find(events, "configuration.given_up", &Event::kind);
  ASSERT_NE(told, events.end());
  EXPECT_NE(told->message.find("vm9"), std::string::npos) << told->message;
}

TEST_F(PairReplace, WhatADatabaseThatWasSetBackHoldsDoesNotOverwriteTheNewerCopy) {
  begin(NodeSide::b);
  ASSERT_EQ(join(invite()).state, JobState::done);
  const auto newest = left_->core().saved_file.read();
  ASSERT_TRUE(newest);
  std::filesystem::copy(fresh_->core().saved_file.path(), b_->core().saved_file.path(),
                        std::filesystem::copy_options::overwrite_existing);
  b_->start();
  EXPECT_EQ(b_->core().saved_file.read()->revision, newest->revision);
  EXPECT_FALSE(b_->core().copy.problem().empty());
  EXPECT_EQ(b_->core().copy.newer(), newest->revision.n);
}

}  // namespace
}  // namespace lockstep::mgmt
