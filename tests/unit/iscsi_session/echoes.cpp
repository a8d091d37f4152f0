// An initiator that asks for large echoes and takes few of them: what is kept for it is bounded, encoded or not.
#include "tests/unit/iscsi_session/core_session.hpp"
#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;

constexpr std::size_t kEcho = std::size_t{256} << 10;

class IdleDevice final : public PlainDevice {
 public:
  void execute(scsi::Command& command) override { command.complete(); }
};

class Echoes : public CoreSession {
 protected:
  Echoes() {
    connect(device);
    log_in({});
  }
  ~Echoes() override { end(); }

  void ask(std::span<const std::byte> data) {
    auto header = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
    header.opcode |= kImmediate;
    header.task_tag = 1;
    header.transfer_tag = kReservedTag;
    feed(pdu(bytes_of(header), data));
  }
  [[nodiscard]] bool is_read_from() const { return protocol->receive_place().scratch != 0; }
  /// Bytes that are encoded and wait to be sent.
  std::size_t unsent() {
    std::array<std::span<const std::byte>, 512> pieces;
    const std::size_t count = protocol->gather(pieces);
    std::size_t bytes = 0;
    for (const auto& piece : std::span(pieces).first(count)) bytes += piece.size();
    return bytes;
  }

  IdleDevice device;
};

TEST_F(Echoes, ReadingPausesWhileTheyAreEncodedAndNotTaken) {
  const std::vector<std::byte> data(kEcho);
  std::size_t most = 0;
  for (int turn = 0; turn < 64; ++turn) {
    if (is_read_from()) ask(data);
    most = std::max(most, unsent());
    protocol->sent(std::min<std::size_t>(unsent(), 30'000));
  }
  EXPECT_LE(most, iscsi_target::kPauseControlBytes + kEcho + kBhsSize);
}

TEST_F(Echoes, ReadingGoesOnWhenTheyAreTaken) {
  const auto data = bytes_pattern(kEcho, 1);
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(is_read_from());
    ask(data);
    EXPECT_EQ(unsent(), kBhsSize + kEcho);
    EXPECT_FALSE(is_read_from());
    const auto answer = gathered();
    ASSERT_EQ(answer.size(), kBhsSize + kEcho);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), answer.begin() + kBhsSize));
  }
}

TEST_F(Echoes, WhatIsNotTakenGoesWithTheSession) {
  ask(bytes_pattern(kEcho, 1));
  EXPECT_NE(unsent(), 0u);
  protocol->sent(30'000);
  ask({});  // its answer is not encoded yet
}

}  // namespace
}  // namespace lockstep::test
