// Who is let in to a pair of one node.
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

}  // namespace
}  // namespace lockstep::mgmt
