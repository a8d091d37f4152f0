// What stands between the wire and the resources: targets, routes, bodies, problems, figures.
#include <gtest/gtest.h>

#include "engine/rdma/status.hpp"
#include "mgmt/control/bounded_json.hpp"
#include "ui-api/rest/fields.hpp"
#include "ui-api/rest/http.hpp"
#include "ui-api/rest/json_views.hpp"
#include "ui-api/rest/metrics.hpp"
#include "ui-api/rest/problem.hpp"
#include "ui-api/rest/router.hpp"

namespace lockstep::ui_api {
namespace {

using mgmt::RefusalKind;
using nlohmann::json;

TEST(Target, IsSplitAndDecoded) {
  Request r;
  ASSERT_TRUE(parse_target("/api/v1/initiators/iqn.2000-01.com%3Ah%2F1?confirm=a%26b&limit=5&x", r));
  EXPECT_EQ(r.segments, (std::vector<std::string>{"api", "v1", "initiators", "iqn.2000-01.com:h/1"}));
  EXPECT_EQ(r.query["confirm"], "a&b");
  EXPECT_EQ(r.query["limit"], "5");
  EXPECT_EQ(r.query["x"], "");
}

TEST(Target, MalformedOnesAreRefused) {
  for (const char* target : {"", "x", "*", "/%", "/%1", "/%zz", "/a?b=%", "/%00"}) {
    Request r;
    EXPECT_FALSE(parse_target(target, r)) << target;
  }
}

TEST(Target, ATrailingSlashIsPassedOver) {
  Request r;
  ASSERT_TRUE(parse_target("/api/v1/volumes/", r));
  EXPECT_EQ(r.segments.size(), 3u);
  Request root;
  ASSERT_TRUE(parse_target("/", root));
  EXPECT_TRUE(root.segments.empty());
}

class RouterTest : public ::testing::Test {
 protected:
  Router router_;
  void SetUp() override {
    const auto nothing = [](const Call&) { return Response(); };
    router_.add({"GET", "/v/{id}", Access::viewer, false, nothing});
    router_.add({"DELETE", "/v/{id}", Access::admin, true, nothing});
    router_.add({"GET", "/v", Access::viewer, false, nothing});
  }
  Router::Match match(const char* method, const char* target) {
    Request r;
    r.method = method;
    EXPECT_TRUE(parse_target(target, r));
    return router_.match(r);
  }
};

TEST_F(RouterTest, FindsTheRouteAndItsParameters) {
  const auto found = match("DELETE", "/v/7");
  ASSERT_TRUE(found.route);
  EXPECT_EQ(found.route->method, "DELETE");
  EXPECT_EQ(found.parameters, std::vector<std::string>{"7"});
}

TEST_F(RouterTest, TellsAnUnknownMethodFromAnUnknownPath) {
  EXPECT_EQ(match("PUT", "/v/7").allow, "GET, HEAD, DELETE");
  EXPECT_EQ(match("GET", "/w").allow, "");
  EXPECT_EQ(match("GET", "/v/7/8").allow, "");
}

TEST(Body, OnlyJsonIsRead) {
  Request r;
  r.body = "{}";
  for (const char* type : {"", "text/plain", "application/jsonx", "application/x-www-form-urlencoded"}) {
    r.content_type = type;
    EXPECT_EQ(body_of(r).error().kind, RefusalKind::unsupported_media_type) << type;
  }
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/json ;x=y"}) {
    r.content_type = type;
    EXPECT_TRUE(body_of(r)) << type;
  }
}

TEST(Body, MalformedJsonIsMalformed) {
  Request r;
  r.content_type = "application/json";
  for (const std::string& body : {std::string(), std::string("{"), std::string("{\"a\":1}x"), std::string("nul"),
                                  std::string("\"\xff\""), std::string(100000, '[')}) {
    r.body = body;
    const auto refused = body_of(r);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, RefusalKind::malformed);
  }
}

TEST(Json, IsBoundedByItsValuesAndItsDepth) {
  const mgmt::JsonBounds bounds{.values = 5, .depth = 2};
  for (const char* fine : {"[1,2,3,4]", R"({"a":[1]})", "[[]]", "", "{", "[1,}"}) {
    EXPECT_TRUE(mgmt::within_bounds(fine, bounds)) << fine;
  }
  for (const char* bad : {"[1,2,3,4,5]", "[[[", R"({"a":1,"b":2,"c":3})", "[1,2,3,4,5,}"}) {
    EXPECT_FALSE(mgmt::within_bounds(bad, bounds)) << bad;
  }
}

TEST(Fields, EveryComplaintIsGatheredWithItsPointer) {
  const json body = json::parse(R"({"size": "big", "thin": 1, "list": ["a", 2], "node": [], "a/b~c": 1, "kind": "x"})");
  Problems problems;
  Fields fields(body, "", problems);
  EXPECT_FALSE(fields.text("name", Presence::required));
  EXPECT_FALSE(fields.integer("size", Presence::required, 0, 9));
  EXPECT_FALSE(fields.flag("thin", Presence::optional));
  (void)fields.texts("list", Presence::optional);
  (void)fields.object("node", Presence::optional);
  EXPECT_FALSE(fields.one_of("kind", Presence::required, {"y", "z"}));
  EXPECT_FALSE(fields.flag("missing", Presence::optional));
  fields.nothing_else();
  std::vector<std::string> pointers;
  for (const auto& p : problems) pointers.push_back(p.pointer);
  EXPECT_EQ(pointers, (std::vector<std::string>{"/name", "/size", "/thin", "/list/1", "/node", "/kind", "/a~1b~0c"}));
}

TEST(Fields, IntegersAreBoundedAndNeverWrap) {
  for (const char* text : {"18446744073709551615", "9223372036854775808", "-1", "10", "1e3", "1.5", "1e400"}) {
    const json body = json::parse(std::string(R"({"n": )") + text + "}", nullptr, false);
    if (body.is_discarded()) continue;
    Problems problems;
    Fields fields(body, "", problems);
    EXPECT_FALSE(fields.integer("n", Presence::required, 0, 9)) << text;
    EXPECT_EQ(problems.size(), 1u);
  }
}

TEST(Fields, WhatIsNoObjectIsComplainedAboutOnce) {
  const json body = json::array();
  Problems problems;
  Fields fields(body, "", problems);
  EXPECT_FALSE(fields.text("name", Presence::required));
  fields.nothing_else();
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].pointer, "");
}

TEST(Problem, IsADocumentWithTypeStatusAndFields) {
  const Response r = problem({RefusalKind::not_current, "Away.", {{"/name", "Taken."}}});
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.content_type, "application/problem+json");
  const json body = json::parse(r.body);
  EXPECT_EQ(body["type"], "urn:lockstep:problem:not-current");
  EXPECT_EQ(body["status"], 503);
  EXPECT_EQ(body["errors"][0]["pointer"], "/name");
}

TEST(Problem, TextThatIsNotUtf8DoesNotBreakIt) {
  EXPECT_TRUE(json::accept(problem(RefusalKind::conflict, "\xff\xfe").body));
}

TEST(Time, IsRfc3339InUtcWithMilliseconds) { EXPECT_EQ(rfc3339(1'000'000'000'007), "2001-09-09T01:46:40.007Z"); }

TEST(Metrics, CarryThePairAndMirrorTheStatus) {
  auto configuration = std::make_shared<mgmt::Configuration>();
  configuration->pair.emplace();
  configuration->pair->name = "pair1";
  configuration->nodes.push_back({{}, mgmt::NodeSide::a, "node-a", {}, "", "", ""});
  mgmt::Volume volume;
  volume.name = "vm\"1";
  configuration->volumes.push_back(volume);
  mgmt::PairView view;
  view.configuration = configuration;
  view.local_side = mgmt::NodeSide::a;
  mgmt::NodeView& node = view.nodes[0];
  node.node = &configuration->nodes[0];
  node.report.running = true;
  mgmt::DataPlaneStatus status;
  mgmt::ReplicaStatus replica;
  replica.state = "solo";
  replica.reads = 12;
  status.volumes.push_back(replica);
  node.report.status = status;
  const std::string text = metrics_text(view);
  EXPECT_NE(text.find(R"(lockstep_volume_reads_total{pair="pair1",node="node-a",volume="vm\"1"} 12)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"(state="solo"} 1)"), std::string::npos);
  EXPECT_NE(text.find(R"(state="in_sync"} 0)"), std::string::npos);
  EXPECT_EQ(text.find("lockstep_witness_reachable"), std::string::npos) << "not known, so not said";
  EXPECT_EQ(text.find("lockstep_transport_"), std::string::npos) << "no RDMA device is in use";
}

TEST(Metrics, TellWhatWentOverRdmaAndWhyWhatWasCopied) {
  mgmt::Configuration configuration;
  configuration.nodes.push_back({{}, mgmt::NodeSide::a, "node-a", {}, "", "", ""});
  mgmt::PairView view;
  view.configuration = std::make_shared<mgmt::Configuration>(configuration);
  view.local_side = mgmt::NodeSide::a;
  view.nodes[0].node = &view.configuration->nodes[0];
  view.nodes[0].report.running = true;
  const auto status = mgmt::status_from(R"json({"rdma": {"findings": [], "hosts": {
      "messages_in": 1, "messages_out": 2, "bytes_in": 3, "bytes_out": 4, "reads": 5, "writes": 6, "bytes_read": 7,
      "bytes_written": 8, "eager": 9, "invalidations": 10, "starved": 11, "windows": 16,
      "copied": {"immediate_prefix": 12, "ahs": 13, "bounce": 14, "control": 15, "cipher": 17}},
      "link": {"messages_in": 21, "windows": 22, "copied": {"control": 23}, "invalidated": 24, "hidden": 25,
        "errors": {"length": 31, "remote_access": 32, "remote_invalid": 33, "remote_operation": 34,
                   "local_protection": 35, "local_operation": 36, "no_answer": 37, "no_receive": 38, "other": 39},
        "queues": {"connections": 26, "work": 27, "depth": 28, "most": 29}}}})json");
  ASSERT_TRUE(status);
  view.nodes[0].report.status = *status;
  const std::string text = metrics_text(view);
  const auto told = [&](const std::string& name, const std::string& reason, int value,
                        const std::string& by = "hosts") {
    const std::string line = name + R"({pair="",node="node-a",transport="rdma",used_by=")" + by + '"' + reason + "} " +
                             std::to_string(value) + "\n";
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  };
  told("lockstep_transport_received_messages_total", "", 1);
  told("lockstep_transport_sent_messages_total", "", 2);
  told("lockstep_transport_received_bytes_total", "", 3);
  told("lockstep_transport_sent_bytes_total", "", 4);
  told("lockstep_transport_reads_total", "", 5);
  told("lockstep_transport_writes_total", "", 6);
  told("lockstep_transport_read_bytes_total", "", 7);
  told("lockstep_transport_written_bytes_total", "", 8);
  told("lockstep_transport_eager_total", "", 9);
  told("lockstep_transport_invalidations_total", "", 10);
  told("lockstep_transport_starved_total", "", 11);
  told("lockstep_transport_copied_bytes_total", R"(,reason="immediate_prefix")", 12);
  told("lockstep_transport_copied_bytes_total", R"(,reason="ahs")", 13);
  told("lockstep_transport_copied_bytes_total", R"(,reason="bounce")", 14);
  told("lockstep_transport_copied_bytes_total", R"(,reason="control")", 15);
  told("lockstep_transport_copied_bytes_total", R"(,reason="cipher")", 17);
  told("lockstep_transport_windows_total", "", 16);
  told("lockstep_transport_received_messages_total", "", 21, "link");
  told("lockstep_transport_windows_total", "", 22, "link");
  told("lockstep_transport_copied_bytes_total", R"(,reason="control")", 23, "link");
  told("lockstep_transport_windows_invalidated_total", "", 24, "link");
  told("lockstep_transport_windows_hidden_total", "", 25, "link");
  int value = 31;
  for (const char* name : rdma::kStatusNames)
    told("lockstep_transport_errors_total", std::string(",status=\"") + name + '"', value++, "link");
  told("lockstep_transport_connections", "", 26, "link");
  told("lockstep_transport_work", "", 27, "link");
  told("lockstep_transport_work_depth", "", 28, "link");
  told("lockstep_transport_work_most", "", 29, "link");
  EXPECT_EQ(text.find("lockstep_rdma_"), std::string::npos) << "it does not tell";
  EXPECT_EQ(text.find("lockstep_link_switches"), std::string::npos) << "it does not tell";
  const std::string help = "# HELP lockstep_transport_windows_total ";
  ASSERT_NE(text.find(help), std::string::npos);
  EXPECT_EQ(text.find(help), text.rfind(help)) << "all figures of a name stand together";
}

/// Of a node that says this.
mgmt::PairView view_of(const mgmt::Configuration& configuration, const char* status) {
  mgmt::PairView view;
  view.configuration = std::make_shared<mgmt::Configuration>(configuration);
  view.local_side = mgmt::NodeSide::a;
  view.nodes[0].node = &view.configuration->nodes[0];
  view.nodes[0].reachable = true;
  view.nodes[0].report.running = true;
  view.nodes[0].report.status = mgmt::status_from(status).value();
  return view;
}

mgmt::Configuration one_node() {
  mgmt::Configuration configuration;
  configuration.nodes.push_back({{}, mgmt::NodeSide::a, "node-a", {}, "", "", ""});
  return configuration;
}

TEST(Metrics, TellWhatRdmaDevicesHoldAndCount) {
  const std::string text = metrics_text(view_of(one_node(), R"json({"rdma": {"findings": [],
      "registrations": {"regions": 8, "bytes": 4096, "made": 10, "refused": 1},
      "counters": [{"device": "mlx5_0", "port": 1, "kind": "packets_lost", "name": "out_of_sequence", "value": 12},
                   {"device": "mlx5_0", "port": 1, "kind": "no_receive", "name": "out_of_buffer", "value": 0}]}})json"));
  for (const char* line : {R"(lockstep_rdma_regions{pair="",node="node-a"} 8)",
                           R"(lockstep_rdma_registered_bytes{pair="",node="node-a"} 4096)",
                           R"(lockstep_rdma_registrations_total{pair="",node="node-a"} 10)",
                           R"(lockstep_rdma_registrations_refused_total{pair="",node="node-a"} 1)",
                           R"(device="mlx5_0",port="1",kind="packets_lost",counter="out_of_sequence"} 12)",
                           R"(device="mlx5_0",port="1",kind="no_receive",counter="out_of_buffer"} 0)"})
    EXPECT_NE(text.find(std::string(line) + "\n"), std::string::npos) << line << "\n" << text;
}

constexpr const char* kSwitched = R"json({"partner": {"connected": true, "path": "tcp", "why_not_rdma": "It was cut."},
    "shards": [{"number": 0, "carried": {"rdma_ms": 5500, "tcp_ms": 250, "to_rdma": 3, "to_tcp": 2, "last_switch": {
                  "to": "rdma", "at_ms": 1700000000000, "after_ms": 800, "why": ""}}},
               {"number": 1, "carried": {"rdma_ms": 1, "tcp_ms": 2, "to_rdma": 1, "to_tcp": 1, "last_switch": {
                  "to": "tcp", "at_ms": 1700000060000, "after_ms": 61500, "why": "It was cut."}}},
               {"number": 2}]})json";

TEST(Metrics, TellHowOftenAShardsDataWentOverAndHowLongItWasByEach) {
  const std::string text = metrics_text(view_of(one_node(), kSwitched));
  for (const char* line :
       {R"(lockstep_link_switches_total{pair="",node="node-a",shard="0",to="rdma"} 3)",
        R"(lockstep_link_switches_total{pair="",node="node-a",shard="1",to="tcp"} 1)",
        R"(lockstep_link_carried_seconds_total{pair="",node="node-a",shard="0",transport="rdma"} 5.5)",
        R"(lockstep_link_carried_seconds_total{pair="",node="node-a",shard="0",transport="tcp"} 0.25)"})
    EXPECT_NE(text.find(std::string(line) + "\n"), std::string::npos) << line << "\n" << text;
  EXPECT_EQ(text.find("shard=\"2\""), std::string::npos) << "it does not tell";
}

TEST(PairLink, TellsTheLastSwitchOfAllShards) {
  const auto link = pair_link_json(view_of(one_node(), kSwitched));
  const auto& carrier = link["carriers"][0];
  EXPECT_EQ(carrier["switches"], 7);
  EXPECT_EQ(carrier["last_switch"], nlohmann::json::parse(R"({"to": "tcp", "at": "2023-11-14T22:14:20.000Z",
      "after_seconds": 61.5, "why": "It was cut."})"));
}

TEST(PairLink, TellsNoSwitchOfANodeWithoutRdma) {
  const auto link = pair_link_json(view_of(one_node(), R"({"shards": [{"number": 0}]})"));
  EXPECT_EQ(link["carriers"][0]["switches"], nullptr);
  EXPECT_EQ(link["carriers"][0]["last_switch"], nullptr);
}

}  // namespace
}  // namespace lockstep::ui_api
