#include "ui-api/rest/json_views.hpp"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "mgmt/control/credentials_change.hpp"
#include "mgmt/control/link_paths.hpp"
#include "mgmt/control/refusal_json.hpp"
#include "mgmt/control/replace_verdict.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/records/json.hpp"

namespace lockstep::ui_api {
namespace {

using namespace mgmt;
using records::json;
using records::Rules;

// What the API shows of a record: all that its description has and is not hidden here. tests/unit/ui_api holds it
// against lockstep.yaml.
struct Shown {
  static constexpr Rules rules(const Pair*) {
    return {.written = "*",
            .hidden = "arbiter link link_mutual next_lun discovery seal link_beside",
            .renamed = "created_ms=created_at",
            .times = "created_ms"};
  }
  static constexpr Rules rules(const PairSettings*) {
    return {.written = "*",
            .renamed = "resync_floor=resync_floor_bytes_per_second resync_ceiling=resync_ceiling_bytes_per_second",
            .or_null = "other_lease_ms"};
  }
  static constexpr Rules rules(const Node*) {
    return {.written = "*",
            .hidden = "fingerprint beside more_link_addresses last_link_addresses",
            .renamed = "portals=addresses/portals link_address=addresses/link management_address=addresses/management",
            .or_null = "link_address management_address"};
  }
  static constexpr Rules rules(const Volume*) {
    return {.written = "*",
            .hidden = "first_epoch import_secret copies",
            .renamed =
                "size=size_bytes block_size=block_size_bytes physical_block=physical_block_size_bytes "
                "created_ms=created_at",
            .times = "created_ms"};
  }
  static constexpr Rules rules(const ReplicaStatus*) {
    return {.written = "*",
            .hidden = "volume size shard",
            .renamed =
                "resync_running=resync/running resync_total=resync/bytes_total resync_done=resync/bytes_done "
                "resync_rate=resync/bytes_per_second reads=io/reads writes=io/writes read_bytes=io/read_bytes "
                "write_bytes=io/write_bytes"};
  }
  static constexpr Rules rules(const LinkPathStatus*) {
    return {.written = "*", .hidden = "last_resort", .or_null = "transport from to cipher"};
  }
  static constexpr Rules rules(const LinkRdmaStatus*) { return {.written = "*", .or_null = "cipher"}; }
  static constexpr Rules rules(const SizeMeasured*) { return {.written = "*"}; }
  static constexpr Rules rules(const EpochView*) { return {.written = "*", .hidden = "arbiter"}; }
  static constexpr Rules rules(const SessionStatus*) {
    return {.written = "*", .renamed = "since_ms=since", .times = "since_ms"};
  }
  static constexpr Rules rules(const Initiator*) {
    return {.written = "*", .hidden = "chap mutual old", .renamed = "created_ms=created_at", .times = "created_ms"};
  }
  static constexpr Rules rules(const Token*) {
    return {.written = "*",
            .hidden = "digest",
            .renamed = "created_ms=created_at expires_ms=expires_at",
            .times = "created_ms expires_ms"};
  }
  static constexpr Rules rules(const Job*) {
    return {.written = "*",
            .hidden = "runner step parameters",
            .renamed = "volume=volume_id created_ms=created_at finished_ms=finished_at",
            .times = "created_ms finished_ms"};
  }
  static constexpr Rules rules(const Event*) {
    return {.written = "*", .renamed = "at_ms=time volume=volume_id times=count", .times = "at_ms"};
  }
  static constexpr Rules rules(const HealthProblem*) { return {.written = "*", .renamed = "volume=volume_id"}; }
  // Never shown, wherever they may come to stand.
  static constexpr Rules rules(const Chap*) = delete;
  static constexpr Rules rules(const SealSecrets*) = delete;
  static constexpr Rules rules(const replication::WitnessAccess*) = delete;

  static std::string time(std::int64_t ms) { return rfc3339(ms); }
  static json to_json(const Refusal& error) { return json::parse(to_json_text(error)); }
};

// A field with such a name has to be hidden by name.
template <class Record>
consteval bool shows_no_secret() {
  bool safe = true;
  records::each_field<Record>([&]<class Member>() {
    for (const char* word : {"secret", "password", "digest", "key"})
      if (std::string_view(Member::name).contains(word) &&
          !records::lists(records::rules<Shown, Record>().hidden, Member::name))
        safe = false;
  });
  return safe;
}

template <class Record>
json shown(const Record& record) {
  static_assert(shows_no_secret<Record>());
  return records::to_json<Shown>(record);
}

json time_or_null(std::int64_t ms) { return ms > 0 ? json(rfc3339(ms)) : json(); }
json text_or_null(const std::string& text) { return text.empty() ? json() : json(text); }
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
          {"why_not_rdma", connected ? text_or_null(n.report.status->partner_why_not_rdma) : json()},
          {"cipher", connected ? text_or_null(n.report.status->partner_cipher) : json()},
          {"since", n.report.status ? time_or_null(n.report.status->partner_since_ms) : json()}};
}

// The figures are the last known ones; the state and whether it serves are of now, or unknown.
json replica_json(const NodeView& n, const Volume& volume) {
  const ReplicaStatus* last = n.report.status ? n.report.status->volume(volume.id) : nullptr;
  const bool now = n.current() && last;
  ReplicaStatus r = last ? *last : ReplicaStatus{};
  if (r.epoch && r.epoch->id.empty()) r.epoch.reset();
  const Copy& copy = volume.copy(n.node->side);
  const std::string problem = CopyView{n.node, n.report}.problem(volume);
  json replica = shown(r);
  replica["side"] = side_name(n.node->side);
  replica["node"] = n.node->name;
  replica["lost"] = n.reachable && is_lost({n.node, n.report}, volume);
  replica["store"] = text_or_null(copy.folder);
  replica["resync"]["seconds_left"] = nullptr;
  if (r.resync_running && r.resync_rate > 0)
    replica["resync"]["seconds_left"] = std::max<std::int64_t>(0, r.resync_total - r.resync_done) / r.resync_rate;
  if (!now || r.access.empty()) replica["access"] = "unavailable";
  if (now) return replica;
  replica["state"] = "unknown";
  replica["serving"] = replica["failover_limited"] = false;
  replica["reason"] = !n.current()       ? "The node cannot be asked."
                      : copy.unmade      ? "There is no copy here yet: the volume was made while this node was away."
                      : copy.retired     ? "It is being replaced by a new copy."
                      : !problem.empty() ? problem
                                         : "lockstepd on this node does not have the volume attached.";
  return replica;
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
  json pair = shown(c.pair.value_or(Pair{}));
  pair["local_side"] = side_or_null(view.local_side);
  pair["arbiter"] = c.pair ? arbiter_json(c.pair->arbiter) : json();
  pair["settings"] = c.pair ? shown(c.pair->settings) : json();  // also where all are as they come
  pair["discovery_chap_user"] = c.pair && c.pair->discovery ? json(c.pair->discovery->user) : json();
  if (!c.pair)
    for (auto& value : pair) value = nullptr;
  pair["state"] = !c.pair ? "none" : c.nodes.size() < 2 ? "alone" : "complete";
  pair["revision"] = c.pair ? view.revision.head.n : 0;
  return pair;
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

json path_end_json(const LinkPathView::End& end) {
  const NodeView& n = *end.node;
  json shown_end = shown(end.status.value_or(LinkPathStatus{}));
  shown_end["side"] = side_name(n.node->side);
  shown_end["node"] = n.node->name;
  shown_end["address"] = end.address;
  if (end.status) return shown_end;
  shown_end["state"] = "unknown";
  shown_end["problem"] =
      n.current() ? "lockstepd on this node has not said anything of it yet." : "The node cannot be asked.";
  return shown_end;
}

}  // namespace

json sizes_measured_json(const std::vector<mgmt::SizeMeasured>& sizes) {
  json all = json::array();
  for (const auto& size : sizes) all.push_back(shown(size));
  return all;
}

namespace {

/// Of all shards: how often the data went over, and the last time.
void add_switches(const NodeView& n, json& carrier) {
  carrier["switches"] = nullptr;
  carrier["last_switch"] = nullptr;
  if (!n.current()) return;
  std::int64_t switches = 0;
  const CarrierSwitch* last = nullptr;
  for (const ShardStatus& shard : n.report.status->shards) {
    if (!shard.carried) continue;
    switches += shard.carried->to_rdma + shard.carried->to_tcp;
    carrier["switches"] = switches;
    const auto& one = shard.carried->last_switch;
    if (one && (last == nullptr || one->at_ms > last->at_ms)) last = &*one;
  }
  if (last == nullptr) return;
  carrier["last_switch"] = {{"to", last->to == "rdma" ? "rdma" : "tcp"},
                            {"at", rfc3339(last->at_ms)},
                            {"after_seconds", static_cast<double>(last->after_ms) / 1000},
                            {"why", text_or_null(last->why)}};
}

}  // namespace

json pair_link_json(const PairView& view) {
  json paths = json::array();
  for (const auto& path : link_paths_of(view)) {
    json ends = json::array();
    for (const auto& end : path.ends)
      if (end.node) ends.push_back(path_end_json(end));
    paths.push_back({{"number", path.number}, {"last_resort", path.last_resort}, {"nodes", ends}});
  }
  json carriers = json::array();
  for (const NodeView& n : view.nodes) {
    if (!n.node) continue;
    const json link =
        n.current() ? link_json(n) : json{{"path", nullptr}, {"why_not_rdma", nullptr}, {"cipher", nullptr}};
    carriers.push_back({{"side", side_name(n.node->side)},
                        {"node", n.node->name},
                        {"transport", link["path"]},
                        {"why_not_rdma", link["why_not_rdma"]},
                        {"cipher", link["cipher"]}});
    add_switches(n, carriers.back());
  }
  return {{"paths", paths}, {"carriers", carriers}};
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
          {"loses", view.loses},
          {"replicas", replicas}};
}

json node_json(const PairView& view, const NodeView& n) {
  json node = shown(*n.node);
  node["local"] = n.local;
  node["reachable"] = n.local || (n.asked && n.reachable);
  node["lockstepd"] = lockstepd_json(n);
  node["version"] = n.report.status ? text_or_null(n.report.status->version) : json();
  node["partner_link"] = link_json(n);
  node["witness"] = witness_json(view, n);
  node["revision"] = n.report.status ? json(n.report.status->revision) : json();
  return node;
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
    for (const auto& s : sessions) {
      items.push_back(shown(s));
      items.back()["side"] = side_name(n.node->side);
    }
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
  json volume = shown(v);
  volume["block_format"] = v.block_size == 4096 ? "4kn" : v.physical_block == 512 ? "512n" : "512e";
  volume["importing"] = !v.import_secret.empty();
  volume["target_name"] = view.configuration->pair ? view.configuration->pair->target_name : "";
  volume["portals"] = portals;
  volume["health"] = to_string(verdict.verdict);
  volume["summary"] = verdict.summary;
  volume["replicas"] = replicas;
  return volume;
}

json initiator_json(const Configuration& c, const Initiator& i) {
  json volumes = json::array();
  for (const auto& v : c.volumes)
    if (std::ranges::find(v.access, i.iqn) != v.access.end()) volumes.push_back(v.id.to_string());
  json initiator = shown(i);
  initiator["chap"] = !i.chap ? "none" : i.mutual ? "mutual" : "one_way";
  initiator["chap_user"] = i.chap ? json(i.chap->user) : json();
  initiator["mutual_user"] = i.mutual ? json(i.mutual->user) : json();
  initiator["old_secret_valid_until"] =
      mgmt::are_in_use(i.old, mgmt::wall_clock_ms()) ? json(rfc3339(i.old->until_ms)) : json();
  initiator["volumes"] = volumes;
  return initiator;
}

json job_json(const Job& j) {
  json job = shown(j);
  if (j.state != JobState::failed) job["error"] = nullptr;
  return job;
}

json event_json(const Event& event) { return shown(event); }

json health_json(const Health& health) {
  json problems = json::array();
  for (const auto& problem : health.problems) problems.push_back(shown(problem));
  return {{"status", to_string(health.verdict)}, {"summary", health.summary}, {"problems", problems}};
}

json token_json(const Token& t, std::int64_t last_used_ms, bool here_only) {
  json token = shown(t);
  token["node_only"] = here_only;
  token["last_used_at"] = time_or_null(last_used_ms);
  return token;
}

}  // namespace lockstep::ui_api
