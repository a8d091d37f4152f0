// Task management: what is aborted answers nothing, and the function answers only when the device server has let go.
#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using scsi::TaskManagement;

struct SessionTaskManagement : testing::Test {
  void SetUp() override { ASSERT_EQ(initiator.log_in(), ""); }
  void expect_result(TaskManagementResult result) {
    const auto pdu = initiator.receive();
    ASSERT_TRUE(pdu);
    ASSERT_EQ(static_cast<int>(pdu->opcode()), static_cast<int>(Opcode::task_management_response));
    EXPECT_EQ(pdu->as<TaskManagementResponseHeader>().response, static_cast<std::uint8_t>(result));
  }
  void expect_only_a_nop() {
    initiator.send(initiator.nop());
    const auto pdu = initiator.receive();
    ASSERT_TRUE(pdu);
    EXPECT_EQ(static_cast<int>(pdu->opcode()), static_cast<int>(Opcode::nop_in));
  }

  TestServer server;
  RawInitiator initiator{server.address};
};

TEST_F(SessionTaskManagement, AnAbortedTaskIsSilentAndItsAbortWaitsForTheDisk) {
  server.storage.hold = true;
  const auto read = initiator.read10(0, 1);
  initiator.send(read);
  ASSERT_TRUE(eventually([&] { return server.storage.held == 1; }));
  initiator.send(initiator.task_management(TaskManagement::abort_task, read.task_tag, read.cmd_sn));
  expect_only_a_nop();  // the device server has not let go yet
  server.release_held();
  expect_result(TaskManagementResult::complete);
  expect_only_a_nop();
}

TEST_F(SessionTaskManagement, AWriteThatWaitsForItsDataIsAbortedAtOnce) {
  const auto write = initiator.write10(0, 8);
  initiator.send(write);
  const auto r2t = initiator.receive();
  ASSERT_TRUE(r2t && r2t->opcode() == Opcode::r2t);
  initiator.send(initiator.task_management(TaskManagement::abort_task, write.task_tag, write.cmd_sn));
  expect_result(TaskManagementResult::complete);
  initiator.send(initiator.data_out(write.task_tag, r2t->as<R2tHeader>().transfer_tag, 0, 0, true),
                 bytes_pattern(4096, 1));
  expect_only_a_nop();
  EXPECT_EQ(server.storage.data[0], std::byte{0});
}

TEST_F(SessionTaskManagement, ATaskThatIsOverDoesNotExist) {
  initiator.send(initiator.read10(0, 1));
  ASSERT_TRUE(initiator.receive());
  initiator.send(initiator.task_management(TaskManagement::abort_task, 1, initiator.cmd_sn.value() - 1));
  expect_result(TaskManagementResult::task_does_not_exist);
}

TEST_F(SessionTaskManagement, ACommandThatHasNotComeIsAbortedAheadAndCountsAsCome) {
  const auto lost = initiator.write10(0, 1);
  initiator.send(initiator.task_management(TaskManagement::abort_task, lost.task_tag, lost.cmd_sn));
  expect_result(TaskManagementResult::complete);
  initiator.send(lost, bytes_pattern(512, 1));  // comes after all: passed over
  expect_only_a_nop();
  EXPECT_EQ(server.storage.executed, 0);
  initiator.send(initiator.read10(0, 1));
  const auto in = initiator.receive();
  ASSERT_TRUE(in);
  EXPECT_EQ(in->as<DataInHeader>().exp_cmd_sn, initiator.cmd_sn.value());
}

TEST_F(SessionTaskManagement, AbortingTheMissingCommandSetsTheHeldOnesFree) {
  const auto lost = initiator.write10(0, 1);
  const auto held = initiator.read10(0, 1);
  initiator.send(held);
  expect_only_a_nop();
  initiator.send(initiator.task_management(TaskManagement::abort_task, lost.task_tag, lost.cmd_sn));
  const auto first = initiator.receive(), second = initiator.receive();
  ASSERT_TRUE(first && second);
  EXPECT_TRUE((first->opcode() == Opcode::scsi_data_in) != (second->opcode() == Opcode::scsi_data_in));
}

TEST_F(SessionTaskManagement, AHeldCommandIsAborted) {
  const auto missing = initiator.read10(0, 1);
  const auto held = initiator.read10(0, 1);
  initiator.send(held);
  initiator.send(initiator.task_management(TaskManagement::abort_task, held.task_tag, held.cmd_sn));
  expect_result(TaskManagementResult::complete);
  initiator.send(missing);
  const auto in = initiator.receive();
  ASSERT_TRUE(in);
  EXPECT_EQ(in->as<DataInHeader>().task_tag, missing.task_tag.value());
  EXPECT_EQ(in->as<DataInHeader>().exp_cmd_sn, initiator.cmd_sn.value());
  expect_only_a_nop();
}

TEST_F(SessionTaskManagement, AbortTaskSetEndsThisSessionsTasksOnly) {
  RawInitiator other(server.address);
  ASSERT_EQ(other.log_in({.initiator = "iqn.2026-11.io.lockstep:second"}), "");
  server.storage.hold = true;
  for (int i = 0; i < 3; ++i) initiator.send(initiator.read10(0, 1));
  other.send(other.read10(0, 1));
  ASSERT_TRUE(eventually([&] { return server.storage.held == 4; }));
  initiator.send(initiator.task_management(TaskManagement::abort_task_set));
  server.release_held();
  expect_result(TaskManagementResult::complete);
  const auto in = other.receive();
  ASSERT_TRUE(in);
  EXPECT_EQ(static_cast<int>(in->opcode()), static_cast<int>(Opcode::scsi_data_in));
}

TEST_F(SessionTaskManagement, ALogicalUnitResetReachesEverySessionAndTellsTheUnitOnce) {
  RawInitiator other(server.address);  // on the other reactor
  ASSERT_EQ(other.log_in({.initiator = "iqn.2026-11.io.lockstep:second"}), "");
  const auto waiting = other.write10(0, 8);
  other.send(waiting);
  ASSERT_TRUE(other.receive());  // the R2T
  server.storage.hold = true;
  initiator.send(initiator.read10(0, 1));
  ASSERT_TRUE(eventually([&] { return server.storage.held == 1; }));
  initiator.send(initiator.task_management(TaskManagement::logical_unit_reset));
  const auto ended = other.receive();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->as<ScsiResponseHeader>().status, static_cast<std::uint8_t>(scsi::Status::task_aborted));
  EXPECT_EQ(server.storage.resets, 0);
  server.release_held();
  expect_result(TaskManagementResult::complete);
  EXPECT_EQ(server.storage.resets, 1);
  expect_only_a_nop();
}

TEST_F(SessionTaskManagement, AResetWaitsForTheOtherSessionsCommands) {
  RawInitiator other(server.address);
  ASSERT_EQ(other.log_in({.initiator = "iqn.2026-11.io.lockstep:second"}), "");
  server.storage.hold = true;
  other.send(other.read10(0, 1));
  ASSERT_TRUE(eventually([&] { return server.storage.held == 1; }));
  initiator.send(initiator.task_management(TaskManagement::target_warm_reset));
  expect_only_a_nop();
  EXPECT_EQ(server.storage.resets, 0);
  server.release_held();
  ASSERT_TRUE(other.receive());  // it ended as it would have
  expect_result(TaskManagementResult::complete);
}

/// Each time it waits for what the other host has there, and its own end does not end that.
TEST(SessionTaskManagementOfOne, WhoComesAgainAndAgainWaitsForOthersCommandsABoundedNumberOfTimes) {
  TestServer server({}, 1);
  RawInitiator other(server.address);
  ASSERT_EQ(other.log_in({.initiator = "iqn.2026-11.io.lockstep:second"}), "");
  server.storage.hold = true;
  other.send(other.read10(0, 1));
  ASSERT_TRUE(eventually([&] { return server.storage.held == 1; }));
  std::size_t rejected = 0;
  for (int visit = 0; visit < 4; ++visit) {
    RawInitiator initiator(server.address);
    ASSERT_EQ(initiator.log_in(), "");
    for (std::size_t i = 0; i < 16; ++i) initiator.send(initiator.task_management(TaskManagement::logical_unit_reset));
    initiator.send(initiator.nop());
    for (;;) {
      const auto pdu = initiator.receive();
      ASSERT_TRUE(pdu);
      if (pdu->opcode() == Opcode::nop_in) break;
      EXPECT_EQ(pdu->as<TaskManagementResponseHeader>().response,
                static_cast<std::uint8_t>(TaskManagementResult::rejected));
      ++rejected;
    }
  }
  EXPECT_EQ(rejected + 32, 4u * 16);
  RawInitiator third(server.address);
  ASSERT_EQ(third.log_in({.initiator = "iqn.2026-11.io.lockstep:third"}), "");
  third.send(third.task_management(TaskManagement::logical_unit_reset));
  server.release_held();
  const auto answer = third.receive();
  ASSERT_TRUE(answer) << "another one's is its own affair";
  EXPECT_EQ(answer->as<TaskManagementResponseHeader>().response,
            static_cast<std::uint8_t>(TaskManagementResult::complete));
  RawInitiator again(server.address);
  ASSERT_EQ(again.log_in(), "");
  again.send(again.task_management(TaskManagement::logical_unit_reset));
  const auto now = again.receive();
  ASSERT_TRUE(now);
  EXPECT_EQ(now->as<TaskManagementResponseHeader>().response,
            static_cast<std::uint8_t>(TaskManagementResult::complete));
}

TEST_F(SessionTaskManagement, AUnitThatIsNotThereIsNamed) {
  auto request = initiator.task_management(TaskManagement::logical_unit_reset);
  request.lun = std::uint64_t{5} << 48;
  initiator.send(request);
  expect_result(TaskManagementResult::lun_does_not_exist);
}

TEST_F(SessionTaskManagement, AColdResetEndsTheInitiatorsOwnSessionsAndNoOthers) {
  RawInitiator own(server.address), other(server.address);
  ASSERT_EQ(own.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
  ASSERT_EQ(other.log_in({.initiator = "iqn.2026-11.io.lockstep:second"}), "");
  initiator.send(initiator.task_management(TaskManagement::target_cold_reset));
  expect_result(TaskManagementResult::complete);
  EXPECT_TRUE(initiator.is_closed());
  EXPECT_TRUE(own.is_closed());
  EXPECT_TRUE(eventually([&] { return server.server->sessions().size() == 1; }));
  other.send(other.read10(0, 1));
  const auto read = other.receive();
  EXPECT_TRUE(read && read->opcode() == Opcode::scsi_data_in);
}

TEST_F(SessionTaskManagement, NothingThatAnInitiatorCannotReachIsResetByIt) {
  server.storage.put_out_of_reach(kInitiator, 0);
  RawInitiator other(server.address);
  RawOptions theirs;
  theirs.initiator = "iqn.2026-11.io.lockstep:second";
  theirs.offers.initial_r2t = true;
  theirs.offers.immediate_data = false;
  ASSERT_EQ(other.log_in(theirs), "");
  const auto data = bytes_pattern(4096, 1);
  for (const auto function : {TaskManagement::logical_unit_reset, TaskManagement::clear_task_set,
                              TaskManagement::target_warm_reset, TaskManagement::target_cold_reset}) {
    const auto write = other.write10(0, 8);
    other.send(write);
    const auto r2t = other.receive();
    ASSERT_TRUE(r2t && r2t->opcode() == Opcode::r2t);
    RawInitiator stranger(server.address);
    ASSERT_EQ(stranger.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
    stranger.send(stranger.task_management(function));
    const auto answer = stranger.receive();
    ASSERT_TRUE(answer && answer->opcode() == Opcode::task_management_response);
    other.send(other.data_out(write.task_tag, r2t->as<R2tHeader>().transfer_tag, 0, 0, true), data);
    const auto status = other.receive();
    ASSERT_TRUE(status);
    EXPECT_EQ(status->as<ScsiResponseHeader>().status, 0) << static_cast<int>(function);
  }
}

TEST_F(SessionTaskManagement, FunctionsThatWeLackAreRefused) {
  initiator.send(initiator.task_management(TaskManagement::clear_aca));
  expect_result(TaskManagementResult::not_supported);
  initiator.send(initiator.task_management(static_cast<TaskManagement>(8)));
  expect_result(TaskManagementResult::reassignment_not_supported);
  initiator.send(initiator.task_management(static_cast<TaskManagement>(99)));
  expect_result(TaskManagementResult::not_supported);
}

TEST_F(SessionTaskManagement, EachOfManyAbortsAtOnceIsAnsweredWhenItsCommandHasEnded) {
  server.storage.hold = true;
  std::vector<ScsiCommandHeader> reads;
  for (int i = 0; i < 20; ++i) {
    reads.push_back(initiator.read10(0, 1));
    initiator.send(reads.back());
  }
  ASSERT_TRUE(eventually([&] { return server.storage.held == 20; }));
  for (const auto& read : reads) {
    initiator.send(initiator.task_management(TaskManagement::abort_task, read.task_tag, read.cmd_sn));
  }
  initiator.send(initiator.task_management(TaskManagement::clear_aca, reads[0].task_tag));
  expect_result(TaskManagementResult::not_supported);  // all of them have come by then
  server.release_held();
  int data = 0, complete = 0;
  for (int i = 0; i < 20; ++i) {
    const auto pdu = initiator.receive();
    ASSERT_TRUE(pdu);
    ++(pdu->opcode() == Opcode::scsi_data_in ? data : complete);
  }
  EXPECT_EQ(data, 0);
  EXPECT_EQ(complete, 20);
}

}  // namespace
}  // namespace lockstep::test
