// TLS between two nodes that know each other's certificate: what is said arrives as it was said, and nobody else gets a
// word.
#include <algorithm>
#include <array>

#include "tests/unit/engine/tls_fixture.hpp"

namespace lockstep::engine::test {
namespace {

class TlsStreamTest : public ::testing::Test {
 protected:
  void connect(std::shared_ptr<const TlsContext> client_context, std::shared_ptr<const TlsContext> server_context,
               TlsRole server_role = TlsRole::server) {
    pair.start(server, std::move(server_context), server_role);
    pair.start(client, std::move(client_context), TlsRole::client);
  }
  void connect() { connect(context_of(a, {b.fingerprint}), context_of(b, {a.fingerprint})); }
  void run() { pair.run(client, server); }

  MadeCertificate a = make_certificate(), b = make_certificate(), stranger = make_certificate();
  TlsPair pair;
  TlsEnd client, server;
};

TEST_F(TlsStreamTest, CarriesWhatIsSaidBothWaysHoweverTheWireCutsIt) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    TlsPair cutting(seed);
    cutting.most = seed % 2 ? 70000 : 300;
    TlsEnd one, other;
    cutting.start(other, context_of(b, {a.fingerprint}), TlsRole::server);
    cutting.start(one, context_of(a, {b.fingerprint}), TlsRole::client);
    one.protocol.to_send = pattern(900'000, seed);
    one.protocol.piece = seed % 3 ? 5000 : 100'000;
    other.protocol.to_send = pattern(200'001, seed + 100);
    cutting.run(one, other);
    ASSERT_EQ(other.protocol.heard, one.protocol.to_send) << "seed " << seed;
    ASSERT_EQ(one.protocol.heard, other.protocol.to_send) << "seed " << seed;
    EXPECT_EQ(one.stream->cipher(), "TLS_AES_256_GCM_SHA384");
  }
}

TEST_F(TlsStreamTest, PutsBytesStraightIntoThePlaceThatTheProtocolNames) {
  server.protocol.buffer.resize(64 << 10);
  client.protocol.to_send = pattern(300'000, 7);
  connect();
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
}

TEST_F(TlsStreamTest, KeepsWhatThePausedProtocolDoesNotTakeAndGivesItWhenItGoesOn) {
  server.protocol.takes = false;
  client.protocol.to_send = pattern(120'000, 8);
  connect();
  run();
  EXPECT_TRUE(server.protocol.heard.empty());
  server.protocol.takes = true;
  server.stream->resume_receive();
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
}

TEST_F(TlsStreamTest, ChangesItsKeysAfterTheGivenNumberOfRecords) {
  pair.start(server, context_of(b, {a.fingerprint}), TlsRole::server, {.records = 3});
  pair.start(client, context_of(a, {b.fingerprint}), TlsRole::client, {.records = 3});
  client.protocol.to_send = pattern(500'000, 9);
  server.protocol.to_send = pattern(500'000, 10);
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
  EXPECT_EQ(client.protocol.heard, server.protocol.to_send);
}

TEST_F(TlsStreamTest, NothingOfWhatIsSaidIsReadableOnTheWire) {
  const std::string secret = "a word that nobody else may read";
  std::string seen;
  pair.on_wire = [&](std::vector<std::byte>& bytes) {
    seen.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (const char c : secret) client.protocol.to_send.push_back(static_cast<std::byte>(c));
  connect();
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
  EXPECT_EQ(seen.find("nobody else"), std::string::npos);
}

TEST_F(TlsStreamTest, AChangedByteEndsTheConnectionAndIsNeverHandedOn) {
  client.protocol.to_send = pattern(100'000, 11);
  std::size_t seen = 0;
  pair.on_wire = [&](std::vector<std::byte>& bytes) {
    seen += bytes.size();
    if (seen > 40'000 && seen < 90'000) bytes.back() ^= std::byte{1};
  };
  connect();
  run();
  EXPECT_EQ(server.protocol.ended, TlsErrc::broken) << server.protocol.ended.message();
  ASSERT_LT(server.protocol.heard.size(), client.protocol.to_send.size());
  EXPECT_TRUE(std::ranges::equal(server.protocol.heard,
                                 std::span(client.protocol.to_send).first(server.protocol.heard.size())));
}

TEST_F(TlsStreamTest, AServerWithAnotherCertificateIsGivenNothing) {
  client.protocol.to_send = pattern(100, 1);
  connect(context_of(a, {b.fingerprint}), context_of(stranger, {a.fingerprint}));
  run();
  EXPECT_EQ(client.protocol.ended, TlsErrc::foreign) << client.protocol.ended.message();
  EXPECT_EQ(client.protocol.sent_bytes, 0U);
  EXPECT_TRUE(server.protocol.heard.empty());
}

TEST_F(TlsStreamTest, AClientWithAnotherCertificateIsGivenNothingAndToldWhy) {
  server.protocol.to_send = pattern(100, 1);
  connect(context_of(stranger, {b.fingerprint}), context_of(b, {a.fingerprint}));
  run();
  EXPECT_EQ(server.protocol.ended, TlsErrc::foreign) << server.protocol.ended.message();
  EXPECT_EQ(server.protocol.sent_bytes, 0U);
  EXPECT_EQ(client.protocol.ended, TlsErrc::refused_there) << client.protocol.ended.message();
  EXPECT_TRUE(client.protocol.heard.empty());
}

TEST_F(TlsStreamTest, ACertificateWhoseTimeIsOverOrHasNotBegunIsRefusedEitherWay) {
  const MadeCertificate expired = make_certificate(-7200, -3600), early = make_certificate(3600, 7200);
  connect(context_of(expired, {b.fingerprint}), context_of(b, {expired.fingerprint}));
  run();
  EXPECT_EQ(server.protocol.ended, TlsErrc::expired) << server.protocol.ended.message();
  TlsEnd one, other;
  pair.start(other, context_of(early, {a.fingerprint}), TlsRole::server);
  pair.start(one, context_of(a, {early.fingerprint}), TlsRole::client);
  pair.run(one, other);
  EXPECT_EQ(one.protocol.ended, TlsErrc::not_yet_valid) << one.protocol.ended.message();
}

TEST_F(TlsStreamTest, WhatAKnownIdentityHasSignedIsLetInThoughThatOnesOwnTimeIsOver) {
  const MadeCertificate identity = make_certificate(-7200, -3600), shown = make_certificate(-60, 3600, &identity);
  client.protocol.to_send = pattern(5000, 3);
  connect(context_of(shown, {b.fingerprint}), context_of(b, {identity.fingerprint}));
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send) << server.protocol.ended.message();
}

TEST_F(TlsStreamTest, WhatAKnownIdentityHasSignedIsRefusedWhenItsTimeIsOver) {
  const MadeCertificate identity = make_certificate(), shown = make_certificate(-7200, -3600, &identity);
  connect(context_of(shown, {b.fingerprint}), context_of(b, {identity.fingerprint}));
  run();
  EXPECT_EQ(server.protocol.ended, TlsErrc::expired) << server.protocol.ended.message();
}

TEST_F(TlsStreamTest, AKnownIdentityBesideACertificateThatItHasNotSignedProvesNothing) {
  MadeCertificate forged = make_certificate();
  forged.certificate += a.certificate;  // the known one is public: whoever listened may have it
  connect(context_of(forged, {b.fingerprint}), context_of(b, {a.fingerprint}));
  run();
  EXPECT_EQ(server.protocol.ended, TlsErrc::foreign) << server.protocol.ended.message();
}

TEST_F(TlsStreamTest, WhatAStrangerHasSignedIsRefused) {
  const MadeCertificate shown = make_certificate(-60, 3600, &stranger);
  connect(context_of(shown, {b.fingerprint}), context_of(b, {a.fingerprint}));
  run();
  EXPECT_EQ(server.protocol.ended, TlsErrc::foreign) << server.protocol.ended.message();
}

TEST_F(TlsStreamTest, WhoSpeaksNoTlsGetsNotOneByteAndIsNotHeard) {
  pair.start(server, context_of(b, {a.fingerprint}), TlsRole::server);
  server.protocol.to_send = pattern(100, 1);
  std::vector<std::byte> login(48, std::byte{0});
  login[0] = std::byte{0x43};
  std::size_t answered = 0;
  pair.on_wire = [&](std::vector<std::byte>& bytes) { answered += bytes.size(); };
  client.wire = std::make_shared<WireEnd>();
  server.wire->arriving.insert(server.wire->arriving.end(), login.begin(), login.end());
  run();
  EXPECT_EQ(server.protocol.ended, TlsErrc::not_tls) << server.protocol.ended.message();
  EXPECT_TRUE(server.protocol.heard.empty());
  EXPECT_EQ(answered, 0U);
}

TEST_F(TlsStreamTest, AServerThatTakesEitherSpeaksPlainlyToWhoBeginsPlainly) {
  pair.start(server, context_of(b, {a.fingerprint}), TlsRole::server_or_plain);
  server.protocol.takes = false;
  server.protocol.to_send = pattern(5000, 3);
  std::vector<std::byte> answered;
  pair.on_wire = [&](std::vector<std::byte>& bytes) { answered.insert(answered.end(), bytes.begin(), bytes.end()); };
  client.wire = std::make_shared<WireEnd>();
  auto said = pattern(100'000, 4);
  said[0] = std::byte{0x43};
  server.wire->arriving.insert(server.wire->arriving.end(), said.begin(), said.end());
  run();
  EXPECT_TRUE(server.protocol.heard.empty());
  server.protocol.takes = true;
  server.stream->resume_receive();
  run();
  server.stream->want_send();
  run();
  EXPECT_EQ(server.protocol.heard, said);
  EXPECT_EQ(answered, server.protocol.to_send);
  EXPECT_TRUE(server.stream->cipher().empty());
}

TEST_F(TlsStreamTest, AServerThatTakesEitherHasTlsWithWhoBeginsWithIt) {
  client.protocol.to_send = pattern(5000, 3);
  connect(context_of(a, {b.fingerprint}), context_of(b, {a.fingerprint}), TlsRole::server_or_plain);
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
  EXPECT_FALSE(server.stream->cipher().empty());
}

TEST_F(TlsStreamTest, WhatWasSentBeforeAGentleEndArrives) {
  connect();
  run();
  client.protocol.to_send = pattern(200'000, 5);
  client.stream->want_send();
  std::array<std::span<const std::byte>, 8> pieces;
  ASSERT_EQ(client.wire->protocol->gather(pieces), 1U);  // all is encrypted, nothing has left
  client.stream->close(StreamClose::gently);
  client.stream.reset();
  run();
  EXPECT_EQ(server.protocol.heard, client.protocol.to_send);
  EXPECT_EQ(server.protocol.ended, TlsErrc::ended) << server.protocol.ended.message();
}

TEST_F(TlsStreamTest, AnEndWithinTheHandshakeSaysSo) {
  connect();
  client.wire->protocol->on_stream_closed(std::make_error_code(std::errc::connection_aborted));
  EXPECT_EQ(client.protocol.ended, TlsErrc::broke_off) << client.protocol.ended.message();
}

TEST_F(TlsStreamTest, KeepsNothingOfWhatHasLeftThoughThereIsAlwaysMoreToSend) {
  connect();
  run();
  client.protocol.to_send = pattern(32 << 20, 6);
  std::array<std::span<const std::byte>, 8> pieces;
  std::size_t most = 0, left = 0;
  while (left < client.protocol.to_send.size()) {  // the socket never has room for all of it
    ASSERT_EQ(client.wire->protocol->gather(pieces), 1U);
    const std::size_t taken = std::min<std::size_t>(pieces[0].size(), 100'000);
    client.wire->protocol->sent(taken);
    left += taken;
    most = std::max(most, client.stream->held_to_send());
  }
  EXPECT_LE(most, std::size_t{2} << 20);
}

TEST(TlsContextTest, RefusesWhatIsNoCertificateOrNotItsKey) {
  const MadeCertificate one = make_certificate(), other = make_certificate();
  EXPECT_FALSE(TlsContext::create({"rubbish", one.key, {}}));
  EXPECT_FALSE(TlsContext::create({one.certificate, "rubbish", {}}));
  EXPECT_FALSE(TlsContext::create({one.certificate, other.key, {}}));
  EXPECT_TRUE(TlsContext::create({one.certificate, one.key, {}}));
}

}  // namespace
}  // namespace lockstep::engine::test
