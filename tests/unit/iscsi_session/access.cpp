// What an access policy's answers become on the wire.
#include "iscsi_target/server/login_guard.hpp"
#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using iscsi_target::AccessAnswer;
using Verdict = AccessAnswer::Verdict;

class Always final : public iscsi_target::AccessPolicy {
 public:
  explicit Always(AccessAnswer answer) : answer_(std::move(answer)) {}
  [[nodiscard]] AccessAnswer may_log_in(std::string_view, std::string_view) const override { return answer_; }

 private:
  AccessAnswer answer_;
};

/// The answer to a login's first request.
ReceivedPdu first_answer(TestServer& server, AccessAnswer answer) {
  iscsi_target::Target target;
  target.name = kTarget;
  for (auto& disk : server.disks) target.device_servers.push_back(disk.get());
  target.access = std::make_shared<Always>(std::move(answer));
  server.registry.put(std::move(target));
  RawInitiator initiator(server.address);
  std::string text;
  add_pair(text, "InitiatorName", kInitiator);
  add_pair(text, "TargetName", kTarget);
  initiator.send(make_header<LoginRequestHeader>(Opcode::login_request, kTransit | 1), std::as_bytes(std::span(text)));
  auto pdu = initiator.receive();
  EXPECT_TRUE(pdu && pdu->opcode() == Opcode::login_response);
  EXPECT_TRUE(initiator.is_closed());
  return pdu.value_or(ReceivedPdu{});
}

TEST(Access, AMovedTargetSendsTheInitiatorToItsAddress) {
  TestServer server;
  const auto pdu = first_answer(server, {.verdict = Verdict::moved, .redirect = "192.0.2.7:3260", .chap = {}});
  EXPECT_EQ(pdu.as<LoginResponseHeader>().status, static_cast<std::uint16_t>(LoginStatus::moved_temporarily));
  const std::string text(reinterpret_cast<const char*>(pdu.data.data()), pdu.data.size());
  EXPECT_EQ(text, std::string("TargetAddress=192.0.2.7:3260\0", 29));
  EXPECT_EQ(server.storage.nexuses_opened, 0);
}

TEST(Access, ATargetThatThisNodeMayNotServeNowSaysSoAndNothingMore) {
  TestServer server;
  const auto pdu = first_answer(server, {.verdict = Verdict::unavailable, .redirect = {}, .chap = {}});
  EXPECT_EQ(pdu.as<LoginResponseHeader>().status, static_cast<std::uint16_t>(LoginStatus::service_unavailable));
  EXPECT_TRUE(pdu.data.empty());
}

// ---- What a stranger learns ----

const std::string kKnown = "iqn.2026-11.io.lockstep:known";
const std::string kUnknown = "iqn.2026-11.io.lockstep:other";
const ChapCredentials kSecret{kKnown, "the secret of one", {}, {}};

/// What a login as `name` is answered, to its end; of the challenge, which is random, only that it is there.
std::string answers(const std::string& address, const std::string& name, const std::string& methods,
                    const std::string& user, Stage begins = Stage::security) {
  RawInitiator initiator(address);
  std::string seen, whole;
  std::vector<TextPair> challenge;  // in `whole`
  const auto say = [&](std::initializer_list<TextPair> pairs, std::uint8_t flags) {
    std::string text;
    for (const auto& [key, value] : pairs) add_pair(text, key, value);
    const auto stage = static_cast<std::uint8_t>(static_cast<std::uint8_t>(begins) << 2);
    initiator.send(make_header<LoginRequestHeader>(Opcode::login_request, flags | stage),
                   std::as_bytes(std::span(text)));
    const auto pdu = initiator.receive();
    if (!pdu) return seen += "closed", false;
    const auto header = pdu->as<LoginResponseHeader>();
    seen += "status " + std::to_string(header.status) + " flags " + std::to_string(header.flags) + ":";
    whole.assign(reinterpret_cast<const char*>(pdu->data.data()), pdu->data.size());
    challenge = parse_text(whole).value();
    for (const auto& [key, value] : challenge)
      seen += " " + std::string(key) + (key == "CHAP_C" || key == "CHAP_I" ? "" : "=" + std::string(value));
    return header.status == 0;
  };
  const auto next = static_cast<std::uint8_t>(kTransit | 1);
  const bool first = say({{"InitiatorName", name}, {"TargetName", kTarget}, {"AuthMethod", methods}},
                         begins == Stage::security ? 0 : kTransit | 3);
  if (!first || !say({{"CHAP_A", "7"}}, 0)) return seen;
  const auto identifier = parse_number(*find_value(challenge, "CHAP_I")).value();
  const auto asked = decode_binary(*find_value(challenge, "CHAP_C")).value();
  const auto response = chap_response(ChapAlgorithm::sha256, static_cast<std::uint8_t>(identifier), "wrong", asked);
  (void)say({{"CHAP_N", user}, {"CHAP_R", encode_hex(response)}}, next);
  return seen;
}

TEST(Access, ANameThatIsKnownIsAnsweredAsOneThatIsNot) {
  TestServer server;
  server.put_target({{kKnown, kSecret}});
  const auto both = [&](const std::string& methods, bool own, Stage begins = Stage::security) {
    const auto known = answers(server.address, kKnown, methods, own ? kKnown : "somebody", begins);
    EXPECT_EQ(known, answers(server.address, kUnknown, methods, own ? kUnknown : "somebody", begins));
    EXPECT_NE(known.find("status 513"), std::string::npos) << known;  // 0201h
  };
  both("CHAP", true);
  both("CHAP,None", false);
  both("None", true);
  both("None", true, Stage::operational);
}

TEST(Access, AnEmptyUserAndSecretOpenNothing) {
  TestServer server;
  server.put_target({{kKnown, kSecret}});
  for (const auto& [user, secret] : {std::pair{"", ""}, std::pair{"nobody", "nobody's secret"}}) {
    RawInitiator initiator(server.address);
    EXPECT_NE(initiator.log_in({.initiator = kUnknown, .chap = ChapCredentials{user, secret, {}, {}}}), "");
  }
  EXPECT_EQ(server.storage.nexuses_opened, 0);
}

TEST(Access, TheLogSaysWhatTheStrangerIsNotTold) {
  TestServer server;
  server.put_target({{kKnown, kSecret}});
  (void)answers(server.address, kUnknown, "CHAP", kUnknown);
  const auto reasons = server.awaited_reasons(iscsi_target::SessionEvent::Kind::refused);
  EXPECT_NE(reasons.front().find(kUnknown + " is not on the access list"), std::string::npos) << reasons.front();
}

// ---- Guesses ----

TEST(Access, AProofWaitsAfterManyThatWereWrongAndIsGoodAfterwards) {
  TestServer server;
  server.put_target({{kKnown, kSecret}});
  for (unsigned i = 0; i < iscsi_target::LoginGuard::kFreeGuesses; ++i)
    (void)answers(server.address, kKnown, "CHAP", kKnown);
  const auto begun = std::chrono::steady_clock::now();
  RawInitiator initiator(server.address);
  EXPECT_EQ(initiator.log_in({.initiator = kKnown, .chap = kSecret}), "");
  EXPECT_GT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(500));
  initiator.send(initiator.read10(0, 1));
  EXPECT_TRUE(initiator.receive());
}

TEST(Access, WhoDoesNotWaitForTheAnswerToAProofIsClosed) {
  TestServer server;
  server.put_target({{kKnown, kSecret}});
  for (unsigned i = 0; i < iscsi_target::LoginGuard::kFreeGuesses; ++i)
    (void)answers(server.address, kKnown, "CHAP", kKnown);
  RawInitiator initiator(server.address);
  const auto send = [&](std::initializer_list<TextPair> pairs) {
    std::string text;
    for (const auto& [key, value] : pairs) add_pair(text, key, value);
    initiator.send(make_header<LoginRequestHeader>(Opcode::login_request), std::as_bytes(std::span(text)));
  };
  send({{"InitiatorName", kKnown}, {"TargetName", kTarget}, {"AuthMethod", "CHAP"}});
  ASSERT_TRUE(initiator.receive());
  send({{"CHAP_A", "7"}});
  ASSERT_TRUE(initiator.receive());
  for (int i = 0; i < 3; ++i) send({{"CHAP_N", kKnown}, {"CHAP_R", "0x00"}});
  EXPECT_TRUE(initiator.is_closed());
  EXPECT_FALSE(initiator.timed_out());
}

}  // namespace
}  // namespace lockstep::test
