// Who is let in to a pair of one node.
#include "mgmt/control/invitation.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

class PairJoin : public ManagementTest {};

TEST_F(PairJoin, ANodeThatDoesNotKnowOfEncryptionIsNotLetInToEncryptedVolumes) {
  // Of a pair whose link has TLS an older node knows too little in any case.
  ASSERT_TRUE(node_->core->change("A pair of before", [](Configuration& c) -> Outcome<void> {
    c.pair->link_protection = LinkProtection::off;
    return {};
  }));
  JoinRequest request;
  request.node = node_->core->configuration()->nodes.front();
  const auto answer = [&](int reads) {
    const auto invitation = node_->pair.invite();
    request.secret = invitation->text.substr(invitation->text.rfind('.') + 1);
    request.reads = reads;
    return node_->pair.on_join(request, "fp").error().detail;
  };
  EXPECT_NE(answer(2).find("inviting node itself"), std::string::npos);
  ASSERT_TRUE(node_->volumes.create(
      {.name = "secret", .size = 1 << 30, .encrypted = true, .any_initiator = true, .access = {}}));
  node_->turns();
  EXPECT_NE(answer(2).find("version of Lockstep is older"), std::string::npos) << answer(2);
  EXPECT_NE(answer(3).find("inviting node itself"), std::string::npos) << answer(3);
}

TEST_F(PairJoin, ANodeThatDoesNotKnowOfTlsOnTheLinkIsNotLetInToANewPair) {
  JoinRequest request;
  request.node = node_->core->configuration()->nodes.front();
  const auto invitation = node_->pair.invite();
  request.secret = invitation->text.substr(invitation->text.rfind('.') + 1);
  request.reads = 8;
  const auto refused = node_->pair.on_join(request, "fp");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("version of Lockstep is older"), std::string::npos) << refused.error().detail;
}

TEST_F(PairJoin, AnInvitationWorksOnceAndANewOneEndsTheOld) {
  const auto joining = [&](const std::string& text) {
    const auto dot = text.rfind('.');
    JoinRequest request;
    request.secret = text.substr(dot + 1);
    request.node = node_->core->configuration()->nodes.front();
    return node_->pair.on_join(request, "fp");
  };
  const auto first = node_->pair.invite();
  const auto second = node_->pair.invite();
  ASSERT_TRUE(first && second);
  EXPECT_NE(joining(first->text).error().detail.find("not valid"), std::string::npos);
  EXPECT_NE(joining(second->text).error().detail.find("inviting node itself"), std::string::npos);
}

/// The node that invites: it offers a place, and then what it says is lost on the way.
class Inviting final : public MembershipPeer {
 public:
  explicit Inviting(std::function<void()> meanwhile, bool confirms)
      : meanwhile_(std::move(meanwhile)), confirms_(confirms) {}
  Outcome<JoinOffer> ask_to_join(const JoinRequest& request) override {
    Configuration offered;
    offered.pair = Pair{};
    offered.pair->id = random_uuid();
    offered.pair->name = "offered";
    offered.pair->target_name = "iqn.2026-11.io.lockstep:offered";
    make_link_secrets(*offered.pair);
    offered.nodes = {request.node, request.node};
    offered.nodes[0].id = random_uuid();
    offered.nodes[0].side = NodeSide::a;
    offered.nodes[0].name = "inviting";
    offered.nodes[0].portals = {"127.0.0.9:3260"};
    offered.nodes[1].side = NodeSide::b;
    return JoinOffer{.id = {random_uuid(), 5, random_uuid()}, .document = to_document(offered)};
  }
  Outcome<void> confirm_join(const RevisionId&) override {
    meanwhile_();
    if (confirms_) return {};
    return refuse(RefusalKind::not_current, "cannot be reached");
  }
  Outcome<CurrentRevision> ask() override { return refuse(RefusalKind::not_current, "cannot be reached"); }
  Outcome<Uuid> who() override { return refuse(RefusalKind::not_current, "cannot be reached"); }
  Outcome<NodeStanding> standing(const Uuid&) override { return refuse(RefusalKind::not_current, "cannot be reached"); }

 private:
  const std::function<void()> meanwhile_;
  const bool confirms_;
};

class JoinUnderWay : public ManagementTest {
 protected:
  std::function<void()> meanwhile_ = [] {};
  bool confirms_ = false;
  std::unique_ptr<PairService> pair_;

  void SetUp() override {
    restart();
    pair_ = std::make_unique<PairService>(
        *node_->core, node_->runner, node_->agent, plane_,
        [this](const HttpsTarget&) { return std::make_unique<Inviting>([this] { meanwhile_(); }, confirms_); });
  }
  static PairWish own_pair() {
    PairWish wish;
    wish.name = "own";
    wish.node.portals = std::vector<std::string>{"127.0.0.1:3260"};
    return wish;
  }
  Job join() {
    NodeWish here;
    here.portals = std::vector<std::string>{"127.0.0.2:3260"};
    const auto text = to_text(Invitation{"127.0.0.1:8443", std::string(64, 'a'), base64url_encode(random_bytes(32))});
    const auto job = pair_->join(text, here, {random_uuid(), "t", sha256_hex("t"), Role::admin, 1, 0});
    EXPECT_TRUE(job);
    return job.value_or(Job{});
  }
  void expect_in_own_pair_only(const Job& job) {
    node_->turns();
    EXPECT_EQ(node_->job(job.id).state, JobState::failed) << node_->job(job.id).message;
    EXPECT_NE(node_->job(job.id).message.find("got into another pair"), std::string::npos)
        << node_->job(job.id).message;
    ASSERT_TRUE(node_->core->configuration()->pair);
    EXPECT_EQ(node_->core->configuration()->pair->name, "own");
  }
};

TEST_F(JoinUnderWay, EndsWhereThisNodeMakesAPairWhileNobodySaysWhatBecameOfIt) {
  const Job job = join();
  node_->turns();
  ASSERT_EQ(node_->job(job.id).step, "settle") << node_->job(job.id).message;
  ASSERT_TRUE(pair_->create(own_pair()));
  expect_in_own_pair_only(job);
}

TEST_F(JoinUnderWay, DoesNotTakeThePlaceOfAPairThatIsMadeMeanwhile) {
  confirms_ = true;
  meanwhile_ = [this] { EXPECT_TRUE(pair_->create(own_pair())); };
  expect_in_own_pair_only(join());
}

TEST_F(JoinUnderWay, GoesOnWhereThisNodeIsInThePairThatWasOffered) {
  confirms_ = true;
  const Job job = join();
  node_->turns(1);
  EXPECT_NE(node_->job(job.id).state, JobState::failed) << node_->job(job.id).message;
  ASSERT_TRUE(node_->core->configuration()->pair);
  EXPECT_EQ(node_->core->configuration()->pair->name, "offered");
}

}  // namespace
}  // namespace lockstep::mgmt
