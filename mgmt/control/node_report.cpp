#include "mgmt/control/node_report.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

const json& member(const json& object, const char* key) {
  static const json none = json::object();
  const auto found = object.find(key);
  return found == object.end() || !found->is_object() ? none : *found;
}

const json& list(const json& object, const char* key) {
  static const json none = json::array();
  const auto found = object.find(key);
  return found == object.end() || !found->is_array() ? none : *found;
}

template <class T>
T get(const json& object, const char* key, T otherwise) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : found->get<T>();
}

std::int64_t number(const json& object, const char* key) { return get<std::int64_t>(object, key, 0); }
std::string text(const json& object, const char* key) { return get<std::string>(object, key, ""); }
bool flag(const json& object, const char* key) { return get<bool>(object, key, false); }

ReplicaStatus replica_from(const json& j) {
  ReplicaStatus r;
  r.volume = engine::Uuid::parse(text(j, "id")).value_or(engine::Uuid{});
  r.state = text(j, "state");
  r.serving = flag(j, "serving");
  r.access = text(j, "access");
  r.failover_limited = flag(j, "failover_limited");
  if (const json& e = member(j, "epoch"); number(e, "number") > 0)
    r.epoch =
        EpochView{number(e, "number"), text(e, "id"), text(e, "members"), text(e, "sequencer"), text(e, "arbiter")};
  r.size = number(j, "size");
  r.dirty_bytes = number(j, "dirty_bytes");
  r.allocated_bytes = number(j, "allocated_bytes");
  r.reason = text(j, "reason");
  const json& resync = member(j, "resync");
  r.resync_running = flag(resync, "running");
  r.resync_total = number(resync, "bytes_total");
  r.resync_done = number(resync, "bytes_done");
  r.resync_rate = number(resync, "bytes_per_second");
  const json& io = member(j, "io");
  r.reads = number(io, "reads");
  r.writes = number(io, "writes");
  r.read_bytes = number(io, "read_bytes");
  r.write_bytes = number(io, "write_bytes");
  return r;
}

json replica_json(const ReplicaStatus& r) {
  json j = {
      {"id", r.volume.to_string()},
      {"state", r.state},
      {"serving", r.serving},
      {"access", r.access},
      {"failover_limited", r.failover_limited},
      {"size", r.size},
      {"dirty_bytes", r.dirty_bytes},
      {"allocated_bytes", r.allocated_bytes},
      {"reason", r.reason},
      {"resync",
       {{"running", r.resync_running},
        {"bytes_total", r.resync_total},
        {"bytes_done", r.resync_done},
        {"bytes_per_second", r.resync_rate}}},
      {"io", {{"reads", r.reads}, {"writes", r.writes}, {"read_bytes", r.read_bytes}, {"write_bytes", r.write_bytes}}}};
  if (r.epoch)
    j["epoch"] = {{"number", r.epoch->number},
                  {"id", r.epoch->id},
                  {"members", r.epoch->members},
                  {"sequencer", r.epoch->sequencer},
                  {"arbiter", r.epoch->arbiter}};
  return j;
}

DataPlaneStatus status_of(const json& j) {
  DataPlaneStatus s;
  s.version = text(j, "version");
  s.process = text(j, "process");
  s.revision = number(j, "revision");
  s.uptime_ms = number(j, "uptime_ms");
  if (const json& lease = member(j, "lease"); !lease.empty()) {
    s.lease_ms = number(lease, "ms");
    s.lease_settled = flag(lease, "settled");
  }
  const json& partner = member(j, "partner");
  s.partner_connected = flag(partner, "connected");
  s.partner_path = text(partner, "path");
  s.partner_since_ms = number(partner, "since_ms");
  const json& witness = member(j, "witness");
  s.witness_kind = text(witness, "kind");
  const auto found = witness.find("reachable");
  // Without a witness there is none to be reached.
  if ((s.witness_kind == "witness" || s.witness_kind == "fence") && found != witness.end() && found->is_boolean())
    s.witness_reachable = found->get<bool>();
  s.witness_changing = flag(witness, "changing");
  for (const auto& v : list(j, "volumes")) s.volumes.push_back(replica_from(v));
  for (const auto& v : list(j, "sessions"))
    s.sessions.push_back({text(v, "initiator"), text(v, "address"), text(v, "portal"), number(v, "since_ms")});
  for (const auto& v : list(j, "findings"))
    if (v.is_string()) s.findings.push_back(v.get<std::string>());
  return s;
}

json status_json(const DataPlaneStatus& s) {
  json j = {
      {"version", s.version},
      {"process", s.process},
      {"revision", s.revision},
      {"uptime_ms", s.uptime_ms},
      {"partner", {{"connected", s.partner_connected}, {"path", s.partner_path}, {"since_ms", s.partner_since_ms}}},
      {"witness", {{"kind", s.witness_kind}, {"changing", s.witness_changing}}},
      {"volumes", json::array()},
      {"sessions", json::array()},
      {"findings", s.findings}};
  if (s.lease_ms) j["lease"] = {{"ms", *s.lease_ms}, {"settled", s.lease_settled}};
  if (s.witness_reachable) j["witness"]["reachable"] = *s.witness_reachable;
  for (const auto& v : s.volumes) j["volumes"].push_back(replica_json(v));
  for (const auto& v : s.sessions)
    j["sessions"].push_back(
        {{"initiator", v.initiator}, {"address", v.address}, {"portal", v.portal}, {"since_ms", v.since_ms}});
  return j;
}

}  // namespace

const ReplicaStatus* DataPlaneStatus::volume(const engine::Uuid& id) const {
  const auto found = std::ranges::find(volumes, id, &ReplicaStatus::volume);
  return found == volumes.end() ? nullptr : &*found;
}

bool NodeReport::misses(const engine::Uuid& volume) const {
  const bool attached = status && status->volume(volume);
  return !attached && std::ranges::find(missing, volume) != missing.end();
}

Outcome<DataPlaneStatus> status_from(std::string_view text_) {
  try {
    return status_of(json::parse(text_));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::internal, std::string("lockstepd's status cannot be read: ") + e.what());
  }
}

std::string to_json_text(const NodeReport& report) {
  json j = {{"running", report.running}, {"message", report.message}, {"status", nullptr},
            {"applied", report.applied}, {"problems", json::array()}, {"missing", json::array()},
            {"at_ms", report.at_ms}};
  if (report.status) j["status"] = status_json(*report.status);
  for (const auto& id : report.missing) j["missing"].push_back(id.to_string());
  for (const auto& p : report.problems) j["problems"].push_back({{"object", p.object}, {"message", p.message}});
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

Outcome<NodeReport> report_from(std::string_view text_) {
  try {
    const json j = json::parse(text_);
    NodeReport report;
    report.running = flag(j, "running");
    report.message = text(j, "message");
    if (const json& s = member(j, "status"); !s.empty()) report.status = status_of(s);
    report.applied = number(j, "applied");
    for (const auto& p : list(j, "problems")) report.problems.push_back({text(p, "object"), text(p, "message")});
    for (const auto& id : list(j, "missing"))
      if (const auto volume = engine::Uuid::parse(id.get<std::string>())) report.missing.push_back(*volume);
    report.at_ms = number(j, "at_ms");
    return report;
  } catch (const std::exception& e) {
    return refuse(RefusalKind::internal, std::string("The partner's report cannot be read: ") + e.what());
  }
}

}  // namespace lockstep::mgmt
