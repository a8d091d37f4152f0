#include "mgmt/control/saved_configuration.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/bounded_json.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

constexpr std::string_view kFirstWords = "lockstep-configuration 1 ";
constexpr std::string_view kAnyForm = "lockstep-configuration ";
constexpr std::uintmax_t kMaxBytes = std::uintmax_t{16} << 20;
constexpr JsonBounds kBounds{.values = 500'000, .depth = 32};
constexpr std::size_t kDigest = 64;

struct Unusable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

Uuid uuid_at(const json& object, const char* key) {
  const auto id = Uuid::parse(object.at(key).get<std::string>());
  if (!id) throw Unusable(fmt::format("{} is not a UUID", key));
  return *id;
}

template <class List, class Key>
void check_each_once(const List& list, Key key, const char* what) {
  std::set<decltype(key(*list.begin()))> seen;
  for (const auto& one : list)
    if (!seen.insert(key(one)).second) throw Unusable(fmt::format("it has {} twice", what));
}

void check_node(const Node& n) {
  if (check_node_name(n.name)) throw Unusable("a node's name is not one");
  if (check_address(n.management_address) || check_address(n.link_address)) throw Unusable("a node has no address");
  if (n.portals.empty() || std::ranges::any_of(n.portals, [](const auto& p) { return check_address(p).has_value(); }))
    throw Unusable("a node has no portals");
  for (const auto* list : {&n.more_link_addresses, &n.last_link_addresses})
    if (std::ranges::any_of(*list, [](const auto& a) { return check_address(a).has_value(); }))
      throw Unusable("a path of the link has no address");
}

void check_paths(const Configuration& c) {
  for (const auto list : {&Node::more_link_addresses, &Node::last_link_addresses})
    if ((c.nodes.front().*list).size() != (c.nodes.back().*list).size())
      throw Unusable("a path of the link has one end");
}

void check_volume(const Volume& v, const Configuration& c) {
  if (check_volume_name(v.name)) throw Unusable("a volume's name is not one");
  if (check_volume_size(v.size) || (v.block_size != 512 && v.block_size != 4096) || v.lun < 0 || v.lun > 16383)
    throw Unusable(fmt::format("the volume {} has a shape that no volume has", v.name));
  for (const auto& iqn : v.access)
    if (!c.initiator(iqn)) throw Unusable(fmt::format("the volume {} names a host that is not in it", v.name));
}

// What the rest of the program takes for granted of a configuration in force.
void check(const SavedConfiguration& saved) {
  const Configuration& c = saved.configuration;
  if (!c.pair) throw Unusable("it has no pair");
  if (check_pair_name(c.pair->name) || check_iscsi_name(c.pair->target_name)) throw Unusable("its names are not names");
  if (c.pair->link.secret.empty() || c.pair->link_mutual.secret.empty()) throw Unusable("it has no link secrets");
  if (c.nodes.empty() || c.nodes.size() > 2 || !saved.here()) throw Unusable("the node that saved it is not in it");
  check_each_once(
      c.nodes, [](const Node& n) { return n.side; }, "a side");
  check_each_once(
      c.nodes, [](const Node& n) { return n.id; }, "a node");
  check_each_once(
      c.volumes, [](const Volume& v) { return v.id; }, "a volume");
  check_each_once(
      c.volumes, [](const Volume& v) { return v.name; }, "a volume's name");
  check_each_once(
      c.volumes, [](const Volume& v) { return v.lun; }, "a LUN");
  check_each_once(
      c.initiators, [](const Initiator& i) { return i.iqn; }, "a host");
  check_each_once(
      c.tokens, [](const Token& t) { return t.id; }, "a token");
  check_each_once(
      c.tokens, [](const Token& t) { return t.name; }, "a token's name");
  for (const auto& n : c.nodes) check_node(n);
  check_paths(c);
  for (const auto& v : c.volumes) check_volume(v, c);
  if (saved.revision.n < 0 || saved.revision.n > (std::int64_t{1} << 60)) throw Unusable("its revision is no number");
}

SavedConfiguration parsed(std::string_view body) {
  if (!within_bounds(body, kBounds)) throw Unusable("it has too many values");
  const json j = json::parse(body);
  SavedConfiguration saved;
  saved.revision = {uuid_at(j, "epoch"), j.at("n").get<std::int64_t>(), uuid_at(j, "change")};
  saved.saved_ms = j.at("saved_ms").get<std::int64_t>();
  saved.node = uuid_at(j, "node");
  const std::string document = j.at("document");
  if (!within_bounds(document, kBounds)) throw Unusable("it has too many values");
  auto configuration = from_document(document);
  if (!configuration) throw Unusable("the configuration in it cannot be read, or is of a newer version of Lockstep");
  saved.configuration = std::move(*configuration);
  check(saved);
  return saved;
}

}  // namespace

const Node* SavedConfiguration::here() const {
  const auto found = std::ranges::find(configuration.nodes, node, &Node::id);
  return found == configuration.nodes.end() ? nullptr : &*found;
}

const Node* SavedConfiguration::partner() const {
  const auto found = std::ranges::find_if(configuration.nodes, [this](const Node& n) { return n.id != node; });
  return found == configuration.nodes.end() ? nullptr : &*found;
}

std::string to_file(const SavedConfiguration& saved) {
  const std::string body = json{{"epoch", saved.revision.epoch.to_string()},
                                {"n", saved.revision.n},
                                {"change", saved.revision.change.to_string()},
                                {"saved_ms", saved.saved_ms},
                                {"node", saved.node.to_string()},
                                {"document", to_document(saved.configuration)}}
                               .dump() +
                           "\n";
  return fmt::format("{}{}\n{}", kFirstWords, sha256_hex(body), body);
}

Outcome<SavedConfiguration> saved_from_file(std::string_view content) {
  const auto unusable = [](std::string_view why) {
    return refuse(RefusalKind::conflict, fmt::format("The saved copy of the configuration is of no use: {}.", why));
  };
  if (!content.starts_with(kAnyForm)) return unusable("it is not one that Lockstep made");
  if (!content.starts_with(kFirstWords)) return unusable("a newer version of Lockstep made it");
  content.remove_prefix(kFirstWords.size());
  if (content.size() <= kDigest || content[kDigest] != '\n') return unusable("it is not whole");
  const std::string_view digest = content.substr(0, kDigest);
  const std::string_view body = content.substr(kDigest + 1);
  if (sha256_hex(body) != digest) return unusable("it is damaged, its checksum does not fit");
  try {
    return parsed(body);
  } catch (const Unusable& e) {
    return unusable(e.what());
  } catch (const std::exception&) {
    return unusable("it is not what Lockstep saves");
  }
}

SavedConfigurationFile::SavedConfigurationFile(const std::filesystem::path& folder)
    : path_(folder / "configuration.saved") {}

bool SavedConfigurationFile::exists() const {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(path_, error));
}

Outcome<SavedConfiguration> SavedConfigurationFile::read() const {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path_, error);
  if (!std::filesystem::exists(status))
    return refuse(RefusalKind::not_found,
                  fmt::format("There is no saved copy of a configuration at {}.", path_.string()));
  const auto bytes = std::filesystem::file_size(path_, error);
  if (!std::filesystem::is_regular_file(status) || error || bytes > kMaxBytes)
    return refuse(RefusalKind::conflict, fmt::format("{} is not a file that Lockstep made.", path_.string()));
  const auto content = read_file(path_);
  if (!content) return refuse(RefusalKind::conflict, content.error().message);
  return saved_from_file(*content);
}

void SavedConfigurationFile::set_aside_other_pairs(const Uuid& pair) const {
  if (!exists()) return;
  const auto there = read();
  if (there && there->configuration.pair->id == pair) return;
  const std::string whose = there ? there->configuration.pair->id.to_string() : "unusable";
  std::error_code error;  // what cannot be kept is written over
  std::filesystem::rename(path_, path_.string() + "." + whose, error);
}

engine::Result<void> SavedConfigurationFile::write(const SavedConfiguration& saved) const {
  set_aside_other_pairs(saved.configuration.pair->id);
  return write_private_file(path_, to_file(saved));
}

}  // namespace lockstep::mgmt
