// What an access policy's answers become on the wire.
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

TEST(Access, EachOtherVerdictHasItsStatusAndSaysNothingMore) {
  const std::pair<Verdict, LoginStatus> all[] = {{Verdict::unknown, LoginStatus::not_found},
                                                 {Verdict::forbidden, LoginStatus::authorization_failure},
                                                 {Verdict::unavailable, LoginStatus::service_unavailable}};
  for (const auto& [verdict, status] : all) {
    TestServer server;
    const auto pdu = first_answer(server, {.verdict = verdict, .redirect = {}, .chap = {}});
    EXPECT_EQ(pdu.as<LoginResponseHeader>().status, static_cast<std::uint16_t>(status));
    EXPECT_TRUE(pdu.data.empty());
  }
}

}  // namespace
}  // namespace lockstep::test
