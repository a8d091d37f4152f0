#include "ui-api/cli/https.hpp"

#include <cstdio>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/cli/https_server.hpp"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;

std::string answer(const std::string& body, const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

Settings settings(const HttpsServer& server, bool tls, Trust trust = {}) {
  return {{tls, "127.0.0.1", std::to_string(server.port())}, "secret-token", std::move(trust)};
}

class PemFile {
 public:
  explicit PemFile(const std::string& text) : path_(testing::TempDir() + "cli-" + std::to_string(getpid()) + ".pem") {
    std::ofstream(path_) << text;
  }
  ~PemFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Https, SendsMethodTargetTokenAndBodyAndBringsBackTheAnswer) {
  const HttpsServer server(nullptr, {answer("{\"a\":1}", "422 Unprocessable Entity")});
  const auto transport = make_https_transport(settings(server, false));
  const auto response = transport->send({"POST", "/api/v1/volumes?x=1", "{\"name\":\"vm1\"}"});
  ASSERT_TRUE(response.has_value()) << response.error().message;
  EXPECT_EQ(response->status, 422u);
  EXPECT_EQ(response->body, "{\"a\":1}");
  ASSERT_EQ(server.requests().size(), 1u);
  const std::string request = server.requests()[0];
  EXPECT_THAT(request, HasSubstr("POST /api/v1/volumes?x=1 HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Authorization: Bearer secret-token\r\n"));
  EXPECT_THAT(request, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_TRUE(request.ends_with("\r\n\r\n{\"name\":\"vm1\"}")) << request;
}

TEST(Https, OneConnectionCarriesManyRequests) {
  const HttpsServer server(nullptr, {answer("1"), answer("2"), answer("3")});
  const auto transport = make_https_transport(settings(server, false));
  for (const char* expected : {"1", "2", "3"}) EXPECT_EQ(transport->send({"GET", "/", std::nullopt})->body, expected);
}

TEST(Https, AGetIsRepeatedOnceWhenTheKeptConnectionWasClosed) {
  const HttpsServer server(nullptr, {answer("1")});  // closes after each answer
  const auto transport = make_https_transport(settings(server, false));
  EXPECT_EQ(transport->send({"GET", "/", std::nullopt})->body, "1");
  const auto again = transport->send({"GET", "/", std::nullopt});
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(again->body, "1");
}

TEST(Https, NobodyListeningIsUnreachableAndSaysWhere) {
  std::uint16_t port = 0;
  {
    const HttpsServer gone(nullptr, {});
    port = gone.port();
  }
  const auto response =
      make_https_transport({{false, "127.0.0.1", std::to_string(port)}, "t", {}})->send({"GET", "/", std::nullopt});
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().exit, Exit::unreachable);
  EXPECT_THAT(response.error().message, HasSubstr("127.0.0.1:" + std::to_string(port)));
}

TEST(Https, AnAnswerThatIsNotHttpIsUnreachableNotACrash) {
  const HttpsServer server(nullptr, {"SSH-2.0-OpenSSH_9.2\r\n\r\n"});
  const auto response = make_https_transport(settings(server, false))->send({"GET", "/", std::nullopt});
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().exit, Exit::unreachable);
}

TEST(Trust, AnUnknownCertificateGetsNoTokenAndItsFingerprintIsTold) {
  const SelfSigned identity = SelfSigned::make("127.0.0.1");
  const HttpsServer server(&identity, {answer("{}")});
  const auto response = make_https_transport(settings(server, true))->send({"GET", "/", std::nullopt});
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().exit, Exit::unreachable);
  EXPECT_THAT(response.error().message, HasSubstr(identity.fingerprint));
  EXPECT_TRUE(server.requests().empty());
}

TEST(Trust, TheFingerprintAloneSufficesAndAnotherDoesNot) {
  const SelfSigned identity = SelfSigned::make("some-other-name");
  const HttpsServer server(&identity, {answer("{}")});
  EXPECT_TRUE(make_https_transport(settings(server, true, {false, identity.fingerprint, ""}))
                  ->send({"GET", "/", std::nullopt})
                  .has_value());
  EXPECT_FALSE(make_https_transport(settings(server, true, {false, std::string(64, '0'), ""}))
                   ->send({"GET", "/", std::nullopt})
                   .has_value());
}

TEST(Trust, TheNodesOwnCertificateFileSufficesWhateverNameItCarries) {
  const SelfSigned identity = SelfSigned::make("some-other-name");
  const PemFile file(identity.certificate_pem);
  const HttpsServer server(&identity, {answer("{}")});
  const auto response =
      make_https_transport(settings(server, true, {false, "", file.path()}))->send({"GET", "/", std::nullopt});
  EXPECT_TRUE(response.has_value()) << response.error().message;
}

TEST(Trust, AnotherNodesCertificateFileDoesNot) {
  const SelfSigned identity = SelfSigned::make("127.0.0.1");
  const PemFile file(SelfSigned::make("127.0.0.1").certificate_pem);
  const HttpsServer server(&identity, {answer("{}")});
  EXPECT_FALSE(make_https_transport(settings(server, true, {false, "", file.path()}))
                   ->send({"GET", "/", std::nullopt})
                   .has_value());
  EXPECT_TRUE(server.requests().empty());
}

TEST(Trust, ACertificateFileThatCannotBeReadIsNamed) {
  const SelfSigned identity = SelfSigned::make("127.0.0.1");
  const HttpsServer server(&identity, {answer("{}")});
  const auto response =
      make_https_transport(settings(server, true, {false, "", "/nowhere.crt"}))->send({"GET", "/", std::nullopt});
  ASSERT_FALSE(response.has_value());
  EXPECT_EQ(response.error().exit, Exit::usage);
  EXPECT_THAT(response.error().message, HasSubstr("/nowhere.crt"));
}

TEST(Trust, InsecureTakesAnyCertificate) {
  const SelfSigned identity = SelfSigned::make("x");
  const HttpsServer server(&identity, {answer("{}")});
  EXPECT_TRUE(
      make_https_transport(settings(server, true, {true, "", ""}))->send({"GET", "/", std::nullopt}).has_value());
}

TEST(Stream, HandsOverTheBodyAsItComes) {
  const HttpsServer server(nullptr,
                           {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "5\r\ndata:\r\n3\r\n 1\n\r\n0\r\n\r\n"});
  std::string got;
  const auto ended =
      make_https_transport(settings(server, false))->stream("/events", "42", [&](std::string_view piece) {
        got += piece;
        return true;
      });
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  EXPECT_FALSE(ended->has_value());
  EXPECT_EQ(got, "data: 1\n");
  EXPECT_THAT(server.requests()[0], HasSubstr("Last-Event-ID: 42\r\n"));
}

TEST(Stream, AStreamWithoutALengthEndsWithTheConnection) {
  const HttpsServer server(nullptr, {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"});
  std::string got;
  const auto ended = make_https_transport(settings(server, false))->stream("/events", "", [&](std::string_view piece) {
    got += piece;
    return true;
  });
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  EXPECT_EQ(got, "data: 1\n\n");
}

TEST(Stream, ARefusalComesBackWhole) {
  const HttpsServer server(nullptr, {answer("{\"title\":\"No\"}", "401 Unauthorized")});
  const auto ended =
      make_https_transport(settings(server, false))->stream("/events", "", [](std::string_view) { return true; });
  ASSERT_TRUE(ended.has_value());
  ASSERT_TRUE(ended->has_value());
  EXPECT_EQ((*ended)->status, 401u);
  EXPECT_EQ((*ended)->body, "{\"title\":\"No\"}");
}

}  // namespace
}  // namespace lockstep::cli
