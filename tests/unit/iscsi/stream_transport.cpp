// A transport over a byte stream that its user closes from inside whatever the transport calls: it calls back once, at
// once, and nothing of the user is called, read or written afterwards.
#include "engine/iscsi/stream_transport.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::iscsi {
namespace {

class NoStream final : public engine::Stream {
 public:
  explicit NoStream(int& closed) : closed_(closed) {}
  void want_send() override {}
  void resume_receive() override {}
  void close(engine::StreamClose) override { ++closed_; }
  [[nodiscard]] const std::string& local_address() const override { return address_; }
  [[nodiscard]] const std::string& peer_address() const override { return address_; }

 private:
  int& closed_;
  std::string address_ = "127.0.0.1:3260";
};

enum class In { received, header, pdu, read_error, fill, all_sent, lost, done };

/// Closes in the chosen place, and expects to hear nothing after that.
class ClosingUser final : public PduTransportUser {
 public:
  ClosingUser(PduTransport& transport, In where) : transport_(transport), where_(where) {}
  bool takes_more() override { return true; }
  void on_received() override { reached(In::received); }
  void fill() override { reached(In::fill); }
  void on_all_sent() override { reached(In::all_sent); }
  void on_lost(std::error_code) override { reached(In::lost); }
  void on_header(const Bhs&, std::span<const std::byte>, std::uint32_t) override { reached(In::header); }
  std::span<std::byte> data_place(std::uint32_t offset) override {
    EXPECT_EQ(closed, 0);
    return std::span(data).subspan(offset);
  }
  void on_pdu() override { reached(In::pdu); }
  void on_read_error(ReadError) override { reached(In::read_error); }
  void reached(In here) {
    EXPECT_EQ(closed, 0) << "called after it has closed, in " << static_cast<int>(here);
    if (here != where_) return;
    transport_.close(engine::StreamClose::now, [this] { ++closed; });
    EXPECT_EQ(closed, 1);
  }
  void push() {
    OutPdu& pdu = transport_.sender().make();
    pdu.set_header(make_header<NopOutHeader>(Opcode::nop_out, kFinal));
    pdu.set_data(data);
    pdu.owner = this;
    pdu.done = [](void* owner, bool was_sent) {
      auto& self = *static_cast<ClosingUser*>(owner);
      ++(was_sent ? self.sent : self.dropped);
      if (was_sent) self.reached(In::done);
    };
    transport_.sender().push(pdu);
  }

  std::vector<std::byte> data{std::vector<std::byte>(8192)};
  int closed = 0, sent = 0, dropped = 0;

 private:
  PduTransport& transport_;
  In where_;
};

class ClosedInside : public testing::TestWithParam<In> {
 protected:
  static std::vector<std::byte> two_pdus(std::uint32_t data_length) {
    auto header = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
    header.data_length = data_length;
    const Bhs bytes = bytes_of(header);
    std::vector<std::byte> out;
    for (int i = 0; i < 2; ++i) {
      out.insert(out.end(), bytes.begin(), bytes.end());
      out.resize(out.size() + data_length);
    }
    return out;
  }
  void take_in(std::span<const std::byte> bytes) {
    (void)transport.receive_place();
    transport.received(0, bytes);
  }
  /// One send of all that there is.
  void send() {
    std::array<std::span<const std::byte>, 32> pieces;
    const std::size_t count = transport.gather(pieces);
    std::size_t bytes = 0;
    for (const auto& piece : std::span(pieces).first(count)) bytes += piece.size();
    if (bytes != 0) transport.sent(bytes);
  }

  OutPduPool pool;
  int stream_closed = 0;
  StreamTransport transport{std::make_unique<NoStream>(stream_closed), pool};
  ClosingUser user{transport, GetParam()};
};

TEST_P(ClosedInside, CallsBackOnceAndIsSilent) {
  transport.start(user);
  transport.tell_when_sent();
  const In where = GetParam();
  for (int i = 0; i < 3; ++i) user.push();
  if (where == In::lost) {
    transport.on_stream_closed(std::make_error_code(std::errc::connection_reset));
  } else if (where == In::read_error) {
    take_in(two_pdus(8193));  // more than was declared
  } else if (where <= In::pdu) {
    take_in(two_pdus(4096));
  } else {
    send();
    send();
  }
  EXPECT_EQ(user.closed, 1);
  EXPECT_EQ(stream_closed, 1);
  EXPECT_EQ(user.sent + user.dropped, 3) << "each PDU is over once";
  EXPECT_EQ(user.sent, where == In::all_sent ? 3 : where == In::done ? 1 : 0);
  EXPECT_EQ(pool.in_use(), 0u);

  // What the stream still has to say reaches nobody.
  take_in(two_pdus(512));
  EXPECT_EQ(transport.receive_place().direct.size(), 0u);
  EXPECT_EQ(transport.receive_place().scratch, 0u);
  send();
  transport.on_stream_closed({});
}

INSTANTIATE_TEST_SUITE_P(StreamTransport, ClosedInside,
                         testing::Values(In::received, In::header, In::pdu, In::read_error, In::fill, In::all_sent,
                                         In::lost, In::done));

}  // namespace
}  // namespace lockstep::iscsi
