// What is asked of a pair that a node is to leave, or that is to end, and why it is refused.
#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/leave_task.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

/// What release and the node's later refusal need of it when the configuration has it no more.
json json_of(const Node& node) {
  return {{"id", node.id.to_string()},
          {"side", side_name(node.side)},
          {"name", node.name},
          {"management_address", node.management_address},
          {"fingerprint", node.fingerprint}};
}

std::unexpected<Refusal> ask_for(const std::string& word, const std::string& what) {
  return refuse(RefusalKind::confirmation_needed, fmt::format("{} Send `{}` as `confirm`.", what, word),
                {{"/confirm", fmt::format("Must be {}.", word)}});
}

void add_name_of(std::string& names, const Volume& volume) { names += (names.empty() ? "" : ", ") + volume.name; }

}  // namespace

/// What is confirmed when a node is let go as lost.
struct LeaveJobs::GoesWith {
  bool certain = false;            ///< it has changed the configuration alone
  std::string changes{};           ///< what can be said of that, without its full stop
  std::string parted{};            ///< names of volumes of which both copies went on alone
  std::string broken{};            ///< of those whose copy on the node that stays is of no use as it is
  std::vector<Uuid> not_served{};  ///< the latter

  /// The word that confirms it.
  [[nodiscard]] std::string word(const Node& node) const {
    return certain || !parted.empty() || !broken.empty() ? node.name + " without its changes" : node.name;
  }
};

namespace {

/// What becomes of the volumes that a node which is let go as lost does not leave whole.
std::string not_kept(const Configuration& configuration, const Node& lost, const std::string& parted,
                     const std::string& broken) {
  std::string only_there, deleted;
  for (const auto& v : configuration.volumes) {
    if (v.lifecycle == Lifecycle::deleting) add_name_of(deleted, v);
    if (is_only_elsewhere(v, engine::other(lost.side))) add_name_of(only_there, v);
  }
  std::string sentences;
  if (!only_there.empty())
    sentences += fmt::format(" Lost with {}, since this node has no copy of it yet: {}.", lost.name, only_there);
  if (!parted.empty())
    sentences += fmt::format(" Lost with {} is what it has written alone, since both copies went on, of: {}.",
                             lost.name, parted);
  if (!broken.empty())
    sentences += fmt::format(
        " No copy that can be used is left of: {}. What is here of it stays as it is, and nobody "
        "serves it: if its disk can be mended or mounted, do that first; else delete it "
        "afterwards.",
        broken);
  if (!deleted.empty()) sentences += fmt::format(" Being deleted already, and not kept: {}.", deleted);
  return sentences;
}

}  // namespace

/// The jobs of a node that is lost end with it.
Outcome<void> LeaveJobs::check_idle(bool lost) const {
  if (core_.replaced.replaced_here_ms() != 0)
    return refuse(RefusalKind::conflict,
                  "This node itself is not in the pair any more, as the other one says. To have it forget the pair, "
                  "run `lockstep pair leave` for its own side here.");
  if (core_.revisions.conflict())
    return refuse(RefusalKind::conflict,
                  "The two nodes hold configurations that do not follow from one another. Put that right first: "
                  "`lockstep health` says how.");
  const auto configuration = core_.configuration();
  const Node* partner = core_.partner(*configuration);
  for (const auto& job : core_.jobs.unfinished()) {
    const bool counts = job.runner == core_.node_id || (partner && job.runner == partner->id);
    if (counts && !lost)
      return refuse(RefusalKind::conflict,
                    fmt::format("Another job ({}) is under way. Try again when it has ended.", job.kind));
  }
  return {};
}

/// Both nodes are there, and the one that stays has everything.
Outcome<void> LeaveJobs::check_present(const Configuration& configuration, NodeSide side) const {
  const auto leaves = look(configuration, side);
  if (!leaves) {
    Refusal reason = leaves.error();
    reason.detail += fmt::format(
        " Nothing was changed. Try again when {} runs; if it is lost for good, `lockstep pair leave {} --lost`.",
        configuration.node(side)->name, side_name(side));
    return std::unexpected(std::move(reason));
  }
  const auto stays = look(configuration, engine::other(side));
  if (!stays) return std::unexpected(stays.error());
  if (configuration.pair->arbiter.changing)
    return refuse(RefusalKind::conflict, "The pair's arbiter is being changed. Finish that first.");
  if (!core_.revisions.state().epoch.members.is_both())
    return refuse(RefusalKind::not_current, "The two nodes are agreeing on the configuration. Try again in a moment.");
  for (const auto& volume : configuration.volumes)
    if (const auto why = why_not_left(*stays, *leaves, volume))
      return refuse(RefusalKind::conflict, fmt::format("{} Nothing was changed.", *why));
  return {};
}

Outcome<LeaveJobs::GoesWith> LeaveJobs::check_lost(const Configuration& configuration, NodeSide side) const {
  const Node& node = *configuration.node(side);
  const auto found = hands_.look_for_lost(node);
  if (!found) return std::unexpected(found.error());
  const auto stays = look(configuration, engine::other(side));
  if (!stays) return std::unexpected(stays.error());
  GoesWith goes{.certain = found->certain, .changes = found->changes};
  for (const auto& volume : configuration.volumes) {
    if (is_only_elsewhere(volume, stays->node->side)) continue;
    if (is_kept_in_a_split(*stays, volume)) {
      add_name_of(goes.parted, volume);
      continue;
    }
    if (is_lost(*stays, volume)) {  // nothing could be forced
      add_name_of(goes.broken, volume);
      goes.not_served.push_back(volume.id);
      continue;
    }
    if (const auto why = why_not_alone(*stays, volume))
      return refuse(RefusalKind::conflict,
                    fmt::format("{} Nothing was changed: {} may have what this node lacks. Bring it back; if it is "
                                "gone for good, `lockstep volume force-solo {} --node {}` first.",
                                *why, node.name, volume.name, stays->node->name));
  }
  return goes;
}

std::unexpected<Refusal> LeaveJobs::ask_to_let_go(const Configuration& configuration, const Node& lost,
                                                  const GoesWith& goes) {
  const auto kept = std::ranges::count_if(configuration.volumes, [&](const Volume& v) {
    const bool served = std::ranges::find(goes.not_served, v.id) == goes.not_served.end();
    return served && v.lifecycle != Lifecycle::deleting && !is_only_elsewhere(v, engine::other(lost.side));
  });
  return ask_for(
      goes.word(lost),
      fmt::format(
          "{} leaves the pair for good, and is refused when it comes back; this node goes on alone with {}, and "
          "there is one copy of each until another node joins.{}{}",
          lost.name, counted(static_cast<std::size_t>(kept)),
          goes.changes.empty() ? "" : fmt::format(" {}.", goes.changes),
          not_kept(configuration, lost, goes.parted, goes.broken)));
}

Outcome<Job> LeaveJobs::leave(const LeaveWish& wish) {
  const auto only = begins_.begin();
  if (!only) return std::unexpected(only.error());
  const auto configuration = core_.configuration();
  if (!configuration->pair) return refuse(RefusalKind::no_pair, "This node is in no pair already.");
  if (core_.side() == wish.side) return release_here(wish.confirm);
  const Node* node = configuration->node(wish.side);
  if (!node)
    return refuse(RefusalKind::conflict, fmt::format("No node has side {} of the pair.", side_name(wish.side)));
  if (auto good = check_idle(wish.lost); !good) return std::unexpected(good.error());
  if (wish.lost) {
    const auto goes = check_lost(*configuration, wish.side);
    if (!goes) return std::unexpected(goes.error());
    if (wish.confirm != goes->word(*node)) return ask_to_let_go(*configuration, *node, *goes);
  } else {
    if (auto good = check_present(*configuration, wish.side); !good) return std::unexpected(good.error());
    if (wish.confirm != node->name)
      return ask_for(node->name,
                     fmt::format("{} leaves the pair for good and its copies are deleted; this node goes on alone with "
                                 "{}, and there is one copy of each until another node joins.",
                                 node->name, volumes_of(*configuration)));
  }
  Job job = make_job(core_, kLeaveKind, wish.lost ? "decide" : "leave",
                     fmt::format("Takes {} out of the pair {}.", node->name, configuration->pair->name));
  job.parameters = json{{"node", json_of(*node)}, {"lost", wish.lost}, {"step_since_ms", job.created_ms}}.dump();
  // Once more: asking both nodes took seconds, in which a job of another kind may have begun.
  if (auto good = check_idle(wish.lost); !good) return std::unexpected(good.error());
  runner_.submit(job);
  return job;
}

Outcome<Job> LeaveJobs::dissolve(const DissolveWish& wish) {
  const auto only = begins_.begin();
  if (!only) return std::unexpected(only.error());
  const auto configuration = core_.configuration();
  if (!configuration->pair) return refuse(RefusalKind::no_pair, "This node is in no pair already.");
  if (auto good = check_idle(false); !good) return std::unexpected(good.error());
  const Node* other = core_.partner(*configuration);
  if (!configuration->volumes.empty() && !wish.delete_volumes)
    return refuse(RefusalKind::conflict,
                  fmt::format("The pair has {}. To keep them on one node, have the other one leave: `lockstep pair "
                              "leave`. To delete them with the pair, `lockstep pair dissolve --delete-volumes`.",
                              volumes_of(*configuration)));
  for (const auto& volume : configuration->volumes)
    if (const auto why = why_not_settled(volume)) return refuse(RefusalKind::conflict, *why);
  if (other) {
    const auto there = look(*configuration, other->side);
    if (!there) {
      Refusal reason = there.error();
      reason.detail += fmt::format(
          " Nothing was changed. Try again when {} runs; if it is lost for good, `lockstep pair leave {} --lost` "
          "first.",
          other->name, side_name(other->side));
      return std::unexpected(std::move(reason));
    }
    if (auto good = core_.check_orders_for_both(); !good) return std::unexpected(good.error());
  }
  if (wish.confirm != configuration->pair->name)
    return ask_for(configuration->pair->name,
                   fmt::format("The pair {} ends{}. This can't be undone.", configuration->pair->name,
                               configuration->volumes.empty()
                                   ? ""
                                   : fmt::format(", and {} and all data with it", volumes_of(*configuration))));
  Job job = make_job(core_, kDissolveKind, "delete", fmt::format("Dissolves the pair {}.", configuration->pair->name));
  json parameters{{"step_since_ms", job.created_ms}, {"volumes", json::array()}};
  for (const auto& volume : configuration->volumes) parameters["volumes"].push_back(volume.id.to_string());
  if (other) parameters["node"] = json_of(*other);
  job.parameters = parameters.dump();
  runner_.submit(job);
  return job;
}

}  // namespace lockstep::mgmt
