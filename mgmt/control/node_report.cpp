#include "mgmt/control/node_report.hpp"

#include <algorithm>

#include "mgmt/data_plane/volume_spec.hpp"
#include "mgmt/records/json.hpp"

namespace lockstep::mgmt {
namespace {

using records::json;
using records::Rules;

// As lockstepd says it (docs/developer/rpc.md), and so for the partner, too.
struct NodeMessage {
  static constexpr bool kNullIsMissing = true;
  static constexpr Rules rules(const ReplicaStatus*) {
    return {.written =
                "volume state serving access failover_limited size dirty_bytes allocated_bytes reason "
                "resync_running resync_total resync_done resync_rate reads writes read_bytes write_bytes",
            .renamed =
                "volume=id resync_running=resync/running resync_total=resync/bytes_total "
                "resync_done=resync/bytes_done resync_rate=resync/bytes_per_second reads=io/reads "
                "writes=io/writes read_bytes=io/read_bytes write_bytes=io/write_bytes"};
  }
  static constexpr Rules rules(const DataPlaneStatus*) {
    return {.written =
                "version process revision uptime_ms partner_connected partner_path partner_since_ms "
                "witness_kind witness_changing volumes sessions findings",
            .renamed =
                "lease_ms=lease/ms lease_settled=lease/settled "
                "partner_connected=partner/connected partner_path=partner/path "
                "partner_why_not_rdma=partner/why_not_rdma "
                "partner_since_ms=partner/since_ms partner_cipher=partner/cipher partner_paths=partner/paths "
                "witness_kind=witness/kind witness_reachable=witness/reachable witness_changing=witness/changing "
                "rdma_findings=rdma/findings rdma_counters=rdma/counters rdma_registrations=rdma/registrations "
                "rdma_hosts=rdma/hosts rdma_link=rdma/link"};
  }
  static constexpr Rules rules(const RdmaFigures*) {
    return {.written = "*",
            .renamed =
                "copied_immediate_prefix=copied/immediate_prefix copied_ahs=copied/ahs "
                "copied_bounce=copied/bounce copied_control=copied/control copied_cipher=copied/cipher "
                "error_length=errors/length error_remote_access=errors/remote_access "
                "error_remote_invalid=errors/remote_invalid error_remote_operation=errors/remote_operation "
                "error_local_protection=errors/local_protection error_local_operation=errors/local_operation "
                "error_no_answer=errors/no_answer error_no_receive=errors/no_receive error_other=errors/other "
                "connections=queues/connections work=queues/work work_depth=queues/depth work_most=queues/most"};
  }
  static constexpr Rules rules(const SessionStatus*) { return {.written = "initiator address portal since_ms"}; }
  static constexpr Rules rules(const void*) { return {.written = "*"}; }

  static void read(const json&, ReplicaStatus& replica) {
    if (replica.epoch && replica.epoch->number <= 0) replica.epoch.reset();
  }
  // Without a witness there is none to be reached.
  static void read(const json&, DataPlaneStatus& status) {
    if (status.witness_kind != "witness" && status.witness_kind != "fence") status.witness_reachable.reset();
    std::erase_if(status.shards,
                  [](const ShardStatus& shard) { return shard.number < 0 || shard.number >= data_plane::kMaxShards; });
  }
};

}  // namespace

const ReplicaStatus* DataPlaneStatus::volume(const engine::Uuid& id) const {
  const auto found = std::ranges::find(volumes, id, &ReplicaStatus::volume);
  return found == volumes.end() ? nullptr : &*found;
}

bool NodeReport::misses(const engine::Uuid& volume) const {
  const bool attached = status && status->volume(volume);
  return !attached && std::ranges::find(missing, volume) != missing.end();
}

bool NodeReport::is_held_back() const {
  return std::ranges::find(problems, kHeldBack, &ApplyProblem::object) != problems.end();
}

bool is_linked(const NodeReport& report) {
  return report.status &&
         (report.status->partner_connected || std::ranges::any_of(report.status->shards, &ShardStatus::connected));
}

Outcome<DataPlaneStatus> status_from(std::string_view text) {
  try {
    return records::from_json<NodeMessage, DataPlaneStatus>(json::parse(text));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::internal, std::string("lockstepd's status cannot be read: ") + e.what());
  }
}

std::string to_json_text(const NodeReport& report) {
  return records::to_json<NodeMessage>(report).dump(-1, ' ', false, json::error_handler_t::replace);
}

Outcome<NodeReport> report_from(std::string_view text) {
  try {
    return records::from_json<NodeMessage, NodeReport>(json::parse(text));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::internal, std::string("The partner's report cannot be read: ") + e.what());
  }
}

}  // namespace lockstep::mgmt
