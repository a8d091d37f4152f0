#include "ui-api/rest/json_views.hpp"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/credentials_change.hpp"
#include "mgmt/control/refusal_json.hpp"
#include "mgmt/control/replace_verdict.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::ui_api {
namespace {

using nlohmann::json;
using namespace mgmt;

constexpr const char* kLifecycles[] = {"creating", "ready", "deleting"};

json time_or_null(std::int64_t ms) { return ms > 0 ? json(rfc3339(ms)) : json(); }
json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }
json uuid_or_null(const std::optional<Uuid>& id) { return id ? json(id->to_string()) : json(); }
json side_or_null(const std::optional<NodeSide>& side) { return side ? json(side_name(*side)) : json(); }

// Neither the witness's password nor the key is ever given out.
json arbiter_json(const Arbiter& a) {
  return {{"kind", kind_name(a)},
          {"endpoints", a.endpoints},
          {"user", text_or_null(a.access.user)},
          {"client_certificate", !a.access.certificate.empty()},
          {"preferred_side", a.witness || a.fence ? json() : json(side_name(a.preferred))}};
}

json lockstepd_json(const NodeView& n) {
  const bool known = n.reachable && n.asked;
  std::string message = n.report.message;
  if (known && n.report.running) {
    message.clear();
    for (const auto& p : n.report.problems)
      message += fmt::format("{}{}: {}", message.empty() ? "" : " ", p.object, p.message);
  }
  if (!known)
    message = n.asked ? fmt::format("The node's management {}.", n.reason) : "The node has not been asked yet.";
  return {{"state", !known             ? "unknown"
                    : n.report.running ? "running"
                                       : "stopped"},
          {"uptime_seconds", n.current() ? json(n.report.status->uptime_ms / 1000) : json()},
          {"message", message}};
}

json witness_json(const PairView& view, const NodeView& n) {
  const Arbiter arbiter = view.configuration->pair ? view.configuration->pair->arbiter : Arbiter{};
  json reachable;
  if ((arbiter.witness || arbiter.fence) && n.report.status && n.report.status->witness_reachable)
    reachable = *n.report.status->witness_reachable;
  return {{"kind", kind_name(arbiter)}, {"reachable", reachable}};
}

json link_json(const NodeView& n) {
  const bool connected = n.report.status && n.report.status->partner_connected;
  const std::string path = n.report.status ? n.report.status->partner_path : "";
  return {{"connected", connected},
          {"path", connected && (path == "tcp" || path == "rdma") ? json(path) : json()},
          {"since", n.report.status ? time_or_null(n.report.status->partner_since_ms) : json()}};
}

json resync_json(const ReplicaStatus& r) {
  json left;
  if (r.resync_running && r.resync_rate > 0)
    left = std::max<std::int64_t>(0, r.resync_total - r.resync_done) / r.resync_rate;
  return {{"running", r.resync_running},
          {"bytes_total", r.resync_total},
          {"bytes_done", r.resync_done},
          {"bytes_per_second", r.resync_rate},
          {"seconds_left", left}};
}

// The figures are the last known ones; the state and whether it serves are of now, or unknown.
json replica_json(const NodeView& n, const Volume& volume) {
  const ReplicaStatus* last = n.report.status ? n.report.status->volume(volume.id) : nullptr;
  const bool now = n.current() && last;
  const ReplicaStatus r = last ? *last : ReplicaStatus{};
  json epoch;
  if (r.epoch && !r.epoch->id.empty())
    epoch = {{"number", r.epoch->number},
             {"id", r.epoch->id},
             {"members", r.epoch->members},
             {"sequencer", r.epoch->sequencer}};
  const Copy& copy = volume.copy(n.node->side);
  const std::string problem = CopyView{n.node, n.report}.problem(volume);
  std::string reason = r.reason;
  if (!now) {
    reason = !n.current()       ? "The node cannot be asked."
             : copy.retired     ? "It is being replaced by a new copy."
             : !problem.empty() ? problem
                                : "lockstepd on this node does not have the volume attached.";
  }
  return {
      {"side", side_name(n.node->side)},
      {"node", n.node->name},
      {"state", now ? r.state : "unknown"},
      {"serving", now && r.serving},
      {"access", now && !r.access.empty() ? r.access : "unavailable"},
      {"failover_limited", now && r.failover_limited},
      {"dirty_bytes", r.dirty_bytes},
      {"allocated_bytes", r.allocated_bytes},
      {"reason", reason},
      {"lost", n.reachable && is_lost({n.node, n.report}, volume)},
      {"store", copy.folder.empty() ? json() : json(copy.folder)},
      {"epoch", epoch},
      {"resync", resync_json(r)},
      {"io", {{"reads", r.reads}, {"writes", r.writes}, {"read_bytes", r.read_bytes}, {"write_bytes", r.write_bytes}}}};
}

}  // namespace

std::string rfc3339(std::int64_t ms) {
  const std::time_t seconds = ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, ms % 1000);
}

std::string dump(const json& j) { return j.dump(-1, ' ', false, json::error_handler_t::replace); }

json pair_json(const PairView& view) {
  const auto& c = *view.configuration;
  if (!c.pair)
    return {{"state", "none"},        {"id", nullptr},         {"name", nullptr},
            {"target_name", nullptr}, {"local_side", nullptr}, {"revision", 0},
            {"arbiter", nullptr},     {"settings", nullptr},   {"discovery_chap_user", nullptr},
            {"created_at", nullptr}};
  return {{"state", c.nodes.size() < 2 ? "alone" : "complete"},
          {"id", c.pair->id.to_string()},
          {"name", c.pair->name},
          {"target_name", c.pair->target_name},
          {"local_side", side_or_null(view.local_side)},
          {"revision", view.revision.head.n},
          {"arbiter", arbiter_json(c.pair->arbiter)},
          {"settings",
           {{"lease_ms", c.pair->settings.lease_ms},
            {"resync_floor_bytes_per_second", c.pair->settings.resync_floor},
            {"resync_ceiling_bytes_per_second", c.pair->settings.resync_ceiling},
            {"other_lease_ms", c.pair->settings.other_lease_ms == 0 ? json() : json(c.pair->settings.other_lease_ms)}}},
          {"discovery_chap_user", c.pair->discovery ? json(c.pair->discovery->user) : json()},
          {"created_at", rfc3339(c.pair->created_ms)}};
}

json pair_witness_json(const PairView& view) {
  const Arbiter& arbiter = view.configuration->pair->arbiter;
  json shown = {{"kind", kind_name(arbiter)},
                {"endpoints", arbiter.endpoints},
                {"ca", !arbiter.access.ca.empty()},
                {"user", text_or_null(arbiter.access.user)},
                {"client_certificate", !arbiter.access.certificate.empty()},
                {"changing", arbiter.changing},
                {"nodes", json::array()}};
  for (const auto& n : view.nodes) {
    if (!n.node) continue;
    json reachable, unknown;
    if ((arbiter.witness || arbiter.fence) && !arbiter.changing && n.current() && n.report.status->witness_reachable)
      reachable = *n.report.status->witness_reachable;
    if (n.current())
      unknown = std::ranges::count_if(n.report.status->volumes, [](const auto& v) { return v.failover_limited; });
    shown["nodes"].push_back({{"side", side_name(n.node->side)},
                              {"name", n.node->name},
                              {"reachable", reachable},
                              {"volumes_not_known", unknown}});
  }
  return shown;
}

namespace {

json saved_json(const SavedConfiguration& copy) {
  const Configuration& c = copy.configuration;
  json saved = {{"pair", c.pair->name},
                {"revision", copy.revision.n},
                {"saved_at", rfc3339(copy.saved_ms)},
                {"side", side_name(copy.here()->side)},
                {"node", copy.here()->name},
                {"volumes", json::array()}};
  for (const auto& v : c.volumes)
    saved["volumes"].push_back({{"id", v.id.to_string()}, {"name", v.name}, {"size_bytes", v.size}});
  return saved;
}

json epoch_json(const engine::EpochRecord& epoch) {
  const char* members = epoch.members.is_both() ? "both" : epoch.members.contains(engine::NodeSide::a) ? "a" : "b";
  return {{"number", epoch.number}, {"members", members}};
}

json rebuild_json(const Rebuild& rebuild) {
  json volumes = json::array();
  for (const auto& [v, epoch, named] : rebuild.volumes)
    volumes.push_back({{"id", v.id.to_string()},
                       {"name", v.name},
                       {"recorded_name", text_or_null(named)},
                       {"lun", v.lun},
                       {"size_bytes", v.size},
                       {"serial", v.serial},
                       {"encrypted", v.encrypted},
                       {"copy", v.copy(rebuild.side).number},
                       {"epoch", epoch_json(epoch)}});
  return {{"pair_id", rebuild.pair.to_string()},
          {"side", side_name(rebuild.side)},
          {"arbiter", rebuild.arbiter ? arbiter_json(*rebuild.arbiter) : json()},
          {"volumes", volumes}};
}

json found_json(const FoundReplica& found) {
  return {{"volume_id", found.volume.to_string()},
          {"copy", found.copy},
          {"bytes", found.bytes},
          {"left_alone", text_or_null(found.left_alone)}};
}

}  // namespace

json recovery_json(const RecoveryView& view) {
  constexpr const char* kWords[] = {"none", "away", "no_pair", "newer", "paired"};
  json replicas = json::array();
  for (const auto& r : view.replicas) replicas.push_back(found_json(r));
  return {{"recoverable", view.problem.empty()},
          {"problem", view.problem},
          {"saved", view.saved ? saved_json(*view.saved) : json()},
          {"rebuild", view.rebuild ? rebuild_json(*view.rebuild) : json()},
          {"partner", kWords[static_cast<std::size_t>(view.partner)]},
          {"partner_says", view.partner_says},
          {"replicas", replicas}};
}

json node_json(const PairView& view, const NodeView& n) {
  return {{"id", n.node->id.to_string()},
          {"side", side_name(n.node->side)},
          {"name", n.node->name},
          {"local", n.local},
          {"addresses",
           {{"portals", n.node->portals},
            {"link", text_or_null(n.node->link_address)},
            {"management", text_or_null(n.node->management_address)}}},
          {"reachable", n.local || (n.asked && n.reachable)},
          {"lockstepd", lockstepd_json(n)},
          {"version", n.report.status ? text_or_null(n.report.status->version) : json()},
          {"partner_link", link_json(n)},
          {"witness", witness_json(view, n)},
          {"revision", n.report.status ? json(n.report.status->revision) : json()}};
}

json nodes_json(const PairView& view) {
  json items = json::array();
  for (const auto& n : view.nodes)
    if (n.node) items.push_back(node_json(view, n));
  return {{"items", items}};
}

json sessions_json(const PairView& view) {
  json items = json::array();
  for (const auto& n : view.nodes) {
    if (!n.node || !n.current()) continue;
    auto sessions = n.report.status->sessions;
    std::ranges::stable_sort(sessions, {}, &SessionStatus::initiator);
    for (const auto& s : sessions)
      items.push_back({{"side", side_name(n.node->side)},
                       {"initiator", s.initiator},
                       {"address", s.address},
                       {"portal", s.portal},
                       {"since", rfc3339(s.since_ms)}});
  }
  return {{"items", items}};
}

json volume_json(const PairView& view, const Volume& v) {
  json portals = json::array();
  json replicas = json::array();
  for (const auto& n : view.nodes) {
    if (!n.node) continue;
    for (const auto& portal : n.node->portals)
      portals.push_back({{"side", side_name(n.node->side)}, {"address", portal}});
    replicas.push_back(replica_json(n, v));
  }
  const VolumeVerdict verdict = judge_volume(view, v);
  return {{"id", v.id.to_string()},
          {"name", v.name},
          {"size_bytes", v.size},
          {"block_format", v.block_size == 4096      ? "4kn"
                           : v.physical_block == 512 ? "512n"
                                                     : "512e"},
          {"block_size_bytes", v.block_size},
          {"physical_block_size_bytes", v.physical_block},
          {"thin", v.thin},
          {"read_only", v.read_only},
          {"removable", v.removable},
          {"encrypted", v.encrypted},
          {"write_cache", v.write_cache},
          {"importing", !v.import_secret.empty()},
          {"any_initiator", v.any_initiator},
          {"access", v.access},
          {"serial", v.serial},
          {"lun", v.lun},
          {"target_name", view.configuration->pair ? view.configuration->pair->target_name : ""},
          {"portals", portals},
          {"lifecycle", kLifecycles[static_cast<int>(v.lifecycle)]},
          {"health", to_string(verdict.verdict)},
          {"summary", verdict.summary},
          {"replicas", replicas},
          {"created_at", rfc3339(v.created_ms)}};
}

json initiator_json(const Configuration& c, const Initiator& i) {
  json volumes = json::array();
  for (const auto& v : c.volumes)
    if (std::ranges::find(v.access, i.iqn) != v.access.end()) volumes.push_back(v.id.to_string());
  return {{"iqn", i.iqn},
          {"chap", !i.chap    ? "none"
                   : i.mutual ? "mutual"
                              : "one_way"},
          {"chap_user", i.chap ? json(i.chap->user) : json()},
          {"mutual_user", i.mutual ? json(i.mutual->user) : json()},
          {"old_secret_valid_until",
           mgmt::are_in_use(i.old, mgmt::wall_clock_ms()) ? json(rfc3339(i.old->until_ms)) : json()},
          {"volumes", volumes},
          {"created_at", rfc3339(i.created_ms)}};
}

json job_json(const Job& job) {
  const bool failed = job.state == JobState::failed && job.error;
  return {{"id", job.id.to_string()},
          {"kind", job.kind},
          {"state", to_string(job.state)},
          {"progress", job.progress},
          {"message", job.message},
          {"error", failed ? json::parse(to_json_text(*job.error)) : json()},
          {"volume_id", uuid_or_null(job.volume)},
          {"created_at", rfc3339(job.created_ms)},
          {"finished_at", time_or_null(job.finished_ms)}};
}

json event_json(const Event& e) {
  return {{"id", e.id},
          {"time", rfc3339(e.at_ms)},
          {"kind", e.kind},
          {"severity", to_string(e.severity)},
          {"side", side_or_null(e.side)},
          {"volume_id", uuid_or_null(e.volume)},
          {"message", e.message},
          {"count", e.times}};
}

json health_json(const Health& health) {
  json problems = json::array();
  for (const auto& p : health.problems)
    problems.push_back({{"severity", to_string(p.severity)},
                        {"subject", p.subject},
                        {"side", side_or_null(p.side)},
                        {"volume_id", uuid_or_null(p.volume)},
                        {"message", p.message},
                        {"advice", p.advice}});
  return {{"status", to_string(health.verdict)}, {"summary", health.summary}, {"problems", problems}};
}

json token_json(const Token& t, std::int64_t last_used_ms, bool here_only) {
  return {{"id", t.id.to_string()},
          {"name", t.name},
          {"role", t.role == Role::viewer ? "viewer" : "admin"},
          {"node_only", here_only},
          {"created_at", rfc3339(t.created_ms)},
          {"last_used_at", time_or_null(last_used_ms)},
          {"expires_at", time_or_null(t.expires_ms)}};
}

}  // namespace lockstep::ui_api
