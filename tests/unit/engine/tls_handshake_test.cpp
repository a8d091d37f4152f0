// TLS's handshake without a connection: bytes are handed from one end to the other.
#include "engine/net/tls_handshake.hpp"

#include <openssl/ssl.h>

#include "tests/unit/engine/tls_fixture.hpp"

namespace lockstep::engine {
namespace {

using test::context_of;
using test::MadeCertificate;
using test::make_certificate;

std::vector<std::byte> said_by(TlsHandshake& end) {
  const auto unsent = end.unsent();
  std::vector<std::byte> bytes(unsent.begin(), unsent.end());
  end.sent(bytes.size());
  return bytes;
}

struct Ends {
  Ends(const MadeCertificate& client_shows, const MadeCertificate& client_expects, const MadeCertificate& server_shows,
       const MadeCertificate& server_expects)
      : client(context_of(client_shows, {client_expects.fingerprint}), TlsRole::client),
        server(context_of(server_shows, {server_expects.fingerprint}), TlsRole::server) {}

  /// Until nobody says anything any more.
  void talk() {
    why_client = client.take({});
    for (auto said = said_by(client); !said.empty() && !why_client; said = said_by(client)) {
      why_server = server.take(said);
      const auto answer = said_by(server);
      if (answer.empty()) return;
      why_client = client.take(answer);
    }
  }

  TlsHandshake client, server;
  std::error_code why_client, why_server;
};

TEST(TlsHandshakeTest, GivesBothEndsTheSameSecretAndEachConnectionAnother) {
  const auto a = make_certificate(), b = make_certificate();
  std::array<std::array<std::byte, 64>, 2> of{};
  for (auto& secret : of) {
    Ends ends(a, b, b, a);
    ends.talk();
    ASSERT_TRUE(ends.client.is_over() && ends.server.is_over()) << ends.why_client << ends.why_server;
    std::array<std::byte, 64> at_server{}, by_another_name{};
    ASSERT_TRUE(ends.client.export_secret("a label", secret));
    ASSERT_TRUE(ends.server.export_secret("a label", at_server));
    ASSERT_TRUE(ends.server.export_secret("another", by_another_name));
    EXPECT_EQ(secret, at_server);
    EXPECT_NE(secret, by_another_name);
  }
  EXPECT_NE(of[0], of[1]);
}

TEST(TlsHandshakeTest, IsTheSameHoweverItsBytesAreCut) {
  const auto a = make_certificate(), b = make_certificate();
  Ends ends(a, b, b, a);
  ASSERT_FALSE(ends.client.take({}));
  for (int turn = 0; turn < 4; ++turn) {
    auto& from = turn % 2 == 0 ? ends.client : ends.server;
    auto& to = turn % 2 == 0 ? ends.server : ends.client;
    for (const std::byte byte : said_by(from)) ASSERT_FALSE(to.take({&byte, 1}));
  }
  EXPECT_TRUE(ends.client.is_over() && ends.server.is_over());
}

TEST(TlsHandshakeTest, AClientThatIsNotThePartnerHearsSoWhenItThinksThatAllIsWell) {
  const auto a = make_certificate(), b = make_certificate();
  Ends ends(make_certificate(), b, b, a);
  ends.talk();
  EXPECT_EQ(ends.why_server, TlsErrc::foreign);
  EXPECT_EQ(ends.why_client, TlsErrc::refused_there);
  EXPECT_TRUE(ends.client.is_over());
  EXPECT_FALSE(ends.server.is_over());
}

TEST(TlsHandshakeTest, AServerThatIsNotThePartnerIsNotShownAnything) {
  const auto a = make_certificate(), b = make_certificate();
  Ends ends(a, b, make_certificate(), a);
  ends.talk();
  EXPECT_EQ(ends.why_client, TlsErrc::foreign);
  EXPECT_FALSE(ends.client.is_over() || ends.server.is_over());
}

TEST(TlsHandshakeTest, OfBytesThatAreNoTlsNothingComes) {
  const auto a = make_certificate(), b = make_certificate();
  TlsHandshake server(context_of(b, {a.fingerprint}), TlsRole::server);
  EXPECT_TRUE(server.take(std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n"))));
  EXPECT_FALSE(server.is_over());
}

TEST(TlsHandshakeTest, DataBehindItIsRefused) {
  const auto a = make_certificate(), b = make_certificate();
  const auto client = context_of(a, {b.fingerprint});
  TlsHandshake server(context_of(b, {a.fingerprint}), TlsRole::server);
  TlsBytes bytes;
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls(client->connection(), SSL_free);
  BIO* const bio = bytes.make_bio();
  SSL_set_bio(tls.get(), bio, bio);
  SSL_set_connect_state(tls.get());
  const auto hand_over = [&] {
    const std::error_code why = server.take(bytes.unsent());
    bytes.sent(bytes.unsent().size());
    return why;
  };
  EXPECT_NE(SSL_do_handshake(tls.get()), 1);
  ASSERT_FALSE(hand_over());
  const auto answer = said_by(server);
  bytes.came(answer);
  ASSERT_EQ(SSL_do_handshake(tls.get()), 1);
  ASSERT_FALSE(hand_over());
  ASSERT_TRUE(server.is_over());
  ASSERT_GT(SSL_write(tls.get(), "data", 4), 0);
  EXPECT_EQ(hand_over(), TlsErrc::broken);
}

}  // namespace
}  // namespace lockstep::engine
