// What node.status says of RDMA.
#include <future>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/runtime/system_random.hpp"
#include "mgmt/data_plane/events.hpp"
#include "mgmt/data_plane/node.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"

namespace lockstep::data_plane {
namespace {

using nlohmann::json;

TEST(StatusOfRdma, SaysNothingWhereNoDeviceIsInUse) {
  const json rdma = to_json(NodeReport{})["rdma"];
  EXPECT_EQ(rdma, json::parse(R"({"looks": 0, "findings": [], "counters": [], "registrations": null, "hosts": null,
                                   "link": null})"));
}

TEST(StatusOfRdma, HasFindingsWithWhatToDo) {
  NodeReport report;
  report.rdma_findings = {{rdma::Severity::warning, "port_down", "It is down.", "Look."},
                          {rdma::Severity::advice, "small_mtu", "It is small.", "Make it larger."}};
  EXPECT_EQ(to_json(report)["rdma"]["findings"], json::parse(R"([
    {"id": "port_down", "severity": "warning", "message": "It is down.", "advice": "Look."},
    {"id": "small_mtu", "severity": "advice", "message": "It is small.", "advice": "Make it larger."}])"));
}

TEST(StatusOfRdma, HasTheFiguresOfAllReactors) {
  iser::Figures one;
  one.messages_in = 1, one.messages_out = 2, one.bytes_in = 3, one.bytes_out = 4;
  one.reads = 5, one.writes = 6, one.bytes_read = 7, one.bytes_written = 8;
  one.windows = 16, one.eager = 9, one.invalidations = 10, one.starved = 11;
  one.copied = {.immediate_prefix = 12, .ahs = 13, .bounce = 14, .control = 15, .cipher = 17};
  one.invalidated = 18, one.hidden = 19;
  for (std::size_t i = 0; i < one.errors.size(); ++i) one.errors[i] = 30 + i;
  one.queues = {.connections = 20, .work = 21, .depth = 22, .most = 23};
  NodeReport report;
  report.rdma_hosts = one;
  *report.rdma_hosts += one;
  report.rdma_link = *report.rdma_hosts;
  EXPECT_EQ(to_json(report)["rdma"]["hosts"], json::parse(R"({
    "messages_in": 2, "messages_out": 4, "bytes_in": 6, "bytes_out": 8, "reads": 10, "writes": 12, "bytes_read": 14,
    "bytes_written": 16, "windows": 32, "eager": 18, "invalidations": 20, "starved": 22,
    "copied": {"immediate_prefix": 24, "ahs": 26, "bounce": 28, "control": 30, "cipher": 34},
    "invalidated": 36, "hidden": 38,
    "errors": {"length": 60, "remote_access": 62, "remote_invalid": 64, "remote_operation": 66, "local_protection": 68,
               "local_operation": 70, "no_answer": 72, "no_receive": 74, "other": 76},
    "queues": {"connections": 40, "work": 42, "depth": 44, "most": 23}})"))
      << "the most is of one connection";
  EXPECT_EQ(to_json(report)["rdma"]["link"], to_json(report)["rdma"]["hosts"]);
}

TEST(StatusOfRdma, HasWhatTheDevicesHoldAndCount) {
  NodeReport report;
  report.rdma_counters = {{"mlx5_0", 1, "packets_lost", "out_of_sequence", 12}};
  report.rdma_hosts.emplace();
  report.rdma_registrations = {.regions = 8, .bytes = 4096, .made = 10, .refused = 1};
  const json rdma = to_json(report)["rdma"];
  EXPECT_EQ(rdma["counters"], json::parse(R"([
    {"device": "mlx5_0", "port": 1, "kind": "packets_lost", "name": "out_of_sequence", "value": 12}])"));
  EXPECT_EQ(rdma["registrations"], json::parse(R"({"regions": 8, "bytes": 4096, "made": 10, "refused": 1})"));
}

TEST(StatusOfRdma, HasWhatCarriedEachShardsData) {
  using namespace std::chrono_literals;
  NodeReport report;
  const engine::TimePoint switched = report.now + 50s;
  report.now = report.now + 60s;
  report.shards.resize(2);
  EXPECT_EQ(to_json(report)["shards"][0]["carried"], nullptr) << "no device is in use";
  Carried& carried = report.shards[1].carried.emplace();
  carried.by_rdma = 5s, carried.by_tcp = 1500ms, carried.to_rdma = 3, carried.to_tcp = 2;
  const json before = to_json(report)["shards"][1]["carried"];
  EXPECT_EQ(before,
            json::parse(R"({"rdma_ms": 5000, "tcp_ms": 1500, "to_rdma": 3, "to_tcp": 2, "last_switch": null})"));
  carried.last = {replication::PathTransport::tcp, switched, 4s, "The port is down."};
  json last = to_json(report)["shards"][1]["carried"]["last_switch"];
  EXPECT_NEAR(last["at_ms"].get<double>(), static_cast<double>(wall_clock_ms() - 10'000), 5'000);
  last.erase("at_ms");
  EXPECT_EQ(last, json::parse(R"({"to": "tcp", "after_ms": 4000, "why": "The port is down."})"));
}

struct NoEvents final : EventSink {
  void publish(Event) override {}
};

/// There is one, and nobody calls by it.
struct QuietFabric final : rdma::Fabric {
  void add_arena(std::span<std::byte>) override {}
  void remove_arena(std::span<std::byte>) override {}
  [[nodiscard]] rdma::Registrations registrations() const override {
    return {.regions = 4, .bytes = 4096, .made = 6, .refused = 1};
  }
  std::unique_ptr<rdma::Completions> attach(engine::Reactor&) override { return nullptr; }
  engine::Result<std::unique_ptr<rdma::Listener>> listen(rdma::Completions&, std::string_view,
                                                         engine::Callback<std::unique_ptr<rdma::Call>>) override {
    return engine::fail(engine::Errc::refused, "Nobody calls.");
  }
  std::unique_ptr<rdma::QueuePair> connect(rdma::Completions&, rdma::Domain, std::string_view, std::string_view,
                                           const rdma::Wanted&, std::span<const std::byte>,
                                           rdma::QueuePairUser&) override {
    return nullptr;
  }
};

/// Of a node with two reactors, on each of which something was moved.
NodeReport report_with(rdma::Fabric* fabric) {
  const engine::TestFolder folder;
  Configuration configuration;
  configuration.reactors = 2;
  configuration.buffer_mib = 1;
  Workers workers = make_workers(configuration).value();
  workers[0]->rdma_hosts.reads = 1;
  workers[1]->rdma_hosts.reads = 2;
  workers[1]->rdma_hosts.copied.control = 5;
  engine::SystemRandom random;
  NoEvents events;
  NodeOptions options;
  options.rdma = fabric;
  auto node = std::make_unique<Node>(workers, random, random.uuid(), folder.path(), events, std::move(options));
  for (const auto& worker : workers) worker->reactor.start();
  std::promise<NodeReport> told;
  workers[0]->reactor.post([&] { node->report([&](NodeReport report) { told.set_value(std::move(report)); }); });
  NodeReport report = told.get_future().get();
  for (const auto& worker : workers) worker->reactor.stop();
  for (const auto& worker : workers) worker->reactor.join();
  return report;
}

TEST(StatusOfRdma, AddsUpWhatEachReactorCounted) {
  QuietFabric fabric;
  const NodeReport report = report_with(&fabric);
  ASSERT_TRUE(report.rdma_hosts);
  EXPECT_EQ(report.rdma_hosts->reads, 3u);
  EXPECT_EQ(report.rdma_hosts->copied.control, 5u);
  EXPECT_EQ(report.rdma_registrations.regions, 4u);
  EXPECT_EQ(report.rdma_registrations.made, 6u);
}

TEST(StatusOfRdma, HasNoFiguresWhereThereIsNoFabric) { EXPECT_FALSE(report_with(nullptr).rdma_hosts); }

}  // namespace
}  // namespace lockstep::data_plane
