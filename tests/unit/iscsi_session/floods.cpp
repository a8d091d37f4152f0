// One host asks for all the memory there is and does nothing with it: the others don't notice.
#include <algorithm>

#include "engine/base/byte_order.hpp"
#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using Kind = iscsi_target::SessionEvent::Kind;

constexpr std::uint32_t kMiB = 1 << 20;

/// Its data is asked for, all of it.
RawOptions solicited(const std::string& name) {
  RawOptions options;
  options.initiator = name;
  options.offers.initial_r2t = true;
  options.offers.immediate_data = false;
  return options;
}

ScsiCommandHeader io16(RawInitiator& initiator, std::uint8_t opcode, std::uint32_t bytes) {
  const bool writes = opcode == 0x8A;
  auto header = initiator.command(opcode, 0, 0, kFinal | (writes ? kWrite : kRead), bytes);
  header.cdb = {};
  header.cdb[0] = opcode;
  engine::store_be<std::uint32_t>(header.cdb.data() + 10, bytes / kBlock);
  return header;
}
ScsiCommandHeader write16(RawInitiator& initiator, std::uint32_t bytes) { return io16(initiator, 0x8A, bytes); }
ScsiCommandHeader read16(RawInitiator& initiator, std::uint32_t bytes) { return io16(initiator, 0x88, bytes); }
/// As if the initiator had room for all there could be.
ScsiCommandHeader greedy_read16(RawInitiator& initiator, std::uint32_t bytes) {
  auto header = read16(initiator, bytes);
  header.expected_length = 0xFFFFFFFF;
  return header;
}

/// What comes for it, until its status.
scsi::Status status_of(RawInitiator& initiator) {
  for (;;) {
    const auto pdu = initiator.receive();
    EXPECT_TRUE(pdu) << (initiator.timed_out() ? "silence" : "closed");
    if (!pdu) return scsi::Status::task_aborted;
    if (pdu->opcode() == Opcode::scsi_response) return static_cast<scsi::Status>(pdu->as<ScsiResponseHeader>().status);
    if (pdu->opcode() != Opcode::scsi_data_in) continue;
    const auto data = pdu->as<DataInHeader>();
    if (data.flags & kDataInStatus) return static_cast<scsi::Status>(data.status);
  }
}

/// Sends what an R2T asks for.
void send_asked(RawInitiator& initiator, const R2tHeader& r2t, std::span<const std::byte> data) {
  constexpr std::uint32_t kPiece = 128 * 1024;
  for (std::uint32_t at = 0, number = 0; at < r2t.desired_length; ++number) {
    const std::uint32_t length = std::min<std::uint32_t>(kPiece, r2t.desired_length - at);
    const bool last = at + length == r2t.desired_length;
    initiator.send(initiator.data_out(r2t.task_tag, r2t.transfer_tag, number, r2t.buffer_offset + at, last),
                   data.subspan(r2t.buffer_offset + at, length));
    at += length;
  }
}

struct Outcome {
  std::size_t good = 0;
  std::size_t from_the_start = 0;  ///< R2Ts for data that had been sent unasked
};

/// Sends the data of `writes` writes, each as it is asked for.
Outcome send_as_asked(RawInitiator& initiator, std::size_t writes, std::span<const std::byte> data) {
  Outcome outcome;
  for (std::size_t ended = 0; ended < writes;) {
    const auto pdu = initiator.receive();
    EXPECT_TRUE(pdu) << (initiator.timed_out() ? "silence" : "closed");
    if (!pdu) return outcome;
    if (pdu->opcode() == Opcode::scsi_response) {
      ++ended;
      outcome.good += pdu->as<ScsiResponseHeader>().status == static_cast<std::uint8_t>(scsi::Status::good);
    } else if (pdu->opcode() == Opcode::r2t) {
      const auto r2t = pdu->as<R2tHeader>();
      outcome.from_the_start += r2t.buffer_offset == 0;
      send_asked(initiator, r2t, data);
    }
  }
  return outcome;
}

struct Floods : testing::Test {
  TestServer server{{}, 1, std::size_t{256} << 20};
  RawInitiator flood{server.address}, honest{server.address};

  void log_in() {
    ASSERT_EQ(flood.log_in(solicited("iqn.2026-11.io.lockstep:flood")), "");
    ASSERT_EQ(honest.log_in(solicited("iqn.2026-11.io.lockstep:honest")), "");
  }
  /// What was sent has been dealt with.
  static void settle(RawInitiator& initiator) {
    initiator.send(initiator.nop());
    for (auto pdu = initiator.receive(); pdu && pdu->opcode() != Opcode::nop_in;) pdu = initiator.receive();
  }
  void expect_honest_io() {
    for (const std::uint32_t bytes : {4096u, 64 * 1024u, kMiB, 4 * kMiB, 32 * kMiB}) {
      const auto data = bytes_pattern(bytes, 1);
      honest.send(write16(honest, bytes));
      EXPECT_EQ(send_as_asked(honest, 1, data).good, 1u) << bytes;
      honest.send(read16(honest, bytes));
      EXPECT_EQ(status_of(honest), scsi::Status::good) << bytes;
    }
  }
};

TEST_F(Floods, WritesThatAreAnnouncedAndNotSentLeaveRoomForOthers) {
  log_in();
  RawInitiator second(server.address);
  ASSERT_EQ(second.log_in(solicited("iqn.2026-11.io.lockstep:second")), "");
  for (RawInitiator* greedy : {&flood, &second}) {
    for (int i = 0; i < 128; ++i) greedy->send(write16(*greedy, kMiB));
    settle(*greedy);
  }
  expect_honest_io();
}

TEST_F(Floods, TheLargestWritesThatAreAnnouncedAndNotSentLeaveRoomForOthers) {
  log_in();
  for (int i = 0; i < 9; ++i) flood.send(write16(flood, 32 * kMiB));
  settle(flood);
  expect_honest_io();
}

TEST_F(Floods, ReadsWhoseDataIsNotTakenLeaveRoomForOthers) {
  log_in();
  for (int i = 0; i < 9; ++i) flood.send(read16(flood, 32 * kMiB));
  for (int i = 0; i < 100; ++i) flood.send(read16(flood, kMiB));
  EXPECT_TRUE(eventually([&] { return server.storage.executed >= 10; }));
  expect_honest_io();
}

TEST_F(Floods, ReadsOfWhichMoreIsExpectedThanABufferTakesLeaveRoomForOthers) {
  log_in();
  for (const std::uint32_t bytes : {kMiB, 64 * 1024u, 32 * kMiB}) {
    for (int i = 0; i < 42; ++i) flood.send(greedy_read16(flood, bytes));
  }
  EXPECT_TRUE(eventually([&] { return server.storage.executed >= 1; }));
  expect_honest_io();
}

TEST(SmallPool, ACommandThatNeedsMoreThanThereEverIsIsToldToComeAgainUnexecuted) {
  TestServer server({}, 1, std::size_t{32} << 20);
  RawOptions early;
  early.offers.immediate_data = true;
  RawInitiator host(server.address);
  ASSERT_EQ(host.log_in(early), "");
  const int executed = server.storage.executed;
  host.send(read16(host, 32 * kMiB));
  EXPECT_EQ(status_of(host), scsi::Status::busy);
  host.send(write16(host, 32 * kMiB), bytes_pattern(host.parameters.first_burst, 1));
  EXPECT_EQ(status_of(host), scsi::Status::busy);
  EXPECT_EQ(server.storage.executed, executed);
  host.send(read16(host, 4 * kMiB));
  EXPECT_EQ(status_of(host), scsi::Status::good) << "another finds the memory there is";
}

TEST_F(Floods, NoWriteIsToldToComeAgainHoweverManyAreUnderWay) {
  log_in();
  constexpr std::size_t kWrites = 128;
  for (std::size_t i = 0; i < kWrites; ++i) honest.send(write16(honest, 4 * kMiB));
  EXPECT_EQ(send_as_asked(honest, kWrites, bytes_pattern(4 * kMiB, 2)).good, kWrites);
}

TEST_F(Floods, EarlyDataThatFindsNoRoomIsAskedForAgain) {
  RawOptions early;
  early.initiator = "iqn.2026-11.io.lockstep:early";
  ASSERT_EQ(honest.log_in(early), "");
  const auto data = bytes_pattern(kMiB, 3);
  const std::uint32_t immediate = std::min(honest.parameters.max_send, honest.parameters.first_burst);
  constexpr std::size_t kWrites = 128;
  for (std::size_t i = 0; i < kWrites; ++i) honest.send(write16(honest, kMiB), std::span(data).first(immediate));
  const Outcome outcome = send_as_asked(honest, kWrites, data);
  EXPECT_EQ(outcome.good, kWrites);
  EXPECT_NE(outcome.from_the_start, 0u);
  const std::lock_guard lock(server.storage.mutex);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), server.storage.data.begin()));
}

/// Its initiator may have stood still for a moment, and sends again what finds the unit busy; QEMU's takes an aborted
/// command for the last word.
TEST_F(Floods, AStalledWriteIsToldToComeAgainWhenAnotherHostWaitsForItsMemory) {
  log_in();
  std::vector<std::unique_ptr<RawInitiator>> hosts;
  // Of the largest there is room for three.
  for (int i = 0; i < 3; ++i) {
    hosts.push_back(std::make_unique<RawInitiator>(server.address, "127.0.0." + std::to_string(10 + i)));
    ASSERT_EQ(hosts.back()->log_in(solicited("iqn.2026-11.io.lockstep:flood" + std::to_string(i))), "");
    hosts.back()->send(write16(*hosts.back(), 32 * kMiB));
    settle(*hosts.back());
  }
  honest.send(write16(honest, 32 * kMiB));
  EXPECT_EQ(send_as_asked(honest, 1, bytes_pattern(32 * kMiB, 4)).good, 1u);
  const auto told = std::ranges::count_if(hosts, [](const auto& host) {
    host->send(host->nop());
    for (auto pdu = host->receive(); pdu; pdu = host->receive()) {
      if (pdu->opcode() == Opcode::nop_in) return false;
      if (pdu->opcode() != Opcode::scsi_response) continue;
      EXPECT_EQ(pdu->template as<ScsiResponseHeader>().status, static_cast<std::uint8_t>(scsi::Status::busy));
      EXPECT_TRUE(pdu->data.empty());
      return true;
    }
    return false;
  });
  EXPECT_GE(told, 1);
  EXPECT_TRUE(server.reasons(Kind::closed).empty()) << "a session ended";
}

TEST_F(Floods, AStalledWriteIsLeftAloneWhileNobodyWaits) {
  log_in();
  flood.send(write16(flood, 32 * kMiB));
  settle(flood);
  expect_honest_io();
  EXPECT_TRUE(server.reasons(Kind::closed).empty());
}

TEST_F(Floods, WhoTakesNoAnswersLosesItsSessionWhenAnotherHostWaitsForTheirMemory) {
  std::vector<std::unique_ptr<RawInitiator>> hosts;
  for (int i = 0; i < 3; ++i) {
    hosts.push_back(std::make_unique<RawInitiator>(server.address, "127.0.0." + std::to_string(10 + i)));
    ASSERT_EQ(hosts.back()->log_in(solicited("iqn.2026-11.io.lockstep:flood" + std::to_string(i))), "");
    hosts.back()->send(read16(*hosts.back(), 32 * kMiB));
  }
  EXPECT_TRUE(eventually([&] { return server.storage.completed == 3; }));
  ASSERT_EQ(honest.log_in(solicited("iqn.2026-11.io.lockstep:honest")), "");
  honest.send(read16(honest, 32 * kMiB));
  EXPECT_EQ(status_of(honest), scsi::Status::good);
  EXPECT_EQ(server.awaited_reasons(Kind::closed).front(),
            "The initiator takes no answers while others wait for the memory that they are in.");
}

TEST_F(Floods, ACommandThatWaitsForMemoryCanBeAborted) {
  log_in();
  std::vector<ScsiCommandHeader> commands;
  for (int i = 0; i < 9; ++i) flood.send(commands.emplace_back(write16(flood, 32 * kMiB)));
  settle(flood);
  flood.send(flood.task_management(scsi::TaskManagement::abort_task, commands.back().task_tag, commands.back().cmd_sn));
  for (auto pdu = flood.receive(); pdu; pdu = flood.receive()) {
    if (pdu->opcode() != Opcode::task_management_response) continue;
    EXPECT_EQ(pdu->as<TaskManagementResponseHeader>().response, 0);
    return;
  }
  FAIL() << "no answer";
}

TEST_F(Floods, ACommandThatWaitsForMemoryEndsWithAnothersReset) {
  log_in();
  for (int i = 0; i < 9; ++i) flood.send(write16(flood, 32 * kMiB));
  settle(flood);
  honest.send(honest.task_management(scsi::TaskManagement::logical_unit_reset));
  const auto answer = honest.receive();
  ASSERT_TRUE(answer && answer->opcode() == Opcode::task_management_response);
  for (int ended = 0; ended < 9; ++ended) EXPECT_EQ(status_of(flood), scsi::Status::task_aborted);
}

}  // namespace
}  // namespace lockstep::test
