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

/// Of the node that stays when the other one is lost.
std::string volumes_kept(const Configuration& configuration, NodeSide stays) {
  return counted(static_cast<std::size_t>(std::ranges::count_if(configuration.volumes, [&](const Volume& v) {
    return v.lifecycle != Lifecycle::deleting && !is_only_elsewhere(v, stays);
  })));
}

/// What becomes of the volumes that it does not keep; nothing: it keeps all.
std::string not_kept(const Configuration& configuration, NodeSide stays) {
  std::string lost, deleted;
  const auto add = [](std::string& names, const Volume& v) { names += (names.empty() ? "" : ", ") + v.name; };
  for (const auto& v : configuration.volumes) {
    if (v.lifecycle == Lifecycle::deleting) add(deleted, v);
    if (is_only_elsewhere(v, stays)) add(lost, v);
  }
  std::string sentences;
  if (!lost.empty())
    sentences += fmt::format(" Lost with {}, since this node has no copy of it yet: {}.",
                             configuration.node(engine::other(stays))->name, lost);
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

/// The word that confirms it.
Outcome<std::string> LeaveJobs::check_lost(const Configuration& configuration, NodeSide side) const {
  const Node& node = *configuration.node(side);
  const auto found = hands_.look_for_lost(node);
  if (!found) return std::unexpected(found.error());
  const auto stays = look(configuration, engine::other(side));
  if (!stays) return std::unexpected(stays.error());
  bool drops = found->certain;
  for (const auto& volume : configuration.volumes) {
    const bool split = is_kept_in_a_split(*stays, volume);
    drops |= split;
    if (split || is_only_elsewhere(volume, stays->node->side)) continue;
    if (const auto why = why_not_alone(*stays, volume))
      return refuse(RefusalKind::conflict,
                    fmt::format("{} Nothing was changed: {} may have what this node lacks. Bring it back; if it is "
                                "gone for good, `lockstep volume force-solo {} --node {}` first.",
                                *why, node.name, volume.name, stays->node->name));
  }
  return drops ? node.name + " without its changes" : node.name;
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
  const NodeSide stays = engine::other(wish.side);
  std::string word = node->name;
  if (wish.lost) {
    auto needed = check_lost(*configuration, wish.side);
    if (!needed) return std::unexpected(needed.error());
    word = std::move(*needed);
  } else if (auto good = check_present(*configuration, wish.side); !good) {
    return std::unexpected(good.error());
  }
  if (wish.confirm != word)
    return ask_for(
        word, fmt::format("{} leaves the pair for good{}; this node goes on alone with {}, and there is one "
                          "copy of each until another node joins.{}",
                          node->name, wish.lost ? ", and is refused when it comes back" : " and its copies are deleted",
                          wish.lost ? volumes_kept(*configuration, stays) : volumes_of(*configuration),
                          wish.lost ? not_kept(*configuration, stays) : ""));
  Job job = make_job(core_, kLeaveKind, wish.lost ? "decide" : "leave",
                     fmt::format("Takes {} out of the pair {}.", node->name, configuration->pair->name));
  job.parameters = json{{"node", json_of(*node)}, {"lost", wish.lost}, {"step_since_ms", job.created_ms}}.dump();
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
