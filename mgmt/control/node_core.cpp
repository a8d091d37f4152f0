#include "mgmt/control/node_core.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

Uuid load_or_make_node_id(NodeSettings& settings) {
  if (const auto kept = settings.get("node_id"))
    if (const auto id = Uuid::parse(*kept)) return *id;
  const Uuid id = random_uuid();
  settings.set("node_id", id.to_string());
  return id;
}

/// By which its page may be asked for: over the network, and on the machine itself.
std::vector<std::string> certificate_hosts(const LocalSettings& local) {
  std::vector<std::string> hosts{local.node_name};
  const auto add = [&hosts](const std::string& host) {
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  };
  const auto address = parse_address(local.management_address);
  if (address && address->host != "0.0.0.0" && address->host != "::") add(address->host);
  std::array<char, 256> machine{};
  if (::gethostname(machine.data(), machine.size() - 1) == 0 && !check_node_name(machine.data())) add(machine.data());
  for (const char* here : {"localhost", "127.0.0.1", "::1"}) add(here);
  return hosts;
}

// A folder whose disk is away, for good or for minutes, keeps nobody from managing the node: the volumes that miss
// their files say so in its health.
void make_folder_if_possible(const std::filesystem::path& folder) {
  if (auto made = make_private_folder(folder); !made)
    log_warning(fmt::format(
        "{} Is its disk mounted? A folder that is new in mgmtd.toml needs /usr/lib/lockstep/prepare-state and a "
        "restart of both daemons.",
        made.error().message));
}

// lockstepd would take every volume out of service before it finds that there is nothing in the new folder.
engine::Result<void> check_volume_folder(NodeCore& core) {
  constexpr const char* kKey = "volume_folder";
  const std::filesystem::path& now = core.local.volume_folder;
  const auto before = core.settings.get(kKey);
  if (before == now.string()) return {};
  if (before)
    for (const auto& volume : core.configuration()->volumes) {
      const Copy copy = volume.copy(core.side().value_or(NodeSide::a));
      if (std::filesystem::exists(replica_files(*before, volume.id, copy).metadata) &&
          !std::filesystem::exists(replica_files(now, volume.id, copy).metadata))
        return engine::fail(engine::Errc::refused,
                            fmt::format("volume_folder is {} now, but the files of the volume {} are in {}. Put the "
                                        "line back, or stop lockstepd, move the files of all volumes, and start both.",
                                        now.string(), volume.name, *before));
    }
  core.settings.set(kKey, now.string());
  return {};
}

}  // namespace

engine::Result<std::unique_ptr<NodeCore>> NodeCore::open(LocalSettings local) {
  if (auto made = make_private_folder(local.data_folder); !made) return std::unexpected(made.error());
  auto identity = load_or_make_identity(local.data_folder, certificate_hosts(local));
  if (!identity) return std::unexpected(identity.error());
  auto database = Database::open(local.data_folder / "mgmt.db");
  if (!database) return std::unexpected(database.error());
  std::unique_ptr<NodeCore> core(new NodeCore(std::move(local), std::move(*identity), std::move(*database)));
  core->make_folders();
  if (auto good = check_volume_folder(*core); !good) return std::unexpected(good.error());
  core->save_copy();
  return core;
}

NodeCore::NodeCore(LocalSettings l, TlsIdentity i, std::unique_ptr<Database> d)
    : local(std::move(l)),
      identity(std::move(i)),
      page(local.data_folder, identity, certificate_hosts(local)),
      database_(std::move(d)),
      settings(*database_),
      replaced(settings),
      saved_file(local.copy_folder.empty() ? local.volume_folder : local.copy_folder),
      copy(saved_file),
      revision_tables(*database_),
      events(*database_),
      jobs(*database_),
      revisions(revision_tables, [this] { tell_listeners(); }),
      node_id(load_or_make_node_id(settings)) {}

void NodeCore::make_folders() {
  std::set<std::filesystem::path> folders{local.volume_folder};
  if (!local.copy_folder.empty()) folders.insert(local.copy_folder);
  const auto made = volumes_disk_.ask([folders = std::move(folders)] {
    for (const auto& folder : folders) make_folder_if_possible(folder);
    return true;
  });
  if (!made) log_warning("The disk of the volumes' folder does not answer.");
}

std::optional<NodeSide> NodeCore::side() const {
  const auto c = configuration();
  const auto found = std::ranges::find(c->nodes, node_id, &Node::id);
  return found == c->nodes.end() ? std::nullopt : std::optional(found->side);
}

const Node* NodeCore::partner(const Configuration& c) const {
  const auto found = std::ranges::find_if(c.nodes, [this](const Node& n) { return n.id != node_id; });
  return found == c.nodes.end() ? nullptr : &*found;
}

bool NodeCore::forgets_pair() const { return settings.get(kForgetsPair).has_value(); }

// The end of forgetting commits first and clears the mark then: a mark that was set after that is found without a pair
// here, and one that was set before is cleared there.
bool NodeCore::note_standing(const Uuid& pair, bool out) {
  const auto in_it = [&] {
    const auto c = configuration();
    return c->pair && c->pair->id == pair;
  };
  if (out && forgets_pair()) return false;  // it knows
  if (!in_it() || !replaced.set_replaced_here(out) || !out) return false;
  if (in_it()) return true;
  replaced.set_replaced_here(false);
  return false;
}

bool NodeCore::orders_changes() const {
  const NodeSide me = side().value_or(NodeSide::a);
  if (configuration()->nodes.size() < 2) return true;
  return orders(revisions.state().epoch, me);
}

Outcome<void> NodeCore::check_orders_for_both() const {
  if (configuration()->nodes.size() < 2) return {};
  const ConfigurationEpoch epoch = revisions.state().epoch;
  if (epoch.members.is_both() && orders(epoch, side().value_or(NodeSide::a))) return {};
  return refuse(RefusalKind::not_current, "The two nodes are agreeing on the configuration. Try again in a moment.");
}

Outcome<void> NodeCore::check_changeable() const {
  if (replaced.replaced_here_ms() != 0)
    return refuse(
        RefusalKind::not_current,
        "This machine is not in the pair any more, so that nothing can be changed here. Send the request to one of the "
        "pair's nodes. To have this one forget the pair, run `lockstep pair leave` for its own side here.");
  if (forgets_pair())
    return refuse(RefusalKind::not_current, "This node is forgetting its pair. Try again when it is in none.");
  if (!revisions.conflict()) return {};
  return refuse(
      RefusalKind::not_current,
      "The two nodes hold configurations that do not follow from one another, so nothing can be changed. "
      "`lockstep pair configuration` shows both. On the node whose changes are to be dropped run `lockstep pair "
      "configuration give-up`.");
}

Outcome<RevisionId> NodeCore::change(const std::string& summary, const Revisions::Edit& edit, Agreement agreement) {
  return change(summary, ConfigurationEdits{.together = edit}, agreement);
}

Outcome<RevisionId> NodeCore::change(const std::string& summary, const ConfigurationEdits& edits, Agreement agreement) {
  if (auto good = check_changeable(); !good) return std::unexpected(good.error());
  const auto partner_link = peer();
  const NodeSide me = side().value_or(NodeSide::a);
  const bool was_both = revisions.state().epoch.members.is_both();
  auto changed = change_configuration({revisions, me, partner_link.get(), arbiter_}, summary, edits, agreement);
  if (changed && was_both && revisions.state().epoch.is_only(me))
    events.append({.kind = "configuration.alone",
                   .severity = Severity::warning,
                   .side = me,
                   .volume = {},
                   .message = "This node changes the configuration alone; its partner takes it over when it returns."});
  return changed;
}

Outcome<void> NodeCore::check_absent_partner_reads(const Configuration& now, const Configuration& later) const {
  if (!arbiter_) return {};
  return mgmt::check_absent_partner_reads(now, later, *arbiter_);
}

void NodeCore::on_change(std::function<void()> listener) {
  const std::lock_guard lock(listeners_mutex_);
  listeners_.push_back(std::move(listener));
}

std::vector<Uuid> NodeCore::missing_replicas() {
  if (!side()) return {};
  std::vector<std::pair<Uuid, ReplicaFiles>> expected;
  const auto in_force = configuration();
  for (const auto& volume : in_force->volumes)
    if (volume.lifecycle == Lifecycle::ready && !volume.copy(*side()).unmade)
      expected.emplace_back(volume.id, replica_files(local.volume_folder, volume.id, volume.copy(*side())));
  if (expected.empty()) return {};
  const auto missing = volumes_disk_.ask([expected = std::move(expected)] {
    std::vector<Uuid> found;
    for (const auto& [id, files] : expected) {
      std::error_code error;
      const bool there = std::filesystem::exists(files.data, error) && std::filesystem::exists(files.metadata, error);
      if (!there && !error) found.push_back(id);
    }
    return found;
  });
  return missing.value_or(std::vector<Uuid>{});
}

std::optional<std::vector<FoundReplica>> NodeCore::replicas_there() {
  return volumes_disk_.ask([folder = local.volume_folder] { return replicas_named(folder); });
}

std::optional<std::vector<FoundReplica>> NodeCore::replicas_there_read() {
  return volumes_disk_.ask([folder = local.volume_folder] { return replicas_read(folder); });
}

DatabaseTime NodeCore::database_time() const {
  if (copy.was_newer()) return DatabaseTime::past;
  const bool has_one = configuration()->pair && replaced.replaced_here_ms() == 0;
  return has_one && !copy.was_seen() ? DatabaseTime::unknown : DatabaseTime::now;
}

void NodeCore::save_copy() {
  const std::lock_guard one_at_a_time(save_mutex_);
  const auto [head, in_force] = revisions.in_force();
  if (!in_force->pair || replaced.replaced_here_ms() != 0) return;
  copy.update({head, wall_clock_ms(), node_id, *in_force});
}

void NodeCore::tell_listeners() {
  save_copy();
  std::vector<std::function<void()>> all;
  {
    const std::lock_guard lock(listeners_mutex_);
    all = listeners_;
  }
  for (const auto& listener : all) listener();
}

}  // namespace lockstep::mgmt
