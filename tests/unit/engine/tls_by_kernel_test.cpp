// TLS whose records a kernel makes once the handshake is over. The kernel here is a fake that seals by the key it was
// given, each as it takes it; the other end is OpenSSL, which opens what comes or does not.
#include <optional>

#include <openssl/ssl.h>

#include "engine/net/tls_bio.hpp"
#include "tests/unit/engine/tls_fixture.hpp"

namespace lockstep::engine::test {
namespace {

class TlsByKernelTest : public ::testing::Test {
 protected:
  enum class Kernels : std::uint8_t { client, server, both };

  void connect(Kernels have, TlsKeyLimits limits = {}) {
    pair.start(server, context_of(b, {a.fingerprint}), TlsRole::server, limits, have != Kernels::client);
    pair.start(client, context_of(a, {b.fingerprint}), TlsRole::client, limits, have != Kernels::server);
  }
  void run() { pair.run(client, server); }

  MadeCertificate a = make_certificate(), b = make_certificate();
  TlsPair pair;
  TlsEnd client, server;
};

TEST_F(TlsByKernelTest, CarriesWhatIsSaidBothWaysWhicheverEndHasSuchAKernelAndHoweverLittleItTakes) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    client = {};
    server = {};
    pair = TlsPair(seed);
    pair.most = seed % 2 ? 70000 : 300;
    client.protocol.to_send = pattern(900'000, seed);
    client.protocol.piece = seed % 5 ? 5000 : 100'000;
    server.protocol.to_send = pattern(200'001, seed + 100);
    const auto have = static_cast<Kernels>(seed % 3);
    connect(have);
    run();
    ASSERT_EQ(server.protocol.heard, client.protocol.to_send) << "seed " << seed << ", " << server.protocol.ended;
    ASSERT_EQ(client.protocol.heard, server.protocol.to_send) << "seed " << seed << ", " << client.protocol.ended;
    EXPECT_EQ(client.stream->is_encrypted_by_kernel(), have != Kernels::server);
    EXPECT_EQ(server.stream->is_encrypted_by_kernel(), have != Kernels::client);
    EXPECT_EQ(client.stream->cipher(), "TLS_AES_256_GCM_SHA384");
    EXPECT_EQ(client.stream->held_to_send() == 0, have != Kernels::server) << "nothing is copied for a kernel";
  }
}

TEST_F(TlsByKernelTest, NothingOfWhatIsSaidIsReadableOnTheWire) {
  const std::string secret = "a word that nobody else may read";
  std::string seen;
  pair.on_wire = [&](std::vector<std::byte>& bytes) {
    seen.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (const char c : secret) client.protocol.to_send.push_back(static_cast<std::byte>(c));
  server.protocol.to_send = client.protocol.to_send;
  connect(Kernels::both);
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
  EXPECT_EQ(client.protocol.heard, client.protocol.to_send);
  EXPECT_EQ(seen.find("nobody else"), std::string::npos);
}

TEST_F(TlsByKernelTest, IsNotUsedWhereItIsTurnedOff) {
  const auto off = TlsContext::create({a.certificate, a.key, {b.fingerprint}, false});
  ASSERT_TRUE(off);
  pair.start(server, context_of(b, {a.fingerprint}), TlsRole::server);
  pair.start(client, *off, TlsRole::client, {}, true);
  client.protocol.to_send = pattern(50'000, 1);
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
  EXPECT_FALSE(client.stream->is_encrypted_by_kernel());
  EXPECT_FALSE(client.wire->encrypts);
}

TEST_F(TlsByKernelTest, WhatTheKernelHasTakenArrivesBeforeAGentleEnd) {
  for (const auto have : {Kernels::client, Kernels::both}) {
    client = {};
    server = {};
    connect(have);
    run();
    client.protocol.to_send = pattern(200'000, 5);
    client.stream->want_send();
    std::array<std::span<const std::byte>, 64> pieces;
    const std::size_t count = client.wire->protocol->gather(pieces);
    ASSERT_EQ(count, 40U) << "what the protocol says goes to the kernel as it lies there";
    const auto taken = std::span(client.protocol.to_send).first(150'000);
    ASSERT_EQ(pieces[0].data(), client.protocol.to_send.data());
    const auto records = client.wire->encrypts->data(taken);
    server.wire->arriving.insert(server.wire->arriving.end(), records.begin(), records.end());
    client.wire->protocol->sent(taken.size());
    client.stream->close(StreamClose::gently);
    client.stream.reset();
    run();
    EXPECT_TRUE(std::ranges::equal(server.protocol.heard, taken));
    EXPECT_EQ(server.protocol.ended, TlsErrc::ended) << server.protocol.ended.message();
    EXPECT_TRUE(client.wire->closed && server.wire->closed);
    EXPECT_FALSE(client.protocol.ended);
  }
}

/// As a target does that has refused a login.
TEST_F(TlsByKernelTest, AGentleEndOnceAllIsSentLeavesNothingBehind) {
  for (const auto have : {Kernels::client, Kernels::server, Kernels::both}) {
    client = {};
    server = {};
    connect(have);
    run();
    client.protocol.to_send = pattern(50'000, 6);
    client.protocol.when_all_is_sent = [this] {
      client.stream->close(StreamClose::gently);
      client.stream.reset();
    };
    client.stream->want_send();
    run();
    EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
    EXPECT_EQ(server.protocol.ended, TlsErrc::ended) << server.protocol.ended.message();
    EXPECT_EQ(client.wire.use_count(), 1) << "the stream is gone";
  }
}

TEST_F(TlsByKernelTest, AnEndAtOnceSaysNothing) {
  connect(Kernels::both);
  run();
  std::size_t said = 0;
  pair.on_wire = [&](std::vector<std::byte>& bytes) { said += bytes.size(); };
  client.protocol.to_send = pattern(200'000, 5);
  client.stream->close(StreamClose::now);
  run();
  EXPECT_EQ(said, 0U);
}

TEST_F(TlsByKernelTest, AChangedByteEndsTheConnectionAndOpenSslSaysNothingUnderTheKernelsKey) {
  server.protocol.to_send = pattern(20'000, 12);
  connect(Kernels::both);
  run();
  ASSERT_EQ(client.protocol.heard, server.protocol.to_send);
  client.protocol.to_send = pattern(10'000, 11);
  client.stream->want_send();
  bool changed = false;
  pair.on_wire = [&](std::vector<std::byte>& bytes) {
    if (!std::exchange(changed, true)) bytes.back() ^= std::byte{1};
  };
  run();
  EXPECT_EQ(server.protocol.ended, TlsErrc::broken) << server.protocol.ended.message();
  EXPECT_TRUE(server.protocol.heard.empty());
  // The client opens all that has come: an alert of OpenSSL's would have the number of a record of the kernel's.
  EXPECT_EQ(client.protocol.ended, TlsErrc::ended) << client.protocol.ended.message();
}

TEST_F(TlsByKernelTest, EndsTheConnectionWhenItsKeyHasEncryptedAsMuchAsItMay) {
  connect(Kernels::client, {.bytes_in_kernel = 300'000});
  client.protocol.to_send = pattern(900'000, 13);
  pair.most = 20'000;
  run();
  EXPECT_EQ(client.protocol.ended, TlsErrc::keys_used_up) << client.protocol.ended.message();
  EXPECT_EQ(server.protocol.ended, TlsErrc::ended) << server.protocol.ended.message();
  EXPECT_GE(server.protocol.heard.size(), 270'000U);
  EXPECT_LT(server.protocol.heard.size(), 320'000U);
  EXPECT_TRUE(std::ranges::equal(server.protocol.heard,
                                 std::span(client.protocol.to_send).first(server.protocol.heard.size())));
}

TEST_F(TlsByKernelTest, SmallRecordsCountWhatTheyAddToo) {
  connect(Kernels::client, {.bytes_in_kernel = 65 * 100});
  client.protocol.to_send = pattern(1000, 13);
  pair.most = 1;
  run();
  EXPECT_EQ(client.protocol.ended, TlsErrc::keys_used_up) << client.protocol.ended.message();
  EXPECT_EQ(server.protocol.heard.size(), 100U);
}

/// A client that is OpenSSL and no more, for what a TlsStream never says.
class BareClient final : public StreamProtocol {
 public:
  explicit BareClient(const std::shared_ptr<const TlsContext>& context, const char* ciphers = nullptr)
      : context_(context), tls_(context->connection(), SSL_free) {
    BIO* const bio = bytes_.make_bio();
    SSL_set_bio(tls_.get(), bio, bio);
    SSL_set_connect_state(tls_.get());
    if (ciphers) SSL_set_ciphersuites(tls_.get(), ciphers);
    SSL_do_handshake(tls_.get());
  }

  void ask_for_keys() { change_keys(SSL_KEY_UPDATE_REQUESTED); }
  void change_keys(int how = SSL_KEY_UPDATE_NOT_REQUESTED) {
    SSL_key_update(tls_.get(), how);
    say("x");
  }
  void say(std::string_view what) { SSL_write(tls_.get(), what.data(), static_cast<int>(what.size())); }

  ReceivePlace receive_place() override { return {}; }
  void received(std::size_t, std::span<const std::byte> scratch) override {
    bytes_.came(scratch);
    std::array<char, 1000> into;
    while (true) {
      const int got = SSL_read(tls_.get(), into.data(), into.size());
      if (got > 0) {
        heard += std::string_view(into.data(), static_cast<std::size_t>(got));
        continue;
      }
      error = SSL_get_error(tls_.get(), got);
      break;
    }
    bytes_.keep_rest();
  }
  std::size_t gather(std::span<std::span<const std::byte>> pieces) override {
    pieces[0] = bytes_.unsent();
    return pieces[0].empty() ? 0 : 1;
  }
  void sent(std::size_t count) override { bytes_.sent(count); }
  void on_stream_closed(std::error_code) override {}

  std::string heard;
  int error = 0;  ///< of the last read

 private:
  std::shared_ptr<const TlsContext> context_;
  TlsBytes bytes_;
  std::unique_ptr<SSL, decltype(&SSL_free)> tls_;
};

class TlsByKernelBesideBareClientTest : public TlsByKernelTest {
 protected:
  void meet(const char* ciphers = nullptr) {
    bare.emplace(context_of(a, {b.fingerprint}), ciphers);
    client.wire = std::make_shared<WireEnd>();
    client.wire->protocol = &*bare;
    pair.start(server, context_of(b, {a.fingerprint}), TlsRole::server, {}, true);
    run_bare();  // its first words
    run_bare();  // its last ones of the handshake
  }
  void run_bare() {
    client.wire->want_send();
    run();
  }
  void server_says(std::string_view what) {
    for (const char c : what) server.protocol.to_send.push_back(static_cast<std::byte>(c));
    server.stream->want_send();
    run_bare();
  }

  std::optional<BareClient> bare;
};

TEST_F(TlsByKernelBesideBareClientTest, APeerThatChangesItsOwnKeysIsHeardFurther) {
  meet();
  ASSERT_TRUE(server.stream->is_encrypted_by_kernel());
  bare->change_keys();
  bare->change_keys();
  run_bare();
  server_says("still here");
  EXPECT_EQ(server.protocol.heard.size(), 2U);
  EXPECT_EQ(bare->heard, "still here");
  EXPECT_FALSE(server.protocol.ended);
}

TEST_F(TlsByKernelBesideBareClientTest, APeerThatAsksForAChangeOfKeysGetsAnEndAndNoRecordOfOpenSsls) {
  meet();
  server_says("first");
  bare->ask_for_keys();
  run_bare();
  EXPECT_EQ(server.protocol.ended, TlsErrc::asks_for_keys) << server.protocol.ended.message();
  EXPECT_EQ(bare->heard, "first");
  EXPECT_EQ(bare->error, SSL_ERROR_ZERO_RETURN) << "close_notify, and nothing that could not be opened";
}

TEST_F(TlsByKernelBesideBareClientTest, APeerThatAskedBeforeTheKernelHadTheKeyIsAnsweredByOpenSsl) {
  bare.emplace(context_of(a, {b.fingerprint}));
  client.wire = std::make_shared<WireEnd>();
  client.wire->protocol = &*bare;
  pair.start(server, context_of(b, {a.fingerprint}), TlsRole::server, {}, true);
  const auto carry_to_server = [&] {
    std::array<std::span<const std::byte>, 1> piece;
    if (bare->gather(piece) == 0) return;
    const std::vector<std::byte> bytes(piece[0].begin(), piece[0].end());
    bare->sent(bytes.size());
    server.wire->protocol->received(0, bytes);
  };
  carry_to_server();
  std::array<std::span<const std::byte>, 8> pieces;
  ASSERT_EQ(server.wire->protocol->gather(pieces), 1U);
  const std::vector<std::byte> answer(pieces[0].begin(), pieces[0].end());
  server.wire->protocol->sent(answer.size());
  bare->received(0, answer);
  bare->ask_for_keys();  // in one piece with the end of the handshake
  carry_to_server();
  server_says("by OpenSSL");
  EXPECT_FALSE(server.stream->is_encrypted_by_kernel());
  EXPECT_FALSE(server.wire->encrypts);
  EXPECT_EQ(bare->heard, "by OpenSSL");
  EXPECT_FALSE(server.protocol.ended);
}

TEST_F(TlsByKernelBesideBareClientTest, AnotherCipherThanAesIsLeftToOpenSsl) {
  meet("TLS_CHACHA20_POLY1305_SHA256");
  server_says("hello");
  EXPECT_FALSE(server.stream->is_encrypted_by_kernel());
  EXPECT_EQ(bare->heard, "hello");
}

TEST(TlsSendSecretTest, TakesNoOtherLineThanItsOwn) {
  const std::string hex(96, 'a');
  for (const std::string& line :
       {"CLIENT_TRAFFIC_SECRET_0 00 " + hex.substr(2), "CLIENT_TRAFFIC_SECRET_0" + hex,
        "SERVER_TRAFFIC_SECRET_0 00 " + hex, "CLIENT_TRAFFIC_SECRET_0 00 " + hex.substr(1) + "g",
        std::string("CLIENT_TRAFFIC_SECRET_0"), std::string()}) {
    TlsSendSecret secret;
    secret.take(line, "CLIENT_TRAFFIC_SECRET_0");
    EXPECT_FALSE(secret.record_key()) << line;
  }
  TlsSendSecret secret;
  secret.take("CLIENT_TRAFFIC_SECRET_0 00 " + hex, "CLIENT_TRAFFIC_SECRET_0");
  EXPECT_TRUE(secret.record_key());
  secret.forget();
  EXPECT_FALSE(secret.record_key());
}

}  // namespace
}  // namespace lockstep::engine::test
