// Data transfer PDU by PDU: what a session sends for what it is sent.
#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

struct SessionData : testing::Test {
  explicit SessionData(iscsi_target::ServerOptions options = {}) : server(options, 1), initiator(server.address) {}

  void log_in(const RawOptions& options = {}) { ASSERT_EQ(initiator.log_in(options), ""); }
  ReceivedPdu expect(Opcode opcode) {
    const auto pdu = initiator.receive();
    if (!pdu) {
      ADD_FAILURE() << "no PDU";
      return {};
    }
    EXPECT_EQ(static_cast<int>(pdu->opcode()), static_cast<int>(opcode));
    return *pdu;
  }
  void expect_status(scsi::Status status) {
    EXPECT_EQ(expect(Opcode::scsi_response).as<ScsiResponseHeader>().status, static_cast<std::uint8_t>(status));
  }
  /// A check condition with that sense.
  void expect_sense(std::uint8_t key, std::uint8_t asc, std::uint8_t ascq) {
    const auto pdu = expect(Opcode::scsi_response);
    EXPECT_EQ(pdu.as<ScsiResponseHeader>().status, 2);
    ASSERT_GE(pdu.data.size(), 16u);
    EXPECT_EQ(std::to_integer<int>(pdu.data[2 + 2]), key);
    EXPECT_EQ(std::to_integer<int>(pdu.data[2 + 12]), asc);
    EXPECT_EQ(std::to_integer<int>(pdu.data[2 + 13]), ascq);
  }
  std::span<const std::byte> stored(std::uint32_t lba, std::size_t bytes) {
    return std::span(server.storage.data).subspan(lba * kBlock, bytes);
  }
  bool is_stored(std::uint32_t lba, std::span<const std::byte> bytes) {
    const auto have = stored(lba, bytes.size());
    return std::equal(bytes.begin(), bytes.end(), have.begin());
  }

  TestServer server;
  RawInitiator initiator;
};

TEST_F(SessionData, ImmediateDataAloneIsAWholeWrite) {
  log_in();
  const auto data = bytes_pattern(4096, 1);
  initiator.send(initiator.write10(3, 8), data);
  const auto pdu = expect(Opcode::scsi_response);
  const auto status = pdu.as<ScsiResponseHeader>();
  EXPECT_EQ(status.status, 0);
  EXPECT_EQ(status.flags, kFinal);
  EXPECT_EQ(status.stat_sn, initiator.exp_stat_sn.value());
  EXPECT_EQ(status.exp_cmd_sn, initiator.cmd_sn.value());
  EXPECT_EQ(status.max_cmd_sn, initiator.cmd_sn.value() + 127);
  EXPECT_TRUE(is_stored(3, data));
}

TEST_F(SessionData, AReadsStatusRidesOnItsLastData) {
  log_in();
  const auto data = bytes_pattern(4096, 2);
  std::copy(data.begin(), data.end(), server.storage.data.begin());
  initiator.send(initiator.read10(0, 8));
  const auto pdu = expect(Opcode::scsi_data_in);
  const auto in = pdu.as<DataInHeader>();
  EXPECT_EQ(in.flags, kFinal | kDataInStatus);
  EXPECT_EQ(in.status, 0);
  EXPECT_EQ(in.data_sn, 0u);
  EXPECT_EQ(pdu.data, data);
}

TEST_F(SessionData, ReadsAreCutBySegmentAndMarkedByBurst) {
  RawOptions options;
  options.offers.max_recv = 1536;
  options.offers.max_burst = 4096;
  options.offers.first_burst = 4096;
  log_in(options);
  initiator.send(initiator.read10(0, 20));  // 10240 bytes: bursts of 4096, 4096, 2048
  const std::vector<std::pair<std::uint32_t, bool>> wanted{{1536, false}, {1536, false}, {1024, true},  {1536, false},
                                                           {1536, false}, {1024, true},  {1536, false}, {512, true}};
  std::uint32_t offset = 0;
  for (std::uint32_t i = 0; i < wanted.size(); ++i) {
    const auto pdu = expect(Opcode::scsi_data_in);
    const auto in = pdu.as<DataInHeader>();
    EXPECT_EQ(pdu.data.size(), wanted[i].first) << i;
    EXPECT_EQ((in.flags & kFinal) != 0, wanted[i].second) << i;
    EXPECT_EQ((in.flags & kDataInStatus) != 0, i + 1 == wanted.size());
    EXPECT_EQ(in.data_sn, i);
    EXPECT_EQ(in.buffer_offset, offset);
    offset += wanted[i].first;
  }
}

TEST_F(SessionData, MoreReadThanExpectedIsCutAndCounted) {
  log_in();
  auto header = initiator.read10(0, 8);
  header.expected_length = 1000;
  initiator.send(header);
  const auto pdu = expect(Opcode::scsi_data_in);
  const auto in = pdu.as<DataInHeader>();
  EXPECT_EQ(pdu.data.size(), 1000u);
  EXPECT_EQ(in.flags, kFinal | kDataInStatus | kOverflow);
  EXPECT_EQ(in.residual, 3096u);
}

TEST_F(SessionData, LessReadThanExpectedIsCounted) {
  log_in();
  auto header = initiator.read10(0, 2);
  header.expected_length = 4096;
  initiator.send(header);
  const auto in = expect(Opcode::scsi_data_in).as<DataInHeader>();
  EXPECT_EQ(in.flags, kFinal | kDataInStatus | kUnderflow);
  EXPECT_EQ(in.residual, 3072u);
}

TEST_F(SessionData, SolicitedWritesAreAskedForBurstByBurst) {
  RawOptions options;
  options.offers.max_burst = 4096;
  options.offers.first_burst = 512;
  options.offers.max_outstanding_r2t = 1;
  options.offers.immediate_data = false;
  log_in(options);
  const auto data = bytes_pattern(10240, 3);
  const auto command = initiator.write10(5, 20);
  initiator.send(command);
  for (std::uint32_t i = 0, offset = 0; offset < data.size(); ++i) {
    const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
    EXPECT_EQ(r2t.task_tag, command.task_tag.value());
    EXPECT_EQ(r2t.r2t_sn, i);
    EXPECT_EQ(r2t.buffer_offset, offset);
    EXPECT_EQ(r2t.desired_length, std::min<std::size_t>(4096, data.size() - offset));
    EXPECT_EQ(r2t.stat_sn, initiator.exp_stat_sn.value());
    EXPECT_EQ(r2t.exp_cmd_sn, initiator.cmd_sn.value());
    const auto part = std::span(data).subspan(offset, r2t.desired_length);
    const std::size_t half = part.size() / 2;
    initiator.send(initiator.data_out(command.task_tag, r2t.transfer_tag, 0, offset, false), part.first(half));
    initiator.send(
        initiator.data_out(command.task_tag, r2t.transfer_tag, 1, offset + static_cast<std::uint32_t>(half), true),
        part.subspan(half));
    offset += r2t.desired_length;
  }
  const auto status = expect(Opcode::scsi_response).as<ScsiResponseHeader>();
  EXPECT_EQ(status.status, 0);
  EXPECT_EQ(status.exp_data_sn, 3u);
  EXPECT_TRUE(is_stored(5, data));
}

TEST_F(SessionData, SeveralSequencesMayBeAskedForAtOnce) {
  RawOptions options;
  options.offers.max_burst = 4096;
  options.offers.first_burst = 512;
  options.offers.max_outstanding_r2t = 3;
  options.offers.immediate_data = false;
  log_in(options);
  const auto data = bytes_pattern(16384, 4);
  const auto command = initiator.write10(5, 32);
  initiator.send(command);
  std::vector<R2tHeader> asked;
  for (int i = 0; i < 3; ++i) asked.push_back(expect(Opcode::r2t).as<R2tHeader>());
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& r2t = asked[i];
    EXPECT_EQ(r2t.buffer_offset, 4096 * i);
    initiator.send(initiator.data_out(command.task_tag, r2t.transfer_tag, 0, r2t.buffer_offset, true),
                   std::span(data).subspan(r2t.buffer_offset, r2t.desired_length));
    if (i == 0) asked.push_back(expect(Opcode::r2t).as<R2tHeader>());
  }
  expect_status(scsi::Status::good);
  EXPECT_TRUE(is_stored(5, data));
}

TEST_F(SessionData, ImmediateThenUnsolicitedThenSolicited) {
  RawOptions options;
  options.offers.first_burst = 8192;
  log_in(options);
  ASSERT_FALSE(initiator.parameters.initial_r2t);
  const auto data = bytes_pattern(20480, 5);
  const auto command = initiator.write10(9, 40, 0);  // F=0: unsolicited data follows
  initiator.send(command, std::span(data).first(2048));
  initiator.send(initiator.data_out(command.task_tag, kReservedTag, 0, 2048, false),
                 std::span(data).subspan(2048, 2048));
  initiator.send(initiator.data_out(command.task_tag, kReservedTag, 1, 4096, true),
                 std::span(data).subspan(4096, 4096));
  const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
  EXPECT_EQ(r2t.buffer_offset, 8192u);
  EXPECT_EQ(r2t.desired_length, 12288u);
  initiator.send(initiator.data_out(command.task_tag, r2t.transfer_tag, 0, 8192, true), std::span(data).subspan(8192));
  expect_status(scsi::Status::good);
  EXPECT_TRUE(is_stored(9, data));
}

TEST_F(SessionData, DataThatComesBeforeItIsWantedIsKept) {
  log_in();
  const auto data = bytes_pattern(20480, 6);
  auto command = initiator.write10(9, 40, 0);
  command.cdb[0] = RamDisk::kLateWrite10;
  initiator.send(command, std::span(data).first(2048));
  initiator.send(initiator.data_out(command.task_tag, kReservedTag, 0, 2048, true),
                 std::span(data).subspan(2048, 8192));
  const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
  EXPECT_EQ(r2t.buffer_offset, 10240u);
  initiator.send(initiator.data_out(command.task_tag, r2t.transfer_tag, 0, 10240, true),
                 std::span(data).subspan(10240));
  expect_status(scsi::Status::good);
  EXPECT_TRUE(is_stored(9, data));
}

TEST_F(SessionData, WithoutMemoryACommandWaitsAndItsEarlyDataIsAskedForAgain) {
  log_in();
  std::promise<std::vector<engine::Buffer>> taken;
  server.reactors[0]->post([&] {
    std::vector<engine::Buffer> all;
    while (auto buffer = server.pools[0]->allocate(engine::BufferPool::kMaxBuffer)) all.push_back(std::move(buffer));
    while (auto buffer = server.pools[0]->allocate(4096)) all.push_back(std::move(buffer));
    taken.set_value(std::move(all));
  });
  auto all = taken.get_future().get();
  const auto data = bytes_pattern(4096, 7);
  const auto command = initiator.write10(9, 8);
  initiator.send(command, data);
  initiator.send(initiator.nop());
  (void)expect(Opcode::nop_in);
  server.reactors[0]->post([&] { all.clear(); });
  const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
  EXPECT_EQ(r2t.buffer_offset, 0u);
  initiator.send(initiator.data_out(command.task_tag, r2t.transfer_tag, 0, 0, true), data);
  expect_status(scsi::Status::good);
  EXPECT_TRUE(is_stored(9, data));
}

TEST_F(SessionData, AWriteWhoseDataNumbersAreWrongNeverEndsGood) {
  log_in();
  const auto data = bytes_pattern(4096, 8);
  std::uint32_t lba = 1000;
  // A wrong DataSN, a wrong offset, unsolicited and solicited.
  for (const auto& [data_sn, offset] : {std::pair{1u, 0u}, {0u, 512u}, {27u, 0u}}) {
    const auto command = initiator.write10(lba, 8, 0);
    initiator.send(command);
    initiator.send(initiator.data_out(command.task_tag, kReservedTag, data_sn, offset, true), data);
    expect_sense(0x0B, 0x0C, 0x0D);
    EXPECT_FALSE(is_stored(lba, data));
    lba += 8;
  }
  for (const auto& [data_sn, offset] : {std::pair{1u, 0u}, {0u, 512u}}) {
    const auto command = initiator.write10(lba, 8);
    initiator.send(command);
    const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
    initiator.send(initiator.data_out(command.task_tag, r2t.transfer_tag, data_sn, offset, true), data);
    expect_sense(0x0B, 0x0C, 0x0D);
    EXPECT_FALSE(is_stored(lba, data));
    lba += 8;
  }
}

TEST_F(SessionData, ASequenceThatEndsEarlyFailsTheWrite) {
  log_in();
  const auto command = initiator.write10(10, 8);
  initiator.send(command);
  const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
  initiator.send(initiator.data_out(command.task_tag, r2t.transfer_tag, 0, 0, true), bytes_pattern(512, 1));
  expect_sense(0x0B, 0x0C, 0x0D);
}

TEST_F(SessionData, ASequenceWhoseLastDataDoesNotSaySoFailsTheWrite) {
  log_in();
  const auto data = bytes_pattern(4096, 1);
  const auto asked = initiator.write10(10, 8);
  initiator.send(asked);
  const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
  initiator.send(initiator.data_out(asked.task_tag, r2t.transfer_tag, 0, 0, false), data);
  expect_sense(0x0B, 0x0C, 0x0D);
  const auto unasked = initiator.write10(10, 8, 0);
  initiator.send(unasked);
  initiator.send(initiator.data_out(unasked.task_tag, kReservedTag, 0, 0, false), data);
  expect_sense(0x0B, 0x0C, 0x0D);
  EXPECT_FALSE(is_stored(10, data));
}

TEST_F(SessionData, DataThatWasAskedForAndNamesAnotherUnitIsRejectedAndFailsTheWrite) {
  log_in();
  const auto data = bytes_pattern(4096, 1);
  const auto command = initiator.write10(10, 8);
  initiator.send(command);
  const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
  auto header = initiator.data_out(command.task_tag, r2t.transfer_tag, 0, 0, true);
  header.lun = std::uint64_t{1} << 48;
  initiator.send(header, data);
  EXPECT_EQ(expect(Opcode::reject).as<RejectHeader>().reason, static_cast<std::uint8_t>(RejectReason::protocol_error));
  expect_sense(0x0B, 0x0C, 0x0D);
  EXPECT_FALSE(is_stored(10, data));
}

// RFC 7143 11.7.4: without a transfer tag the LUN field is reserved.
TEST_F(SessionData, UnsolicitedDataNeedNotNameItsUnit) {
  log_in();
  const auto data = bytes_pattern(4096, 1);
  const auto command = initiator.write10(10, 8, 0);
  initiator.send(command);
  auto header = initiator.data_out(command.task_tag, kReservedTag, 0, 0, true);
  header.lun = std::uint64_t{1} << 48;
  initiator.send(header, data);
  expect_status(scsi::Status::good);
  EXPECT_TRUE(is_stored(10, data));
}

TEST_F(SessionData, UnsolicitedDataThatWasNotAnnouncedFailsTheWrite) {
  log_in();
  server.storage.hold = false;
  const auto command = initiator.write10(10, 8);
  initiator.send(command);
  (void)expect(Opcode::r2t);
  initiator.send(initiator.data_out(command.task_tag, kReservedTag, 0, 0, true), bytes_pattern(4096, 1));
  expect_sense(0x0B, 0x0C, 0x0C);
}

TEST_F(SessionData, MoreDataThanAskedForFailsTheWrite) {
  log_in();
  const auto command = initiator.write10(10, 8);
  initiator.send(command);
  const auto r2t = expect(Opcode::r2t).as<R2tHeader>();
  initiator.send(initiator.data_out(command.task_tag, r2t.transfer_tag, 0, 0, true), bytes_pattern(4097, 1));
  expect_sense(0x0B, 0x0C, 0x0D);
}

TEST_F(SessionData, DataForNoTaskIsPassedOver) {
  log_in();
  initiator.send(initiator.data_out(0x999, kReservedTag, 0, 0, true), bytes_pattern(4096, 1));
  initiator.send(initiator.data_out(0x999, 0x12345, 0, 0, true), bytes_pattern(4096, 1));
  initiator.send(initiator.nop());
  (void)expect(Opcode::nop_in);
}

TEST_F(SessionData, AFailedWritesDataIsTakenAndThrownAway) {
  log_in();
  const auto command = initiator.write10(0x7FFFFFFF, 40, 0);
  initiator.send(command, bytes_pattern(2048, 1));
  initiator.send(initiator.data_out(command.task_tag, kReservedTag, 0, 2048, true), bytes_pattern(4096, 1));
  expect_sense(0x05, 0x21, 0x00);  // after its data, not before
  initiator.send(initiator.read10(0, 1));
  (void)expect(Opcode::scsi_data_in);
}

TEST_F(SessionData, DigestsHoldInBothDirections) {
  RawOptions options;
  options.offers.header_digest = options.offers.data_digest = Offers::Digest::crc32c;
  log_in(options);
  ASSERT_TRUE(initiator.parameters.header_digest && initiator.parameters.data_digest);
  const auto data = bytes_pattern(70000 / 512 * 512, 9);
  const auto blocks = static_cast<std::uint16_t>(data.size() / kBlock);
  initiator.send(initiator.write10(3, blocks), data);
  expect_status(scsi::Status::good);
  EXPECT_TRUE(is_stored(3, data));
  initiator.send(initiator.read10(3, blocks));
  EXPECT_EQ(expect(Opcode::scsi_data_in).data, data);  // receive() checks the digests
}

// ---- The command window ----

TEST_F(SessionData, CommandsOutsideTheWindowAreDroppedSilently) {
  log_in();
  auto below = initiator.read10(0, 1);
  below.cmd_sn = below.cmd_sn - 1;
  initiator.send(below);
  auto above = initiator.read10(0, 1);
  above.cmd_sn = initiator.cmd_sn.value() + 200;
  initiator.send(above);
  initiator.cmd_sn = initiator.cmd_sn - 2;
  initiator.send(initiator.nop());
  const auto nop = expect(Opcode::nop_in).as<NopInHeader>();
  EXPECT_EQ(nop.exp_cmd_sn, initiator.cmd_sn.value());
  EXPECT_EQ(server.storage.executed, 0);
}

TEST_F(SessionData, TheWindowClosesByWhatIsOutstandingAndOpensAgain) {
  log_in();
  server.storage.hold = true;
  for (int i = 0; i < 128; ++i) initiator.send(initiator.read10(0, 1));
  initiator.send(initiator.nop());
  auto nop = expect(Opcode::nop_in).as<NopInHeader>();
  EXPECT_EQ(nop.exp_cmd_sn, initiator.cmd_sn.value());
  EXPECT_EQ(Serial(nop.max_cmd_sn) + 1, initiator.cmd_sn);
  auto one_too_many = initiator.read10(0, 1);
  initiator.send(one_too_many);
  initiator.cmd_sn = initiator.cmd_sn - 1;
  initiator.send(initiator.nop());
  (void)expect(Opcode::nop_in);
  EXPECT_EQ(server.storage.executed, 128);
  server.release_held();
  for (int i = 0; i < 128; ++i) (void)expect(Opcode::scsi_data_in);
  initiator.send(initiator.nop());
  nop = expect(Opcode::nop_in).as<NopInHeader>();
  EXPECT_EQ(nop.max_cmd_sn, initiator.cmd_sn.value() + 127);
}

TEST_F(SessionData, ImmediateCommandsTakeNoNumberAndAreBounded) {
  log_in();
  server.storage.hold = true;
  for (int i = 0; i < 9; ++i) {
    initiator.send(initiator.command(0x28, 0, 1, kFinal | kRead, kBlock, true));
  }
  const auto reject = expect(Opcode::reject).as<RejectHeader>();
  EXPECT_EQ(reject.reason, static_cast<std::uint8_t>(RejectReason::immediate_command_reject));
  EXPECT_EQ(reject.exp_cmd_sn, initiator.cmd_sn.value());
  server.release_held();
  for (int i = 0; i < 8; ++i) (void)expect(Opcode::scsi_data_in);
}

TEST_F(SessionData, CommandsThatComeTooEarlyAreRunInTheirOrder) {
  log_in();
  const auto first = initiator.write10(0, 1);
  const auto second = initiator.write10(0, 1);
  const auto one = bytes_pattern(512, 1), two = bytes_pattern(512, 2);
  initiator.send(second, two);
  initiator.send(initiator.nop());
  EXPECT_EQ(expect(Opcode::nop_in).as<NopInHeader>().exp_cmd_sn, first.cmd_sn.value());
  EXPECT_EQ(server.storage.executed, 0);
  initiator.send(first, one);
  expect_status(scsi::Status::good);
  expect_status(scsi::Status::good);
  EXPECT_TRUE(is_stored(0, two));
}

TEST_F(SessionData, ACommandThatComesTwiceBeforeItsTurnIsRunOnce) {
  log_in();
  const auto first = initiator.read10(0, 1);
  const auto second = initiator.write10(0, 1);
  auto again = second;
  again.task_tag = initiator.next_tag++;
  const auto data = bytes_pattern(512, 1), other = bytes_pattern(512, 2);
  initiator.send(second, data);
  initiator.send(again, other);
  initiator.send(second, other);
  initiator.send(first);
  (void)expect(Opcode::scsi_data_in);
  expect_status(scsi::Status::good);
  initiator.send(initiator.nop());
  EXPECT_EQ(expect(Opcode::nop_in).as<NopInHeader>().exp_cmd_sn, initiator.cmd_sn.value());
  EXPECT_EQ(server.storage.executed, 2);
  EXPECT_TRUE(is_stored(0, data));
}

TEST_F(SessionData, ATagInUseIsRejected) {
  log_in();
  server.storage.hold = true;
  const auto first = initiator.read10(0, 1);
  initiator.send(first);
  auto second = initiator.read10(0, 1);
  second.task_tag = first.task_tag;
  initiator.send(second);
  EXPECT_EQ(expect(Opcode::reject).as<RejectHeader>().reason,
            static_cast<std::uint8_t>(RejectReason::task_in_progress));
  server.release_held();
  (void)expect(Opcode::scsi_data_in);
}

TEST_F(SessionData, StatusNumbersCountUpOverEveryKindOfAnswer) {
  log_in();
  auto stat_sn = initiator.exp_stat_sn;
  initiator.send(initiator.read10(0, 1));
  EXPECT_EQ(expect(Opcode::scsi_data_in).as<DataInHeader>().stat_sn, stat_sn.value());
  initiator.send(initiator.nop());
  EXPECT_EQ(expect(Opcode::nop_in).as<NopInHeader>().stat_sn, (++stat_sn).value());
  initiator.send(initiator.write10(0, 1), bytes_pattern(512, 1));
  EXPECT_EQ(expect(Opcode::scsi_response).as<ScsiResponseHeader>().stat_sn, (++stat_sn).value());
}

// Without its answers taken, a flood of requests must not grow our memory: reading stops, and goes on afterwards.
TEST_F(SessionData, AnInitiatorThatDoesNotListenIsNotHeardOut) {
  log_in();
  std::thread sender([&] {
    for (int i = 0; i < 2000; ++i) initiator.send(initiator.nop(), bytes_pattern(4096, 1));
  });
  for (int i = 0; i < 2000; ++i) {
    if (!initiator.receive()) {
      ADD_FAILURE() << "closed after " << i;
      break;
    }
  }
  sender.join();
}

}  // namespace
}  // namespace lockstep::test
