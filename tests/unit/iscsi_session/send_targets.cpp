// SendTargets: what a session may ask for, and the answer in pieces.
#include "tests/unit/iscsi_session/text_requests.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

// RFC 7143 appendix C: "All" is for discovery sessions, and must not be supported elsewhere.
TEST(SendTargets, ANormalSessionNamesATargetOrItsOwnAndIsRefusedAll) {
  TestServer server;
  server.put_target({}, {{"127.0.0.11:3260", 1}, {"[::1]:3260", 2}});
  server.put_target({}, {}, "iqn.2026-11.io.lockstep:another");
  RawInitiator initiator(server.address);
  ASSERT_EQ(initiator.log_in(), "");
  const std::string own = "TargetName=" + kTarget + "|TargetAddress=127.0.0.11:3260,1|TargetAddress=[::1]:3260,2|";
  const std::string another = "TargetName=iqn.2026-11.io.lockstep:another|TargetAddress=" + server.address + ",1|";
  EXPECT_EQ(ask(initiator, "SendTargets=|"), own);
  EXPECT_EQ(ask(initiator, "SendTargets=All|"), "SendTargets=Reject|");
  EXPECT_EQ(ask(initiator, "SendTargets=iqn.2026-11.io.lockstep:ANOTHER|"), another);
  EXPECT_EQ(ask(initiator, "SendTargets=iqn.2026-11.io.lockstep:none|"), "");
  EXPECT_EQ(ask(initiator, "X-foo=1|HeaderDigest=None|"), "X-foo=NotUnderstood|HeaderDigest=Reject|");
}

TEST(SendTargets, ALongAnswerComesInPieces) {
  TestServer server;
  for (int i = 0; i < 20; ++i) server.put_target({}, {}, "iqn.2026-11.io.lockstep:t" + std::to_string(100 + i));
  RawOptions options;
  options.target = {};
  options.offers.max_recv = 512;
  RawInitiator initiator(server.address);
  ASSERT_EQ(initiator.log_in(options), "");
  std::string text = "SendTargets=All";
  text.push_back('\0');
  auto request = text_request();
  initiator.send(request, std::as_bytes(std::span(text)));
  std::string all;
  for (;;) {
    const auto piece = initiator.receive();
    ASSERT_TRUE(piece && piece->opcode() == Opcode::text_response);
    ASSERT_LE(piece->data.size(), 512u);
    all += text_of(piece);
    const auto header = piece->as<TextResponseHeader>();
    if (header.flags & kFinal) {
      EXPECT_EQ(header.transfer_tag, kReservedTag);
      break;
    }
    EXPECT_EQ(header.flags, kContinue);
    request.transfer_tag = header.transfer_tag;
    initiator.send(request);
  }
  std::size_t names = 0;
  for (std::size_t at = 0; (at = all.find("TargetName=", at)) != std::string::npos; ++at) ++names;
  EXPECT_EQ(names, 21u);
}

TEST(SendTargets, ADiscoverySessionDoesNothingElse) {
  TestServer server;
  RawInitiator initiator(server.address);
  RawOptions options;
  options.target = {};
  ASSERT_EQ(initiator.log_in(options), "");
  initiator.send(initiator.read10(0, 1));
  const auto reject = initiator.receive();
  ASSERT_TRUE(reject && reject->opcode() == Opcode::reject);
  initiator.send(initiator.task_management(scsi::TaskManagement::logical_unit_reset));
  const auto answer = initiator.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->as<TaskManagementResponseHeader>().response,
            static_cast<std::uint8_t>(TaskManagementResult::not_supported));
}

}  // namespace
}  // namespace lockstep::test
