// Commands that are given up while the device server is at work on them: it is told, once, and never afterwards.
#include "tests/unit/iscsi_session/holding_device.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using iscsi_target::kMaxTaskManagement;
using scsi::TaskManagement;

using GivenUp = HoldingSession;

TEST_F(GivenUp, AnAbortedTaskEndsAtOnceWhereTheDeviceServerCanEndIt) {
  const auto task = begin_write();
  manage(TaskManagement::abort_task, task);
  EXPECT_EQ(device.given_up, 1);
  expect_answers({Opcode::task_management_response});
}

TEST_F(GivenUp, WhatTheDeviceServerCannotEndIsWaitedForAndToldOnce) {
  device.ends_at_once = false;
  const auto task = begin_write();
  manage(TaskManagement::abort_task, task);
  manage(TaskManagement::abort_task_set);
  expect_answers({});
  connection->quiesce({}, [] {});
  EXPECT_EQ(device.given_up, 1);
  device.release_all();
  expect_answers({Opcode::task_management_response, Opcode::task_management_response});
}

TEST_F(GivenUp, TheResetsOfThisSessionReachEveryCommand) {
  begin_write();
  begin_write();
  manage(TaskManagement::logical_unit_reset);
  EXPECT_EQ(device.given_up, 2);
  expect_answers({Opcode::task_management_response});
}

std::vector<TaskManagementResult> results(const std::vector<iscsi::Bhs>& headers) {
  std::vector<TaskManagementResult> all;
  for (const iscsi::Bhs& header : headers) {
    all.push_back(TaskManagementResult(header_as<TaskManagementResponseHeader>(header).response));
  }
  return all;
}

/// Each takes memory at the device server for as long as the mirror lets nothing pass.
TEST_F(GivenUp, ResetsThatAreNotInForceYetAreBounded) {
  device.holds_resets = true;
  for (int i = 0; i < 100; ++i) manage(TaskManagement::logical_unit_reset);
  EXPECT_EQ(device.resets.size(), kMaxTaskManagement);
  const auto refused = results(answers());
  EXPECT_EQ(refused, std::vector(100 - kMaxTaskManagement, TaskManagementResult::rejected));
  for (auto& done : std::exchange(device.resets, {})) done(scsi::Managed::complete);
  EXPECT_EQ(results(answers()), std::vector(kMaxTaskManagement, TaskManagementResult::complete));
  manage(TaskManagement::logical_unit_reset);
  EXPECT_EQ(device.resets.size(), 1u);
  device.resets.front()(scsi::Managed::failed);
  EXPECT_EQ(results(answers()), std::vector{TaskManagementResult::rejected}) << "its host is told that it was no use";
}

/// ESXi aborts each late command by itself, and resets the unit when that is no use.
TEST_F(GivenUp, EachCommandOfASessionMayBeAbortedAndTheUnitBeResetThen) {
  device.ends_at_once = false;
  std::vector<std::uint32_t> tasks;
  for (std::uint32_t i = 0; i < settings.queue_depth; ++i) tasks.push_back(begin_write());
  ASSERT_EQ(device.held.size(), tasks.size());
  for (const std::uint32_t task : tasks) manage(TaskManagement::abort_task, task);
  manage(TaskManagement::logical_unit_reset);
  EXPECT_EQ(device.given_up, static_cast<int>(tasks.size()));
  EXPECT_EQ(results(answers()), std::vector<TaskManagementResult>{}) << "they wait for the device server";
  device.release_all();
  EXPECT_EQ(results(answers()), std::vector(tasks.size() + 1, TaskManagementResult::complete));
}

TEST_F(GivenUp, ACommandThatIsAbortedAgainIsWaitedForOnce) {
  device.ends_at_once = false;
  const auto task = begin_write();
  for (int i = 0; i < 100; ++i) manage(TaskManagement::abort_task, task);
  EXPECT_EQ(device.given_up, 1);
  EXPECT_EQ(results(answers()), std::vector(100 - kMaxTaskManagement, TaskManagementResult::rejected));
  device.release_all();
  EXPECT_EQ(results(answers()), std::vector(kMaxTaskManagement, TaskManagementResult::complete));
}

TEST_F(GivenUp, AResetThatAnotherSessionAskedForEndsThemWithTaskAborted) {
  begin_write();
  bool quiesced = false;
  connection->quiesce({}, [&] { quiesced = true; });
  EXPECT_TRUE(quiesced);
  const auto headers = answers();
  ASSERT_EQ(headers.size(), 1u);
  EXPECT_EQ(header_as<ScsiResponseHeader>(headers[0]).status, static_cast<std::uint8_t>(scsi::Status::task_aborted));
}

TEST_F(GivenUp, WhatAResetOfAnotherSessionCouldNotEndKeepsItsStatus) {
  device.ends_at_once = false;
  begin_write();
  bool quiesced = false;
  connection->quiesce({}, [&] { quiesced = true; });
  EXPECT_FALSE(quiesced);
  device.release_all();
  EXPECT_TRUE(quiesced);
  const auto headers = answers();
  ASSERT_EQ(headers.size(), 1u);
  EXPECT_EQ(header_as<ScsiResponseHeader>(headers[0]).status, static_cast<std::uint8_t>(scsi::Status::good));
}

TEST_F(GivenUp, TheResetsOfOtherSessionsRefuseNoneOfThisOnes) {
  device.ends_at_once = false;
  const std::uint32_t hangs = begin_write();
  std::size_t quiesced = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const iscsi_target::TaskScope scope{.units = std::vector<std::uint64_t>{0, i}, .sequence = {}};
    connection->quiesce(scope, [&] { ++quiesced; });
  }
  manage(TaskManagement::abort_task, hangs);
  EXPECT_EQ(results(answers()), std::vector<TaskManagementResult>{}) << "it waits for the device server";
  device.release_all();
  EXPECT_EQ(results(answers()), std::vector{TaskManagementResult::complete});
  EXPECT_EQ(quiesced, 100u);
}

TEST_F(GivenUp, EachResetOfAnotherSessionWaitsForWhatWasThereBeforeIt) {
  device.ends_at_once = false;
  std::vector<int> quiesced;
  for (int i = 0; i < 3; ++i) {
    begin_write();
    connection->quiesce({}, [&, i] { quiesced.push_back(i); });
  }
  std::swap(device.held.front(), device.held.back());
  device.release_one();  // the first write
  EXPECT_EQ(quiesced, std::vector{0});
  begin_write();  // nobody waits for this one
  std::ranges::rotate(device.held, device.held.end() - 1);
  device.release_one();
  device.release_one();
  EXPECT_EQ(quiesced, (std::vector{0, 1, 2}));
}

TEST_F(GivenUp, TheEndOfTheSessionGivesUpWhatIsLeft) {
  device.ends_at_once = false;
  begin_write();
  begin_write();
  connection->reset("The test ends it.");
  EXPECT_EQ(device.given_up, 2);
  EXPECT_EQ(host->closed_count, 0) << "its commands are not over";
  device.release_all();
  EXPECT_EQ(host->closed_count, 1);
}

TEST_F(GivenUp, AWriteThatWaitsForItsDataIsToldByItsPull) {
  feed(write(512));
  (void)answers();
  manage(TaskManagement::abort_task, tag);
  EXPECT_EQ(device.given_up, 0);
  expect_answers({Opcode::task_management_response});
}

}  // namespace
}  // namespace lockstep::test
