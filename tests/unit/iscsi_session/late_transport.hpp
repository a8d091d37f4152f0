#pragma once
// A transport whose end comes late, as a network card's does: between close() and end() it goes on reading what it was
// given to send. It looks at those bytes when it is closed and again at its end: whoever gave a buffer back, or wrote
// to it, too early is caught.
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/iscsi/stream_transport.hpp"
#include "tests/unit/iscsi_session/fake_stream.hpp"

namespace lockstep::test {

class LateTransport final : public iscsi::PduTransport, public engine::StreamProtocol {
 public:
  LateTransport(FakeStream::State& state, iscsi::OutPduPool& pool)
      : inner_(std::make_unique<FakeStream>(state), pool) {}

  [[nodiscard]] bool closing() const { return static_cast<bool>(closed_); }
  /// Nothing is read or written from now on.
  void end() {
    ASSERT_TRUE(closing());
    EXPECT_EQ(unsent(), unsent_at_close_) << "memory was given back that was still read";
    inner_.close(how_, std::exchange(closed_, nullptr));
  }
  [[nodiscard]] std::vector<std::byte> unsent() {
    std::array<std::span<const std::byte>, 256> pieces;
    const std::size_t count = static_cast<iscsi::TransmitQueue&>(inner_.sender()).gather(pieces);
    std::vector<std::byte> out;
    for (const auto& piece : std::span(pieces).first(count)) out.insert(out.end(), piece.begin(), piece.end());
    return out;
  }

  void start(iscsi::PduTransportUser& user) override { inner_.start(user); }
  [[nodiscard]] iscsi::PduSender& sender() override { return inner_.sender(); }
  void want_send() override { inner_.want_send(); }
  void tell_when_sent() override { inner_.tell_when_sent(); }
  void resume() override { inner_.resume(); }
  void ignore_input() override { inner_.ignore_input(); }
  void set_limits(const iscsi::ReadLimits& limits) override { inner_.set_limits(limits); }
  void set_digests(bool header, bool data) override { inner_.set_digests(header, data); }
  [[nodiscard]] const iscsi::Bhs& header() const override { return inner_.header(); }
  [[nodiscard]] Progress progress() const override { return inner_.progress(); }
  void close(engine::StreamClose how, engine::Callback<> closed) override {
    ASSERT_FALSE(closing());
    inner_.ignore_input();
    how_ = how;
    closed_ = std::move(closed);
    unsent_at_close_ = unsent();
  }
  [[nodiscard]] const std::string& local_address() const override { return inner_.local_address(); }
  [[nodiscard]] const std::string& peer_address() const override { return inner_.peer_address(); }

  engine::ReceivePlace receive_place() override {
    return closing() ? engine::ReceivePlace{{}, 0} : inner_.receive_place();
  }
  void received(std::size_t direct, std::span<const std::byte> scratch) override {
    if (!closing()) inner_.received(direct, scratch);
  }
  std::size_t gather(std::span<std::span<const std::byte>> pieces) override {
    return closing() ? 0 : inner_.gather(pieces);
  }
  void sent(std::size_t bytes) override { inner_.sent(bytes); }
  void on_stream_closed(std::error_code why) override { inner_.on_stream_closed(why); }

 private:
  iscsi::StreamTransport inner_;
  engine::StreamClose how_ = engine::StreamClose::now;
  engine::Callback<> closed_;
  std::vector<std::byte> unsent_at_close_;
};

}  // namespace lockstep::test
