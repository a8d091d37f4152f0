// What a fence device says of the partner, and when its word that the partner is off is believed.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>

#include "engine/runtime/reactor_asio.hpp"
#include "mgmt/data_plane/fence_slot.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::data_plane {
namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using boost::system::error_code;
using namespace std::chrono_literals;

const std::string kOn = R"({"done": true, "power": "on", "problem": ""})";
const std::string kOff = R"({"done": true, "power": "off", "problem": ""})";
const std::string kSilent = R"({"done": false, "power": "", "problem": "It can't be reached."})";

/// A lockstep-fence whose device gives the same answer to whatever it is asked, until that is changed.
class AFence : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
  engine::Reactor reactor_;
  const std::string socket_ = folder_.path() / "fence.sock";
  stream_protocol::acceptor acceptor_{engine::io_context(reactor_), stream_protocol::endpoint(socket_)};
  std::string answer_ = kOff;
  int answered_ = 0;
  bool connected_ = true;
  std::vector<std::string> told_;
  FenceSlot slot_{reactor_, socket_, [this](const std::string& kind, const std::string&) { told_.push_back(kind); },
                  [this](engine::Callback<bool> done) { done(connected_); }, 5ms};

  AFence() { accept(); }

  void accept() {
    acceptor_.async_accept([this](error_code e, stream_protocol::socket socket) {
      if (e) return;
      auto call = std::make_shared<Call>(std::move(socket));
      call->socket.async_read_some(asio::buffer(call->order), [this, call](error_code, std::size_t) {
        call->answer = answer_ + "\n";
        asio::async_write(call->socket, asio::buffer(call->answer), [call](error_code, std::size_t) {});
        ++answered_;
      });
      accept();
    });
  }
  /// Lets the reactor run until that is so.
  void until(const std::function<bool()>& condition) {
    const auto end = reactor_.now() + 10s;
    while (!condition() && reactor_.now() < end) {
      reactor_.call_after(1ms, [this] { reactor_.stop(); });
      reactor_.run();
    }
    EXPECT_TRUE(condition());
  }
  void says(const std::string& answer, int times) {
    answer_ = answer;
    until([this, enough = answered_ + times] { return answered_ >= enough; });
  }
  [[nodiscard]] bool is_wrong() const { return slot_.finding().find("names another machine") != std::string::npos; }
  std::string power_off() {
    std::optional<std::string> why;
    slot_.power_off(reactor_.now(), [&](const replication::FenceEnd& end) { why = end.problem; });
    until([&] { return why.has_value(); });
    return why.value_or("It did not end.");
  }

 private:
  struct Call {
    explicit Call(stream_protocol::socket s) : socket(std::move(s)) {}
    stream_protocol::socket socket;
    std::array<char, 64> order{};
    std::string answer;
  };
};

TEST_F(AFence, ThatSaysThatAConnectedPartnerIsOffIsNotBelievedUntilItSeesItRun) {
  slot_.use(true);
  until([this] { return is_wrong(); });
  connected_ = false;
  EXPECT_NE(power_off(), "");
  answer_ = kOn;
  until([this] { return slot_.ready(); });
  EXPECT_FALSE(is_wrong());
  answer_ = kOff;
  EXPECT_EQ(power_off(), "");
}

/// As where one switch carries the device's network and the link's.
TEST_F(AFence, ThatWasFoundWrongIsNotBelievedForHavingSaidNothing) {
  slot_.use(true);
  until([this] { return is_wrong(); });
  says(kSilent, 3);
  EXPECT_TRUE(is_wrong()) << slot_.finding();
  connected_ = false;
  says(kOff, 3);
  EXPECT_NE(power_off(), "");
  EXPECT_FALSE(slot_.ready());
  EXPECT_EQ(std::ranges::count(told_, "fence.succeeded"), 0);
}

TEST_F(AFence, OfAPartnerThatIsGoneIsBelieved) {
  connected_ = false;
  slot_.use(true);
  says(kSilent, 2);
  answer_ = kOff;
  until([this] { return slot_.ready(); });
  EXPECT_EQ(power_off(), "");
}

}  // namespace
}  // namespace lockstep::data_plane
