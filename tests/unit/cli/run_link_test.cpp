// The whole command: the paths of the replication link.
#include "tests/unit/cli/run_fixture.hpp"

namespace lockstep::cli {
namespace {

json end(const char* side, const char* address, const char* state = "proven", const char* problem = "") {
  return {{"side", side},       {"node", std::string("node-") + side},
          {"address", address}, {"transport", "tcp"},
          {"state", state},     {"from", nullptr},
          {"to", nullptr},      {"cipher", nullptr},
          {"problem", problem}, {"round_trip_us", nullptr},
          {"bytes_out", 0},     {"bytes_in", 0},
          {"losses", 0}};
}

json path(int number, const json& a, const json& b, bool last_resort = false) {
  return {{"number", number}, {"last_resort", last_resort}, {"nodes", {a, b}}};
}

json first() { return path(1, end("a", "10.1.0.11:3261"), end("b", "[fd00::12]:3262")); }

json link(const std::vector<json>& more = {}) {
  json paths = json::array({first()});
  for (const json& one : more) paths.push_back(one);
  return {{"paths", paths}};
}

TEST_F(Run, LinkShowsThePathsAndWhyOneIsNotUsed) {
  json busy = first();
  busy["nodes"][0].update(json{{"round_trip_us", 87}, {"bytes_out", 1048576}, {"bytes_in", 512}, {"losses", 3}});
  busy["nodes"][1].update(json{{"bytes_out", 1048064}, {"bytes_in", 0}, {"losses", 1}});
  json all = link({path(2, end("a", "10.9.0.11:3261", "down", "It does not answer."),
                        end("b", "10.9.0.12:3261", "unknown", "The node cannot be asked."), true)});
  all["paths"][0] = busy;
  answer("GET /api/v1/pair/link", 200, all);
  EXPECT_EQ(run({"link"}), 0);
  EXPECT_EQ(out_.str(),
            "#  ADDRESS OF A    ADDRESS OF B     TRANSPORT  STATE           ROUND TRIP  BYTES  LOSSES  FOR\n"
            "1  10.1.0.11:3261  [fd00::12]:3262  tcp        proven             0.09 ms  2 MiB       3  data\n"
            "2  10.9.0.11:3261  10.9.0.12:3261   tcp        down / unknown           -    0 B       0  last resort\n"
            "Path 2 is not used:\n"
            "  node-a: It does not answer.\n"
            "  node-b: The node cannot be asked.\n");
}

TEST_F(Run, LinkSaysWhoseKernelEncrypts) {
  json all = link({first()});
  for (json& node : all["paths"][0]["nodes"]) node["kernel_tls"] = true;
  all["paths"][1]["nodes"][1]["kernel_tls"] = true;
  answer("GET /api/v1/pair/link", 200, all);
  EXPECT_EQ(run({"link"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("  tcp, TLS by the kernel  "));
  EXPECT_THAT(out_.str(), HasSubstr("  tcp, TLS by the kernel of node-b  "));
}

TEST_F(Run, LinkSaysWhatCarriesTheDataAndWhyNotRdma) {
  json all = link();
  for (json& node : all["paths"][0]["nodes"]) node["rdma"] = {{"state", "proving"}, {"problem", ""}, {"losses", 1}};
  all["carriers"] = {
      {{"side", "a"}, {"node", "node-a"}, {"transport", "tcp"}, {"why_not_rdma", "The path has to prove itself."}},
      {{"side", "b"}, {"node", "node-b"}, {"transport", "rdma"}, {"why_not_rdma", nullptr}, {"cipher", "AES-256-GCM"}}};
  answer("GET /api/v1/pair/link", 200, all);
  EXPECT_EQ(run({"link"}), 0);
  EXPECT_EQ(out_.str(),
            "#  ADDRESS OF A    ADDRESS OF B     TRANSPORT                   STATE   ROUND TRIP  BYTES  LOSSES  FOR\n"
            "1  10.1.0.11:3261  [fd00::12]:3262  tcp, rdma proving (1 lost)  proven           -    0 B       0  data\n"
            "node-a: TCP carries the data. The path has to prove itself.\n"
            "node-b: RDMA carries the data, encrypted with AES-256-GCM: the processor copies it for that.\n");
}

TEST_F(Run, LinkShowsHowFarRdmaIsOnEachNodeAndWhyAPathOfItIsDown) {
  json all = link({path(2, end("a", "10.9.0.11:3261"), end("b", "10.9.0.12:3261"))});
  json& nodes = all["paths"][0]["nodes"];
  nodes[0]["rdma"] = {{"state", "proven"}, {"problem", ""}, {"losses", 0}};
  nodes[1]["rdma"] = {{"state", "down"}, {"problem", "Nobody answers."}, {"losses", 1}};
  all["paths"][1]["nodes"][1]["rdma"] = {{"state", "down"}, {"problem", "It was cut."}, {"losses", 2}};
  all["carriers"] = {{{"side", "a"}, {"node", "node-a"}, {"transport", "rdma"}, {"why_not_rdma", nullptr}},
                     {{"side", "b"}, {"node", "node-b"}, {"transport", "tcp"}, {"why_not_rdma", "Nobody answers."}}};
  answer("GET /api/v1/pair/link", 200, all);
  EXPECT_EQ(run({"link"}), 0);
  EXPECT_NE(out_.str().find("  tcp, rdma proven / down (1 lost)  "), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("  tcp, rdma - / down (2 lost)  "), std::string::npos) << out_.str();
  EXPECT_NE(out_.str().find("Path 2 is not used over RDMA:\n  node-b: It was cut.\n"
                            "node-a: RDMA carries the data.\n"
                            "node-b: TCP carries the data. Nobody answers.\n"),
            std::string::npos)
      << out_.str();
}

TEST_F(Run, LinkAnswersInJson) {
  answer("GET /api/v1/pair/link", 200, link());
  EXPECT_EQ(run({"link", "--json"}), 0);
  EXPECT_EQ(json::parse(out_.str()), link());
}

TEST_F(Run, LinkAddWaitsUntilThePathIsThereAndTakesTheFirstOnesPorts) {
  answer("GET /api/v1/pair/link", 200, link());
  answer("POST /api/v1/pair/link/paths", 201, link());
  const auto with = [&](const char* a, const char* b) {
    answer("GET /api/v1/pair/link", 200,
           link({path(2, end("a", "10.9.0.11:3261", a), end("b", "[fd09::12]:3262", b), true)}));
  };
  answer("GET /api/v1/pair/link", 200, link());  // the node that was asked learns of it a moment later
  with("down", "joining");
  with("proven", "down");
  with("proving", "proven");
  EXPECT_EQ(run({"link", "add", "--a", "10.9.0.11", "--b", "fd09::12", "--last-resort"}), 0) << err_.str();
  EXPECT_EQ(sent(1), (json{{"a", "10.9.0.11:3261"}, {"b", "[fd09::12]:3262"}, {"last_resort", true}}));
  EXPECT_EQ(slept_, 3);
  EXPECT_THAT(out_.str(), HasSubstr("proving / proven"));
  EXPECT_EQ(out_.str().find("not used"), std::string::npos);
}

TEST_F(Run, LinkAddEndsWithWhyThePathIsNotThere) {
  answer("GET /api/v1/pair/link", 200, link());
  answer("POST /api/v1/pair/link/paths", 201, link());
  for (int i = 0; i < 31; ++i)
    answer("GET /api/v1/pair/link", 200,
           link({path(2, end("a", "10.9.0.11:1", "down", "10.9.0.12:2 does not answer."), end("b", "10.9.0.12:2"))}));
  EXPECT_EQ(run({"link", "add", "--a", "10.9.0.11:1", "--b", "10.9.0.12:2"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("The path is configured, but is not there yet"));
  EXPECT_THAT(err_.str(), HasSubstr("  node-a: 10.9.0.12:2 does not answer.\n"));
  EXPECT_EQ(err_.str().find("node-b"), std::string::npos);
  EXPECT_EQ(slept_, 30);
}

TEST_F(Run, LinkAddIsRefusedForWhatIsNoAddressAndWithoutOne) {
  answer("GET /api/v1/pair/link", 200, link());
  EXPECT_EQ(run({"link", "add", "--a", "node-a", "--b", "10.9.0.12"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("\"node-a\" is no address: say --a ADDRESS:PORT."));
  EXPECT_EQ(run({"link", "add", "--a", "10.9.0.11:1"}), 2);
}

TEST_F(Run, LinkRemoveNamesAnAddress) {
  answer("DELETE /api/v1/pair/link/paths/%5Bfd09%3A%3A12%5D%3A3262", 204);
  EXPECT_EQ(run({"link", "remove", "[fd09::12]:3262"}), 0);
  EXPECT_EQ(out_.str(), "The link goes over the other paths.\n");
  EXPECT_EQ(run({"link", "remove"}), 2);
  EXPECT_EQ(run({"link", "wiggle"}), 2);
}

json measured(int number, std::vector<std::string> findings = {}) {
  return {{"path", number},
          {"node", "node-a"},
          {"from", "10.1.0.11"},
          {"to", "10.1.0.12:3261"},
          {"transport", "tcp"},
          {"sizes",
           {{{"bytes", 64},
             {"round_trips", 9},
             {"least_us", 50.4},
             {"median_us", 61},
             {"p99_us", 90.6},
             {"bytes_a_second", 1048576 * 3 / 2}}}},
          {"findings", findings}};
}

TEST_F(Run, LinkTestMeasuresEachPathAndSaysWhatStandsOut) {
  answer("GET /api/v1/pair/link", 200, link({path(2, end("a", "10.9.0.11:1"), end("b", "10.9.0.12:2"))}));
  answer("POST /api/v1/pair/link/measurement", 200, measured(1));
  answer("POST /api/v1/pair/link/measurement", 200, measured(2, {"It is slow."}));
  EXPECT_EQ(run({"link", "test"}), 0) << err_.str();
  EXPECT_EQ(out_.str(),
            "Path 1, from node-a (10.1.0.11) to 10.1.0.12:3261 by tcp:\n"
            "SIZE  LEAST  MEDIAN    P99       RATE\n"
            "64 B  50 us   61 us  91 us  1.5 MiB/s\n"
            "Nothing stands out.\n"
            "Path 2, from node-a (10.1.0.11) to 10.1.0.12:3261 by tcp:\n"
            "SIZE  LEAST  MEDIAN    P99       RATE\n"
            "64 B  50 us   61 us  91 us  1.5 MiB/s\n"
            "- It is slow.\n");
}

TEST_F(Run, LinkTestMeasuresRdmaBesideTcpWhereItIsUp) {
  json all = link({path(2, end("a", "10.9.0.11:1"), end("b", "10.9.0.12:2"))});
  all["paths"][0]["nodes"][0]["rdma"] = {{"state", "proving"}, {"problem", ""}, {"losses", 1}};
  all["paths"][1]["nodes"][0]["rdma"] = {{"state", "down"}, {"problem", "It was cut."}, {"losses", 2}};
  answer("GET /api/v1/pair/link", 200, all);
  answer("POST /api/v1/pair/link/measurement", 200, measured(1));
  json by_rdma = measured(1);
  by_rdma["transport"] = "rdma";
  answer("POST /api/v1/pair/link/measurement", 200, by_rdma);
  answer("POST /api/v1/pair/link/measurement", 200, measured(2));
  EXPECT_EQ(run({"link", "test"}), 0) << err_.str();
  EXPECT_NE(out_.str().find("to 10.1.0.12:3261 by rdma:"), std::string::npos) << out_.str();
  EXPECT_EQ(sent(1), json({{"path", 1}}));
  EXPECT_EQ(sent(2), json({{"path", 1}, {"transport", "rdma"}}));
  EXPECT_EQ(sent(3), json({{"path", 2}}));
}

TEST_F(Run, LinkTestOfOnePathThatIsDownFails) {
  answer("GET /api/v1/pair/link", 200, link({path(2, end("a", "10.9.0.11:1"), end("b", "10.9.0.12:2"))}));
  answer("POST /api/v1/pair/link/measurement", 409,
         json{{"type", "urn:lockstep:problem:conflict"}, {"title", "Conflict"}, {"detail", "The path is down: Cut."}});
  EXPECT_EQ(run({"link", "test", "--path", "2"}), 1);
  EXPECT_NE(err_.str().find("Path 2 could not be measured by tcp"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("The path is down: Cut."), std::string::npos) << err_.str();
}

}  // namespace
}  // namespace lockstep::cli
