// Writes that another session's reset ends while their data is still arriving. The core alone: no sockets, no threads.
#include <cstring>

#include "tests/unit/iscsi_session/core_session.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

constexpr std::uint32_t kBurst = 4096;

/// Pulls all data of every write; the write is over as soon as the pull is.
class WritingDevice final : public PlainDevice {
 public:
  explicit WritingDevice(engine::BufferPool& pool) : pool_(pool) {}
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

  std::vector<std::byte> written;

 private:
  engine::BufferPool& pool_;
};

class QuiescedWrites : public CoreSession {
 protected:
  QuiescedWrites() {
    connect(device);
    Offers offers;
    offers.initial_r2t = true;
    offers.immediate_data = false;
    offers.max_burst = offers.first_burst = kBurst;
    offers.max_outstanding_r2t = 2;
    log_in(offers);
  }
  ~QuiescedWrites() override {
    end();
    EXPECT_EQ(pool.in_use(), 0u);
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

  WritingDevice device{pool};
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
