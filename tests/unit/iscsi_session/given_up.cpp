// Commands that are given up while the device server is at work on them: it is told, once, and never afterwards.
#include "tests/unit/iscsi_session/core_session.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using scsi::TaskManagement;

/// Pulls the data of writes and holds them then, until they are given up or told to end.
class HoldingDevice final : public scsi::DeviceServer {
 public:
  explicit HoldingDevice(engine::BufferPool& pool) : pool_(pool) {}
  void on_nexus_opened(scsi::Nexus&) override {}
  void on_nexus_closed(scsi::Nexus&) override { EXPECT_TRUE(held.empty()); }
  void execute(scsi::Command& command) override {
    ++executed;
    command.wanted_out = command.expected_out;
    buffer_ = pool_.allocate(4096);
    command.pull(buffer_.span().first(command.expected_out), [this, &command](std::error_code error) {
      if (error) return command.complete();
      held.push_back(&command);
    });
  }
  void abort(scsi::Command& command) override {
    given_up.push_back(&command);
    EXPECT_EQ(std::ranges::count(held, &command), 1) << "not at work on it";
    EXPECT_EQ(std::ranges::count(given_up, &command), 1) << "told twice";
    if (!ends_at_once) return;
    std::erase(held, &command);
    command.status = scsi::Status::task_aborted;
    command.complete();
  }
  bool task_management(scsi::Nexus&, TaskManagement, std::uint64_t) override { return true; }
  void release_all() {
    for (scsi::Command* command : std::exchange(held, {})) command->complete();
  }

  std::vector<scsi::Command*> held, given_up;
  bool ends_at_once = true;
  int executed = 0;

 private:
  engine::BufferPool& pool_;
  engine::Buffer buffer_;
};

class GivenUp : public CoreSession {
 protected:
  GivenUp() {
    connect(device);
    log_in({});
  }
  ~GivenUp() override {
    if (connection) end();
  }
  /// A write whose data is in, so that the device server is at work on it.
  std::uint32_t begin_write() {
    feed(write(512, std::vector<std::byte>(512)));
    (void)answers();
    return tag;
  }
  void manage(TaskManagement function, std::uint32_t referenced = 0) {
    auto header = make_header<TaskManagementRequestHeader>(Opcode::task_management_request);
    header.opcode |= kImmediate;
    header.function = static_cast<std::uint8_t>(kFinal | static_cast<std::uint8_t>(function));
    header.task_tag = 900;
    header.referenced_tag = referenced;
    header.ref_cmd_sn = cmd_sn.value() - 1;
    header.cmd_sn = cmd_sn.value();
    feed(pdu(bytes_of(header)));
  }
  void expect_answers(const std::vector<Opcode>& wanted) {
    std::vector<Opcode> got;
    for (const Bhs& header : answers()) got.push_back(opcode_of(header_as<AnyHeader>(header).opcode));
    EXPECT_EQ(got, wanted);
  }

  HoldingDevice device{pool};
};

TEST_F(GivenUp, AnAbortedTaskEndsAtOnceWhereTheDeviceServerCanEndIt) {
  const auto task = begin_write();
  manage(TaskManagement::abort_task, task);
  EXPECT_EQ(device.given_up.size(), 1u);
  expect_answers({Opcode::task_management_response});
}

TEST_F(GivenUp, WhatTheDeviceServerCannotEndIsWaitedForAndToldOnce) {
  device.ends_at_once = false;
  const auto task = begin_write();
  manage(TaskManagement::abort_task, task);
  manage(TaskManagement::abort_task_set);
  expect_answers({});
  connection->quiesce({}, [] {});
  EXPECT_EQ(device.given_up.size(), 1u);
  device.release_all();
  expect_answers({Opcode::task_management_response, Opcode::task_management_response});
}

TEST_F(GivenUp, TheResetsOfThisSessionReachEveryCommand) {
  begin_write();
  begin_write();
  manage(TaskManagement::logical_unit_reset);
  EXPECT_EQ(device.given_up.size(), 2u);
  expect_answers({Opcode::task_management_response});
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

TEST_F(GivenUp, TheEndOfTheSessionGivesUpWhatIsLeft) {
  device.ends_at_once = false;
  begin_write();
  begin_write();
  connection->reset("The test ends it.");
  EXPECT_EQ(device.given_up.size(), 2u);
  EXPECT_EQ(host->closed_count, 0) << "its commands are not over";
  device.release_all();
  EXPECT_EQ(host->closed_count, 1);
}

TEST_F(GivenUp, AWriteThatWaitsForItsDataIsToldByItsPull) {
  feed(write(512));
  (void)answers();
  manage(TaskManagement::abort_task, tag);
  EXPECT_TRUE(device.given_up.empty());
  expect_answers({Opcode::task_management_response});
}

}  // namespace
}  // namespace lockstep::test
