// What node.status says of RDMA.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/data_plane/status.hpp"

namespace lockstep::data_plane {
namespace {

using nlohmann::json;

TEST(StatusOfRdma, SaysNothingWhereNoDeviceIsInUse) {
  const json rdma = to_json(NodeReport{})["rdma"];
  EXPECT_EQ(rdma, json::parse(R"({"findings": [], "hosts": null})"));
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
  one.eager = 9, one.invalidations = 10, one.starved = 11;
  one.copied = {.immediate_prefix = 12, .ahs = 13, .bounce = 14, .control = 15};
  NodeReport report;
  report.rdma_hosts = one;
  *report.rdma_hosts += one;
  EXPECT_EQ(to_json(report)["rdma"]["hosts"], json::parse(R"({
    "messages_in": 2, "messages_out": 4, "bytes_in": 6, "bytes_out": 8, "reads": 10, "writes": 12, "bytes_read": 14,
    "bytes_written": 16, "eager": 18, "invalidations": 20, "starved": 22,
    "copied": {"immediate_prefix": 24, "ahs": 26, "bounce": 28, "control": 30}})"));
}

}  // namespace
}  // namespace lockstep::data_plane
