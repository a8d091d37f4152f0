// Management's end of lockstepd's control socket, against a scripted other end.
#include <cstring>
#include <future>
#include <thread>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mgmt/control/data_plane.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// The listening end: the test accepts, reads and answers by hand.
class OtherEnd {
 public:
  explicit OtherEnd(const std::string& path) : listener_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::listen(listener_, 4);
  }
  ~OtherEnd() {
    hang_up();
    ::close(listener_);
  }
  void accept() { connection_ = ::accept(listener_, nullptr, nullptr); }
  void hang_up() {
    if (connection_ >= 0) ::close(connection_);
    connection_ = -1;
  }
  json read() {
    std::string line;
    for (char c = 0; ::recv(connection_, &c, 1, 0) == 1 && c != '\n';) line += c;
    return json::parse(line, nullptr, false);
  }
  void write(const std::string& text) {
    EXPECT_EQ(::send(connection_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  void answer(const json& request, const json& result) {
    write(json{{"jsonrpc", "2.0"}, {"id", request["id"]}, {"result", result}}.dump() + "\n");
  }

 private:
  int listener_;
  int connection_ = -1;
};

class ControlSocketTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  std::string path_ = (folder_.path() / "s").string();
  std::promise<bool> connected_;
  std::promise<std::string> event_;
  bool first_ = true;
  DataPlaneSocket socket_{path_,
                          {.connected =
                               [this](bool up) {
                                 if (std::exchange(first_, false)) connected_.set_value(up);
                               },
                           .event = [this](const std::string& params) { event_.set_value(params); }}};

  std::unique_ptr<OtherEnd> connect() {
    auto other = std::make_unique<OtherEnd>(path_);
    socket_.start();
    other->accept();
    const json subscription = other->read();
    EXPECT_EQ(subscription["method"], "events.subscribe");
    other->answer(subscription, json::object());
    EXPECT_TRUE(connected_.get_future().get());
    return other;
  }
};

TEST_F(ControlSocketTest, NobodyListeningIsARefusalThatNamesTheSocket) {
  const auto refused = socket_.call("node.status", "{}", 1s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::data_plane_away);
  EXPECT_NE(refused.error().detail.find(path_), std::string::npos);
}

TEST_F(ControlSocketTest, AnswersFindTheirRequestsInAnyOrder) {
  const auto other = connect();
  auto one = std::async(std::launch::async, [&] { return socket_.call("one", "{}", 10s); });
  const json first = other->read();
  auto two = std::async(std::launch::async, [&] { return socket_.call("two", R"({"x":1})", 10s); });
  const json second = other->read();
  EXPECT_EQ(second["params"]["x"], 1);
  other->answer(second, 2);
  other->answer(first, 1);
  EXPECT_EQ(one.get().value(), "1");
  EXPECT_EQ(two.get().value(), "2");
}

TEST_F(ControlSocketTest, AnErrorIsTheSentenceItCarries) {
  const auto other = connect();
  auto call = std::async(std::launch::async, [&] { return socket_.call("x", "{}", 10s); });
  const json request = other->read();
  other->write(json{{"jsonrpc", "2.0"}, {"id", request["id"]}, {"error", {{"code", -1}, {"message", "No."}}}}.dump() +
               "\n");
  const auto refused = call.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, RefusalKind::conflict);
  EXPECT_EQ(refused.error().detail, "No.");
}

TEST_F(ControlSocketTest, AConnectionThatBreaksEndsTheCallsThatWait) {
  const auto other = connect();
  auto call = std::async(std::launch::async, [&] { return socket_.call("x", "{}", 60s); });
  (void)other->read();
  other->hang_up();
  EXPECT_EQ(call.get().error().kind, RefusalKind::data_plane_away);
  other->accept();  // and it connects again by itself
  EXPECT_EQ(other->read()["method"], "events.subscribe");
}

TEST_F(ControlSocketTest, NoAnswerInTimeIsARefusalAndALateOneIsPassedOver) {
  const auto other = connect();
  const auto refused = socket_.call("slow", "{}", 50ms);
  EXPECT_EQ(refused.error().kind, RefusalKind::data_plane_away);
  other->answer(other->read(), 1);
  auto call = std::async(std::launch::async, [&] { return socket_.call("next", "{}", 10s); });
  other->answer(other->read(), 2);
  EXPECT_EQ(call.get().value(), "2");
}

TEST_F(ControlSocketTest, EventsArriveWholeHoweverTheyAreCut) {
  const auto other = connect();
  const std::string line = R"({"jsonrpc":"2.0","method":"event","params":{"kind":"fenced"}})"
                           "\n";
  other->write(line.substr(0, 20));
  other->write(line.substr(20));
  EXPECT_EQ(json::parse(event_.get_future().get())["kind"], "fenced");
}

TEST_F(ControlSocketTest, GarbageIsPassedOver) {
  const auto other = connect();
  other->write("garbage\n[1]\n{\"id\":\"x\"}\n{\"id\":-4}\n{}\n\n{\"id\":99,\"result\":1}\n");
  auto call = std::async(std::launch::async, [&] { return socket_.call("x", "{}", 10s); });
  other->answer(other->read(), 1);
  EXPECT_EQ(call.get().value(), "1");
}

TEST_F(ControlSocketTest, AnEndlessLineEndsTheConnection) {
  const auto other = connect();
  const std::string junk(65536, 'x');
  for (int i = 0; i < 257; ++i) other->write(junk);  // a little over 16 MiB
  other->accept();
  EXPECT_EQ(other->read()["method"], "events.subscribe");
}

}  // namespace
}  // namespace lockstep::mgmt
