// Who asks for both nodes' configurations while the partner swallows what it is sent.
#include <future>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "mgmt/control/controller.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/router.hpp"

namespace lockstep::ui_api {
namespace {

/// Takes connections, and says nothing on any.
class SilentMachine {
 public:
  SilentMachine() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof at;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&at), length) != 0 || ::listen(socket_, 64) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &length) != 0)
      ADD_FAILURE() << "cannot listen";
    address_ = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  ~SilentMachine() { ::close(socket_); }
  SilentMachine(const SilentMachine&) = delete;
  SilentMachine& operator=(const SilentMachine&) = delete;
  [[nodiscard]] const std::string& address() const { return address_; }
  /// So many have called.
  [[nodiscard]] int calls() {
    int calls = 0;
    for (int call = ::accept(socket_, nullptr, nullptr); call >= 0; call = ::accept(socket_, nullptr, nullptr)) {
      ++calls;
      ::close(call);
    }
    return calls;
  }

 private:
  int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  std::string address_;
};

TEST(ConfigurationResources, APartnerThatSwallowsWhatItIsSentHoldsOneOfThoseWhoAsk) {
  test::TemporaryFolder folder;
  mgmt::LocalSettings local;
  local.data_folder = folder.path() / "mgmt";
  local.volume_folder = folder.path() / "volumes";
  local.rpc_socket = (folder.path() / "rpc").string();
  local.node_name = "node-a";
  local.management_address = "127.0.0.1:8443";
  const auto controller = mgmt::Controller::open(local);
  ASSERT_TRUE(controller) << controller.error().message;
  SilentMachine partner;
  mgmt::Configuration pair;
  pair.pair.emplace();
  pair.pair->id = mgmt::random_uuid();
  pair.nodes = {{(*controller)->core().node_id, mgmt::NodeSide::a, "node-a", {}, "", "127.0.0.1:8443", ""},
                {mgmt::random_uuid(), mgmt::NodeSide::b, "node-b", {}, "", partner.address(), ""}};
  (*controller)->core().revisions.commit_new_epoch({mgmt::random_uuid(), 1, mgmt::random_uuid()}, "A test's own", pair);

  Router router;
  add_configuration_resources(router, **controller);
  Request request;
  request.method = "GET";
  ASSERT_TRUE(parse_target("/api/v1/pair/configuration", request));
  const auto match = router.match(request);
  ASSERT_TRUE(match.route);
  std::vector<std::future<Response>> asked;
  for (int i = 0; i < 4; ++i)
    asked.push_back(std::async(std::launch::async, [&] { return match.route->answer({request, {}, {}}); }));
  for (auto& one : asked) EXPECT_EQ(nlohmann::json::parse(one.get().body).value("state", ""), "partner_away");
  EXPECT_EQ(partner.calls(), 1);
}

}  // namespace
}  // namespace lockstep::ui_api
