// A node whose management is silent: when another machine may take its place, and when it is not lost at all.
#include <nlohmann/json.hpp>

#include "tests/unit/mgmt/pair_replace_world.hpp"

namespace lockstep::mgmt {
namespace {

using namespace replacing;

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

}  // namespace
}  // namespace lockstep::mgmt
