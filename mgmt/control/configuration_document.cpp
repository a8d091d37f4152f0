// Configuration as JSON, for the partner and for tentative revisions.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;
constexpr int kShapes = 2;      // a volume's shape and use; what version 1 lacks has the values that were built in
constexpr int kEncryption = 3;  // a volume may be encrypted: whoever overlooks that makes a copy that is not
// Discovery may ask for a secret, a volume may have nobody on its list: whoever overlooks that lets everybody in. The
// witness may want TLS and a user: whoever overlooks that can't ask it.
constexpr int kAccess = 4;
// The witness's records may be sealed with other secrets than the link's: whoever overlooks that trusts no record. A
// copy may have been replaced: whoever overlooks that takes the lost one's files for it.
constexpr int kReplacement = 5;
// The witness may be changing: whoever overlooks that asks the one that the other node is about to ask no more.
constexpr int kChangingWitness = 6;
// So may a preferred side: whoever overlooks that lets that side go on alone when another one is about to.
constexpr int kChangingPreference = 7;
constexpr int kOldestVersion = 1;
constexpr int kFence = 7;
// Credentials of before, or to come, may be accepted beside those in force: whoever overlooks that shuts out who has
// only those.
constexpr int kRotation = 8;
// One lease may be taking the place of another: whoever overlooks that waits for the shorter one alone.
constexpr int kTwoLeases = 9;
static_assert(kTwoLeases == kNewestDocument);

struct BadDocument : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Uuid uuid_at(const json& object, const char* key) {
  const auto text = object.at(key).get<std::string>();
  const auto id = Uuid::parse(text);
  if (!id) throw BadDocument(fmt::format("{} is not a UUID: {}", key, text));
  return *id;
}

NodeSide side_at(const json& object, const char* key) {
  const auto text = object.at(key).get<std::string>();
  if (text != "a" && text != "b") throw BadDocument(fmt::format("{} is neither a nor b: {}", key, text));
  return text == "a" ? NodeSide::a : NodeSide::b;
}

json chap_json(const std::optional<Chap>& chap) {
  return chap ? json{{"user", chap->user}, {"secret", chap->secret}} : json();
}

Chap chap_from(const json& j) { return {j.at("user").get<std::string>(), j.at("secret").get<std::string>()}; }

std::optional<Chap> optional_chap(const json& j) { return j.is_null() ? std::nullopt : std::optional(chap_from(j)); }

json access_json(const replication::WitnessAccess& access) {
  if (access.empty()) return {};
  return {{"ca", access.ca},
          {"certificate", access.certificate},
          {"key", access.key},
          {"user", access.user},
          {"password", access.password}};
}

replication::WitnessAccess access_from(const json& arbiter) {
  const auto at = arbiter.find("access");
  if (at == arbiter.end() || at->is_null()) return {};
  return {at->at("ca"), at->at("certificate"), at->at("key"), at->at("user"), at->at("password")};
}

json seal_json(const std::optional<SealSecrets>& seal) {
  return seal ? json{{"one", seal->one}, {"other", seal->other}} : json();
}

std::optional<SealSecrets> seal_from(const json& j) {
  if (j.is_null()) return std::nullopt;
  return SealSecrets{j.at("one").get<std::string>(), j.at("other").get<std::string>()};
}

json arbiter_json(const Arbiter& a) {
  json arbiter = {{"witness", a.witness},
                  {"endpoints", a.endpoints},
                  {"preferred", side_name(a.preferred)},
                  {"access", access_json(a.access)}};
  if (a.changing) arbiter["changing"] = true;
  if (a.fence) arbiter["fence"] = true;
  return arbiter;
}

Arbiter arbiter_from(const json& j) {
  return {j.at("witness"), j.at("endpoints"),          side_at(j, "preferred"),
          access_from(j),  j.value("changing", false), j.value("fence", false)};
}

json pair_json(const Pair& p) {
  json pair = {{"id", p.id.to_string()},
               {"name", p.name},
               {"target_name", p.target_name},
               {"arbiter", arbiter_json(p.arbiter)},
               {"settings",
                {{"lease_ms", p.settings.lease_ms},
                 {"resync_floor", p.settings.resync_floor},
                 {"resync_ceiling", p.settings.resync_ceiling}}},
               {"link", chap_json(p.link)},
               {"link_mutual", chap_json(p.link_mutual)},
               {"discovery", chap_json(p.discovery)},
               {"seal", seal_json(p.seal)},
               {"created_ms", p.created_ms},
               {"next_lun", p.next_lun}};
  if (p.settings.other_lease_ms != 0) pair["settings"]["other_lease_ms"] = p.settings.other_lease_ms;
  if (const auto& beside = p.link_beside)
    pair["link_beside"] = {
        {"link", chap_json(beside->link)}, {"link_mutual", chap_json(beside->link_mutual)}, {"old", beside->are_old}};
  return pair;
}

Pair pair_from(const json& j) {
  const json& settings = j.at("settings");
  Pair p;
  p.id = uuid_at(j, "id");
  p.name = j.at("name");
  p.target_name = j.at("target_name");
  p.arbiter = arbiter_from(j.at("arbiter"));
  p.settings = {settings.at("lease_ms"), settings.at("resync_floor"), settings.at("resync_ceiling"),
                settings.value("other_lease_ms", std::int64_t{0})};
  p.link = chap_from(j.at("link"));
  p.link_mutual = chap_from(j.at("link_mutual"));
  p.created_ms = j.at("created_ms");
  p.next_lun = j.value("next_lun", p.next_lun);
  if (j.contains("discovery")) p.discovery = optional_chap(j.at("discovery"));
  if (j.contains("seal")) p.seal = seal_from(j.at("seal"));
  if (const auto beside = j.find("link_beside"); beside != j.end())
    p.link_beside = LinkBeside{chap_from(beside->at("link")), chap_from(beside->at("link_mutual")), beside->at("old")};
  return p;
}

json node_json(const Node& n) {
  return {{"id", n.id.to_string()},      {"side", side_name(n.side)},      {"name", n.name},
          {"portals", n.portals},        {"link_address", n.link_address}, {"management_address", n.management_address},
          {"fingerprint", n.fingerprint}};
}

Node node_from(const json& j) {
  Node n;
  n.id = uuid_at(j, "id");
  n.side = side_at(j, "side");
  n.name = j.at("name");
  n.portals = j.at("portals").get<std::vector<std::string>>();
  n.link_address = j.at("link_address");
  n.management_address = j.at("management_address");
  n.fingerprint = j.at("fingerprint");
  return n;
}

json copy_json(const Copy& c) { return {{"number", c.number}, {"folder", c.folder}, {"retired", c.retired}}; }

Copy copy_from(const json& j) {
  Copy c{j.at("number"), j.at("folder"), j.at("retired")};
  if (c.number < 1) throw BadDocument("a copy has no number");
  return c;
}

bool has_replaced_copies(const Volume& v) { return v.copies != Volume{}.copies; }

json volume_json(const Volume& v) {
  json volume = {{"id", v.id.to_string()},
                 {"name", v.name},
                 {"serial", v.serial},
                 {"lun", v.lun},
                 {"size", v.size},
                 {"block_size", v.block_size},
                 {"physical_block", v.physical_block},
                 {"thin", v.thin},
                 {"read_only", v.read_only},
                 {"removable", v.removable},
                 {"encrypted", v.encrypted},
                 {"write_cache", v.write_cache},
                 {"import_secret", v.import_secret},
                 {"lifecycle", static_cast<int>(v.lifecycle)},
                 {"first_epoch", v.first_epoch.to_string()},
                 {"any_initiator", v.any_initiator},
                 {"access", v.access},
                 {"created_ms", v.created_ms}};
  if (has_replaced_copies(v)) volume["copies"] = {copy_json(v.copies[0]), copy_json(v.copies[1])};
  return volume;
}

Volume volume_from(const json& j) {
  Volume v;
  v.id = uuid_at(j, "id");
  v.name = j.at("name");
  v.serial = j.at("serial");
  v.lun = j.at("lun");
  v.size = j.at("size");
  v.block_size = j.at("block_size");
  v.physical_block = j.value("physical_block", v.physical_block);
  v.thin = j.at("thin");
  v.read_only = j.value("read_only", v.read_only);
  v.removable = j.value("removable", v.removable);
  v.encrypted = j.value("encrypted", v.encrypted);
  v.write_cache = j.value("write_cache", v.write_cache);
  v.import_secret = j.value("import_secret", v.import_secret);
  const int lifecycle = j.at("lifecycle");
  if (lifecycle < 0 || lifecycle > static_cast<int>(Lifecycle::deleting)) throw BadDocument("lifecycle is not known");
  v.lifecycle = static_cast<Lifecycle>(lifecycle);
  v.first_epoch = uuid_at(j, "first_epoch");
  v.access = j.at("access").get<std::vector<std::string>>();
  v.any_initiator = j.value("any_initiator", v.access.empty());
  v.created_ms = j.at("created_ms");
  if (j.contains("copies")) v.copies = {copy_from(j.at("copies").at(0)), copy_from(j.at("copies").at(1))};
  return v;
}

json initiator_json(const Initiator& i) {
  json initiator = {
      {"iqn", i.iqn}, {"chap", chap_json(i.chap)}, {"mutual", chap_json(i.mutual)}, {"created_ms", i.created_ms}};
  if (i.old)
    initiator["old"] = {
        {"chap", chap_json(i.old->chap)}, {"mutual", chap_json(i.old->mutual)}, {"until_ms", i.old->until_ms}};
  return initiator;
}

Initiator initiator_from(const json& j) {
  Initiator i{j.at("iqn").get<std::string>(), optional_chap(j.at("chap")), optional_chap(j.at("mutual")),
              j.at("created_ms").get<std::int64_t>()};
  if (const auto old = j.find("old"); old != j.end())
    i.old = OldCredentials{chap_from(old->at("chap")), optional_chap(old->at("mutual")), old->at("until_ms")};
  return i;
}

json token_json(const Token& t) {
  return {{"id", t.id.to_string()},     {"name", t.name},
          {"digest", t.digest},         {"viewer", t.role == Role::viewer},
          {"created_ms", t.created_ms}, {"expires_ms", t.expires_ms}};
}

Token token_from(const json& j) {
  return {uuid_at(j, "id"),
          j.at("name").get<std::string>(),
          j.at("digest").get<std::string>(),
          j.at("viewer").get<bool>() ? Role::viewer : Role::admin,
          j.at("created_ms").get<std::int64_t>(),
          j.at("expires_ms").get<std::int64_t>()};
}

}  // namespace

int document_version(const Configuration& configuration) {
  if (configuration.pair && configuration.pair->settings.other_lease_ms != 0) return kTwoLeases;
  const auto has_old = [](const Initiator& i) { return i.old.has_value(); };
  if (std::ranges::any_of(configuration.initiators, has_old)) return kRotation;
  if (configuration.pair && configuration.pair->link_beside) return kRotation;
  if (configuration.pair && configuration.pair->arbiter.fence) return kFence;
  if (configuration.pair && configuration.pair->arbiter.changing)
    return configuration.pair->arbiter.witness ? kChangingWitness : kChangingPreference;
  if (configuration.pair && configuration.pair->seal) return kReplacement;
  if (std::ranges::any_of(configuration.volumes, has_replaced_copies)) return kReplacement;
  const bool closed = std::ranges::any_of(configuration.volumes, &Volume::is_closed);
  if (closed || (configuration.pair && configuration.pair->discovery)) return kAccess;
  if (configuration.pair && !configuration.pair->arbiter.access.empty()) return kAccess;
  return std::ranges::any_of(configuration.volumes, &Volume::encrypted) ? kEncryption : kShapes;
}

const char* kind_name(const Arbiter& arbiter) {
  return arbiter.witness ? "witness" : arbiter.fence ? "fence" : "preferred";
}

std::string arbiter_document(const Arbiter& arbiter) { return arbiter_json(arbiter).dump(); }

Outcome<Arbiter> arbiter_from_document(std::string_view text) {
  try {
    return arbiter_from(json::parse(text));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::malformed, fmt::format("What is said of a witness cannot be read: {}.", e.what()));
  }
}

std::string to_document(const Configuration& configuration) {
  json document = {{"version", document_version(configuration)},
                   {"pair", nullptr},
                   {"nodes", json::array()},
                   {"volumes", json::array()},
                   {"initiators", json::array()},
                   {"tokens", json::array()}};
  if (configuration.pair) document["pair"] = pair_json(*configuration.pair);
  for (const auto& n : configuration.nodes) document["nodes"].push_back(node_json(n));
  for (const auto& v : configuration.volumes) document["volumes"].push_back(volume_json(v));
  for (const auto& i : configuration.initiators) document["initiators"].push_back(initiator_json(i));
  for (const auto& t : configuration.tokens) document["tokens"].push_back(token_json(t));
  return document.dump();
}

Outcome<Configuration> from_document(std::string_view text) {
  try {
    const json document = json::parse(text);
    const int version = document.at("version");
    if (version < kOldestVersion || version > kNewestDocument)
      throw BadDocument(
          fmt::format("it is of version {}, and this program knows version {}", version, kNewestDocument));
    Configuration c;
    if (!document.at("pair").is_null()) c.pair = pair_from(document.at("pair"));
    for (const auto& j : document.at("nodes")) c.nodes.push_back(node_from(j));
    for (const auto& j : document.at("volumes")) c.volumes.push_back(volume_from(j));
    for (const auto& j : document.at("initiators")) c.initiators.push_back(initiator_from(j));
    for (const auto& j : document.at("tokens")) c.tokens.push_back(token_from(j));
    c.sort();
    return c;
  } catch (const std::exception& e) {
    return refuse(
        RefusalKind::malformed,
        fmt::format("The partner's configuration cannot be read: {}. Are both nodes of the same version?", e.what()));
  }
}

}  // namespace lockstep::mgmt
