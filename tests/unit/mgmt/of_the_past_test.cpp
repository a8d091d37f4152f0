// A database that was put back from before lockstepd's last orders lets nobody in and nobody go.
#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

class OfThePast : public ManagementTest {
 protected:
  bool held_back_ = false;
  std::unique_ptr<PairService> pair_;

  void begin() {
    pair_ = std::make_unique<PairService>(*node_->core, node_->runner, node_->agent, plane_, PairService::Connect{},
                                          [this] { return held_back_; });
  }
  void SetUp() override {
    ManagementTest::SetUp();
    begin();
  }
  /// One that nobody answers for.
  Node second() const {
    Node n = node_->core->configuration()->nodes.front();
    n.id = random_uuid();
    n.side = NodeSide::b;
    n.name = "node-b";
    n.portals = {"127.0.0.2:3260"};
    n.link_address = "127.0.0.2:3261";
    n.management_address = "127.0.0.2:1";
    return n;
  }
  void take_in_second() {
    Configuration two = *node_->core->configuration();
    two.nodes.push_back(second());
    const auto state = node_->core->revisions.state();
    ASSERT_TRUE(node_->core->revisions.begin_epoch(state, {random_uuid(), state.head.n + 1, random_uuid()}, "b", two));
  }
  std::string why_not_joined(const NewInvitation& invitation) {
    const JoinRequest request{.secret = invitation.text.substr(invitation.text.rfind('.') + 1),
                              .node = second(),
                              .token = {random_uuid(), "t", sha256_hex("t"), Role::admin, 1, 0}};
    const auto offer = pair_->on_join(request, std::string(64, 'a'));
    return offer ? "" : offer.error().detail;
  }
  template <class T>
  static std::string why(const Outcome<T>& outcome) {
    return outcome ? "" : outcome.error().detail;
  }
  static constexpr const char* kWhy = "This node's database is of an earlier time";
};

TEST_F(OfThePast, APairOfOneInvitesNobody) {
  const auto invitation = pair_->invite();
  ASSERT_TRUE(invitation) << invitation.error().detail;
  EXPECT_EQ(why_not_joined(*invitation).find(kWhy), std::string::npos);
  held_back_ = true;
  EXPECT_NE(why(pair_->invite()).find(kWhy), std::string::npos);
  EXPECT_NE(why_not_joined(*invitation).find(kWhy), std::string::npos) << "invited before that was known";
}

TEST_F(OfThePast, NobodysPlaceIsGivenToAnotherAndNobodyIsLetGoAsLost) {
  take_in_second();
  ASSERT_TRUE(pair_->invite_in_place_of(NodeSide::b, "node-b"));
  held_back_ = true;
  EXPECT_NE(why(pair_->invite_in_place_of(NodeSide::b, "node-b")).find(kWhy), std::string::npos);
  EXPECT_NE(why(pair_->look_for_lost(second(), ShutOut::let_go)).find(kWhy), std::string::npos) << "pair leave --lost";
}

TEST_F(OfThePast, TheCopyBesideTheVolumesTellsItLikewise) {
  auto later = *node_->core->saved_file.read();
  later.revision.n += 5;
  ASSERT_TRUE(node_->core->saved_file.write(later));
  pair_.reset();
  restart();
  begin();
  EXPECT_NE(why(pair_->invite()).find(kWhy), std::string::npos);
}

TEST_F(OfThePast, HealthDoesNotAdviseToReplaceWhomThatDatabaseDoesNotKnow) {
  take_in_second();
  PairView view;
  const auto of_partner = [&] {
    for (const auto& told : judge_pair(view).problems)
      if (told.subject == "node" && told.side == NodeSide::b) return told.message + " " + told.advice;
    return std::string();
  };
  view.configuration = node_->core->configuration();
  view.local_side = NodeSide::a;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    auto& n = view.nodes[static_cast<std::size_t>(side)];
    n.node = view.configuration->node(side);
    n.local = n.reachable = side == NodeSide::a;
    n.asked = true;
  }
  auto& local = view.nodes[0].report;
  for (const auto trouble : {PartnerTrouble::has_no_pair, PartnerTrouble::other_certificate}) {
    view.nodes[1].trouble = trouble;
    EXPECT_NE(of_partner().find("lockstep node replace b"), std::string::npos) << of_partner();
    local.problems = {{kHeldBack, "lockstepd is told nothing."}};
    EXPECT_NE(of_partner(), "");
    EXPECT_EQ(of_partner().find("lockstep node replace"), std::string::npos) << of_partner();
    EXPECT_EQ(of_partner().find("has lost its database"), std::string::npos) << of_partner();
    local.problems.clear();
    view.newer_copy = 1000;
    EXPECT_EQ(of_partner().find("lockstep node replace"), std::string::npos) << of_partner();
    view.newer_copy = 0;
  }
}

}  // namespace
}  // namespace lockstep::mgmt
