#pragma once
// A session without a network or threads: what a test feeds it goes straight in, and time stands still unless told.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "engine/iscsi/login_initiator.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"
#include "tests/unit/iscsi_session/test_server.hpp"

namespace lockstep::test {

/// Does what it is asked and knows no nexus; a test says what it does with commands.
class PlainDevice : public scsi::DeviceServer {
 public:
  void on_nexus_opened(scsi::Nexus&) override {}
  void on_nexus_closed(scsi::Nexus&) override {}
  bool task_management(scsi::Nexus&, scsi::TaskManagement, std::uint64_t) override { return true; }
};

class CoreSession : public testing::Test {
 protected:
  /// The device server has completed every command.
  ~CoreSession() override { EXPECT_EQ(resources.commands.in_use(), 0u); }

  /// The connection comes in; its target is `server`.
  void connect(scsi::DeviceServer& server) { connect(server, fake_transport(stream, resources.pdus, protocol)); }
  void connect(scsi::DeviceServer& server, std::unique_ptr<iscsi::PduTransport> transport,
               std::unique_ptr<iscsi_target::Transfers> transfers = std::make_unique<iscsi_target::StreamTransfers>()) {
    host.emplace(server);
    iscsi_target::Target target;
    target.name = kTarget;
    target.device_servers = {&server};
    registry.put(std::move(target));
    connection = std::make_unique<iscsi_target::TargetConnection>(std::move(transport), std::move(transfers), *host,
                                                                  resources, registry, settings);
  }

  void log_in(const iscsi::Offers& offers, const std::string& target = kTarget) {
    iscsi::InitiatorLoginSettings of_login;
    of_login.initiator_name = kInitiator;
    of_login.target_name = target;
    of_login.offers = offers;
    of_login.offers.header_digest = of_login.offers.data_digest = iscsi::Offers::Digest::none;
    iscsi::InitiatorLogin login(of_login, random);
    auto step = login.start();
    while (step.next == iscsi::InitiatorLogin::Step::Next::send) {
      feed(pdu(bytes_of(step.header), std::as_bytes(std::span(step.text))));
      const auto answer = gathered();
      ASSERT_GE(answer.size(), iscsi::kBhsSize);
      const auto response = iscsi::header_as<iscsi::LoginResponseHeader>(bhs_at(answer, 0));
      step = login.on_response(response, std::span(answer).subspan(iscsi::kBhsSize, response.data_length));
    }
    ASSERT_EQ(step.next, iscsi::InitiatorLogin::Step::Next::done) << step.error.message;
    cmd_sn = login.cmd_sn();
  }
  void end() {
    connection->reset("The test is over.");
    connection.reset();
  }

  static iscsi::Bhs bhs_at(const std::vector<std::byte>& bytes, std::size_t at) {
    iscsi::Bhs header;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), iscsi::kBhsSize, header.begin());
    return header;
  }
  static std::vector<std::byte> pdu(iscsi::Bhs header, std::span<const std::byte> data = {}) {
    auto any = iscsi::header_as<iscsi::AnyHeader>(header);
    any.data_length = static_cast<std::uint32_t>(data.size());
    header = bytes_of(any);
    std::vector<std::byte> out(header.begin(), header.end());
    out.insert(out.end(), data.begin(), data.end());
    out.resize(out.size() + iscsi::padding_of(data.size()));
    return out;
  }
  /// One receive.
  void feed(std::span<const std::byte> bytes) {
    const auto place = protocol->receive_place();
    const std::size_t direct = std::min(place.direct.size(), bytes.size());
    std::copy_n(bytes.begin(), direct, place.direct.begin());
    protocol->received(direct, bytes.subspan(direct));
  }
  std::vector<std::byte> gathered() {
    std::vector<std::byte> all;
    for (;;) {
      std::array<std::span<const std::byte>, 32> pieces;
      const std::size_t count = protocol->gather(pieces);
      if (count == 0) return all;
      const std::size_t before = all.size();
      for (const auto& piece : std::span(pieces).first(count)) all.insert(all.end(), piece.begin(), piece.end());
      protocol->sent(all.size() - before);
    }
  }
  /// The headers of what the target has to say; none of it has data.
  std::vector<iscsi::Bhs> answers() {
    const auto bytes = gathered();
    std::vector<iscsi::Bhs> out;
    for (std::size_t at = 0; at + iscsi::kBhsSize <= bytes.size(); at += iscsi::kBhsSize) {
      out.push_back(bhs_at(bytes, at));
    }
    return out;
  }

  void expect_answers(const std::vector<iscsi::Opcode>& wanted) {
    std::vector<iscsi::Opcode> got;
    for (const iscsi::Bhs& header : answers())
      got.push_back(iscsi::opcode_of(iscsi::header_as<iscsi::AnyHeader>(header).opcode));
    EXPECT_EQ(got, wanted);
  }

  /// A WRITE with no more data than `immediate`.
  std::vector<std::byte> write(std::uint32_t length, std::span<const std::byte> immediate = {}) {
    return command(iscsi::kWrite, length, immediate);
  }
  std::vector<std::byte> read(std::uint32_t length) { return command(iscsi::kRead, length); }
  void manage(scsi::TaskManagement function, std::uint32_t referenced = 0) {
    auto header = iscsi::make_header<iscsi::TaskManagementRequestHeader>(iscsi::Opcode::task_management_request);
    header.opcode |= iscsi::kImmediate;
    header.function = static_cast<std::uint8_t>(iscsi::kFinal | static_cast<std::uint8_t>(function));
    header.task_tag = 900;
    header.referenced_tag = referenced;
    header.ref_cmd_sn = cmd_sn.value() - 1;
    header.cmd_sn = cmd_sn.value();
    feed(pdu(bytes_of(header)));
  }

  SeededRandom random{1};
  engine::BufferPool pool{std::size_t{1} << 20};
  std::optional<FakeHost> host;
  FakeClock clock;
  iscsi_target::TargetRegistry registry;
  iscsi_target::SessionSettings settings;
  iscsi_target::SessionResources resources{clock, random, pool};
  FakeStream::State stream;
  engine::StreamProtocol* protocol = nullptr;
  std::unique_ptr<iscsi_target::TargetConnection> connection;
  iscsi::Serial cmd_sn;
  std::uint32_t tag = 10;

 private:
  std::vector<std::byte> command(std::uint8_t direction, std::uint32_t length, std::span<const std::byte> data = {}) {
    auto header = iscsi::make_header<iscsi::ScsiCommandHeader>(iscsi::Opcode::scsi_command, iscsi::kFinal | direction);
    header.task_tag = ++tag;
    header.expected_length = length;
    header.cmd_sn = cmd_sn.value();
    ++cmd_sn;
    return pdu(bytes_of(header), data);
  }
};

}  // namespace lockstep::test
