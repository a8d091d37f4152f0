#include "mgmt/data_plane/status.hpp"

#include <nlohmann/json.hpp>

#include "mgmt/data_plane/events.hpp"
#include "mgmt/data_plane/version.hpp"

namespace lockstep::data_plane {

using nlohmann::json;

namespace {

std::int64_t milliseconds(engine::Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

json volume_json(const VolumeReport& v) {
  const replication::VolumeStatus& m = v.mirror;
  return {{"id", v.id.to_string()},
          {"state", replication::to_string(m.state)},
          {"mirrored", v.mirrored},
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
      {"partner", nullptr},
      {"witness",
       {{"kind", report.arbiter}, {"reachable", report.witness_reachable}, {"changing", report.witness_changing}}},
      {"volumes", json::array()},
      {"sessions", json::array()},
      {"findings", report.findings}};
  if (report.side) status["side"] = name_of(*report.side);
  if (report.has_partner) {
    status["partner"] = {{"connected", report.partner_connected},
                         {"path", report.partner_connected ? json("tcp") : json(nullptr)},
                         {"since_ms", report.partner_since_ms},
                         {"problem", report.partner_problem}};
  }
  for (const auto& volume : report.volumes) status["volumes"].push_back(volume_json(volume));
  const std::int64_t wall = wall_clock_ms();
  for (const auto& s : report.sessions) {
    status["sessions"].push_back({{"initiator", s.initiator},
                                  {"address", s.address},
                                  {"portal", s.portal},
                                  {"since_ms", wall - milliseconds(report.now - s.since)}});
  }
  return status;
}

}  // namespace lockstep::data_plane
