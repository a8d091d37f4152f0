// Writes that end while something still writes to the memory of their data: the memory is given back, and whoever waits
// for their end is told, when that is over and not before.
#include <gtest/gtest.h>

#include "tests/unit/iscsi_session/core_session.hpp"
#include "tests/unit/iscsi_session/late_transfers.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using scsi::TaskManagement;

/// Pulls the data of writes into memory of its own; what it gives back must not be written any more.
class PullingDevice final : public PlainDevice {
 public:
  void on_nexus_closed(scsi::Nexus&) override { EXPECT_TRUE(std::ranges::all_of(memory, is_given_back)); }
  void execute(scsi::Command& command) override {
    command.wanted_out = command.expected_out;
    std::ranges::fill(memory, std::byte{0});
    command.pull(std::span(memory).first(command.expected_out), [this, &command](std::error_code error) {
      (error ? failed : whole)++;
      std::ranges::fill(memory, kGivenBack);
      command.complete();
    });
  }
  void abort(scsi::Command&) override { ADD_FAILURE() << "a pull that is under way ends with an error instead"; }

  static constexpr std::byte kGivenBack{0xDD};
  static bool is_given_back(std::byte byte) { return byte == kGivenBack; }
  std::vector<std::byte> memory{std::vector<std::byte>(4096, kGivenBack)};
  int failed = 0, whole = 0;
};

class LateData : public CoreSession {
 protected:
  LateData() {
    auto late = std::make_unique<LateTransfers>();
    transfers = late.get();
    connect(device, fake_transport(stream, resources.pdus, protocol), std::move(late));
    log_in({});
    feed(write(4096));
    const auto asked = answers();
    EXPECT_EQ(asked.size(), 1u);
    if (!asked.empty()) r2t = header_as<R2tHeader>(asked[0]);
  }
  ~LateData() override { end(); }

  void expect_held() {
    EXPECT_TRUE(transfers->holds());
    EXPECT_EQ(device.failed + device.whole, 0) << "its memory was given back under a transfer";
  }
  void let_go() {
    transfers->let_go();
    EXPECT_EQ(device.failed, 1);
    EXPECT_EQ(device.whole, 0);
  }

  PullingDevice device;
  LateTransfers* transfers = nullptr;
  R2tHeader r2t{};
};

TEST_F(LateData, AnAbortedWritesMemoryStaysUntilNothingWritesToItAndTheAbortIsAnsweredAfter) {
  manage(TaskManagement::abort_task, tag);
  expect_held();
  expect_answers({});
  let_go();
  expect_answers({Opcode::task_management_response});
}

TEST_F(LateData, AWriteThatIsEndedTwiceIsToldOnce) {
  manage(TaskManagement::abort_task, tag);
  manage(TaskManagement::abort_task_set);
  manage(TaskManagement::logical_unit_reset);
  connection->quiesce({}, [] {});
  expect_held();
  let_go();
  expect_answers(
      {Opcode::task_management_response, Opcode::task_management_response, Opcode::task_management_response});
}

TEST_F(LateData, AResetOfAnotherSessionWaitsUntilNothingWritesToTheMemory) {
  bool quiesced = false;
  connection->quiesce({}, [&] { quiesced = true; });
  expect_held();
  EXPECT_FALSE(quiesced);
  expect_answers({});
  let_go();
  EXPECT_TRUE(quiesced);
  const auto answer = answers();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(header_as<ScsiResponseHeader>(answer[0]).status, static_cast<std::uint8_t>(scsi::Status::task_aborted));
}

TEST_F(LateData, AWriteWhoseDataIsWrongIsAnsweredWhenNothingWritesToItsMemory) {
  auto wrong = make_header<DataOutHeader>(Opcode::scsi_data_out, kFinal);
  wrong.task_tag = r2t.task_tag;
  wrong.transfer_tag = r2t.transfer_tag;
  wrong.buffer_offset = 512;
  feed(pdu(bytes_of(wrong), std::vector<std::byte>(512)));
  expect_held();
  expect_answers({});
  let_go();
  const auto bytes = gathered();
  ASSERT_GE(bytes.size(), kBhsSize);
  EXPECT_EQ(header_as<ScsiResponseHeader>(bhs_at(bytes, 0)).status,
            static_cast<std::uint8_t>(scsi::Status::check_condition));
}

TEST_F(LateData, ALogoutIsAnsweredWhenNothingOfTheSessionsWritesCanLandAnyMore) {
  auto logout = make_header<LogoutRequestHeader>(Opcode::logout_request, kFinal);
  logout.opcode |= kImmediate;
  logout.cmd_sn = cmd_sn.value();
  feed(pdu(bytes_of(logout)));
  expect_held();
  expect_answers({});
  let_go();
  expect_answers({Opcode::logout_response});
  EXPECT_TRUE(stream.closed);
}

TEST_F(LateData, WhatIsHeldWhenTheTransportEndsIsLetGoWithItOnce) {
  manage(TaskManagement::abort_task, tag);
  expect_held();
  connection->reset("The test says so.");
  EXPECT_EQ(device.failed, 1);
  EXPECT_EQ(host->closed_count, 1);
}

TEST_F(LateData, WhatIsBrokenWhenTheTransportEndsIsLetGoWithItOnce) {
  bool quiesced = false;
  connection->quiesce({}, [&] { quiesced = true; });
  expect_held();
  connection->reset("The test says so.");
  EXPECT_EQ(device.failed, 1);
  EXPECT_TRUE(quiesced);
  EXPECT_EQ(host->closed_count, 1);
}

}  // namespace
}  // namespace lockstep::test
