// A write's data that came before its turn: the device server takes it as it lies, without a copy.
#include <gtest/gtest.h>

#include "tests/unit/iscsi_session/core_session.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

constexpr std::uint32_t kBytes = 8192;

/// Takes the data of writes where it can, else pulls it.
class TakingDevice final : public PlainDevice {
 public:
  explicit TakingDevice(engine::BufferPool& pool) : pool_(pool) {}
  void execute(scsi::Command& command) override {
    const std::size_t bytes = command.expected_out;
    command.wanted_out = bytes;
    if (bytes == 0) return command.complete();
    EXPECT_FALSE(command.take(bytes + 1)) << "more than there is";
    buffer = command.take(bytes);
    if (buffer) {
      ++taken;
      return keep(command);
    }
    buffer = scsi::take_buffer(command, bytes, pool_);
    command.pull(buffer.span().first(bytes), [this, &command](std::error_code error) {
      ++pulled;
      EXPECT_FALSE(error);
      keep(command);
    });
  }

  engine::Buffer buffer;
  const std::byte* lay_at = nullptr;
  std::vector<std::byte> data;
  int taken = 0, pulled = 0;

 private:
  void keep(scsi::Command& command) {
    lay_at = buffer.data();
    data.assign(buffer.span().begin(), buffer.span().end());
    buffer.reset();
    command.complete();
  }
  engine::BufferPool& pool_;
};

class TakenData : public CoreSession {
 protected:
  void begin(bool shares_memory) {
    if (shares_memory) resources.data_buffers = std::make_unique<iscsi_target::DataBuffers>(clock, pool);
    connect(device);
    Offers offers;
    offers.initial_r2t = false;
    log_in(offers);
  }
  ~TakenData() override {
    end();
    EXPECT_EQ(pool.in_use(), 0u);
    EXPECT_EQ(resources.pdus.in_use(), 0u);
  }

  /// A command whose number comes before that of the last write.
  void feed_the_one_before() {
    auto header = make_header<ScsiCommandHeader>(Opcode::scsi_command, kFinal);
    header.task_tag = ++tag;
    header.cmd_sn = before.value();
    feed(pdu(bytes_of(header)));
  }
  /// A write that has to wait for a command before it; all of its data comes along. Gives where that lands.
  const std::byte* feed_write_ahead(std::span<const std::byte> data) {
    before = cmd_sn;
    ++cmd_sn;
    const auto bytes = write(kBytes, data);
    feed(std::span(bytes).first(kBhsSize));
    const std::byte* const place = protocol->receive_place().direct.data();
    feed(std::span(bytes).subspan(kBhsSize));
    return place;
  }
  static std::vector<std::byte> pattern(int seed) {
    std::vector<std::byte> out(kBytes);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(seed));
    return out;
  }

  Serial before;
  TakingDevice device{pool};
};

TEST_F(TakenData, WhatHasAllComeIsTakenWhereItLies) {
  begin(true);
  const auto data = pattern(1);
  const std::byte* const place = feed_write_ahead(data);
  EXPECT_EQ(device.taken, 0);
  feed_the_one_before();
  EXPECT_EQ(device.taken, 1);
  EXPECT_EQ(device.lay_at, place) << "it was copied";
  EXPECT_EQ(device.data, data);
  EXPECT_EQ(answers().size(), 2u);
}

TEST_F(TakenData, SessionsWhoseDeviceServerBringsItsMemoryGiveItAsWell) {
  begin(false);
  const auto data = pattern(2);
  const std::byte* const place = feed_write_ahead(data);
  feed_the_one_before();
  EXPECT_EQ(device.lay_at, place);
  EXPECT_EQ(device.data, data);
}

TEST_F(TakenData, TheMemoryOfBothIsGivenBackHoweverOftenItHappens) {
  begin(true);
  for (int i = 0; i < 2000; ++i) {  // 16 MiB, more than there is for a stash
    feed_write_ahead(pattern(i));
    feed_the_one_before();
    ASSERT_EQ(device.taken, i + 1);
    ASSERT_EQ(answers().size(), 2u);
    ASSERT_EQ(pool.in_use(), 0u);
  }
}

TEST_F(TakenData, WhatIsStillComingIsPulled) {
  begin(true);
  before = cmd_sn;
  ++cmd_sn;
  const auto data = pattern(3);
  auto header = make_header<ScsiCommandHeader>(Opcode::scsi_command, kWrite);
  header.task_tag = ++tag;
  header.expected_length = kBytes;
  header.cmd_sn = cmd_sn.value();
  ++cmd_sn;
  feed(pdu(bytes_of(header), std::span(data).first(kBytes / 2)));
  const std::uint32_t write_tag = tag;
  feed_the_one_before();
  EXPECT_EQ(device.taken, 0);
  auto rest = make_header<DataOutHeader>(Opcode::scsi_data_out, kFinal);
  rest.task_tag = write_tag;
  rest.transfer_tag = kReservedTag;
  rest.buffer_offset = kBytes / 2;
  feed(pdu(bytes_of(rest), std::span(data).subspan(kBytes / 2)));
  EXPECT_EQ(device.pulled, 1);
  EXPECT_EQ(device.data, data);
}

}  // namespace
}  // namespace lockstep::test
