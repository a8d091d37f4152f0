// Writes that another session's reset ends while their data is still arriving. The core alone: no sockets, no threads.
#include <cstring>

#include "engine/iscsi/login_initiator.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"
#include "tests/unit/iscsi_session/test_server.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

constexpr std::uint32_t kBurst = 4096;

/// Pulls all data of every write; the write is over as soon as the pull is.
class WritingDevice final : public scsi::DeviceServer {
 public:
  explicit WritingDevice(engine::BufferPool& pool) : pool_(pool) {}
  void on_nexus_opened(scsi::Nexus&) override {}
  void on_nexus_closed(scsi::Nexus&) override {}
  void execute(scsi::Command& command) override {
    auto buffer = std::make_shared<engine::Buffer>(pool_.allocate(command.expected_out));
    command.wanted_out = command.expected_out;
    command.pull(buffer->span().first(command.expected_out), [this, &command, buffer](std::error_code error) {
      const auto bytes = buffer->span().first(command.expected_out);
      if (!error) written.assign(bytes.begin(), bytes.end());
      buffer->reset();
      command.complete({}, {});
    });
  }
  bool task_management(scsi::Nexus&, scsi::TaskManagement, std::uint64_t) override { return true; }

  std::vector<std::byte> written;

 private:
  engine::BufferPool& pool_;
};

class QuiescedWrites : public testing::Test {
 protected:
  QuiescedWrites() {
    iscsi_target::Target target;
    target.name = kTarget;
    target.device_servers = {&device};
    registry.put(std::move(target));
    connection = std::make_unique<iscsi_target::TargetConnection>(std::make_unique<FakeStream>(stream), host, resources,
                                                                  registry, settings);
    log_in();
  }
  ~QuiescedWrites() override {
    connection->reset("The test is over.");
    connection.reset();
    EXPECT_EQ(resources.commands.in_use(), 0u);
    EXPECT_EQ(pool.in_use(), 0u);
  }

  void log_in() {
    InitiatorLoginSettings of_login;
    of_login.initiator_name = kInitiator;
    of_login.target_name = kTarget;
    of_login.offers.header_digest = of_login.offers.data_digest = Offers::Digest::none;
    of_login.offers.initial_r2t = true;
    of_login.offers.immediate_data = false;
    of_login.offers.max_burst = of_login.offers.first_burst = kBurst;
    of_login.offers.max_outstanding_r2t = 2;
    InitiatorLogin login(of_login, random);
    auto step = login.start();
    while (step.next == InitiatorLogin::Step::Next::send) {
      feed(pdu(bytes_of(step.header), std::as_bytes(std::span(step.text))));
      const auto answer = gathered();
      ASSERT_GE(answer.size(), kBhsSize);
      const auto response = header_as<LoginResponseHeader>(bhs_at(answer, 0));
      step = login.on_response(response, std::span(answer).subspan(kBhsSize, response.data_length));
    }
    ASSERT_EQ(step.next, InitiatorLogin::Step::Next::done) << step.error.message;
    cmd_sn = login.cmd_sn();
  }

  static Bhs bhs_at(const std::vector<std::byte>& bytes, std::size_t at) {
    Bhs header;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), kBhsSize, header.begin());
    return header;
  }
  static std::vector<std::byte> pdu(Bhs header, std::span<const std::byte> data = {}) {
    auto any = header_as<AnyHeader>(header);
    any.data_length = static_cast<std::uint32_t>(data.size());
    header = bytes_of(any);
    std::vector<std::byte> out(header.begin(), header.end());
    out.insert(out.end(), data.begin(), data.end());
    out.resize(out.size() + padding_of(data.size()));
    return out;
  }
  /// One receive.
  void feed(std::span<const std::byte> bytes) {
    const auto place = connection->receive_place();
    const std::size_t direct = std::min(place.direct.size(), bytes.size());
    std::copy_n(bytes.begin(), direct, place.direct.begin());
    connection->received(direct, bytes.subspan(direct));
  }
  std::vector<std::byte> gathered() {
    std::vector<std::byte> all;
    for (;;) {
      std::array<std::span<const std::byte>, 32> pieces;
      const std::size_t count = connection->gather(pieces);
      if (count == 0) return all;
      const std::size_t before = all.size();
      for (const auto& piece : std::span(pieces).first(count)) all.insert(all.end(), piece.begin(), piece.end());
      connection->sent(all.size() - before);
    }
  }
  /// The headers of what the target has to say; none of it has data.
  std::vector<Bhs> answers() {
    const auto bytes = gathered();
    std::vector<Bhs> out;
    for (std::size_t at = 0; at + kBhsSize <= bytes.size(); at += kBhsSize) out.push_back(bhs_at(bytes, at));
    return out;
  }

  std::vector<std::byte> write(std::uint32_t length) {
    auto header = make_header<ScsiCommandHeader>(Opcode::scsi_command, kFinal | kWrite);
    header.task_tag = ++tag;
    header.expected_length = length;
    header.cmd_sn = cmd_sn.value();
    ++cmd_sn;
    return pdu(bytes_of(header));
  }
  /// All that the R2T asks for, in one PDU.
  static std::vector<std::byte> data_for(const R2tHeader& r2t, std::byte fill) {
    auto header = make_header<DataOutHeader>(Opcode::scsi_data_out, kFinal);
    header.task_tag = r2t.task_tag;
    header.transfer_tag = r2t.transfer_tag;
    header.buffer_offset = r2t.buffer_offset;
    return pdu(bytes_of(header), std::vector<std::byte>(r2t.desired_length, fill));
  }
  static std::vector<R2tHeader> r2ts(const std::vector<Bhs>& headers) {
    std::vector<R2tHeader> out;
    for (const Bhs& header : headers) {
      EXPECT_EQ(opcode_of(header_as<AnyHeader>(header).opcode), Opcode::r2t);
      out.push_back(header_as<R2tHeader>(header));
    }
    return out;
  }
  static void expect_status(const std::vector<Bhs>& headers, scsi::Status status) {
    ASSERT_EQ(headers.size(), 1u);
    const auto response = header_as<ScsiResponseHeader>(headers[0]);
    ASSERT_EQ(opcode_of(response.opcode), Opcode::scsi_response);
    EXPECT_EQ(response.status, static_cast<std::uint8_t>(status));
  }

  SeededRandom random{1};
  engine::BufferPool pool{std::size_t{1} << 20};
  WritingDevice device{pool};
  FakeHost host{device};
  FakeClock clock;
  iscsi_target::TargetRegistry registry;
  iscsi_target::SessionSettings settings;
  iscsi_target::SessionResources resources{clock, random, pool};
  FakeStream::State stream;
  std::unique_ptr<iscsi_target::TargetConnection> connection;
  Serial cmd_sn;
  std::uint32_t tag = 10;
};

TEST_F(QuiescedWrites, AreAnsweredWhenTheSegmentUnderWayIsInAndLeaveNothingToTheNextCommand) {
  feed(write(3 * kBurst));
  const auto asked = r2ts(answers());
  ASSERT_EQ(asked.size(), 2u);

  // The end of one sequence and the beginning of the next come at once, then the reset.
  auto bytes = data_for(asked[0], std::byte{1});
  const auto next = data_for(asked[1], std::byte{2});
  const std::size_t half = kBhsSize + kBurst / 2;
  bytes.insert(bytes.end(), next.begin(), next.begin() + half);
  feed(bytes);
  bool quiesced = false;
  connection->quiesce({}, [&] { quiesced = true; });
  EXPECT_TRUE(quiesced);
  EXPECT_TRUE(answers().empty()) << "its data is still arriving";

  feed(std::span(next).subspan(half));
  expect_status(answers(), scsi::Status::task_aborted);
  EXPECT_TRUE(device.written.empty());

  feed(write(kBurst));
  const auto fresh = r2ts(answers());
  ASSERT_EQ(fresh.size(), 1u);
  EXPECT_EQ(fresh[0].buffer_offset, 0u);
  feed(data_for(fresh[0], std::byte{3}));
  expect_status(answers(), scsi::Status::good);
  EXPECT_TRUE(device.written == std::vector<std::byte>(kBurst, std::byte{3}));
}

}  // namespace
}  // namespace lockstep::test
