// TLS on real sockets, whoever makes its records: the kernel where it can, else OpenSSL. The scenario link_kernel_tls
// of tests/vm runs these where it can, and sees in the kernel's counters that it did.
#include <cstdio>

#include "engine/net/open_stream.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"
#include "tests/unit/engine/tls_fixture.hpp"

namespace lockstep::engine::test {
namespace {

constexpr std::size_t kMuch = std::size_t{24} << 20;  // more than the sockets of both ends hold

/// Talks, and says when there is something to look at.
struct WatchedProtocol final : StreamProtocol {
  TalkingProtocol talk;
  std::function<void()> moved;

  ReceivePlace receive_place() override { return talk.receive_place(); }
  void received(std::size_t direct, std::span<const std::byte> scratch) override {
    talk.received(direct, scratch);
    moved();
  }
  std::size_t gather(std::span<std::span<const std::byte>> pieces) override { return talk.gather(pieces); }
  void sent(std::size_t bytes) override {
    talk.sent(bytes);
    moved();
  }
  void on_stream_closed(std::error_code why) override {
    talk.on_stream_closed(why);
    moved();
  }
};

class TlsOverTcpTest : public ::testing::Test {
 protected:
  struct End {
    WatchedProtocol protocol;
    OpenedStream opened;
  };

  void SetUp() override {
    client.protocol.moved = server.protocol.moved = [this] { look(); };
    auto listener = TcpListener::open(reactor, "127.0.0.1:0", [this](TcpSocket socket) {
      open(server, std::move(socket), {context_of(b, {a.fingerprint}), TlsRole::server});
    });
    ASSERT_TRUE(listener) << listener.error().message;
    const TcpConnector connector(reactor, "", (*listener)->address(), std::chrono::seconds(5),
                                 [this](Result<TcpSocket> socket) {
                                   ASSERT_TRUE(socket) << socket.error().message;
                                   open(client, *std::move(socket), {context_of(a, {b.fingerprint}), TlsRole::client});
                                 });
    client.protocol.talk.to_send = pattern(1, 1);
    server.protocol.talk.to_send = pattern(1, 2);
    until([this] { return !heard(client).empty() && !heard(server).empty(); });
    by_kernel = client.opened.tls->is_encrypted_by_kernel();
    EXPECT_EQ(server.opened.tls->is_encrypted_by_kernel(), by_kernel);
    RecordProperty("by_kernel", by_kernel ? "yes" : "no");
    for (End* end : {&client, &server}) {
      end->protocol.talk.to_send.clear();
      end->protocol.talk.sent_bytes = 0;
      end->protocol.talk.heard.clear();
    }
  }

  void open(End& end, TcpSocket socket, const StreamProtection& protection) {
    end.opened = open_stream(reactor, std::move(socket), protection);
    end.opened.start(end.protocol);
    end.opened.stream->want_send();
    look();
  }

  static std::vector<std::byte>& heard(End& end) { return end.protocol.talk.heard; }
  static std::error_code ended(const End& end) { return end.protocol.talk.ended; }

  void say(End& end, std::vector<std::byte> what, std::size_t piece) {
    end.protocol.talk.to_send = std::move(what);
    end.protocol.talk.piece = piece;
    reactor.post([&end] { end.opened.stream->want_send(); });
  }

  void pause(End& end) { end.protocol.talk.takes = false; }
  void resume(End& end) {
    end.protocol.talk.takes = true;
    reactor.post([&end] { end.opened.stream->resume_receive(); });
  }

  /// Runs the reactor until it is so.
  void until(std::function<bool()> so) {
    wanted_ = std::move(so);
    const TimerId limit = reactor.call_after(std::chrono::seconds(60), [this] {
      ADD_FAILURE() << "it did not come to be so";
      reactor.stop();
    });
    reactor.post([this] { look(); });
    reactor.run();
    reactor.cancel(limit);
    wanted_ = nullptr;
  }
  /// Until the socket has taken nothing more for a while.
  void until_full(End& end) {
    std::size_t before = SIZE_MAX;
    while (before != end.protocol.talk.sent_bytes) {
      before = end.protocol.talk.sent_bytes;
      reactor.call_after(std::chrono::milliseconds(100), [this] { reactor.stop(); });
      reactor.run();
    }
  }
  void look() {
    if (wanted_ && wanted_()) reactor.stop();
  }

  MadeCertificate a = make_certificate(), b = make_certificate();
  Reactor reactor;
  End client, server;
  bool by_kernel = false;

 private:
  std::function<bool()> wanted_;
};

TEST_F(TlsOverTcpTest, CarriesMuchBothWaysInPiecesOfAllSizes) {
  for (const std::size_t piece : {std::size_t{100'000}, std::size_t{4144}, std::size_t{70}}) {
    const auto out = pattern(piece * 200 + 1, 3), back = pattern(piece * 100 + 7, 4);
    for (End* end : {&client, &server}) {
      heard(*end).clear();
      end->protocol.talk.sent_bytes = 0;
    }
    say(client, out, piece);
    say(server, back, piece / 2);
    until([&] { return heard(server).size() >= out.size() && heard(client).size() >= back.size(); });
    ASSERT_EQ(heard(server), out);
    ASSERT_EQ(heard(client), back);
  }
  EXPECT_FALSE(ended(client) || ended(server));
}

TEST_F(TlsOverTcpTest, WaitsForAnEndThatTakesNothingAndLosesNothing) {
  const auto out = pattern(kMuch, 5);
  pause(server);
  say(client, out, 5000);
  until_full(client);
  EXPECT_LT(client.protocol.talk.sent_bytes, out.size());
  EXPECT_TRUE(heard(server).empty());
  resume(server);
  until([&] { return heard(server).size() >= out.size(); });
  EXPECT_EQ(heard(server), out);
}

TEST_F(TlsOverTcpTest, WhatWasCountedAsSentArrivesBeforeAGentleEndThoughTheSocketIsFull) {
  const auto out = pattern(kMuch, 6);
  pause(server);
  say(client, out, 5000);
  until_full(client);
  const std::size_t counted = client.protocol.talk.sent_bytes;
  ASSERT_LT(counted, out.size());
  reactor.post([this] { client.opened.stream->close(StreamClose::gently); });
  resume(server);
  until([&] { return static_cast<bool>(ended(server)); });
  EXPECT_EQ(ended(server), TlsErrc::ended) << ended(server).message();
  ASSERT_EQ(heard(server).size(), counted);
  EXPECT_TRUE(std::ranges::equal(heard(server), std::span(out).first(counted)));
  EXPECT_FALSE(ended(client)) << "who closes is not told";
}

TEST_F(TlsOverTcpTest, AnEndAtOnceIsHeardWithDataStillQueued) {
  pause(server);
  say(client, pattern(kMuch, 7), 5000);
  until_full(client);
  reactor.post([this] { client.opened.stream->close(StreamClose::now); });
  resume(server);
  until([&] { return static_cast<bool>(ended(server)); });
  EXPECT_LT(heard(server).size(), kMuch);
}

TEST_F(TlsOverTcpTest, APeerThatIsGoneIsHeardWhileTheSocketIsFull) {
  pause(server);
  say(client, pattern(kMuch, 8), 5000);
  until_full(client);
  reactor.post([this] { server.opened.stream->close(StreamClose::now); });
  until([&] { return static_cast<bool>(ended(client)); });
}

}  // namespace
}  // namespace lockstep::engine::test
