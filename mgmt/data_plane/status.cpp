#include "mgmt/data_plane/status.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "mgmt/data_plane/events.hpp"
#include "mgmt/data_plane/version.hpp"

namespace lockstep::data_plane {

using nlohmann::json;

namespace {

std::int64_t milliseconds(engine::Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

const char* path_state(PathReport::State state) {
  switch (state) {
    case PathReport::State::down:
      return "down";
    case PathReport::State::joining:
      return "joining";
    case PathReport::State::proving:
      return "proving";
    case PathReport::State::proven:
      return "proven";
  }
  std::unreachable();
}

json name_or_null(const std::string& name) { return name.empty() ? json(nullptr) : json(name); }

json path_json(const PathReport& path) {
  json shown = {{"transport", "tcp"},
                {"from", path.way.from.substr(0, path.way.from.rfind(':'))},
                {"to", path.way.address},
                {"state", path_state(path.state)},
                {"last_resort", path.last_resort},
                {"cipher", name_or_null(path.cipher)},
                {"kernel_tls", path.kernel_tls},
                {"losses", path.losses},
                {"problem", path.problem},
                {"rdma", nullptr}};
  if (const auto& rdma = path.rdma)
    shown["rdma"] = {{"state", path_state(rdma->state)},
                     {"cipher", name_or_null(rdma->cipher)},
                     {"problem", rdma->problem},
                     {"losses", rdma->losses}};
  if (path.figures) {
    shown["round_trip_us"] = path.figures->round_trip.count();
    shown["bytes_out"] = path.figures->bytes_out;
    shown["bytes_in"] = path.figures->bytes_in;
    shown["segments_out"] = path.figures->segments_out;
    shown["segments_sent_again"] = path.figures->segments_sent_again;
    shown["path_mtu"] = path.figures->path_mtu;
  }
  return shown;
}

json path_of(const NodeReport& report) {
  if (!report.partner_connected) return nullptr;
  return report.partner_over_rdma ? "rdma" : "tcp";
}

json finding_json(const rdma::Finding& finding) {
  return {{"id", finding.id},
          {"severity", finding.severity == rdma::Severity::warning ? "warning" : "advice"},
          {"message", finding.message},
          {"advice", finding.advice}};
}

json errors_json(const iser::Figures& f) {
  json shown;
  for (std::size_t i = 0; i < rdma::kStatuses; ++i) shown[rdma::kStatusNames[i]] = f.errors[i];
  return shown;
}

json figures_json(const iser::Figures& f) {
  return {{"messages_in", f.messages_in},
          {"messages_out", f.messages_out},
          {"bytes_in", f.bytes_in},
          {"bytes_out", f.bytes_out},
          {"reads", f.reads},
          {"writes", f.writes},
          {"bytes_read", f.bytes_read},
          {"bytes_written", f.bytes_written},
          {"windows", f.windows},
          {"eager", f.eager},
          {"invalidations", f.invalidations},
          {"copied",
           {{"immediate_prefix", f.copied.immediate_prefix},
            {"ahs", f.copied.ahs},
            {"bounce", f.copied.bounce},
            {"control", f.copied.control},
            {"cipher", f.copied.cipher}}},
          {"starved", f.starved},
          {"invalidated", f.invalidated},
          {"hidden", f.hidden},
          {"errors", errors_json(f)},
          {"queues",
           {{"connections", f.queues.connections},
            {"work", f.queues.work},
            {"depth", f.queues.depth},
            {"most", f.queues.most}}}};
}

json rdma_json(const NodeReport& report) {
  json shown = {{"looks", report.rdma_looks}, {"findings", json::array()}, {"counters", json::array()},
                {"registrations", nullptr},   {"hosts", nullptr},          {"link", nullptr}};
  for (const auto& finding : report.rdma_findings) shown["findings"].push_back(finding_json(finding));
  for (const auto& c : report.rdma_counters)
    shown["counters"].push_back(
        {{"device", c.device}, {"port", c.port}, {"kind", c.kind}, {"name", c.name}, {"value", c.value}});
  if (!report.rdma_hosts) return shown;
  const rdma::Registrations& all = report.rdma_registrations;
  shown["registrations"] = {
      {"regions", all.regions}, {"bytes", all.bytes}, {"made", all.made}, {"refused", all.refused}};
  shown["hosts"] = figures_json(*report.rdma_hosts);
  shown["link"] = figures_json(report.rdma_link);
  return shown;
}

json shard_json(const ShardLink& s, engine::TimePoint now) {
  json shown = {{"number", s.number},
                {"connected", s.connected},
                {"problem", s.problem},
                {"paths_down", s.paths_down},
                {"carried", nullptr}};
  if (!s.carried) return shown;
  const Carried& c = *s.carried;
  shown["carried"] = {{"rdma_ms", milliseconds(c.by_rdma)},
                      {"tcp_ms", milliseconds(c.by_tcp)},
                      {"to_rdma", c.to_rdma},
                      {"to_tcp", c.to_tcp},
                      {"last_switch", nullptr}};
  if (c.last)
    shown["carried"]["last_switch"] = {{"to", c.last->to == replication::PathTransport::rdma ? "rdma" : "tcp"},
                                       {"at_ms", wall_clock_ms() - milliseconds(now - c.last->at)},
                                       {"after_ms", milliseconds(c.last->after)},
                                       {"why", c.last->why}};
  return shown;
}

json volume_json(const VolumeReport& v) {
  const replication::VolumeStatus& m = v.mirror;
  return {{"id", v.id.to_string()},
          {"state", replication::to_string(m.state)},
          {"mirrored", v.mirrored},
          {"shard", v.shard},
          {"serving", m.serving},
          {"access", name_of(v.access)},
          {"failover_limited", m.failover_limited},
          {"epoch",
           {{"number", m.epoch.number},
            {"id", m.epoch.id.to_string()},
            {"members", name_of(m.epoch.members)},
            {"sequencer", name_of(m.epoch.sequencer)},
            {"arbiter", name_of(m.epoch.arbiter)}}},
          {"size", v.size},
          {"dirty_bytes", m.dirty_bytes},
          {"allocated_bytes", v.allocated_bytes},
          {"reason", m.reason},
          {"resync",
           {{"running", m.resync.running},
            {"bytes_total", m.resync.bytes_total},
            {"bytes_done", m.resync.bytes_done},
            {"bytes_per_second", m.resync.bytes_per_second}}},
          {"io",
           {{"reads", v.io.reads},
            {"writes", v.io.writes},
            {"read_bytes", v.io.read_bytes},
            {"write_bytes", v.io.write_bytes}}}};
}

}  // namespace

const char* name_of(engine::MemberSet members) {
  return members.is_both() ? "both" : members.contains(engine::NodeSide::a) ? "a" : "b";
}

const char* name_of(engine::NodeSide side) { return side == engine::NodeSide::a ? "a" : "b"; }

const char* name_of(engine::ArbiterKind kind) {
  switch (kind) {
    case engine::ArbiterKind::witness:
      return "witness";
    case engine::ArbiterKind::preferred:
      return "preferred";
    case engine::ArbiterKind::fence:
      break;
  }
  return "fence";
}

const char* name_of(const engine::ArbiterSettings& arbiter) {
  if (arbiter.kind != engine::ArbiterKind::preferred) return name_of(arbiter.kind);
  return arbiter.preferred == engine::NodeSide::a ? "preferred_a" : "preferred_b";
}

const char* name_of(engine::AccessState state) {
  switch (state) {
    case engine::AccessState::active_optimized:
      return "active_optimized";
    case engine::AccessState::transitioning:
      return "transitioning";
    case engine::AccessState::unavailable:
      break;
  }
  return "unavailable";
}

json to_json(const NodeReport& report) {
  json status = {
      {"version", kVersion},
      {"process", report.process},
      {"revision", report.revision},
      {"side", nullptr},
      {"uptime_ms", milliseconds(report.uptime)},
      {"lease", {{"ms", milliseconds(report.lease.held)}, {"settled", report.lease.settled}}},
      {"partner", nullptr},
      {"witness",
       {{"kind", report.arbiter}, {"reachable", report.witness_reachable}, {"changing", report.witness_changing}}},
      {"volumes", json::array()},
      {"sessions", json::array()},
      {"findings", report.findings}};
  if (report.side) status["side"] = name_of(*report.side);
  if (report.has_partner) {
    status["partner"] = {{"connected", report.partner_connected},
                         {"path", path_of(report)},
                         {"why_not_rdma", report.why_not_rdma},
                         {"since_ms", report.partner_since_ms},
                         {"address", report.partner_address},
                         {"problem", report.partner_problem},
                         {"paths", json::array()},
                         {"cipher", name_or_null(report.partner_cipher)}};
  }
  status["shards"] = json::array();
  for (const auto& s : report.shards) status["shards"].push_back(shard_json(s, report.now));
  for (const auto& path : report.partner_paths) status["partner"]["paths"].push_back(path_json(path));
  for (const auto& volume : report.volumes) status["volumes"].push_back(volume_json(volume));
  status["rdma"] = rdma_json(report);
  const std::int64_t wall = wall_clock_ms();
  for (const auto& s : report.sessions) {
    status["sessions"].push_back({{"initiator", s.initiator},
                                  {"address", s.address},
                                  {"portal", s.portal},
                                  {"transport", s.over_rdma ? "rdma" : "tcp"},
                                  {"since_ms", wall - milliseconds(report.now - s.since)}});
  }
  return status;
}

}  // namespace lockstep::data_plane
