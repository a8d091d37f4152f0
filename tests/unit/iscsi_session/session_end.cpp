// The end of a session, by whichever way, is told only when nothing of it can land any more: the next session of the
// host may write to the same blocks.
#include "tests/unit/iscsi_session/holding_device.hpp"
#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

class LoggingOut : public HoldingSession {
 protected:
  LogoutRequestHeader logout(LogoutReason reason = LogoutReason::close_session, std::uint16_t cid = 0) {
    auto header = make_header<LogoutRequestHeader>(Opcode::logout_request);
    header.opcode |= kImmediate;
    header.reason = static_cast<std::uint8_t>(kFinal | static_cast<std::uint8_t>(reason));
    header.task_tag = 800;
    header.cid = cid;
    header.cmd_sn = cmd_sn.value();
    return header;
  }
  void log_out() { feed(pdu(bytes_of(logout()))); }
  static LogoutResult result_of(const Bhs& answer) {
    return static_cast<LogoutResult>(header_as<LogoutResponseHeader>(answer).response);
  }
};

TEST_F(LoggingOut, IsAnsweredWhenTheDeviceServerHasCompletedEveryCommand) {
  device.ends_at_once = false;
  begin_write();
  begin_write();
  log_out();
  EXPECT_EQ(device.given_up, 2);
  expect_answers({});
  device.release_one();
  expect_answers({});
  EXPECT_FALSE(stream.closed);
  device.release_all();
  const auto answer = answers();
  ASSERT_EQ(answer.size(), 1u) << "of the commands nothing is told any more";
  EXPECT_EQ(opcode_of(header_as<AnyHeader>(answer[0]).opcode), Opcode::logout_response);
  EXPECT_EQ(result_of(answer[0]), LogoutResult::closed);
  EXPECT_TRUE(stream.closed);
  EXPECT_EQ(connection->reason(), "The initiator logged out.");
}

TEST_F(LoggingOut, IsAnsweredAtOnceWhenNothingIsLeft) {
  begin_write();
  log_out();
  expect_answers({Opcode::logout_response});
  EXPECT_TRUE(stream.closed);
}

TEST_F(LoggingOut, WhatIsSentBehindItIsNotCarriedOut) {
  device.ends_at_once = false;
  begin_write();
  auto packet = pdu(bytes_of(logout()));
  const auto behind = write(512, std::vector<std::byte>(512));
  packet.insert(packet.end(), behind.begin(), behind.end());
  feed(packet);
  feed(write(512, std::vector<std::byte>(512)));
  log_out();
  device.release_all();
  EXPECT_EQ(device.executed, 1);
  expect_answers({Opcode::logout_response});
}

TEST_F(LoggingOut, EndsTheWritesThatWaitForTheirData) {
  feed(write(512));
  expect_answers({Opcode::r2t});
  log_out();
  expect_answers({Opcode::logout_response});
  EXPECT_TRUE(device.held.empty());
}

TEST_F(LoggingOut, WhatWasCompletedBeforeIsAnsweredBefore) {
  begin_write();
  device.release_all();
  log_out();
  expect_answers({Opcode::scsi_response, Opcode::logout_response});
}

TEST_F(LoggingOut, TaskManagementThatWaitsIsAnsweredBefore) {
  device.ends_at_once = false;
  begin_write();
  manage(scsi::TaskManagement::abort_task_set);
  log_out();
  device.release_all();
  expect_answers({Opcode::task_management_response, Opcode::logout_response});
}

TEST_F(LoggingOut, ThatIsRefusedIsAnsweredAtOnceAndChangesNothing) {
  begin_write();
  for (const auto& [reason, cid, result] :
       {std::tuple{LogoutReason::close_connection, 99, LogoutResult::cid_not_found},
        {LogoutReason::remove_connection, 0, LogoutResult::recovery_not_supported}}) {
    feed(pdu(bytes_of(logout(reason, static_cast<std::uint16_t>(cid)))));
    const auto answer = answers();
    ASSERT_EQ(answer.size(), 1u);
    EXPECT_EQ(result_of(answer[0]), result);
  }
  EXPECT_EQ(device.given_up, 0);
  begin_write();
  device.release_all();
  expect_answers({Opcode::scsi_response, Opcode::scsi_response});
}

/// Sends writes that their disk holds, and which it can't cancel.
class SlowWrites : public testing::Test {
 protected:
  static constexpr int kWrites = 100;
  void begin() {
    ASSERT_EQ(initiator.log_in(), "");
    server.storage.hold_writes = true;
    for (int i = 0; i < kWrites; ++i) initiator.send(initiator.write10(static_cast<std::uint32_t>(i), 1), old);
    ASSERT_TRUE(eventually([&] { return server.storage.held == kWrites; }));
  }
  /// The old writes land before the session's end is told: what another session writes then stays.
  void expect_that_new_data_stays() {
    EXPECT_EQ(server.storage.completed, kWrites) << "the end was told before";
    for (int i = 0; i < kWrites; ++i) {
      next.send(next.write10(static_cast<std::uint32_t>(i), 1), fresh);
      ASSERT_TRUE(next.receive());
    }
    ASSERT_TRUE(eventually([&] { return server.storage.held == 0; }));
    for (std::size_t i = 0; i < kWrites; ++i) {
      const auto stored = std::span(server.storage.data).subspan(i * kBlock, kBlock);
      ASSERT_TRUE(std::ranges::equal(stored, fresh)) << "block " << i;
    }
  }
  void release_soon() {
    releasing = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for an end that is told too early
      server.release_held();
    });
  }
  void TearDown() override {
    if (releasing.joinable()) releasing.join();
  }

  const std::vector<std::byte> old = bytes_pattern(kBlock, 1), fresh = bytes_pattern(kBlock, 2);
  TestServer server;
  RawInitiator initiator{server.address}, next{server.address};
  std::thread releasing;
};

TEST_F(SlowWrites, NeverLandAfterALogoutWasAnswered) {
  begin();
  auto logout = make_header<LogoutRequestHeader>(Opcode::logout_request);
  logout.reason = kFinal;
  logout.cmd_sn = initiator.cmd_sn.value();
  initiator.send(logout);
  release_soon();
  const auto bye = initiator.receive();
  ASSERT_TRUE(bye && bye->opcode() == Opcode::logout_response);
  ASSERT_EQ(next.log_in({.initiator = "iqn.2026-11.io.lockstep:second"}), "");
  expect_that_new_data_stays();
}

TEST_F(SlowWrites, NeverLandAfterTheSessionWasReinstated) {
  begin();
  release_soon();
  ASSERT_EQ(next.log_in(), "");
  expect_that_new_data_stays();
}

TEST_F(SlowWrites, NeverLandAfterADroppedSessionIsGone) {
  begin();
  initiator.close();
  release_soon();
  ASSERT_TRUE(eventually([&] { return server.server->sessions().empty(); }));
  ASSERT_EQ(next.log_in(), "");
  expect_that_new_data_stays();
}

}  // namespace
}  // namespace lockstep::test
