#include "mgmt/control/volume_service.hpp"

#include <algorithm>
#include <cassert>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/import_jobs.hpp"
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/shard_choice.hpp"
#include "mgmt/control/validation.hpp"
#include "mgmt/control/volume_edits.hpp"

namespace lockstep::mgmt {
namespace {

void check_access(const std::vector<std::string>& access, const Configuration& c, std::vector<FieldProblem>& problems) {
  if (access.size() > kMaxAccess) problems.push_back({"/access", fmt::format("At most {} initiators.", kMaxAccess)});
  for (std::size_t i = 0; i < access.size(); ++i) {
    const std::string pointer = fmt::format("/access/{}", i);
    if (const auto complaint = check_iscsi_name(access[i]))
      problems.push_back({pointer, *complaint});
    else if (!c.initiator(access[i]))
      problems.push_back({pointer, fmt::format("{} is not known. Make the initiator known first.", access[i])});
    else if (std::ranges::find(access.begin(), access.begin() + static_cast<std::ptrdiff_t>(i), access[i]) !=
             access.begin() + static_cast<std::ptrdiff_t>(i))
      problems.push_back({pointer, "Is listed twice."});
  }
}

void check_any(bool any, const std::vector<std::string>& access, std::vector<FieldProblem>& problems) {
  if (any && !access.empty())
    problems.push_back({"/any_initiator", "Contradicts the list in access: leave one of the two out."});
}

Outcome<void> check_access_in_all(const Configuration& c) {
  std::size_t entries = 0;
  for (const auto& volume : c.volumes) entries += volume.access.size();
  if (entries <= kMaxAccessInAll) return {};
  return refuse(RefusalKind::conflict,
                fmt::format("The access lists of all volumes would have {} entries together, and {} are the most there "
                            "can be. Shorten some.",
                            entries, kMaxAccessInAll));
}

// Not one that a volume had lately: a host that still waits with writes for a deleted volume may take another one that
// comes under its LUN for the one it knew. Nor one that the partner may give, where this node makes it `alone`: one of
// two such configurations may be given up, and a session of that one's hosts would find the other volume. Nor, made
// together after that, one of those that the partner may have given then.
constexpr auto kLuns = static_cast<std::int64_t>(kMaxVolumes);
constexpr std::int64_t kGivenAlone = 64;  ///< that far may the other one have come, by every second

/// `next_lun` after one that was given by one node alone: as far round as any, and known from the others.
std::int64_t after_alone(std::int64_t lun) { return lun + 1 + kLuns; }
bool was_alone(std::int64_t next_lun) { return next_lun > kLuns; }

std::int64_t next_free_lun(const Configuration& c, std::optional<NodeSide> alone = {}) {
  const auto is_free = [&](std::int64_t lun) {
    return std::ranges::find(c.volumes, lun, &Volume::lun) == c.volumes.end();
  };
  const auto is_own = [&](std::int64_t lun) { return !alone || lun % 2 == (*alone == NodeSide::a ? 0 : 1); };
  const std::int64_t skipped = !alone && was_alone(c.pair->next_lun) ? kGivenAlone : 0;
  for (std::int64_t i = 0; i < kLuns; ++i) {
    const std::int64_t lun = (c.pair->next_lun + skipped + i) % kLuns;
    if (is_free(lun) && is_own(lun)) return lun;
  }
  assert(alone);  // there are as many LUNs as volumes
  return next_free_lun(c);
}

Volume describe_volume(const VolumeWish& wish, const Configuration& c, const Uuid& id,
                       const std::vector<std::int64_t>& shards) {
  Volume v = wish;
  v.id = id;
  v.serial = v.id.to_string();
  std::erase(v.serial, '-');
  v.lun = next_free_lun(c);
  v.first_epoch = random_uuid();
  v.created_ms = wall_clock_ms();
  v.shard = emptiest_shard(shards, c);
  return v;
}

/// For the volume of that id, or for a new one.
Outcome<void> check_name_is_free(const std::string& name, const std::optional<Uuid>& id, const Configuration& c) {
  const auto found = std::ranges::find(c.volumes, name, &Volume::name);
  if (found == c.volumes.end() || found->id == id) return {};
  const std::string taken = fmt::format("There is a volume named {} already.", name);
  return refuse(RefusalKind::conflict, taken + " Choose another name.", {{"/name", taken}});
}

Outcome<void> check_new(const VolumeWish& wish, const Configuration& c) {
  if (!c.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  if (auto problems = problems_of(wish, c); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  // Its copies name an arbiter from the first moment.
  if (c.pair->arbiter.changing)
    return refuse(RefusalKind::conflict,
                  "The pair's arbiter is being changed, which takes some seconds. Try again in a moment.");
  if (auto free = check_name_is_free(wish.name, {}, c); !free) return free;
  if (c.volumes.size() >= kMaxVolumes)
    return refuse(RefusalKind::conflict,
                  fmt::format("There are {} volumes already, which is the most there can be.", kMaxVolumes));
  return {};
}

std::string sentence_of(const Volume& before, const Volume& volume, const VolumeChange& change) {
  std::string what;
  const auto add = [&what](const std::string& words) { what += (what.empty() ? "" : ", ") + words; };
  const std::size_t listed = volume.access.size();
  if (change.name && before.name != volume.name) add(fmt::format("was called {} before", before.name));
  if (change.access || change.any_initiator)
    add(volume.any_initiator ? "may be used by any initiator"
        : listed == 0        ? "may be used by no initiator"
                             : fmt::format("may be used by {} initiator{}", listed, listed == 1 ? "" : "s"));
  if (change.read_only) add(*change.read_only ? "is read-only" : "may be written");
  if (change.write_cache) add(fmt::format("has its write cache {}", *change.write_cache ? "on" : "off"));
  return fmt::format("{} {}.", volume.name, what.empty() ? "stays as it was" : what);
}

std::unexpected<Refusal> no_such_volume() { return refuse(RefusalKind::not_found, "There is no volume with this id."); }

Outcome<void> check_confirmation(const Volume& volume, const std::string& confirm, const std::string& what,
                                 const char* pointer) {
  if (confirm == volume.name) return {};
  return refuse(RefusalKind::confirmation_needed,
                fmt::format("{} Confirm it with the volume's name, {}.", what, volume.name),
                {{pointer, fmt::format("Must be {}.", volume.name)}});
}

}  // namespace

std::string closed_hint(const Volume& volume) {
  if (!volume.is_closed()) return {};
  return fmt::format(" No host may use it yet: let one in with `lockstep volume access {} --add IQN`.", volume.name);
}

Outcome<Volume> describe_new(const VolumeWish& wish, const Configuration& configuration, const Uuid& id,
                             const std::vector<std::int64_t>& shards) {
  if (auto good = check_new(wish, configuration); !good) return std::unexpected(good.error());
  return describe_volume(wish, configuration, id, shards);
}

Outcome<void> add_new(Volume volume, Configuration& configuration) {
  configuration.pair->next_lun = volume.lun + 1;
  configuration.volumes.push_back(std::move(volume));
  return check_access_in_all(configuration);
}

std::vector<FieldProblem> problems_of(const VolumeWish& wish, const Configuration& configuration) {
  std::vector<FieldProblem> problems;
  if (const auto complaint = check_volume_name(wish.name)) problems.push_back({"/name", *complaint});
  if (const auto complaint = check_volume_size(wish.size)) problems.push_back({"/size_bytes", *complaint});
  if (wish.block_size != 512 && wish.block_size != 4096)
    problems.push_back({"/block_size_bytes", "Must be 512 or 4096."});
  else if (wish.physical_block < wish.block_size)
    problems.push_back({"/block_size_bytes", "Does not fit block_format: 512n and 512e have 512, 4kn has 4096."});
  check_access(wish.access, configuration, problems);
  check_any(wish.any_initiator, wish.access, problems);
  return problems;
}

/// What is begun without room to record its end would be taken back, again and again.
Outcome<void> VolumeService::can_be_made() const {
  if (const auto lack = core_.database().lack_of_space(); !lack.empty())
    return refuse(RefusalKind::conflict, "The volume was not made. " + lack + " Free or add space there first.");
  for (const auto& job : core_.jobs.unfinished())
    if (job.kind == kDissolveKind && job.runner == core_.node_id)
      return refuse(
          RefusalKind::conflict,
          fmt::format("The pair is being dissolved. `lockstep job cancel {}` takes that back while nothing was "
                      "deleted.",
                      job.id.to_string()));
  return ready_();
}

Outcome<Job> VolumeService::create(const VolumeWish& wish) {
  Job job = make_job(core_, "volume.create", "begin", fmt::format("Makes the volume {}.", wish.name));
  const std::vector<std::int64_t> shards = shards_ ? shards_() : std::vector<std::int64_t>{0};
  // First the job, then the revision: a crash between the two leaves a job that finds nothing to do.
  const auto begin = [&](Configuration& c, bool alone) -> Outcome<void> {
    auto volume = describe_new(wish, c, random_uuid(), shards);
    if (!volume) return std::unexpected(volume.error());
    if (auto good = can_be_made(); !good) return good;
    if (alone) {
      make_on_one_node(*volume, *core_.side());
      volume->lun = next_free_lun(c, core_.side());
      set_alone(job);
    }
    job.volume = volume->id;
    core_.jobs.put(job);
    const std::int64_t lun = volume->lun;
    auto added = add_new(std::move(*volume), c);
    if (alone) c.pair->next_lun = after_alone(lun);
    return added;
  };
  const auto changed = core_.change(fmt::format("Volume {} begun", wish.name),
                                    {.together = [&](Configuration& c) { return begin(c, false); },
                                     .alone = [&](Configuration& c) { return begin(c, true); }},
                                    Agreement::one_is_let);
  if (!changed) {
    core_.jobs.erase(job.id);
    return std::unexpected(changed.error());
  }
  job.step = "replica_here";
  jobs_.submit(job);
  return job;
}

Outcome<Job> VolumeService::import(const ImportWish& wish) {
  VolumeWish placeholder = wish.volume;
  placeholder.size = kMinVolumeSize;  // the source has the say
  if (auto good = check_new(placeholder, *core_.configuration()); !good) return std::unexpected(good.error());
  if (auto good = can_be_made(); !good) return std::unexpected(good.error());
  if (!core_.check_orders_for_both())
    return refuse(RefusalKind::not_current,
                  "Volumes are imported by both nodes together, and one of them has changed the configuration alone. "
                  "Try again when the other one is back and has taken that over.");
  Job job = make_job(core_, "volume.import", "probe", fmt::format("Looks at {}.", wish.source.shown()));
  job.parameters = import_parameters(wish);
  jobs_.submit(job);
  return job;
}

Outcome<void> VolumeService::change(const Uuid& id, const VolumeChange& change) {
  Volume before, after;
  const auto changed = core_.change(
      "A volume changed",
      [&](Configuration& c) -> Outcome<void> {
        Volume* volume = c.volume(id);
        if (!volume) return no_such_volume();
        before = *volume;
        std::vector<FieldProblem> problems;
        if (change.name)
          if (const auto complaint = check_volume_name(*change.name)) problems.push_back({"/name", *complaint});
        if (change.access) {
          check_access(*change.access, c, problems);
          check_any(change.any_initiator.value_or(false), *change.access, problems);
        }
        if (!problems.empty())
          return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
        if (change.name)
          if (auto free = check_name_is_free(*change.name, id, c); !free) return free;
        volume->name = change.name.value_or(volume->name);
        volume->any_initiator = change.any_initiator.value_or(volume->any_initiator && !change.access);
        volume->access = volume->any_initiator ? std::vector<std::string>{} : change.access.value_or(volume->access);
        volume->read_only = change.read_only.value_or(volume->read_only);
        volume->write_cache = change.write_cache.value_or(volume->write_cache);
        after = *volume;
        c.sort();
        return check_access_in_all(c);
      },
      Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  core_.events.append(
      {.kind = "volume.changed", .side = {}, .volume = id, .message = sentence_of(before, after, change)});
  return {};
}

Outcome<Job> VolumeService::grow(const Uuid& id, std::int64_t size) {
  const auto configuration = core_.configuration();
  const Volume* volume = configuration->volume(id);
  if (!volume) return no_such_volume();
  std::string complaint;
  if (size < volume->size)
    complaint = fmt::format(
        "Is {} now and can only grow: what stands at the volume's end would be lost. For a smaller "
        "one, make a new volume and copy.",
        volume->size);
  else if (size == volume->size)
    complaint = fmt::format("Is {} already.", size);
  else if (const auto wrong = check_volume_size(size))
    complaint = *wrong;
  if (!complaint.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", {{"/size_bytes", complaint}});
  if (volume->lifecycle != Lifecycle::ready)
    return refuse(RefusalKind::conflict, fmt::format("{} is being made or deleted and can't grow.", volume->name));
  for (const auto& other : core_.jobs.unfinished())
    if (other.volume == id)
      return refuse(RefusalKind::conflict, "Another job is at work on this volume. Try again when it has ended.");
  const auto together = whole_ ? whole_(*volume) : Outcome<void>();
  if (!together) {
    if (!together.error().partner_away) return std::unexpected(together.error());
    // Before room is made: a node that is not let go on is told at once.
    const auto let = core_.change(
        fmt::format("Volume {} is to grow on one node", volume->name),
        [&](Configuration& c) -> Outcome<void> {
          const Volume* v = c.volume(id);
          return v ? check_lone(*v, "can't grow", together.error()) : no_such_volume();
        },
        Agreement::one_is_let);
    if (!let) return std::unexpected(let.error());
  }
  Job job = make_job(core_, "volume.grow", "room_here", fmt::format("Makes room for {} to grow.", volume->name));
  job.volume = id;
  job.parameters = nlohmann::json{{"size", size}}.dump();
  if (!together) set_alone(job);
  jobs_.submit(job);
  return job;
}

/// Where the partner is away: only whoever certainly has the volume's whole truth may change what it is.
Outcome<void> VolumeService::check_lone(const Volume& volume, const std::string& what, const Refusal& otherwise) {
  if (!lone_) return std::unexpected(otherwise);
  const auto lone = lone_(volume);
  if (lone) return {};
  return refuse(RefusalKind::not_current,
                fmt::format("{} {} by this node alone: {} Nothing was changed. Try again when both nodes run and are "
                            "in sync.",
                            volume.name, what, lone.error().detail));
}

Outcome<void> VolumeService::check_deletable_alone(const Configuration& configuration, const Volume& volume) {
  const NodeSide here = core_.side().value_or(NodeSide::a);
  if (volume.lifecycle == Lifecycle::deleting && volume.copy(here).unmade)
    return refuse(RefusalKind::conflict, fmt::format("{} is deleted here already. The other node removes its copy when "
                                                     "it is back.",
                                                     volume.name));
  if (volume.lifecycle != Lifecycle::ready) return {};
  Configuration deleted = configuration;
  (void)forget_volume(deleted, volume.id, here, true);
  if (auto good = core_.check_absent_partner_reads(configuration, deleted); !good) return good;
  return check_lone(volume, "can't be deleted",
                    {RefusalKind::not_current, "A volume is deleted by both nodes. Try again when both run.", {}});
}

Outcome<Job> VolumeService::remove(const Uuid& id, const std::optional<std::string>& confirm) {
  Job job = make_job(core_, "volume.delete", "begin", "");
  job.volume = id;
  const auto begin = [&](Configuration& c, bool alone) -> Outcome<void> {
    Volume* volume = c.volume(id);
    if (!volume) return no_such_volume();
    if (auto good = check_confirmation(*volume, confirm.value_or(""), "Deleting cannot be undone.", "?confirm"); !good)
      return good;
    for (const auto& other : core_.jobs.unfinished())
      if (other.volume == id && other.id != job.id)
        return refuse(RefusalKind::conflict, "Another job is at work on this volume. Try again when it has ended.");
    if (alone)
      if (auto good = check_deletable_alone(c, *volume); !good) return good;
    job.message = fmt::format("Deletes the volume {}.", volume->name);
    job.parameters = nlohmann::json{{"name", volume->name}}.dump();
    if (alone) set_alone(job);
    core_.jobs.put(job);
    volume->lifecycle = Lifecycle::deleting;
    return {};
  };
  const auto changed = core_.change("Volume to be deleted",
                                    {.together = [&](Configuration& c) { return begin(c, false); },
                                     .alone = [&](Configuration& c) { return begin(c, true); }},
                                    Agreement::one_is_let);
  if (!changed) {
    core_.jobs.erase(job.id);
    return std::unexpected(changed.error());
  }
  job.step = "detach";
  jobs_.submit(job);
  return job;
}

Outcome<Job> VolumeService::act(const Uuid& id, const VolumeActionWish& wish) {
  const auto configuration = core_.configuration();
  const Volume* volume = configuration->volume(id);
  if (!volume) return no_such_volume();
  const Node* node = configuration->node(wish.side);
  if (!node)
    return refuse(RefusalKind::conflict, "That node has not joined the pair yet.",
                  {{"/side", "There is no such node."}});
  using Kind = ReplicaOrder::Kind;
  std::string kind = "volume.leave";
  std::string message = fmt::format("Takes the replica of {} on {} out.", volume->name, node->name);
  if (wish.kind == Kind::force_solo) {
    kind = "volume.force_solo";
    message = fmt::format("Makes {} go on alone with {}.", node->name, volume->name);
    if (auto good = check_confirmation(*volume, wish.confirm, "If the partner still runs, the two copies drift apart.",
                                       "/confirm");
        !good)
      return std::unexpected(good.error());
    if (unserved_ && !wish.despite_partner)
      if (auto good = unserved_(*volume, wish.side); !good) return std::unexpected(good.error());
  } else if (wish.kind == Kind::give_up) {
    kind = "volume.give_up";
    message = fmt::format("Drops what {} alone has of {}.", node->name, volume->name);
    if (auto good = check_confirmation(*volume, wish.confirm, "This node's own changes will be lost.", "/confirm");
        !good)
      return std::unexpected(good.error());
  }
  Job job = make_job(core_, kind, "act", message);
  job.volume = id;
  job.parameters = nlohmann::json{{"side", side_name(wish.side)},
                                  {"action", static_cast<int>(wish.kind)},
                                  {"accept_inconsistent", wish.accept_inconsistent},
                                  {"despite_partner", wish.despite_partner}}
                       .dump();
  jobs_.submit(job);
  return job;
}

}  // namespace lockstep::mgmt
