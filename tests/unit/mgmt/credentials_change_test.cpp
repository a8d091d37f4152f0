// Another secret for an initiator, beside the one of before.
#include "mgmt/control/credentials_change.hpp"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/chap_secrets.hpp"
#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/initiator_service.hpp"
#include "mgmt/control/lapse_watch.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

using std::chrono::seconds;
constexpr std::int64_t kNow = 1'000'000;
const std::string kH1 = "iqn.2000-01.com.example:h1", kH2 = "iqn.2000-01.com.example:h2";
const std::string kH3 = "iqn.2000-01.com.example:h3";

class CredentialsChangeTest : public ::testing::Test {
 protected:
  Configuration c_;
  void SetUp() override {
    c_.initiators = {{kH1, Chap{"u1", "secret-one-0001"}, Chap{"t", "secret-target-1"}, 1},
                     {kH2, Chap{"u2", "secret-two-0001"}, {}, 2},
                     {kH3, {}, {}, 3}};
  }
  const Initiator& h1() { return *c_.initiator(kH1); }
  Outcome<void> give(const std::string& secret, std::optional<seconds> live, std::int64_t now = kNow) {
    return change_credentials(c_, {kH1, {"", secret}, {}, live}, now);
  }
  std::vector<std::string> pointers(const Outcome<void>& outcome) {
    std::vector<std::string> all;
    if (!outcome)
      for (const auto& f : outcome.error().fields) all.push_back(f.pointer);
    return all;
  }
};

TEST_F(CredentialsChangeTest, KeepsTheOldOnesForTheTimeThatWasAskedForAndTheUserThatThereWas) {
  ASSERT_TRUE(give("secret-new-0001", seconds(60)));
  EXPECT_EQ(h1().chap, (Chap{"u1", "secret-new-0001"}));
  EXPECT_EQ(h1().mutual, (Chap{"t", "secret-target-1"})) << "what is not said stays";
  ASSERT_TRUE(h1().old);
  EXPECT_EQ(*h1().old, (OldCredentials{{"u1", "secret-one-0001"}, Chap{"t", "secret-target-1"}, kNow + 60'000}));
}

TEST_F(CredentialsChangeTest, WithoutATimeKeepsThemForAnHourAndWithNoneNotAtAll) {
  ASSERT_TRUE(give("secret-new-0001", {}));
  EXPECT_EQ(h1().old->until_ms, kNow + 3'600'000);
  ASSERT_TRUE(give("secret-new-0002", seconds(0)));
  EXPECT_FALSE(h1().old) << "also those from before the last change";
}

TEST_F(CredentialsChangeTest, KeepsNoThirdOnesAndSaysWhatToDo) {
  ASSERT_TRUE(give("secret-new-0001", seconds(60)));
  const auto third = give("secret-new-0002", seconds(60));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().kind, RefusalKind::conflict);
  EXPECT_NE(third.error().detail.find("--end-old"), std::string::npos) << third.error().detail;
  EXPECT_FALSE(give("secret-new-0002", {})) << "nor by the time that is usual";
  EXPECT_EQ(h1().chap->secret, "secret-new-0001") << "nothing was changed";
  EXPECT_TRUE(give("secret-new-0002", seconds(60), kNow + 60'000)) << "their time is over";
  EXPECT_EQ(h1().old->chap.secret, "secret-new-0001");
  ASSERT_TRUE(end_old_credentials(c_, kH1, kNow + 60'000));
  EXPECT_TRUE(give("secret-new-0003", seconds(60), kNow + 60'000)) << "they were ended";
}

TEST_F(CredentialsChangeTest, TakesATimeOfThirtyDaysAtMost) {
  EXPECT_EQ(pointers(give("secret-new-0001", kOldCredentialsLiveAtMost + seconds(1))),
            std::vector<std::string>{"/old_valid_for_seconds"});
  EXPECT_TRUE(give("secret-new-0001", kOldCredentialsLiveAtMost));
}

TEST_F(CredentialsChangeTest, OfAnInitiatorWithoutASecretHasNothingToKeep) {
  const CredentialsChange timed{kH3, {"u3", "secret-new-0001"}, {}, seconds(60)};
  EXPECT_EQ(change_credentials(c_, timed, kNow).error().kind, RefusalKind::conflict);
  ASSERT_TRUE(change_credentials(c_, {kH3, {"u3", "secret-new-0001"}, {}, {}}, kNow));
  EXPECT_FALSE(c_.initiator(kH3)->old);
  EXPECT_EQ(change_credentials(c_, {"iqn.2000-01.com.example:no", {}, {}, {}}, kNow).error().kind,
            RefusalKind::not_found);
}

TEST_F(CredentialsChangeTest, NoSecretOfBeforeHasAnotherUse) {
  ASSERT_TRUE(change_credentials(c_, {kH1, {"", "secret-new-0001"}, Chap{"", "secret-target-2"}, seconds(60)}, kNow));
  const auto of_another = [&](const Chap& chap, const std::optional<Chap>& mutual) {
    Configuration c = c_;
    return pointers(change_credentials(c, {kH2, chap, mutual, seconds(60)}, kNow));
  };
  const std::vector<std::string> own{"/chap/secret"}, targets{"/mutual_chap/secret"};
  EXPECT_EQ(of_another({"", "secret-one-0001"}, {}), own) << "another host's of before";
  EXPECT_EQ(of_another({"", "secret-target-1"}, {}), own) << "the target's of before";
  EXPECT_EQ(of_another({"", "secret-two-0002"}, Chap{"t", "secret-one-0001"}), targets);
  EXPECT_EQ(of_another({"", "secret-two-0002"}, Chap{"t", "secret-two-0001"}), targets) << "its own of before";
  EXPECT_TRUE(of_another({"", "secret-two-0002"}, Chap{"t", "secret-target-1"}).empty()) << "the target is one";
  EXPECT_EQ(pointers(give("secret-new-0001", seconds(0))), own) << "is no change";
  const auto reflected = pointers(give("secret-target-2", seconds(0)));
  EXPECT_EQ(std::ranges::count(reflected, own.front()), 1) << "the target's of before to itself";
  EXPECT_FALSE(discovery_problems({"d", "secret-one-0001"}, c_).empty());
}

TEST_F(CredentialsChangeTest, TravelsToThePartnerAndIsNotForOneThatWouldMissIt) {
  EXPECT_LT(document_version(c_), 8);
  ASSERT_TRUE(give("secret-new-0001", seconds(60)));
  EXPECT_EQ(document_version(c_), 8);
  const auto back = from_document(to_document(c_));
  ASSERT_TRUE(back) << back.error().detail;
  EXPECT_EQ(*back, c_);
}

// ---- on a node ----

class LapseWatchTest : public ManagementTest {
 protected:
  std::int64_t now_ = wall_clock_ms();
  void SetUp() override {
    ManagementTest::SetUp();
    InitiatorService initiators(*node_->core);
    ASSERT_TRUE(initiators.create({kH1, Chap{"u1", "secret-one-0001"}, {}, 1}));
    ASSERT_TRUE(initiators.change_credentials({kH1, {"", "secret-new-0001"}, {}, seconds(3600)}));
  }
  std::optional<OldCredentials> old() { return node_->core->configuration()->initiator(kH1)->old; }
  bool in_files(const std::string& text) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(folder_.path())) {
      if (!file.is_regular_file()) continue;
      std::ifstream in(file.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      if (bytes.find(text) != std::string::npos) return true;
    }
    return false;
  }
};

TEST_F(LapseWatchTest, WhatIsOverIsInNoFileAnyMoreAndWhatIsNotStaysAcrossARestart) {
  LapseWatch early(*node_->core);
  early.turn(now_);
  restart();
  ASSERT_TRUE(old());
  EXPECT_TRUE(in_files("secret-one-0001"));
  LapseWatch watch(*node_->core);
  watch.turn(now_ + 3'000'000);
  EXPECT_TRUE(old()) << "its time is not over";
  watch.turn(old()->until_ms);
  EXPECT_FALSE(old());
  watch.turn(now_ + 3'700'000);
  EXPECT_FALSE(in_files("secret-one-0001"));
  EXPECT_TRUE(in_files("secret-new-0001"));
}

TEST_F(LapseWatchTest, LockstepdIsToldOfItUntilItsTimeIsOver) {
  auto c = *node_->core->configuration();
  Volume volume;
  volume.id = random_uuid();
  volume.lifecycle = Lifecycle::ready;
  volume.access = {kH1};
  c.volumes = {volume};
  const auto entry = [&](std::int64_t now) {
    return nlohmann::json::parse(apply_parameters(c, 1, NodeSide::a, "/v", now))["volumes"][0]["access"][0];
  };
  const std::int64_t until = old()->until_ms;
  EXPECT_EQ(entry(until - 1)["old"], (nlohmann::json{{"chap_user", "u1"},
                                                     {"chap_secret", "secret-one-0001"},
                                                     {"mutual_user", nullptr},
                                                     {"mutual_secret", nullptr},
                                                     {"until_ms", until}}));
  EXPECT_FALSE(entry(until).contains("old"));
  EXPECT_EQ(entry(until)["chap_secret"], "secret-new-0001");
}

}  // namespace
}  // namespace lockstep::mgmt
