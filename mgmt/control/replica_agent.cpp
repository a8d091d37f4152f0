#include "mgmt/control/replica_agent.hpp"

#include <nlohmann/json.hpp>

#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
constexpr auto kReplicaPatience = 25s;  // less than the partner's, so that it hears the reason
constexpr auto kLookPatience = 3s;

}  // namespace

Outcome<void> ReplicaAgent::carry_out(const ReplicaOrder& order) {
  const auto side = core_.side();
  if (!side) return refuse(RefusalKind::no_pair, "This node is not in a pair.");
  const auto configuration = core_.configuration();
  const std::string id = order.volume.id.to_string();
  const auto files = replica_files(core_.local.volume_folder, order.volume.id, order.volume.copy(*side));
  std::string method;
  std::string parameters = json{{"volume", id}}.dump();
  switch (order.kind) {
    case ReplicaOrder::Kind::create:
      method = "replica.create";
      parameters = create_parameters(*configuration, order.volume, *side, order.birth, core_.local.volume_folder);
      break;
    case ReplicaOrder::Kind::remove:
      method = "replica.delete";
      parameters =
          json{{"volume", id}, {"side", side_name(*side)}, {"data", files.data}, {"metadata", files.metadata}}.dump();
      break;
    case ReplicaOrder::Kind::discard:
      method = "replica.delete";
      // A lockstepd that was told nothing does not know its side.
      parameters = json{
          {"volume", id},
          {"side", side_name(*side)},
          {"data", files.data},
          {"metadata", files.metadata},
          {"keep_witness",
           true}}.dump();
      break;
    case ReplicaOrder::Kind::leave:
      method = "volume.leave";
      break;
    case ReplicaOrder::Kind::force_solo:
      method = "volume.force_solo";
      parameters = json{{"volume", id}, {"accept_inconsistent", order.accept_inconsistent}}.dump();
      break;
    case ReplicaOrder::Kind::give_up:
      method = "volume.give_up";
      break;
    case ReplicaOrder::Kind::grow:
      method = "replica.grow";
      parameters = json{{"volume", id}, {"size", order.volume.size}}.dump();
      break;
  }
  auto answer = data_plane_.call(method, parameters, kReplicaPatience);
  if (!answer) return std::unexpected(answer.error());
  return {};
}

Outcome<NodeReport> ReplicaAgent::look() {
  auto answer = data_plane_.call("node.status", "{}", kLookPatience);
  auto status = answer ? status_from(*answer) : std::unexpected(answer.error());
  if (!status) return std::unexpected(status.error());
  NodeReport report;
  report.running = true;
  report.status = std::move(*status);
  report.at_ms = wall_clock_ms();
  return report;
}

}  // namespace lockstep::mgmt
