#include "mgmt/control/desired_state.hpp"

#include <algorithm>
#include <cassert>

#include "mgmt/data_plane/volume_spec.hpp"
#include "mgmt/records/json.hpp"

namespace lockstep::mgmt {
namespace {

using records::json;

json access_fields(const replication::WitnessAccess& access) {
  json fields = json::object();
  for (const auto& [name, text] : {std::pair<const char*, const std::string&>{"ca", access.ca},
                                   {"certificate", access.certificate},
                                   {"key", access.key},
                                   {"user", access.user},
                                   {"password", access.password}})
    if (!text.empty()) fields[name] = text;
  return fields;
}

// What an epoch record keeps of it, and so no secrets.
json arbiter_json(const Arbiter& arbiter) {
  if (arbiter.witness) return {{"kind", "witness"}, {"endpoints", arbiter.endpoints}};
  if (arbiter.fence) return {{"kind", "fence"}};
  return {{"kind", "preferred"}, {"preferred", side_name(arbiter.preferred)}};
}

// Only what is there is said: a lockstepd that is older than this program refuses what it does not know.
json arbiter_with_secrets_json(const Pair& pair) {
  if (pair.arbiter.changing) return {{"kind", "witness"}, {"endpoints", json::array()}, {"changing", true}};
  json wanted = arbiter_json(pair.arbiter);
  if (!pair.arbiter.witness) return wanted;
  wanted.update(access_fields(pair.arbiter.access));
  if (pair.seal) wanted["seal"] = {{"one", pair.seal->one}, {"other", pair.seal->other}};
  return wanted;
}

json both_ways_json(const Chap& chap, const Chap& mutual) {
  return {{"chap_user", chap.user},
          {"chap_secret", chap.secret},
          {"mutual_user", mutual.user},
          {"mutual_secret", mutual.secret}};
}

void add_paths(json& link, const std::vector<std::string>& mine, const std::vector<std::string>& partners, bool last) {
  for (std::size_t i = 0; i < std::min(mine.size(), partners.size()); ++i)
    link["more_paths"].push_back({{"listen", mine[i]}, {"connect", partners[i]}, {"last_resort", last}});
}

json partner_json(const Pair& pair, const Node& mine, const Node& partner, const KeyAndCertificate* shown) {
  json link = both_ways_json(pair.link, pair.link_mutual);
  link["listen"] = mine.link_address;
  link["connect"] = partner.link_address;
  if (!mine.beside.link_address.empty()) link["listen_beside"] = mine.beside.link_address;
  if (!partner.beside.link_address.empty()) link["connect_beside"] = partner.beside.link_address;
  add_paths(link, mine.more_link_addresses, partner.more_link_addresses, false);
  add_paths(link, mine.last_link_addresses, partner.last_link_addresses, true);
  if (pair.link_beside) link["also"] = both_ways_json(pair.link_beside->link, pair.link_beside->link_mutual);
  // A lockstepd that is older than this program refuses what it does not know: a pair with such a one has no TLS yet.
  if (shown && pair.link_protection != LinkProtection::off)
    link["tls"] = {{"certificate", shown->certificate},
                   {"key", shown->key},
                   {"partner", partner.fingerprint},
                   {"mode", name_of(pair.link_protection)}};
  return {{"name", partner.name}, {"portals", partner.portals}, {"link", link}};
}

json credential(const std::optional<Chap>& chap, std::string Chap::*field) {
  return chap ? json(*chap.*field) : json();
}

json discovery_json(const std::optional<Chap>& chap) {
  if (!chap) return {};
  return {
      {"chap_user", chap->user}, {"chap_secret", chap->secret}, {"mutual_user", nullptr}, {"mutual_secret", nullptr}};
}

/// Only what is still accepted: lockstepd is told anew when the time is over.
void add_old(json& entry, const Initiator& known, std::int64_t now_ms) {
  if (!known.old || known.old->until_ms <= now_ms) return;
  entry["old"] = {{"chap_user", known.old->chap.user},
                  {"chap_secret", known.old->chap.secret},
                  {"mutual_user", credential(known.old->mutual, &Chap::user)},
                  {"mutual_secret", credential(known.old->mutual, &Chap::secret)},
                  {"until_ms", known.old->until_ms}};
}

json access_json(const Configuration& configuration, const Volume& volume, std::int64_t now_ms) {
  json list = json::array();
  if (!volume.import_secret.empty()) {
    const Importer importer = importer_of(volume);
    list.push_back({{"initiator", importer.initiator},
                    {"chap_user", importer.chap.user},
                    {"chap_secret", importer.chap.secret},
                    {"mutual_user", nullptr},
                    {"mutual_secret", nullptr}});
    return list;
  }
  for (const auto& iqn : volume.access) {
    const Initiator* known = configuration.initiator(iqn);
    assert(known);  // the database's foreign key
    list.push_back({{"initiator", iqn},
                    {"chap_user", credential(known->chap, &Chap::user)},
                    {"chap_secret", credential(known->chap, &Chap::secret)},
                    {"mutual_user", credential(known->mutual, &Chap::user)},
                    {"mutual_secret", credential(known->mutual, &Chap::secret)}});
    add_old(list.back(), *known, now_ms);
  }
  return list;
}

// What is not listed is said only where it is not what it is by default, `any_initiator` only where no list says that
// it is false: a lockstepd that is older than this program refuses what it does not know, and is to go on with the
// volumes that it does.
struct Applied {
  static constexpr records::Rules rules(const data_plane::VolumeSpec*) {
    return {.required =
                "id name serial lun size block_size physical_block_size thin read_only removable write_cache "
                "mirrored data metadata",
            .hidden = "any_initiator access"};
  }
};

json volume_json(const Configuration& configuration, const Volume& volume, const ReplicaFiles& files,
                 std::int64_t now_ms) {
  data_plane::VolumeSpec spec;
  records::copy_same_fields(volume, spec);
  spec.physical_block_size = static_cast<std::uint32_t>(volume.physical_block);
  spec.read_only = volume.read_only && volume.import_secret.empty();
  spec.data = files.data;
  spec.metadata = files.metadata;
  json wanted = records::to_json<Applied>(spec);
  wanted["access"] = access_json(configuration, volume, now_ms);
  if (volume.is_closed() && volume.import_secret.empty()) wanted["any_initiator"] = false;
  return wanted;
}

}  // namespace

Importer importer_of(const Volume& volume) {
  return {"iqn.2026-11.io.lockstep:import." + volume.id.to_string(), {"import", volume.import_secret}};
}

ReplicaFiles replica_files(const std::filesystem::path& folder, const Uuid& volume, const Copy& copy) {
  const std::filesystem::path in = copy.folder.empty() ? folder : std::filesystem::path(copy.folder);
  const std::string number = copy.number == 1 ? "" : "." + std::to_string(copy.number);
  const std::string base = (in / volume.to_string()).string() + number;
  return {base + ".data", base + ".meta"};
}

std::string apply_parameters(const Configuration& configuration, std::int64_t revision, NodeSide side,
                             const std::filesystem::path& folder, std::int64_t now_ms, const KeyAndCertificate* shown) {
  assert(configuration.pair && configuration.node(side));
  const Pair& pair = *configuration.pair;
  const Node& mine = *configuration.node(side);
  const Node* partner = configuration.node(engine::other(side));
  json wanted = {
      {"revision", revision},
      {"pair", {{"id", pair.id.to_string()}, {"name", pair.name}}},
      {"node", {{"side", side_name(side)}, {"id", mine.id.to_string()}, {"name", mine.name}}},
      {"target",
       {{"name", pair.target_name}, {"portals", mine.portals}, {"discovery_auth", discovery_json(pair.discovery)}}},
      {"partner", partner ? partner_json(pair, mine, *partner, shown) : json()},
      {"arbiter", arbiter_with_secrets_json(pair)},
      {"settings",
       {{"lease_ms", pair.settings.lease_ms},
        {"resync_floor", pair.settings.resync_floor},
        {"resync_ceiling", pair.settings.resync_ceiling}}},
      {"volumes", json::array()}};
  if (pair.settings.other_lease_ms != 0) wanted["settings"]["other_lease_ms"] = pair.settings.other_lease_ms;
  for (const auto& volume : configuration.volumes) {
    const Copy& copy = volume.copy(side);
    if (volume.lifecycle != Lifecycle::ready || copy.retired) continue;
    wanted["volumes"].push_back(volume_json(configuration, volume, replica_files(folder, volume.id, copy), now_ms));
  }
  return wanted.dump();
}

namespace {

json epoch_json(const Volume& volume, NodeSide side, const ReplicaBirth& birth) {
  if (!birth.joins)
    return {{"id", volume.first_epoch.to_string()},
            {"members", birth.both ? "both" : side_name(side)},
            {"sequencer", birth.both ? "a" : side_name(side)}};
  const LoneEpoch& lone = *birth.joins;
  return {{"id", lone.id},
          {"number", lone.number},
          {"size", lone.size},
          {"members", side_name(lone.member)},
          {"sequencer", side_name(lone.member)}};
}

}  // namespace

std::string create_parameters(const Configuration& configuration, const Volume& volume, NodeSide side,
                              const ReplicaBirth& birth, const std::filesystem::path& folder) {
  assert(configuration.pair);
  const auto files = replica_files(folder, volume.id, volume.copy(side));
  // The volume may have grown before the configuration said so.
  const std::int64_t size = birth.joins ? std::max(volume.size, birth.joins->size) : volume.size;
  json wanted = {{"volume", volume.id.to_string()},
                 {"pair", configuration.pair->id.to_string()},
                 {"side", side_name(side)},
                 {"name", volume.name},
                 {"serial", volume.serial},
                 {"size", size},
                 {"block_size", volume.block_size},
                 {"thin", volume.thin},
                 {"data", files.data},
                 {"metadata", files.metadata},
                 {"epoch", epoch_json(volume, side, birth)},
                 {"arbiter", arbiter_json(configuration.pair->arbiter)},
                 {"clean", birth.clean}};
  if (volume.encrypted) wanted["encrypted"] = true;
  return wanted.dump();
}

std::string forget_parameters(const std::string& endpoint, const replication::WitnessAccess& access,
                              const std::string& keep, const Configuration& configuration) {
  json wanted = access_fields(access);
  wanted["endpoint"] = endpoint;
  wanted["pair"] = configuration.pair->id.to_string();
  if (!keep.empty()) wanted["keep"] = keep;
  wanted["volumes"] = json::array({configuration.pair->id.to_string()});  // the configuration's own record goes, too
  for (const auto& volume : configuration.volumes) wanted["volumes"].push_back(volume.id.to_string());
  return wanted.dump();
}

std::string try_parameters(const std::string& endpoint, const replication::WitnessAccess& access, const Uuid& pair) {
  json wanted = access_fields(access);
  wanted["pair"] = pair.to_string();
  wanted["endpoint"] = endpoint;
  return wanted.dump();
}

}  // namespace lockstep::mgmt
