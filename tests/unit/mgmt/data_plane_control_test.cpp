// The control socket, over a real Unix socket and from the other side of it.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <optional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/runtime/reactor.hpp"
#include "mgmt/data_plane/control_server.hpp"

namespace {

std::atomic<int> accepts_to_fail = 0;

}  // namespace

// In the place of the C library's.
extern "C" int accept(int socket, sockaddr* address, socklen_t* length) {
  if (accepts_to_fail.load() > 0) {
    --accepts_to_fail;
    errno = ENFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, socket, address, length, 0));
}

namespace lockstep::data_plane {
namespace {

using nlohmann::json;

// A client that blocks: enough to see what the server says.
class Client {
 public:
  explicit Client(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const timeval patience{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  ~Client() { ::close(socket_); }
  [[nodiscard]] bool connected() const { return connected_; }
  // False when the server has closed.
  bool send(const std::string& text) {
    std::size_t at = 0;
    while (at < text.size()) {
      const ssize_t n = ::send(socket_, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }
  // The next line; empty when the server closed.
  std::string line() {
    for (;;) {
      const auto end = seen_.find('\n');
      if (end != std::string::npos) {
        const std::string line = seen_.substr(0, end);
        seen_.erase(0, end + 1);
        return line;
      }
      char chunk[4096];
      const ssize_t n = ::recv(socket_, chunk, sizeof chunk, 0);
      if (n < 0 && errno == EINTR) continue;  // the end of an earlier test's ring
      if (n <= 0) return {};
      seen_.append(chunk, static_cast<std::size_t>(n));
    }
  }
  json ask(const std::string& text) {
    send(text + "\n");
    const std::string answer = line();
    return answer.empty() ? json() : json::parse(answer);
  }

 private:
  int socket_;
  bool connected_ = false;
  std::string seen_;
};

// Answers "echo" with its parameters, "hold" never, everything else as unknown.
class Echo : public RpcHandler {
 public:
  void handle(const RpcRequest& request, RpcReply reply) override {
    if (request.method == "echo") return reply(request.params);
    if (request.method == "hold") return held.push_back(std::move(reply));
    reply(std::unexpected(
        RpcError{RpcCode::method_not_found, "There is no method " + request.method + ".", engine::Errc::refused, {}}));
  }
  std::vector<RpcReply> held;
};

class ControlSocket : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/lockstep-control-XXXXXX";
    ASSERT_TRUE(::mkdtemp(name));
    folder_ = name;
    path_ = folder_ + "/lockstepd.sock";
  }
  void TearDown() override {
    if (started_) on_reactor([this] { server_.reset(); });
    reactor_.stop();
    if (started_) reactor_.join();
    std::filesystem::remove_all(folder_);
  }
  engine::Result<std::unique_ptr<ControlServer>> make() {
    auto lock = InstanceLock::take(path_);
    if (!lock) return std::unexpected(lock.error());
    lock_.emplace(std::move(*lock));
    return ControlServer::create(reactor_, *lock_, echo_);
  }
  void listen() {
    auto server = make();
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  void run() {
    reactor_.start();
    started_ = true;
  }
  void start() { listen(), run(); }
  template <class Work>
  void on_reactor(Work work) {
    std::promise<void> done;
    reactor_.post([&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }
  std::string folder_, path_;
  engine::Reactor reactor_;
  Echo echo_;
  std::optional<InstanceLock> lock_;
  std::unique_ptr<ControlServer> server_;
  bool started_ = false;
};

const char* const kEcho = R"({"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1}})";

TEST_F(ControlSocket, AnswersRequestsAndIsItsOwnersAlone) {
  start();
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  Client client(path_);
  EXPECT_EQ(client.ask(kEcho)["result"]["a"], 1);
  EXPECT_EQ(client.ask(R"({"jsonrpc":"2.0","id":2,"method":"nope"})")["error"]["code"], -32601);
  EXPECT_EQ(client.ask("rubbish")["error"]["code"], -32700);
  EXPECT_EQ(client.ask(kEcho)["id"], 1);  // it goes on after an error
}

/// The client is in the socket's queue: the server finds it there again at once.
TEST_F(ControlSocket, ThatCantAcceptForWantOfFilesTriesAgainAfterAWhile) {
  const auto began = std::chrono::steady_clock::now();
  accepts_to_fail = 3;
  start();
  Client client(path_);
  EXPECT_EQ(client.ask(kEcho)["result"]["a"], 1);
  EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(300));
}

std::string echoes(int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += R"({"jsonrpc":"2.0","id":)" + std::to_string(i) + R"(,"method":"echo"})" + "\n";
  }
  return all;
}

TEST_F(ControlSocket, AnswersManyRequestsSentAtOnceAndSplitAnywhere) {
  start();
  Client client(path_);
  const std::string all = echoes(200);
  for (std::size_t at = 0; at < all.size(); at += 997) ASSERT_TRUE(client.send(all.substr(at, 997)));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(json::parse(client.line())["id"], i);
}

TEST_F(ControlSocket, AnswersManyRequestsThatWaitedForIt) {
  listen();
  Client client(path_);
  ASSERT_TRUE(client.send(echoes(2000)));
  run();
  for (int i = 0; i < 2000; ++i) ASSERT_EQ(json::parse(client.line())["id"], i);
}

TEST_F(ControlSocket, EndsAConnectionWhoseLineIsTooLongAfterSayingSo) {
  start();
  Client client(path_);
  client.send(std::string(ControlServer::kMaxLine + 100000, 'x'));
  const std::string answer = client.line();
  ASSERT_FALSE(answer.empty());
  EXPECT_NE(answer.find(std::to_string(ControlServer::kMaxLine) + " bytes"), std::string::npos);
  EXPECT_TRUE(client.line().empty());
  EXPECT_EQ(Client(path_).ask(kEcho)["id"], 1);
}

TEST_F(ControlSocket, TellsOneClientTooManyThatItIs) {
  start();
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < ControlServer::kMaxClients; ++i) {
    clients.push_back(std::make_unique<Client>(path_));
    EXPECT_EQ(clients.back()->ask(kEcho)["id"], 1);
  }
  Client extra(path_);
  EXPECT_NE(extra.line().find("resource_exhausted"), std::string::npos);
  clients.pop_back();
  json answer;
  while (answer.is_null()) answer = Client(path_).ask(kEcho);  // until the server has seen the other one go
  EXPECT_TRUE(answer.contains("result") || answer.contains("error"));
}

TEST_F(ControlSocket, SendsEventsToThoseWhoSubscribed) {
  start();
  Client listener(path_), other(path_);
  EXPECT_TRUE(listener.ask(R"({"jsonrpc":"2.0","id":1,"method":"events.subscribe"})").contains("result"));
  EXPECT_EQ(other.ask(kEcho)["id"], 1);
  on_reactor([this] { server_->publish({{"kind", "partner.lost"}}); });
  const json event = json::parse(listener.line());
  EXPECT_EQ(event["method"], "event");
  EXPECT_EQ(event["params"]["kind"], "partner.lost");
  EXPECT_FALSE(event.contains("id"));
  EXPECT_EQ(other.ask(kEcho)["id"], 1);  // and nothing else came before this
}

TEST_F(ControlSocket, DropsASubscriberThatDoesNotRead) {
  start();
  Client listener(path_);
  listener.ask(R"({"jsonrpc":"2.0","id":1,"method":"events.subscribe"})");
  const json event = {{"message", std::string(100000, 'm')}};
  on_reactor([&] {
    for (std::size_t sent = 0; sent < 2 * ControlServer::kMaxUnsent; sent += 100000) server_->publish(event);
  });
  while (!listener.line().empty()) {
  }
  EXPECT_EQ(Client(path_).ask(kEcho)["id"], 1);
}

TEST_F(ControlSocket, ReadsNoFurtherWhileTooManyRequestsAreUnanswered) {
  start();
  Client client(path_);
  std::string all;
  for (std::size_t i = 0; i < ControlServer::kMaxPending + 1000; ++i) {
    all += R"({"jsonrpc":"2.0","id":)" + std::to_string(i) +
           R"(,"method":"hold"})"
           "\n";
  }
  ASSERT_TRUE(client.send(all));
  EXPECT_EQ(Client(path_).ask(kEcho)["id"], 1);
  // One chunk may bring more than the bound; what lies beyond that chunk is not read.
  std::size_t held = 0;
  on_reactor([&] { held = echo_.held.size(); });
  EXPECT_LT(held, ControlServer::kMaxPending + 1000);
  std::size_t answered = 0;
  while (answered < ControlServer::kMaxPending + 1000) {
    on_reactor([&] {
      for (auto& reply : std::exchange(echo_.held, {})) {
        reply(json::object());
        ++answered;
      }
    });
  }
  for (std::size_t i = 0; i < answered; ++i) ASSERT_FALSE(client.line().empty());
}

TEST_F(ControlSocket, ReplacesASocketThatADeadProcessLeft) {
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(dead);
  start();
  EXPECT_EQ(Client(path_).ask(kEcho)["id"], 1);
}

TEST_F(ControlSocket, RefusesASecondInstanceWithAClearMessageAndLeavesTheFirstAlone) {
  start();
  const auto refused = InstanceLock::take(path_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("Another lockstepd is running"), std::string::npos);
  EXPECT_EQ(Client(path_).ask(kEcho)["id"], 1);
}

TEST_F(ControlSocket, SaysWhatToDoWhenItCantBeMade) {
  const auto missing = InstanceLock::take(folder_ + "/nowhere/x.sock");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("Make the folder " + folder_ + "/nowhere"), std::string::npos);
  const auto file = ::open(path_.c_str(), O_CREAT | O_WRONLY, 0600);
  ::close(file);
  const auto in_the_way = make();
  ASSERT_FALSE(in_the_way);
  EXPECT_NE(in_the_way.error().message.find("is not a socket"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path_));
  path_ = folder_ + "/" + std::string(200, 'x');
  const auto too_long = make();
  ASSERT_FALSE(too_long);
  EXPECT_NE(too_long.error().message.find("is longer than the 107 bytes"), std::string::npos);
}

TEST_F(ControlSocket, IsGoneAfterACleanStop) {
  start();
  on_reactor([this] { server_.reset(); });
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(Client(path_).connected());
}

}  // namespace
}  // namespace lockstep::data_plane
