// A node looks at its RDMA for the addresses that it serves. The interfaces are this machine's, the devices a tree's.
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mgmt/data_plane/fabric_watch.hpp"
#include "tests/unit/rdma/golden_trees.hpp"

namespace lockstep::data_plane {
namespace {

using namespace std::chrono_literals;
using rdma::test::Tree;

/// A device on the loopback interface, whose port is down.
constexpr const char* kDown = R"(
sys/class/infiniband/rxe0
  node_type 1: CA
sys/class/infiniband/rxe0/ports/1
  state 1: DOWN
  phys_state 3: Disabled
  link_layer Ethernet
  gids/0 0000:0000:0000:0000:0000:ffff:7f00:0001
  gid_attrs/types/0 RoCE v2
  gid_attrs/ndevs/0 lo
sys/class/net/lo
  mtu 65536
  carrier 1
  type 772
)";

struct AFabricWatch : testing::Test {
  engine::Reactor home{{.name = "home", .cpu = -1, .busy_poll = {}}};
  std::unique_ptr<FabricWatch> watch;

  void begin(FabricWatchOptions options) {
    watch = std::make_unique<FabricWatch>(home, std::move(options));
    home.start();
  }
  ~AFabricWatch() override {
    home.stop();
    home.join();
    watch.reset();
  }
  template <class Work>
  auto on_home(Work work) {
    std::promise<decltype(work())> answer;
    auto future = answer.get_future();
    home.post([&] { answer.set_value(work()); });
    return future.get();
  }
  void serve(const std::string& address) {
    on_home([&] {
      DesiredState state;
      state.target.portals = {{address, 3260}};
      watch->serve(state);
      return true;
    });
  }
  void count(std::uint64_t by_hosts) {
    on_home([&] {
      iser::Figures hosts;
      hosts.messages_in = by_hosts;
      watch->count(hosts, {});
      return true;
    });
  }
  std::vector<rdma::Finding> findings() {
    return on_home([&] { return watch->findings(); });
  }
  std::vector<rdma::Finding> awaited() {
    for (const auto end = std::chrono::steady_clock::now() + 10s; std::chrono::steady_clock::now() < end;
         std::this_thread::sleep_for(1ms))
      if (auto found = findings(); !found.empty()) return found;
    return {};
  }
};

TEST_F(AFabricWatch, FindsTheInterfaceOfAnAddressAndWhatIsWrongBelowIt) {
  const Tree tree(kDown);
  begin({.wanted = true, .asked = true, .why_none = {}, .pinning = {}, .root = tree.root()});
  EXPECT_TRUE(findings().empty()) << "nothing is served yet";
  serve("127.0.0.1");
  const auto found = awaited();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "port_down");
  EXPECT_THAT(found[0].message, testing::HasSubstr("127.0.0.1 on lo"));
}

TEST_F(AFabricWatch, CountsItsLooksAlsoThoseThatFindNothing) {
  const Tree empty;
  begin({.wanted = true, .asked = false, .why_none = {}, .pinning = {}, .root = empty.root()});
  const auto looks = [&] { return on_home([&] { return watch->looks(); }); };
  EXPECT_EQ(looks(), 0U);
  serve("127.0.0.1");
  for (const auto end = std::chrono::steady_clock::now() + 10s; looks() == 0 && std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(looks(), 1U);
  EXPECT_TRUE(findings().empty());
}

TEST_F(AFabricWatch, TellsOfADeviceThatWasUsed) {
  const Tree tree(kDown);
  begin({.wanted = true, .asked = false, .why_none = {}, .pinning = {}, .root = tree.root()});
  serve("127.0.0.1");
  count(0);
  count(1);
  EXPECT_EQ(awaited().size(), 1U);
}

TEST_F(AFabricWatch, AsksForFlowControlAndKeepsWhatDriversCount) {
  const Tree tree(kDown);
  tree.set("sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE");
  tree.set("sys/class/infiniband/rxe0/ports/1/hw_counters/out_of_sequence", "5");
  begin({.wanted = true,
         .asked = true,
         .why_none = {},
         .pinning = {},
         .root = tree.root(),
         .ask_flow_control = [](const std::string& interface) {
           return rdma::FlowControl{rdma::PriorityFlowControl{8, 0}, interface != "lo"};
         }});
  serve("127.0.0.1");
  const auto found = awaited();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "no_flow_control");
  EXPECT_EQ(on_home([&] { return watch->counters(); }),
            (std::vector<rdma::PortCounter>{{"rxe0", 1, "packets_lost", "out_of_sequence", 5}}));
}

TEST_F(AFabricWatch, OtherAddressesAreLookedAtAtOnce) {
  const Tree tree(kDown);
  begin({.wanted = true, .asked = true, .why_none = {}, .pinning = {}, .root = tree.root()});
  serve("192.0.2.1");  // which this machine does not have
  serve("127.0.0.1");
  EXPECT_EQ(awaited().size(), 1U);
}

TEST_F(AFabricWatch, TellsThatThereIsNoDeviceWhereOneIsAskedFor) {
  const Tree empty;
  begin({.wanted = true, .asked = true, .why_none = "There is none.", .pinning = {}, .root = empty.root()});
  serve("127.0.0.1");
  const auto found = awaited();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].id, "no_device");
}

std::vector<std::string> names(const std::vector<rdma::ServedAddress>& addresses) {
  std::vector<std::string> all;
  for (const auto& each : addresses) all.push_back((each.of_link ? "link " : "portal ") + each.address);
  return all;
}

struct AddressesForRdma : testing::Test {
  DesiredState state;
  AddressesForRdma() {
    state.target.portals = {{"10.0.0.1", 3260}};
    state.partner.emplace().link.listen = {"10.1.0.1", 3261};
    state.partner->link.more_paths = {
        {.listen = {"10.2.0.1", 3261}, .connect = {"10.2.0.2", 3261}},
        {.listen = {"10.3.0.1", 3261}, .connect = {"10.3.0.2", 3261}, .last_resort = true}};
  }
};

TEST_F(AddressesForRdma, AreThePortalsAndTheLinksButForTheLastResort) {
  const auto all = testing::ElementsAre("portal 10.0.0.1", "link 10.1.0.1", "link 10.2.0.1");
  EXPECT_THAT(names(addresses_for_rdma(state)), all);
  state.partner->link.tls = LinkTls{.certificate = {}, .key = {}, .partner = {}, .mode = LinkTlsMode::required};
  EXPECT_THAT(names(addresses_for_rdma(state)), all) << "encrypted or not";
}

}  // namespace
}  // namespace lockstep::data_plane
