#include "ui-api/rest/metrics.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "mgmt/control/link_paths.hpp"

namespace lockstep::ui_api {
namespace {

using namespace mgmt;
using Labels = std::vector<std::pair<std::string, std::string>>;
using prometheus::MetricType;

constexpr const char* kStates[] = {"starting",  "in_sync", "solo",        "syncing_source", "syncing_target",
                                   "suspended", "waiting", "split_brain", "failed",         "left"};

class Figures {
 public:
  explicit Figures(Labels common) : common_(std::move(common)) {}

  void add(const char* name, const char* help, MetricType type, double value, const Labels& labels = {}) {
    auto family = std::ranges::find(families_, name, &prometheus::MetricFamily::name);
    if (family == families_.end()) family = families_.insert(family, {name, help, type, {}});
    prometheus::ClientMetric metric;
    for (const auto& [key, value_text] : common_) metric.label.push_back({key, value_text});
    for (const auto& [key, value_text] : labels) metric.label.push_back({key, value_text});
    if (type == MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    family->metric.push_back(std::move(metric));
  }
  void gauge(const char* name, const char* help, double value, const Labels& labels = {}) {
    add(name, help, MetricType::Gauge, value, labels);
  }
  [[nodiscard]] std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  Labels common_;
  std::vector<prometheus::MetricFamily> families_;
};

using ReplicaFigure = std::int64_t ReplicaStatus::*;

struct VolumeFigures {
  const char* name;
  const char* help;
  MetricType type;
  ReplicaFigure value;
};

constexpr VolumeFigures kVolumeFigures[] = {
    {"lockstep_volume_dirty_bytes", "What the partner may lack.", MetricType::Gauge, &ReplicaStatus::dirty_bytes},
    {"lockstep_volume_allocated_bytes", "Space taken on this node's disk.", MetricType::Gauge,
     &ReplicaStatus::allocated_bytes},
    {"lockstep_resync_bytes_total", "What was to be compared or copied when the resync began.", MetricType::Gauge,
     &ReplicaStatus::resync_total},
    {"lockstep_resync_bytes_done", "How much of it is done.", MetricType::Gauge, &ReplicaStatus::resync_done},
    {"lockstep_resync_bytes_per_second", "How fast it goes.", MetricType::Gauge, &ReplicaStatus::resync_rate},
    {"lockstep_volume_reads_total", "Reads by initiators through this node.", MetricType::Counter,
     &ReplicaStatus::reads},
    {"lockstep_volume_writes_total", "Writes by initiators through this node.", MetricType::Counter,
     &ReplicaStatus::writes},
    {"lockstep_volume_read_bytes_total", "Bytes read by initiators through this node.", MetricType::Counter,
     &ReplicaStatus::read_bytes},
    {"lockstep_volume_written_bytes_total", "Bytes written by initiators through this node.", MetricType::Counter,
     &ReplicaStatus::write_bytes},
};

void add_volumes(Figures& figures, const PairView& view, const DataPlaneStatus& status) {
  const auto& volumes = view.configuration->volumes;
  const auto each = [&](const auto& use) {
    for (const auto& v : volumes)
      if (const ReplicaStatus* r = status.volume(v.id)) use(*r, Labels{{"volume", v.name}});
  };
  for (const auto& v : volumes)
    figures.gauge("lockstep_volume_size_bytes", "The volume's size.", static_cast<double>(v.size),
                  {{"volume", v.name}});
  each([&](const ReplicaStatus& r, const Labels& labels) {
    for (const char* state : kStates) {
      Labels with_state = labels;
      with_state.emplace_back("state", state);
      figures.gauge("lockstep_volume_state", "1 for the state that this node's replica is in.", r.state == state,
                    with_state);
    }
  });
  each([&](const ReplicaStatus& r, const Labels& labels) {
    figures.gauge("lockstep_volume_serving", "1 while this node answers initiators.", r.serving, labels);
  });
  each([&](const ReplicaStatus& r, const Labels& labels) {
    figures.gauge("lockstep_volume_failover_limited", "1 while the witness has not been told yet.", r.failover_limited,
                  labels);
  });
  each([&](const ReplicaStatus& r, const Labels& labels) {
    figures.gauge("lockstep_resync_running", "1 while a resync runs.", r.resync_running, labels);
  });
  for (const auto& f : kVolumeFigures)
    each([&](const ReplicaStatus& r, const Labels& labels) {
      figures.add(f.name, f.help, f.type, static_cast<double>(r.*f.value), labels);
    });
}

using RdmaFigure = std::int64_t RdmaFigures::*;

struct TransportFigures {
  const char* name;
  const char* help;
  RdmaFigure value;
};

constexpr TransportFigures kTransportFigures[] = {
    {"lockstep_transport_received_bytes_total", "Of messages that came, with the data in them.",
     &RdmaFigures::bytes_in},
    {"lockstep_transport_sent_bytes_total", "Of messages that were sent, with the data in them.",
     &RdmaFigures::bytes_out},
    {"lockstep_transport_received_messages_total", "Messages that came.", &RdmaFigures::messages_in},
    {"lockstep_transport_sent_messages_total", "Messages that were sent.", &RdmaFigures::messages_out},
    {"lockstep_transport_reads_total", "RDMA Reads of the peers' memory.", &RdmaFigures::reads},
    {"lockstep_transport_read_bytes_total", "Read from the peers' memory.", &RdmaFigures::bytes_read},
    {"lockstep_transport_writes_total", "RDMA Writes to the peers' memory.", &RdmaFigures::writes},
    {"lockstep_transport_written_bytes_total", "Written to the peers' memory.", &RdmaFigures::bytes_written},
    {"lockstep_transport_windows_invalidated_total", "Windows that a peer's answer shut.", &RdmaFigures::invalidated},
    {"lockstep_transport_windows_hidden_total", "Windows that this node shut.", &RdmaFigures::hidden},
    {"lockstep_transport_windows_total", "Windows that let a peer at memory of this node.", &RdmaFigures::windows},
    {"lockstep_transport_eager_total", "Writes whose data came with them and was not copied.", &RdmaFigures::eager},
    {"lockstep_transport_invalidations_total", "Keys of the peers' that an answer invalidated.",
     &RdmaFigures::invalidations},
    {"lockstep_transport_starved_total", "Receives that had to wait for memory.", &RdmaFigures::starved},
};

constexpr std::pair<const char*, RdmaFigure> kCopied[] = {
    {"immediate_prefix", &RdmaFigures::copied_immediate_prefix},
    {"ahs", &RdmaFigures::copied_ahs},
    {"bounce", &RdmaFigures::copied_bounce},
    {"control", &RdmaFigures::copied_control},
    {"cipher", &RdmaFigures::copied_cipher},
};

constexpr std::pair<const char*, RdmaFigure> kErrors[] = {
    {"length", &RdmaFigures::error_length},
    {"remote_access", &RdmaFigures::error_remote_access},
    {"remote_invalid", &RdmaFigures::error_remote_invalid},
    {"remote_operation", &RdmaFigures::error_remote_operation},
    {"local_protection", &RdmaFigures::error_local_protection},
    {"local_operation", &RdmaFigures::error_local_operation},
    {"no_answer", &RdmaFigures::error_no_answer},
    {"no_receive", &RdmaFigures::error_no_receive},
    {"other", &RdmaFigures::error_other},
};

constexpr TransportFigures kQueues[] = {
    {"lockstep_transport_connections", "Connections that stand.", &RdmaFigures::connections},
    {"lockstep_transport_work", "Requests that were posted and are not over, of all connections.", &RdmaFigures::work},
    {"lockstep_transport_work_depth", "How many of them the connections have room for.", &RdmaFigures::work_depth},
    {"lockstep_transport_work_most", "The most of them there ever were on one connection.", &RdmaFigures::work_most},
};

/// `used_by`: whose connections they are.
void add_transport(Figures& figures, const RdmaFigures& moved, const char* used_by) {
  const Labels labels = {{"transport", "rdma"}, {"used_by", used_by}};
  for (const auto& f : kTransportFigures)
    figures.add(f.name, f.help, MetricType::Counter, static_cast<double>(moved.*f.value), labels);
  for (const auto& [reason, value] : kCopied) {
    Labels with_reason = labels;
    with_reason.emplace_back("reason", reason);
    figures.add("lockstep_transport_copied_bytes_total", "Data that the processor copied, by why.", MetricType::Counter,
                static_cast<double>(moved.*value), with_reason);
  }
  for (const auto& [status, value] : kErrors) {
    Labels with_status = labels;
    with_status.emplace_back("status", status);
    figures.add("lockstep_transport_errors_total", "Requests that failed, each its connection's end, by status.",
                MetricType::Counter, static_cast<double>(moved.*value), with_status);
  }
  for (const auto& f : kQueues) figures.gauge(f.name, f.help, static_cast<double>(moved.*f.value), labels);
}

/// What this node's RDMA devices hold and count.
void add_devices(Figures& figures, const DataPlaneStatus& status) {
  if (const auto& all = status.rdma_registrations) {
    figures.gauge("lockstep_rdma_regions", "Memory regions that are registered with RDMA devices.",
                  static_cast<double>(all->regions));
    figures.gauge("lockstep_rdma_registered_bytes", "Their bytes: memory counts for each device and domain.",
                  static_cast<double>(all->bytes));
    figures.add("lockstep_rdma_registrations_total", "How often memory was registered.", MetricType::Counter,
                static_cast<double>(all->made));
    figures.add("lockstep_rdma_registrations_refused_total", "How often it could not be.", MetricType::Counter,
                static_cast<double>(all->refused));
  }
  for (const auto& c : status.rdma_counters)
    figures.add("lockstep_rdma_port_events_total", "What the port's driver counts, read once a minute.",
                MetricType::Counter, static_cast<double>(c.value),
                {{"device", c.device}, {"port", std::to_string(c.port)}, {"kind", c.kind}, {"counter", c.name}});
}

/// What carried the link's data, of each shard.
void add_carriers(Figures& figures, const DataPlaneStatus& status) {
  const auto each = [&](const char* name, const char* help, const char* label, std::pair<const char*, double> one,
                        const ShardStatus& shard) {
    figures.add(name, help, MetricType::Counter, one.second,
                {{"shard", std::to_string(shard.number)}, {label, one.first}});
  };
  for (const ShardStatus& shard : status.shards) {
    if (!shard.carried) continue;
    const CarriedStatus& c = *shard.carried;
    for (const auto& [to, count] : {std::pair{"rdma", c.to_rdma}, std::pair{"tcp", c.to_tcp}})
      each("lockstep_link_switches_total", "How often the link's data went over from RDMA to TCP, or back.", "to",
           {to, static_cast<double>(count)}, shard);
    for (const auto& [by, ms] : {std::pair{"rdma", c.rdma_ms}, std::pair{"tcp", c.tcp_ms}})
      each("lockstep_link_carried_seconds_total", "How long it was carried by each.", "transport",
           {by, static_cast<double>(ms) / 1000}, shard);
  }
}

/// This node's way out over each path.
void add_paths(Figures& figures, const PairView& view, NodeSide mine) {
  const auto paths = link_paths_of(view);
  const auto each = [&](const auto& use) {
    for (const auto& path : paths) {
      const auto& status = path.ends.at(mine == NodeSide::b ? 1 : 0).status;
      if (status) use(*status, Labels{{"path", std::to_string(path.number)}, {"to", status->to}});
    }
  };
  each([&](const LinkPathStatus& p, const Labels& labels) {
    figures.gauge("lockstep_link_path_up", "1 while the path is connected.", p.state != "down", labels);
  });
  each([&](const LinkPathStatus& p, const Labels& labels) {
    figures.add("lockstep_link_path_sent_bytes_total", "Sent over the path by this node.", MetricType::Counter,
                static_cast<double>(p.bytes_out), labels);
  });
  each([&](const LinkPathStatus& p, const Labels& labels) {
    figures.add("lockstep_link_path_received_bytes_total", "Received over the path by this node.", MetricType::Counter,
                static_cast<double>(p.bytes_in), labels);
  });
  each([&](const LinkPathStatus& p, const Labels& labels) {
    figures.add("lockstep_link_path_losses_total", "How often the path was lost.", MetricType::Counter,
                static_cast<double>(p.losses), labels);
  });
  each([&](const LinkPathStatus& p, const Labels& labels) {
    if (p.rdma)
      figures.gauge("lockstep_link_path_rdma_up", "1 while the path is connected over RDMA, too.",
                    p.rdma->state != "down", labels);
  });
  each([&](const LinkPathStatus& p, const Labels& labels) {
    if (p.rdma)
      figures.add("lockstep_link_path_rdma_losses_total", "How often the path over RDMA was lost.", MetricType::Counter,
                  static_cast<double>(p.rdma->losses), labels);
  });
  each([&](const LinkPathStatus& p, const Labels& labels) {
    if (p.round_trip_us)
      figures.gauge("lockstep_link_path_round_trip_seconds", "To the partner and back over the path.",
                    static_cast<double>(*p.round_trip_us) / 1e6, labels);
  });
}

}  // namespace

std::string metrics_text(const PairView& view) {
  const auto& pair = view.configuration->pair;
  const NodeView none;
  const NodeView& mine = view.local_side ? view.at(*view.local_side) : none;
  Figures figures({{"pair", pair ? pair->name : ""}, {"node", mine.node ? mine.node->name : ""}});
  figures.gauge("lockstep_configuration_revision", "Number of the configuration in force.",
                static_cast<double>(view.revision.head.n));
  figures.gauge("lockstep_health", "0 ok, 1 degraded, 2 critical.", static_cast<double>(judge_pair(view).verdict));
  figures.gauge("lockstep_lockstepd_up", "1 while lockstepd answers on this node.", mine.node && mine.report.running);
  if (view.local_side && view.at(engine::other(*view.local_side)).node)
    figures.gauge("lockstep_partner_management_reachable", "1 while the partner's management answers.",
                  view.at(engine::other(*view.local_side)).reachable);
  if (!mine.node || !mine.current()) return figures.text();
  const DataPlaneStatus& status = *mine.report.status;
  figures.gauge("lockstep_lockstepd_uptime_seconds", "Since lockstepd started.",
                static_cast<double>(status.uptime_ms) / 1000);
  figures.gauge("lockstep_lockstepd_info", "Always 1.", 1, {{"version", status.version}});
  figures.gauge("lockstep_partner_link_connected", "1 while the replication link is up.", status.partner_connected);
  add_paths(figures, view, *view.local_side);
  add_carriers(figures, status);
  if (status.witness_reachable)
    figures.gauge("lockstep_witness_reachable", "1 while the witness answers.", *status.witness_reachable);
  figures.gauge("lockstep_sessions", "iSCSI sessions open on this node.", static_cast<double>(status.sessions.size()));
  if (status.rdma_hosts) add_transport(figures, *status.rdma_hosts, "hosts");
  if (status.rdma_link) add_transport(figures, *status.rdma_link, "link");
  add_devices(figures, status);
  add_volumes(figures, view, status);
  return figures.text();
}

}  // namespace lockstep::ui_api
