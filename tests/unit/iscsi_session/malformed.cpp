// Bytes that no initiator should send: each ends in a reject or a closed connection, and the target goes on serving.
#include "engine/iscsi/ahs.hpp"
#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

struct Malformed : testing::Test {
  void TearDown() override {
    RawInitiator good(server.address);
    ASSERT_EQ(good.log_in({.initiator = "iqn.2026-11.io.lockstep:good"}), "");
    good.send(good.read10(0, 1));
    const auto in = good.receive();
    ASSERT_TRUE(in);
    EXPECT_EQ(static_cast<int>(in->opcode()), static_cast<int>(Opcode::scsi_data_in));
    initiator.close();
    good.close();
    EXPECT_TRUE(eventually([&] { return server.server->sessions().empty(); }));
  }
  void log_in(const RawOptions& options = {}) { ASSERT_EQ(initiator.log_in(options), ""); }
  void expect_reject(RejectReason reason) {
    const auto pdu = initiator.receive();
    ASSERT_TRUE(pdu) << "closed";
    ASSERT_EQ(static_cast<int>(pdu->opcode()), static_cast<int>(Opcode::reject));
    EXPECT_EQ(pdu->as<RejectHeader>().reason, static_cast<std::uint8_t>(reason));
    EXPECT_EQ(pdu->data.size(), 48u);  // the header that we did not like
  }
  void expect_alive() {
    initiator.send(initiator.nop());
    const auto pdu = initiator.receive();
    ASSERT_TRUE(pdu) << "closed";
    EXPECT_EQ(static_cast<int>(pdu->opcode()), static_cast<int>(Opcode::nop_in));
  }
  void expect_login_status(LoginStatus status) {
    const auto pdu = initiator.receive();
    ASSERT_TRUE(pdu) << "closed";
    ASSERT_EQ(static_cast<int>(pdu->opcode()), static_cast<int>(Opcode::login_response));
    EXPECT_EQ(pdu->as<LoginResponseHeader>().status, static_cast<std::uint16_t>(status));
    EXPECT_TRUE(initiator.is_closed());
  }

  TestServer server;
  RawInitiator initiator{server.address};
};

TEST_F(Malformed, NoiseBeforeAnyLogin) {
  initiator.send_bytes(bytes_pattern(5000, 77));
  EXPECT_TRUE(initiator.is_closed());
}

TEST_F(Malformed, AnHttpRequest) {
  const std::string text = "GET / HTTP/1.1\r\nHost: lockstep\r\nUser-Agent: someone who is quite wrong here\r\n\r\n";
  initiator.send_bytes(std::as_bytes(std::span(text)));
  EXPECT_TRUE(initiator.is_closed());
}

TEST_F(Malformed, ACommandBeforeTheLogin) {
  initiator.send(initiator.read10(0, 1));
  expect_login_status(LoginStatus::invalid_request);
}

TEST_F(Malformed, ATruncatedLogin) {
  auto header = make_header<LoginRequestHeader>(Opcode::login_request, kTransit | 1);
  header.data_length = 400;
  const auto bytes = bytes_of(header);
  initiator.send_bytes(bytes);
  initiator.close();  // less than was declared: nothing to answer, nothing left behind
}

TEST_F(Malformed, ALoginOfTooMuchText) {
  auto header = make_header<LoginRequestHeader>(Opcode::login_request, kTransit | 1);
  header.data_length = 0xFFFFFF;
  initiator.send_bytes(bytes_of(header));
  expect_login_status(LoginStatus::initiator_error);
}

TEST_F(Malformed, ALoginTextWithoutItsZeroByte) {
  const std::string text = "InitiatorName=iqn.2026-11.io.lockstep:x";
  initiator.send(make_header<LoginRequestHeader>(Opcode::login_request, kTransit | 1), std::as_bytes(std::span(text)));
  expect_login_status(LoginStatus::initiator_error);
}

TEST_F(Malformed, ALoginWithoutData) {
  initiator.send(make_header<LoginRequestHeader>(Opcode::login_request, kTransit | 1));
  expect_login_status(LoginStatus::missing_parameter);
}

TEST_F(Malformed, ALoginInASession) {
  log_in();
  initiator.send(make_header<LoginRequestHeader>(Opcode::login_request, kTransit | 1));
  expect_reject(RejectReason::protocol_error);
  EXPECT_TRUE(initiator.is_closed());
}

TEST_F(Malformed, UnknownOpcodes) {
  log_in();
  for (const int opcode : {0x07, 0x0F, 0x11, 0x1E, 0x20, 0x21, 0x25, 0x31, 0x3F}) {
    auto header = make_header<AnyHeader>(static_cast<Opcode>(opcode));
    header.task_tag = 5;
    initiator.send(header, bytes_pattern(100, 1));
    expect_reject(RejectReason::command_not_supported);
  }
  expect_alive();
}

TEST_F(Malformed, ASnackAtErrorRecoveryLevelZero) {
  log_in();
  initiator.send(make_header<SnackRequestHeader>(Opcode::snack_request, kFinal));
  expect_reject(RejectReason::snack_reject);
  expect_alive();
}

TEST_F(Malformed, ADataSegmentBeyondWhatWeDeclared) {
  log_in();
  auto header = initiator.nop();
  header.data_length = (256 << 10) + 1;
  initiator.send_bytes(bytes_of(header));
  expect_reject(RejectReason::invalid_pdu_field);
  EXPECT_TRUE(initiator.is_closed());
}

TEST_F(Malformed, AdditionalHeadersBeyondAllMeasure) {
  log_in();
  auto header = initiator.read10(0, 1);
  header.ahs_words = 255;
  initiator.send_bytes(bytes_of(header));
  expect_reject(RejectReason::invalid_pdu_field);
  EXPECT_TRUE(initiator.is_closed());
}

TEST_F(Malformed, AdditionalHeadersThatRunBeyondTheirEnd) {
  log_in();
  std::vector<std::byte> ahs(8);
  ahs[1] = std::byte{200}, ahs[2] = std::byte{1};
  initiator.send(initiator.read10(0, 1), {}, ahs);
  expect_reject(RejectReason::invalid_pdu_field);
  expect_alive();
}

TEST_F(Malformed, LongCdbsAreTakenAndUnknown) {
  log_in();
  const auto tail = bytes_pattern(kMaxExtendedCdb, 1);
  std::array<std::byte, kMaxAhs> ahs;
  const auto size = write_ahs({.extended_cdb = tail, .bidi_read_length = {}}, ahs);
  initiator.send(initiator.command(0x7F, 0, 0, kFinal, 0), {}, std::span(ahs).first(size));
  const auto pdu = initiator.receive();
  ASSERT_TRUE(pdu);
  EXPECT_EQ(pdu->as<ScsiResponseHeader>().status, 2);
}

TEST_F(Malformed, ImmediateDataThatTheCommandDoesNotTake) {
  log_in();
  initiator.send(initiator.read10(0, 1), bytes_pattern(512, 1));  // a read with data
  expect_reject(RejectReason::protocol_error);
  auto small = initiator.write10(0, 1);
  initiator.send(small, bytes_pattern(1024, 1));  // more than the command expects
  expect_reject(RejectReason::protocol_error);
  expect_alive();
  EXPECT_EQ(server.storage.executed, 0);
}

TEST_F(Malformed, ImmediateDataThatWasNegotiatedAway) {
  RawOptions options;
  options.offers.immediate_data = false;
  options.offers.initial_r2t = true;
  log_in(options);
  initiator.send(initiator.write10(0, 1), bytes_pattern(512, 1));
  expect_reject(RejectReason::protocol_error);
  initiator.send(initiator.write10(0, 1, 0));  // announces unsolicited data
  expect_reject(RejectReason::protocol_error);
  expect_alive();
}

TEST_F(Malformed, MoreImmediateDataThanTheFirstBurst) {
  RawOptions options;
  options.offers.first_burst = 1024;
  log_in(options);
  initiator.send(initiator.write10(0, 8), bytes_pattern(2048, 1));
  expect_reject(RejectReason::protocol_error);
  expect_alive();
}

TEST_F(Malformed, TextWithoutItsZeroByteInASession) {
  log_in();
  auto header = make_header<TextRequestHeader>(Opcode::text_request, kFinal);
  header.opcode |= kImmediate;
  header.task_tag = 9, header.transfer_tag = kReservedTag;
  const std::string text = "SendTargets=All";
  initiator.send(header, std::as_bytes(std::span(text)));
  expect_reject(RejectReason::protocol_error);
  expect_alive();
}

TEST_F(Malformed, EndlessTextInASession) {
  log_in();
  auto header = make_header<TextRequestHeader>(Opcode::text_request, kContinue);
  header.opcode |= kImmediate;
  header.task_tag = 9, header.transfer_tag = kReservedTag;
  initiator.send(header, bytes_pattern(60000, 1));
  const auto more = initiator.receive();
  ASSERT_TRUE(more && more->opcode() == Opcode::text_response);
  header.transfer_tag = more->as<TextResponseHeader>().transfer_tag;
  initiator.send(header, bytes_pattern(60000, 1));
  expect_reject(RejectReason::protocol_error);
  expect_alive();
}

TEST_F(Malformed, ATransferTagThatWasNeverGiven) {
  log_in();
  auto header = make_header<TextRequestHeader>(Opcode::text_request, kFinal);
  header.opcode |= kImmediate;
  header.task_tag = 9, header.transfer_tag = 0x1234;
  initiator.send(header);
  expect_reject(RejectReason::invalid_pdu_field);
  expect_alive();
}

TEST_F(Malformed, AFlippedBitInAHeader) {
  RawOptions options;
  options.offers.header_digest = Offers::Digest::crc32c;
  log_in(options);
  const auto bytes = bytes_of(initiator.nop());
  initiator.send_bytes(bytes);
  initiator.send_bytes(bytes_pattern(4, 1));  // in place of its digest
  EXPECT_TRUE(initiator.is_closed());
}

TEST_F(Malformed, AFlippedBitInTheData) {
  RawOptions options;
  options.offers.data_digest = Offers::Digest::crc32c;
  log_in(options);
  auto header = initiator.write10(0, 1);
  header.data_length = 512;
  initiator.send_bytes(bytes_of(header));
  initiator.send_bytes(bytes_pattern(512, 1));
  initiator.send_bytes(bytes_pattern(4, 2));
  expect_reject(RejectReason::data_digest_error);
  EXPECT_TRUE(initiator.is_closed());
  EXPECT_EQ(server.storage.data[0], std::byte{0});
}

TEST_F(Malformed, ACommandNumberLeftOut) {
  log_in();
  auto header = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
  header.task_tag = 9, header.transfer_tag = kReservedTag;
  header.cmd_sn = initiator.cmd_sn.value() + 1;
  initiator.send(header);
  expect_reject(RejectReason::protocol_error);
  EXPECT_TRUE(initiator.is_closed());
}

TEST_F(Malformed, TheReservedTagForACommand) {
  log_in();
  auto header = initiator.read10(0, 1);
  header.task_tag = kReservedTag;
  initiator.send(header);
  expect_reject(RejectReason::invalid_pdu_field);
  expect_alive();
}

TEST_F(Malformed, AConnectionThatBreaksInEveryPlaceOfAWrite) {
  const auto data = bytes_pattern(65536, 3);
  for (int cut = 0; cut < 6; ++cut) {
    RawInitiator broken(server.address);
    RawOptions options;
    options.isid[5] = static_cast<std::uint8_t>(10 + cut);
    options.offers.first_burst = 8192;
    ASSERT_EQ(broken.log_in(options), "");
    auto header = broken.write10(0, 128, 0);
    header.data_length = 4096;
    const auto bytes = bytes_of(header);
    if (cut == 0) {
      broken.send_bytes(std::span(bytes).first(20));
      continue;
    }
    broken.send_bytes(bytes);
    if (cut == 1) continue;
    broken.send_bytes(std::span(data).first(cut == 2 ? 1000 : 4096));
    if (cut <= 3) continue;
    broken.send(broken.data_out(header.task_tag, kReservedTag, 0, 4096, true), std::span(data).subspan(4096, 4096));
    const auto r2t = broken.receive();
    ASSERT_TRUE(r2t && r2t->opcode() == Opcode::r2t);
    if (cut == 4) continue;
    auto out = broken.data_out(header.task_tag, r2t->as<R2tHeader>().transfer_tag, 0, 8192, true);
    out.data_length = 57344;
    broken.send_bytes(bytes_of(out));
    broken.send_bytes(std::span(data).subspan(8192, 20000));
  }
  EXPECT_TRUE(eventually([&] { return server.storage.executed == server.storage.completed; }));
}

}  // namespace
}  // namespace lockstep::test
