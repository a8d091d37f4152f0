#pragma once
// Two machines of a pair, and one that takes the place of either: each message between them may be lost, and each
// machine may end at it.
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/fake_data_plane.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt::replacing {

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

inline Machine::Parts::Parts(Machine& machine, std::unique_ptr<NodeCore> c)
    : core(std::move(c)),
      agent(*core, machine.plane),
      runner(*core, [](const Job&) { return true; }),
      pair(*core, runner, agent, machine.plane,
           [&machine](const HttpsTarget& target) { return std::make_unique<Wire>(machine, target); }) {}

inline void Machine::start() {
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

inline Token token(const std::string& name) { return {random_uuid(), name, sha256_hex(name), Role::admin, 1, 0}; }

inline std::string secret_of(const std::string& invitation) { return invitation.substr(invitation.rfind('.') + 1); }

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

}  // namespace lockstep::mgmt::replacing
