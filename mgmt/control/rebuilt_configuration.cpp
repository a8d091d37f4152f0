#include "mgmt/control/rebuilt_configuration.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"
#include "mgmt/control/volume_service.hpp"
#include "mgmt/control/witness_check.hpp"

namespace lockstep::mgmt {
namespace {

using Replicas = std::vector<FoundReplica*>;

/// What can be used, and is not set aside yet.
Replicas usable(std::vector<FoundReplica>& found) {
  Replicas good;
  for (auto& replica : found)
    if (replica.left_alone.empty()) good.push_back(&replica);
  return good;
}

std::string shown(const FoundReplica& replica) {
  const std::string& name = replica.identity->name;
  return check_volume_name(name) ? replica.volume.to_string() : name;
}

std::unexpected<Refusal> several_pairs(const Replicas& replicas) {
  std::map<Uuid, std::string> volumes;
  for (const FoundReplica* r : replicas) {
    std::string& names = volumes[r->identity->pair];
    names += (names.empty() ? "" : ", ") + shown(*r);
  }
  std::string list;
  for (const auto& [pair, names] : volumes)
    list += fmt::format("{}{} ({})", list.empty() ? "" : "; ", pair.to_string(), names);
  return refuse(RefusalKind::conflict,
                fmt::format("Replicas of several pairs are here: {}. Say which pair's are to be used.", list),
                {{"/pair", "Is required, as replicas of several pairs are here."}});
}

Outcome<Uuid> choose_pair(const Replicas& replicas, const std::optional<Uuid>& wanted) {
  if (replicas.empty()) return refuse(RefusalKind::conflict, "No replica is here whose metadata could be used.");
  const auto is_of = [](const Uuid& pair) { return [&](const FoundReplica* r) { return r->identity->pair == pair; }; };
  const Uuid pair = wanted.value_or(replicas.front()->identity->pair);
  if (!wanted && !std::ranges::all_of(replicas, is_of(pair))) return several_pairs(replicas);
  if (std::ranges::none_of(replicas, is_of(pair)))
    return refuse(RefusalKind::conflict, fmt::format("No replica of the pair {} is here.", pair.to_string()),
                  {{"/pair", "No replica of it is here."}});
  return pair;
}

/// A node has one side, and so have its replicas.
Outcome<NodeSide> side_of(const Replicas& replicas) {
  std::array<std::string, 2> names;
  for (const FoundReplica* r : replicas) {
    std::string& of_side = names[static_cast<std::size_t>(r->identity->owner)];
    of_side += (of_side.empty() ? "" : ", ") + shown(*r);
  }
  if (names[0].empty() || names[1].empty()) return replicas.front()->identity->owner;
  return refuse(
      RefusalKind::conflict,
      fmt::format("Replicas of both sides are here: of side a {}; of side b {}. A node has one side. Move the "
                  "files of the other node's replicas away.",
                  names[0], names[1]));
}

/// Of several copies of a volume the newest, once it was whole: only then is it known that it took the place of the
/// others. Copies whose metadata can't be used count, since one of them may have been the volume's.
Outcome<void> choose_copy(std::span<FoundReplica> copies) {
  const auto good = std::ranges::find_if(copies, [](const FoundReplica& r) { return r.left_alone.empty(); });
  if (copies.size() < 2 || good == copies.end()) return {};
  FoundReplica& newest = copies.back();
  const bool used = newest.left_alone.empty();
  if (!used || !newest.epoch.members.contains(newest.identity->owner))
    return refuse(RefusalKind::conflict,
                  fmt::format("Several copies of the volume {} ({}) are here. The newest, number {}, {}, so that it "
                              "can't be told which one was in use. Move the files of all but one away.",
                              shown(*good), newest.volume.to_string(), newest.copy,
                              used ? "was not whole yet" : "can't be used"));
  for (auto& older : copies.first(copies.size() - 1))
    if (older.left_alone.empty()) older.left_alone = fmt::format("Copy {} took its place.", newest.copy);
  return {};
}

Outcome<void> choose_copies(std::vector<FoundReplica>& found) {  // in the order of volumes and copies
  for (auto from = found.begin(); from != found.end();) {
    const auto to = std::find_if(from, found.end(), [&](const FoundReplica& r) { return r.volume != from->volume; });
    if (auto chosen = choose_copy({from, to}); !chosen) return chosen;
    from = to;
  }
  return {};
}

/// Volumes of one name: whose it is now does not matter to hosts, who go by id and serial. The first by id has it.
void name_volumes(std::vector<RebuiltVolume>& volumes) {
  std::ranges::sort(volumes, {}, [](const RebuiltVolume& v) { return v.volume.id; });
  std::set<std::string> taken;
  for (auto& v : volumes)
    if (!check_volume_name(v.named) && taken.insert(v.named).second) v.volume.name = std::exchange(v.named, "");
  for (auto& v : volumes) {
    if (!v.volume.name.empty()) continue;
    const std::string id = v.volume.id.to_string();
    v.volume.name = "volume-" + id.substr(0, 8);
    if (!taken.insert(v.volume.name).second) taken.insert(v.volume.name = "volume-" + id);
  }
}

void number_units(std::vector<RebuiltVolume>& volumes) {
  std::ranges::sort(volumes, {}, [](const RebuiltVolume& v) { return v.volume.name; });
  for (std::size_t i = 0; i < volumes.size(); ++i) volumes[i].volume.lun = static_cast<std::int64_t>(i);
}

RebuiltVolume volume_of(const FoundReplica& replica) {
  const engine::VolumeIdentity& identity = *replica.identity;
  RebuiltVolume v;
  v.named = identity.name;
  v.epoch = replica.epoch;
  v.volume.id = identity.volume;
  v.volume.serial = identity.serial;
  v.volume.size = static_cast<std::int64_t>(replica.epoch.size);  // what hosts saw; there may be room for more
  v.volume.block_size = identity.block_size;
  v.volume.encrypted = identity.key.has_value();
  v.volume.lifecycle = Lifecycle::ready;
  v.volume.copy(identity.owner).number = replica.copy;
  return v;
}

Outcome<void> check_serials(const std::vector<RebuiltVolume>& volumes) {
  std::map<std::string, std::string> seen;
  for (const auto& v : volumes) {
    const auto [at, first] = seen.emplace(v.volume.serial, v.volume.name);
    if (!first)
      return refuse(RefusalKind::conflict,
                    fmt::format("{} and {} have the same serial, {}, and hosts would take one for the other. Move the "
                                "files of one away.",
                                at->second, v.volume.name, v.volume.serial));
  }
  return {};
}

std::vector<std::string> split(const std::string& endpoints) {
  std::vector<std::string> list;
  for (std::size_t from = 0; from < endpoints.size();) {
    const std::size_t comma = std::min(endpoints.find(',', from), endpoints.size());
    list.push_back(endpoints.substr(from, comma - from));
    from = comma + 1;
  }
  return list;
}

/// What all records say, if they do.
std::optional<Arbiter> common_arbiter(const std::vector<RebuiltVolume>& volumes) {
  const engine::ArbiterSettings& said = volumes.front().epoch.arbiter;
  if (!std::ranges::all_of(volumes, [&](const RebuiltVolume& v) { return v.epoch.arbiter == said; })) return {};
  if (said.kind == engine::ArbiterKind::preferred)
    return Arbiter{.witness = false, .endpoints = {}, .preferred = said.preferred, .access = {}};
  if (said.kind == engine::ArbiterKind::fence) {
    Arbiter arbiter;
    arbiter.fence = true;
    return arbiter;
  }
  return Arbiter{.witness = true, .endpoints = split(said.address), .preferred = NodeSide::a, .access = {}};
}

/// The volumes go by what their records name, whatever the configuration says: one that says otherwise would mislead.
Outcome<Arbiter> arbiter_of(const Rebuild& rebuild, const std::optional<Arbiter>& wished) {
  if (!wished && !rebuild.arbiter)
    return refuse(RefusalKind::invalid, "The replicas do not name one arbiter. Say which the pair is to have.",
                  {{"/arbiter", "Is required here."}});
  const Arbiter& arbiter = wished ? *wished : *rebuild.arbiter;
  std::vector<FieldProblem> problems = problems_of(arbiter);
  const bool as_recorded =
      !rebuild.arbiter || (std::string_view(kind_name(*rebuild.arbiter)) == kind_name(arbiter) &&
                           (arbiter.witness || arbiter.fence || rebuild.arbiter->preferred == arbiter.preferred));
  if (!as_recorded)
    problems.push_back({"/arbiter", rebuild.arbiter->witness ? "The volumes go by a witness: give its endpoints."
                                    : rebuild.arbiter->fence ? "The volumes go by a fence."
                                                             : fmt::format("The volumes go by the preferred side {}.",
                                                                           side_name(rebuild.arbiter->preferred))});
  if (problems.empty()) return arbiter;
  return refuse(RefusalKind::invalid,
                wished ? "Correct the fields named in errors."
                       : "What the replicas say of the witness is not enough. Give its endpoints, and what it is "
                         "spoken to with.",
                std::move(problems));
}

}  // namespace

Outcome<Rebuild> rebuild_from(std::vector<FoundReplica>& found, const std::optional<Uuid>& pair) {
  const auto chosen = choose_pair(usable(found), pair);
  if (!chosen) return std::unexpected(chosen.error());
  for (FoundReplica* r : usable(found))
    if (r->identity->pair != *chosen)
      r->left_alone = fmt::format("It is of another pair, {}.", r->identity->pair.to_string());
  const auto side = side_of(usable(found));
  if (!side) return std::unexpected(side.error());
  if (auto good = choose_copies(found); !good) return std::unexpected(good.error());
  Rebuild rebuild{.pair = *chosen, .side = *side, .arbiter = {}, .volumes = {}};
  for (const FoundReplica* r : usable(found)) rebuild.volumes.push_back(volume_of(*r));
  if (rebuild.volumes.size() > kMaxVolumes)
    return refuse(RefusalKind::conflict,
                  fmt::format("{} volumes are here, and a pair has {} at most.", rebuild.volumes.size(), kMaxVolumes));
  name_volumes(rebuild.volumes);
  number_units(rebuild.volumes);
  if (auto good = check_serials(rebuild.volumes); !good) return std::unexpected(good.error());
  rebuild.arbiter = common_arbiter(rebuild.volumes);
  return rebuild;
}

namespace {

/// A host that waits since before knows a disk by the target's name and its LUN, which may be another volume's now: it
/// would send what it holds there as soon as it is let in. So it does not find this target.
std::string new_target_name(const std::string& pair) {
  return fmt::format("iqn.2026-11.io.lockstep:{}-{}", pair, random_uuid().to_string().substr(0, 8));
}

}  // namespace

Outcome<Configuration> configuration_of(const Rebuild& rebuild, const RebuildWish& wish, Node here,
                                        const Token& token) {
  std::vector<FieldProblem> problems = problems_of(here);
  if (const auto complaint = check_pair_name(wish.name)) problems.push_back({"/name", *complaint});
  const std::string target = wish.target_name.empty() ? new_target_name(wish.name) : wish.target_name;
  if (!wish.target_name.empty())
    if (const auto complaint = check_iscsi_name(target)) problems.push_back({"/target_name", *complaint});
  if (!problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  const auto arbiter = arbiter_of(rebuild, wish.arbiter);
  if (!arbiter) return std::unexpected(arbiter.error());
  Configuration c;
  Pair pair;
  pair.id = rebuild.pair;
  pair.name = wish.name;
  pair.target_name = target;
  pair.arbiter = *arbiter;
  make_link_secrets(pair);
  pair.link_protection = LinkProtection::required;
  pair.created_ms = wall_clock_ms();
  pair.next_lun = static_cast<std::int64_t>(rebuild.volumes.size());
  c.pair = std::move(pair);
  here.side = rebuild.side;
  c.nodes = {here};
  for (const auto& rebuilt : rebuild.volumes) {
    c.volumes.push_back(rebuilt.volume);
    c.volumes.back().created_ms = wall_clock_ms();
  }
  adopt_token(c, token, here.name);
  c.sort();
  return c;
}

bool lacks_a_known_side(const Configuration& configuration) {
  // A volume that was made by a pair of this configuration knows its first epoch.
  return configuration.nodes.size() == 1 &&
         std::ranges::any_of(configuration.volumes, [](const Volume& v) { return v.first_epoch.is_nil(); });
}

}  // namespace lockstep::mgmt
