// An HTTP server given by a name that has more than one address.
#include "replication/arbiter/http_connection.hpp"

#include <future>
#include <vector>

#include <arpa/inet.h>
#include <boost/asio/ip/tcp.hpp>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/runtime/reactor.hpp"
#include "tests/unit/replication_link/http_post.hpp"
#include "tests/unit/replication_link/scripted_server.hpp"

namespace lockstep::replication {
namespace {

using Outcome = std::expected<HttpReply, HttpFailure>;
using namespace std::chrono_literals;

Outcome post(const std::string& url, engine::Duration deadline) {
  engine::Reactor reactor;
  reactor.start();
  std::promise<Outcome> promise;
  reactor.post([&] {
    tests::http_post(reactor, *HttpEndpoint::parse(url), "/v3/kv/range", "{}", "", nullptr, deadline,
                     [&](Outcome outcome) { promise.set_value(std::move(outcome)); });
  });
  return promise.get_future().get();
}

/// localhost is ::1 first, and 127.0.0.1 behind it.
bool localhost_has_both() {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo("localhost", nullptr, &hints, &found) != 0) return false;
  const bool both = found->ai_family == AF_INET6 && found->ai_next && found->ai_next->ai_family == AF_INET;
  ::freeaddrinfo(found);
  return both;
}

sockaddr_in6 loopback6(std::uint16_t port) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_port = htons(port);
  return address;
}

/// A port of ::1 to which connections are opened and never answered: its queue is full.
class SilentPort {
 public:
  explicit SilentPort(std::uint16_t port) {
    const sockaddr_in6 address = loopback6(port);
    const auto* to = reinterpret_cast<const sockaddr*>(&address);
    const int listener = add();
    const int yes = 1;
    ::setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (::bind(listener, to, sizeof address) != 0 || ::listen(listener, 0) != 0) return;
    for (int i = 0; i < 32 && !silent_; ++i) {
      pollfd waiting{add(), POLLOUT, 0};
      (void)::connect(waiting.fd, to, sizeof address);
      silent_ = ::poll(&waiting, 1, 200) == 0;
    }
  }
  ~SilentPort() {
    for (const int socket : sockets_) ::close(socket);
  }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;
  [[nodiscard]] bool silent() const { return silent_; }

 private:
  int add() { return sockets_.emplace_back(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0)); }
  std::vector<int> sockets_;
  bool silent_ = false;
};

struct HttpConnectionToAName : testing::Test {
  tests::ScriptedServer server{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"};  // on 127.0.0.1 only
  std::string url = "http://localhost:" + std::to_string(server.port());
  void SetUp() override {
    if (!localhost_has_both()) GTEST_SKIP() << "localhost is not ::1 and 127.0.0.1 here";
  }
};

TEST_F(HttpConnectionToAName, GoesToTheNextAddressWhenOneRefuses) {
  const auto outcome = post(url, 5s);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->body, "{}");
}

TEST_F(HttpConnectionToAName, GoesToTheNextAddressWhenOneNeverAnswers) {
  const SilentPort first(server.port());
  if (!first.silent()) GTEST_SKIP() << "no port of ::1 could be made to keep silent";
  const auto outcome = post(url, 2s);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->body, "{}");
}

TEST_F(HttpConnectionToAName, WasNotSentWhenNoAddressTookTheConnection) {
  std::uint16_t nobody = 0;
  {
    const tests::ScriptedServer gone("");
    nobody = gone.port();
  }
  const auto outcome = post("http://localhost:" + std::to_string(nobody), 5s);
  ASSERT_FALSE(outcome);
  EXPECT_FALSE(outcome.error().sent);
  EXPECT_FALSE(outcome.error().timed_out);
}

/// A listener that takes a connection and resets it, before the one that connects has looked whether it is there.
class ResettingPort {
 public:
  [[nodiscard]] std::string url() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  void take_and_reset() {
    auto taken = acceptor_.accept();
    taken.set_option(boost::asio::socket_base::linger(true, 0));
    taken.close();
  }

 private:
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
};

TEST(HttpConnection, ThatIsTakenAndResetAtOnceIsBrokenAndNotRefused) {
  ResettingPort port;
  engine::Reactor reactor;
  std::promise<HttpFailure> failed;
  std::shared_ptr<HttpConnection> connection;
  reactor.post([&] {
    connection =
        HttpConnection::open(reactor, *HttpEndpoint::parse(port.url()), nullptr, 5s,
                             [&](const HttpFailure* failure) { failed.set_value(failure ? *failure : HttpFailure{}); });
    port.take_and_reset();
  });
  reactor.start();
  const auto failure = failed.get_future().get();
  EXPECT_TRUE(failure.reached) << failure.message;
  EXPECT_TRUE(failure.broken) << failure.message;
  EXPECT_FALSE(failure.sent);
  reactor.stop();
}

/// What came behind a reply is nobody's answer, least of all that of the next request.
TEST(HttpConnection, TakesNoRequestAfterAReplyWithMoreBehindIt) {
  const std::string reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
  for (const bool more : {false, true}) {
    const tests::ScriptedServer server(reply + "{}" + (more ? reply + "[]" : ""));
    engine::Reactor reactor;
    std::promise<bool> idle;
    std::shared_ptr<HttpConnection> connection;
    reactor.post([&] {
      connection =
          HttpConnection::open(reactor, *HttpEndpoint::parse("http://127.0.0.1:" + std::to_string(server.port())),
                               nullptr, 5s, [&](const HttpFailure*) {
                                 connection->post("/v3/kv/range", "{}", "", [&](const Outcome& outcome) {
                                   EXPECT_EQ(outcome->body, "{}");
                                   idle.set_value(connection->idle());
                                 });
                               });
    });
    reactor.start();
    EXPECT_EQ(idle.get_future().get(), !more);
    reactor.stop();
  }
}

}  // namespace
}  // namespace lockstep::replication
