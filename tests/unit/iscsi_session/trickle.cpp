// PDUs that come byte by byte: once begun, a PDU comes to its end in a bounded time, or the session does.
#include "tests/unit/iscsi_session/core_session.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using namespace std::chrono_literals;

class IdleDevice final : public PlainDevice {
 public:
  void execute(scsi::Command& command) override { command.complete(); }
};

class Trickle : public CoreSession {
 protected:
  Trickle() {
    connect(device);
    log_in({});
  }
  ~Trickle() override { end(); }

  static std::vector<std::byte> nop(std::size_t bytes) {
    auto header = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
    header.opcode |= kImmediate;
    header.task_tag = 1;
    header.transfer_tag = kReservedTag;
    return pdu(bytes_of(header), std::vector<std::byte>(bytes));
  }
  /// Feeds `piece` bytes at a time, `pause` apart, until all is in or the session has ended; how long that took.
  engine::Duration feed_slowly(std::span<const std::byte> bytes, std::size_t piece, engine::Duration pause) {
    engine::Duration took{};
    while (!bytes.empty() && !stream.closed) {
      feed(bytes.first(std::min(piece, bytes.size())));
      bytes = bytes.subspan(std::min(piece, bytes.size()));
      clock.advance(pause);
      took += pause;
      (void)gathered();
    }
    return took;
  }

  IdleDevice device;
};

TEST_F(Trickle, AHeaderThatComesByteByByteEndsTheSession) {
  const auto took = feed_slowly(nop(0), 1, 2s);
  EXPECT_TRUE(stream.closed);
  EXPECT_LE(took, 48s);  // three keepalives, to the next step of the clock
  EXPECT_EQ(connection->reason(), "The initiator began a PDU and does not finish it.");
}

TEST_F(Trickle, DataThatComesByteByByteEndsTheSession) {
  const auto bytes = nop(60000);
  feed(std::span(bytes).first(kBhsSize));
  const auto took = feed_slowly(std::span(bytes).subspan(kBhsSize), 100, 1s);
  EXPECT_TRUE(stream.closed);
  EXPECT_LE(took, 48s);  // three keepalives, to the next step of the clock
}

TEST_F(Trickle, DataThatIsLongOnItsWayAndMovesIsWaitedFor) {
  const auto took = feed_slowly(nop(256 << 10), 5000, 1s);
  EXPECT_FALSE(stream.closed);
  EXPECT_GE(took, 50s);
}

TEST_F(Trickle, PdusThatComeSlowlyAndWholeEndNothing) {
  for (int i = 0; i < 20; ++i) (void)feed_slowly(nop(0), kBhsSize / 2, 4s);
  EXPECT_FALSE(stream.closed);
}

}  // namespace
}  // namespace lockstep::test
