// The two sides of the login against each other, and the target's side against everything else.
#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "engine/iscsi/login_initiator.hpp"
#include "engine/iscsi/login_target.hpp"

namespace lockstep::iscsi {
namespace {

class CountingRandom : public engine::Random {
 public:
  explicit CountingRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() override { return state_ = state_ * 6364136223846793005u + 1442695040888963407u; }

 private:
  std::uint64_t state_;
};

struct Authority final : LoginAuthority {
  LoginDecision decide(const LoginIdentity& who) override {
    ++asked;
    last = who;
    return decision;
  }
  LoginDecision decision;
  LoginIdentity last;
  int asked = 0;
};

const ChapCredentials kOneWay{"alice", "alice's secret", "", ""};
const ChapCredentials kMutual{"alice", "alice's secret", "target", "target's secret"};

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

struct Outcome {
  bool admitted = false;
  std::uint16_t status = 0;
  std::string error, reason;
  Parameters initiator, target;
};

// Runs a whole login between our two sides; `tamper` may change what the target answers.
Outcome run(const InitiatorLoginSettings& settings, Authority& authority, const Offers& target_offers = {},
            const std::function<void(TargetLogin::Step&)>& tamper = {}) {
  CountingRandom r1(1), r2(2);
  InitiatorLogin initiator(settings, r1);
  TargetLogin target(authority, r2, target_offers);
  Outcome out;
  auto request = initiator.start();
  for (int turns = 0; turns < 50; ++turns) {
    auto step = target.on_request(request.header, as_bytes(request.text));
    if (step.next == TargetLogin::Step::Next::admit) step = target.admit(0x77, 32);
    if (tamper) tamper(step);
    out.status = step.header.status;
    out.reason = step.reason;
    request = initiator.on_response(step.header, as_bytes(step.text));
    if (request.next == InitiatorLogin::Step::Next::send) continue;
    out.admitted = request.next == InitiatorLogin::Step::Next::done && step.next == TargetLogin::Step::Next::done;
    out.error = request.error.message;
    out.initiator = initiator.parameters();
    out.target = target.parameters();
    if (out.admitted) {
      EXPECT_EQ(initiator.tsih(), 0x77);
      EXPECT_EQ(initiator.exp_stat_sn(), target.next_stat_sn());
      EXPECT_EQ(initiator.cmd_sn(), target.exp_cmd_sn());
      EXPECT_EQ(initiator.max_cmd_sn(), target.exp_cmd_sn() + 31);
    }
    return out;
  }
  out.error = "no end";
  return out;
}

InitiatorLoginSettings settings_with(std::optional<ChapCredentials> chap = {}) {
  InitiatorLoginSettings settings;
  settings.initiator_name = "iqn.2026-11.io.lockstep:i";
  settings.target_name = "iqn.2026-11.io.lockstep:t";
  settings.chap = std::move(chap);
  settings.cmd_sn = Serial(0xFFFFFFFE);
  return settings;
}

TEST(Login, WithoutAuthenticationBothSidesAgree) {
  Authority authority;
  authority.decision.portal_group = 2;
  const auto out = run(settings_with(), authority);
  EXPECT_TRUE(out.admitted) << out.error << out.reason;
  EXPECT_TRUE(out.initiator.header_digest && out.target.header_digest);
  EXPECT_EQ(out.initiator.max_burst, out.target.max_burst);
  EXPECT_EQ(out.initiator.max_send, out.target.max_recv);
  EXPECT_EQ(out.target.max_send, out.initiator.max_recv);
  EXPECT_EQ(authority.asked, 1);
}

TEST(Login, ChapOneWayAndMutual) {
  Authority authority;
  authority.decision.chap = {kMutual};
  EXPECT_TRUE(run(settings_with(kOneWay), authority).admitted);
  EXPECT_TRUE(run(settings_with(kMutual), authority).admitted);
}

// One node's two ends: as the partner's target it asks, as the partner's initiator it is asked.
InitiatorLoginSettings calling(const std::string& name) {
  InitiatorLoginSettings settings = settings_with(kMutual);
  settings.asker = name;
  return settings;
}

TEST(Login, ANodesOwnChallengeIsNotAnsweredOverAnotherConnectionOfIts) {
  Authority authority;
  authority.decision.chap = {kMutual};
  authority.decision.asker = "node a";
  const auto out = run(calling("node a"), authority);
  EXPECT_FALSE(out.admitted);
  EXPECT_NE(out.error.find("a challenge of our own"), std::string::npos) << out.error;
}

TEST(Login, ANameInTheChallengesIsAgreedWithAPartnerThatHasAnotherOrNone) {
  Authority authority;
  authority.decision.chap = {kMutual};
  for (const char* const target : {"", "node a"}) {
    authority.decision.asker = target;
    for (const char* const initiator : {"", "node b", "node a plus", "node"}) {
      const auto out = run(calling(initiator), authority);
      EXPECT_TRUE(out.admitted) << target << "|" << initiator << ": " << out.error << out.reason;
    }
  }
}

TEST(Login, OneOfSeveralCredentialsSuffices) {
  Authority authority;
  authority.decision.chap = {{"bob", "bob's secret", "", ""}, kOneWay};
  EXPECT_TRUE(run(settings_with(kOneWay), authority).admitted);
}

TEST(Login, WrongSecretWrongNameAndNoChapAreAuthenticationFailures) {
  Authority authority;
  authority.decision.chap = {kMutual};
  for (const auto& chap :
       {std::optional<ChapCredentials>{{"alice", "wrong", "", ""}},
        std::optional<ChapCredentials>{{"alic", "alice's secret", "", ""}},
        std::optional<ChapCredentials>{{"alicee", "alice's secret", "", ""}}, std::optional<ChapCredentials>{}}) {
    const auto out = run(settings_with(chap), authority);
    EXPECT_FALSE(out.admitted);
    EXPECT_EQ(out.status, 0x0201) << out.error;
  }
}

TEST(Login, AnInitiatorRefusesATargetThatCannotProveItself) {
  Authority authority;
  authority.decision.chap = {{"alice", "alice's secret", "target", "not what alice knows"}};
  const auto out = run(settings_with(kMutual), authority);
  EXPECT_FALSE(out.admitted);
  EXPECT_NE(out.error.find("did not prove itself"), std::string::npos) << out.error;
}

TEST(Login, AnInitiatorThatWantsProofIsNotPutOffByAnEarlyTransition) {
  Authority authority;
  authority.decision.chap = {kMutual};
  const auto out = run(settings_with(kMutual), authority, {}, [](TargetLogin::Step& step) {
    if ((step.header.flags & 0x0C) == 0) {  // security stage: jump ahead
      step.header.flags = kTransit | 0x01;
      step.text.clear();
    }
  });
  EXPECT_FALSE(out.admitted);
}

TEST(Login, ATargetWithoutMutualSecretFailsTheChallengeOfItself) {
  Authority authority;
  authority.decision.chap = {kOneWay};
  EXPECT_EQ(run(settings_with(kMutual), authority).status, 0x0201);
}

TEST(Login, OneSecretForBothDirectionsIsRefused) {
  Authority authority;
  const ChapCredentials same{"alice", "the very same", "target", "the very same"};
  authority.decision.chap = {same};
  EXPECT_EQ(run(settings_with(same), authority).status, 0x0201);
}

TEST(Login, RefusalsOfTheAuthorityArriveAsTheirStatus) {
  for (const auto status : {LoginStatus::not_found, LoginStatus::authorization_failure,
                            LoginStatus::service_unavailable, LoginStatus::target_removed}) {
    Authority authority;
    authority.decision.status = status;
    const auto out = run(settings_with(), authority);
    EXPECT_EQ(out.status, static_cast<std::uint16_t>(status));
    EXPECT_FALSE(out.admitted);
  }
}

TEST(Login, ARedirectionSaysWhereTo) {
  Authority authority;
  authority.decision.status = LoginStatus::moved_temporarily;
  authority.decision.redirect = "192.0.2.7:3260";
  CountingRandom random(1);
  InitiatorLogin initiator(settings_with(), random);
  TargetLogin target(authority, random, {});
  const auto request = initiator.start();
  const auto answer = target.on_request(request.header, as_bytes(request.text));
  EXPECT_EQ(initiator.on_response(answer.header, as_bytes(answer.text)).next, InitiatorLogin::Step::Next::failed);
  EXPECT_EQ(initiator.redirect(), "192.0.2.7:3260");
}

TEST(Login, AnInsistedDigestThatTheOtherSideLacksEndsTheLogin) {
  Authority authority;
  auto settings = settings_with();
  settings.offers.header_digest = Offers::Digest::crc32c;
  Offers none;
  none.header_digest = Offers::Digest::none;
  EXPECT_FALSE(run(settings, authority, none).admitted);
}

// ---- The target's side, request by request ----

class TargetSide : public testing::Test {
 protected:
  TargetLogin::Step request(std::uint8_t flags, std::string text,
                            const std::function<void(LoginRequestHeader&)>& change = {}) {
    for (char& c : text) {
      if (c == '|') c = '\0';
    }
    auto header = make_header<LoginRequestHeader>(Opcode::login_request, flags);
    header.isid = {0x80, 0, 0, 0, 0, 1};
    header.task_tag = 5;
    header.cmd_sn = 9;
    if (change) change(header);
    return login.on_request(header, as_bytes(text));
  }
  static std::string shown(const TargetLogin::Step& step) {
    std::string text = step.text;
    for (char& c : text) {
      if (c == '\0') c = '|';
    }
    return text;
  }
  static constexpr std::uint8_t kOperational = 0x04;
  static constexpr std::uint8_t kToOperational = kTransit | 0x01;
  static constexpr std::uint8_t kToFull = kTransit | 0x04 | 0x03;
  const std::string names = "InitiatorName=iqn.2026-11.io.lockstep:i|TargetName=iqn.2026-11.io.lockstep:t|";

  CountingRandom random{3};
  Authority authority;
  TargetLogin login{authority, random, {}};
};

using Next = TargetLogin::Step::Next;

TEST_F(TargetSide, ThePortalGroupStandsInTheFirstResponseAndOnlyThere) {
  authority.decision.portal_group = 7;
  const auto first = request(kToOperational, names);
  EXPECT_EQ(shown(first), "TargetPortalGroupTag=7|");
  EXPECT_EQ(first.header.flags, kTransit | 0x01);
  const auto second = request(kOperational, "InitialR2T=No|");
  EXPECT_EQ(shown(second), "InitialR2T=No|MaxRecvDataSegmentLength=262144|");
}

TEST_F(TargetSide, StraightToFullFeaturePhaseInOneRequest) {
  const auto step = request(kToFull, names + "ImmediateData=Yes|");
  EXPECT_EQ(step.next, Next::admit);
  const auto last = login.admit(3, 128);
  EXPECT_EQ(last.next, Next::done);
  EXPECT_EQ(last.header.tsih, 3);
  EXPECT_EQ(last.header.exp_cmd_sn, 9u);
  EXPECT_EQ(last.header.max_cmd_sn, 9u + 127);
  EXPECT_EQ(last.header.flags, kToFull);
}

TEST_F(TargetSide, MissingNamesAreMissingParameters) {
  EXPECT_EQ(request(kToOperational, "TargetName=iqn.x|").header.status, 0x0207);
}
TEST_F(TargetSide, ATargetNameIsNeededUnlessItIsDiscovery) {
  EXPECT_EQ(request(kToOperational, "InitiatorName=iqn.x|").header.status, 0x0207);
}
TEST_F(TargetSide, DiscoveryNeedsNoTarget) {
  EXPECT_EQ(request(kToOperational, "InitiatorName=iqn.x|SessionType=Discovery|").next, Next::answer);
  EXPECT_TRUE(login.identity().discovery);
}
TEST_F(TargetSide, AnUnknownSessionTypeIsRefused) {
  EXPECT_EQ(request(kToOperational, names + "SessionType=Other|").header.status, 0x0209);
}
TEST_F(TargetSide, WhatIsNoNameIsRefused) {
  EXPECT_EQ(request(kToOperational, "InitiatorName=me|TargetName=iqn.x|").header.status, 0x0200);
}
TEST_F(TargetSide, AnotherVersionIsRefused) {
  EXPECT_EQ(request(kToOperational, names, [](auto& h) { h.version_min = 1; }).header.status, 0x0205);
}
TEST_F(TargetSide, ASecondConnectionIsRefused) {
  EXPECT_EQ(request(kToOperational, names, [](auto& h) { h.tsih = 4; }).header.status, 0x020A);
}
TEST_F(TargetSide, ImpossibleStagesAreRefused) {
  for (const int flags :
       {0x08, 0x0C, kTransit | 0x02, kTransit | 0x00, kTransit | 0x04 | 0x01, kTransit | kContinue | 1}) {
    TargetLogin fresh(authority, random, {});
    auto header = make_header<LoginRequestHeader>(Opcode::login_request, static_cast<std::uint8_t>(flags));
    EXPECT_EQ(fresh.on_request(header, {}).header.status, 0x0200) << flags;
  }
}
TEST_F(TargetSide, ARequestThatDoesNotContinueTheLastIsRefused) {
  EXPECT_EQ(request(kToOperational, names).next, Next::answer);
  EXPECT_EQ(request(kOperational, "", [](auto& h) { h.isid[5] = 9; }).header.status, 0x020B);
}
TEST_F(TargetSide, AStageIsNotRepeated) {
  EXPECT_EQ(request(kToOperational, names).next, Next::answer);
  EXPECT_EQ(request(kToOperational, "").header.status, 0x020B);
}
TEST_F(TargetSide, NamesMayBeRepeatedButNotChanged) {
  EXPECT_EQ(request(kToOperational, names).next, Next::answer);
  EXPECT_EQ(request(kOperational, names).next, Next::answer);
  EXPECT_EQ(request(kOperational, "TargetName=iqn.other|").header.status, 0x0200);
}
TEST_F(TargetSide, AKeyMayBeRepeatedButNotRenegotiated) {
  EXPECT_EQ(request(kOperational, names + "MaxBurstLength=65536|").next, Next::answer);
  EXPECT_EQ(shown(request(kOperational, "MaxBurstLength=65536|")), "MaxBurstLength=65536|");
  EXPECT_EQ(request(kOperational, "MaxBurstLength=4096|").header.status, 0x0200);
}
TEST_F(TargetSide, UnknownKeysAreNotUnderstoodAndTheirEchoesIgnored) {
  EXPECT_EQ(shown(request(kOperational, names + "X-com.foo=1|Bar=Reject|")),
            "X-com.foo=NotUnderstood|TargetPortalGroupTag=1|MaxRecvDataSegmentLength=262144|");
}
TEST_F(TargetSide, OperationalKeysInTheSecurityStageAreRejected) {
  EXPECT_EQ(shown(request(0, names + "HeaderDigest=CRC32C|")), "HeaderDigest=Reject|TargetPortalGroupTag=1|");
}
TEST_F(TargetSide, ATargetsKeyFromAnInitiatorIsAnError) {
  EXPECT_EQ(request(kOperational, names + "TargetPortalGroupTag=1|").header.status, 0x0200);
}
TEST_F(TargetSide, MoreConnectionsAndHigherRecoveryLevelsComeDownToWhatThereIs) {
  EXPECT_EQ(shown(request(kOperational, names + "MaxConnections=8|ErrorRecoveryLevel=2|")),
            "MaxConnections=1|ErrorRecoveryLevel=0|TargetPortalGroupTag=1|MaxRecvDataSegmentLength=262144|");
}
TEST_F(TargetSide, FirstBurstBeyondMaxBurstIsAnError) {
  EXPECT_EQ(request(kToFull, names + "FirstBurstLength=65536|MaxBurstLength=32768|").header.status, 0x0200);
}
TEST_F(TargetSide, TheDefaultFirstBurstGivesWayToASmallMaxBurst) {
  EXPECT_EQ(request(kToFull, names + "MaxBurstLength=32768|").next, Next::admit);
  EXPECT_EQ(login.parameters().first_burst, 32768u);
}
TEST_F(TargetSide, TextMayComeInPieces) {
  EXPECT_EQ(request(kContinue, "InitiatorName=iqn.2026-11.io.lockst").next, Next::answer);
  EXPECT_EQ(request(kContinue, "ep:i|TargetNa").next, Next::answer);
  EXPECT_EQ(authority.asked, 0);
  EXPECT_EQ(request(kToOperational, "me=iqn.x:t|").next, Next::answer);
  EXPECT_EQ(authority.last.initiator_name, "iqn.2026-11.io.lockstep:i");
  EXPECT_EQ(authority.last.target_name, "iqn.x:t");
}
TEST_F(TargetSide, TextWithoutItsZeroByteIsRefused) {
  EXPECT_EQ(request(kToOperational, "InitiatorName=iqn.x").header.status, 0x0200);
}
TEST_F(TargetSide, EndlessTextIsRefused) {
  Next next = Next::answer;
  for (int i = 0; i < 20 && next == Next::answer; ++i) next = request(kContinue, std::string(8000, 'a')).next;
  EXPECT_EQ(next, Next::failed);
}
TEST_F(TargetSide, AnEndlessLoginIsRefused) {
  Next next = request(kOperational, names).next;
  std::size_t turns = 1;
  for (; next == Next::answer && turns < 1000; ++turns) next = request(kOperational, "").next;
  EXPECT_EQ(next, Next::failed);
  EXPECT_EQ(turns, kMaxLoginRequests + 1);
}
TEST_F(TargetSide, AnAnswerLongerThanASegmentGoesOutInPieces) {
  std::string text = names;
  for (int i = 0; i < 120; ++i)
    text += "X-" + std::string(59, 'k') + std::to_string(i % 10) + "=" + std::to_string(i) + "|";
  auto step = request(kToFull, text);
  std::string all;
  for (int turns = 0; turns < 10 && step.next == Next::answer; ++turns) {
    EXPECT_EQ(step.header.flags & (kContinue | kTransit), kContinue);
    EXPECT_LE(step.text.size(), 8192u);
    all += step.text;
    step = request(kToFull, "");
  }
  ASSERT_EQ(step.next, Next::admit);
  all += login.admit(1, 1).text;
  const auto pairs = parse_text(all);
  ASSERT_TRUE(pairs);
  EXPECT_EQ(std::count_if(pairs->begin(), pairs->end(), [](auto& p) { return p.value == "NotUnderstood"; }), 120);
}

TEST_F(TargetSide, NothingIsAdmittedPastRequiredAuthentication) {
  authority.decision.chap = {kOneWay};
  EXPECT_EQ(request(kToFull, names).header.status, 0x0201);
}
TEST_F(TargetSide, ATransitionWithoutAuthenticationIsNotMade) {
  authority.decision.chap = {kOneWay};
  EXPECT_EQ(request(kToOperational, names).header.status, 0x0201);
}
TEST_F(TargetSide, ChapKeysOutOfTurnAreErrors) {
  authority.decision.chap = {kOneWay};
  EXPECT_EQ(request(0, names + "CHAP_A=5|").header.status, 0x0200);
}
TEST_F(TargetSide, AResponseWithoutAChallengeIsAnError) {
  authority.decision.chap = {kOneWay};
  EXPECT_EQ(request(0, names + "AuthMethod=CHAP|CHAP_N=alice|CHAP_R=0x00|").header.status, 0x0200);
}

class Challenged : public TargetSide {
 protected:
  void SetUp() override {
    authority.decision.chap = {kMutual};
    const auto step = request(0, names + "AuthMethod=CHAP|CHAP_A=7|");
    ASSERT_EQ(step.next, Next::answer) << step.reason;
    const auto pairs = parse_text(step.text);
    ASSERT_TRUE(pairs && find_value(*pairs, "CHAP_C"));
    challenge = *find_value(*pairs, "CHAP_C");
    const auto id = static_cast<std::uint8_t>(*parse_number(*find_value(*pairs, "CHAP_I")));
    response = encode_hex(chap_response(ChapAlgorithm::sha256, id, "alice's secret", *decode_binary(challenge)));
  }
  std::string challenge, response;
};

TEST_F(Challenged, TheRightAnswerPasses) {
  const auto step = request(kToOperational, "CHAP_N=alice|CHAP_R=" + response + "|");
  EXPECT_EQ(step.header.flags, kToOperational);
  EXPECT_EQ(step.header.status, 0);
}
TEST_F(Challenged, OurOwnChallengeSentBackIsRefused) {
  const auto step = request(kToOperational, "CHAP_N=alice|CHAP_R=" + response + "|CHAP_I=1|CHAP_C=" + challenge + "|");
  EXPECT_EQ(step.header.status, 0x0201);
  EXPECT_TRUE(step.text.empty());
}
TEST_F(Challenged, WeDoNotProveOurselvesToOneWhoHasNot) {
  const auto step =
      request(kToOperational, "CHAP_N=alice|CHAP_R=0x" + std::string(64, '0') + "|CHAP_I=1|CHAP_C=0x1234|");
  EXPECT_EQ(step.header.status, 0x0201);
  EXPECT_TRUE(step.text.empty());
}
TEST_F(Challenged, MalformedChallengesOfOursAreRefused) {
  for (const std::string bad : {"CHAP_I=256|CHAP_C=0x12|", "CHAP_I=1|", "CHAP_C=0x12|", "CHAP_I=1|CHAP_C=0x1|"}) {
    TargetLogin copy = login;
    std::string text = "CHAP_N=alice|CHAP_R=" + response + "|" + bad;
    std::replace(text.begin(), text.end(), '|', '\0');
    auto header = make_header<LoginRequestHeader>(Opcode::login_request, kToOperational);
    header.isid = {0x80, 0, 0, 0, 0, 1};
    EXPECT_EQ(copy.on_request(header, as_bytes(text)).header.status, 0x0200) << bad;
  }
}
TEST_F(Challenged, AChallengeIsGoodForOneAnswer) {
  EXPECT_EQ(request(kToOperational, "CHAP_N=alice|CHAP_R=0x00|").next, Next::failed);
  EXPECT_EQ(request(kToOperational, "CHAP_N=alice|CHAP_R=" + response + "|").next, Next::failed);
}

}  // namespace
}  // namespace lockstep::iscsi
