#include "mgmt/control/witness_verdict.hpp"

#include <fmt/format.h>

namespace lockstep::mgmt {
namespace {

constexpr NodeSide kSides[] = {NodeSide::a, NodeSide::b};

const std::string& name_of(const BothNodes& nodes, NodeSide side) { return nodes.configuration->node(side)->name; }

/// Volumes that are being made or deleted are told to no lockstepd.
bool is_wanted(const Volume& volume) { return volume.lifecycle == Lifecycle::ready; }

std::optional<std::string> why_not_carried_out(const BothNodes& nodes, NodeSide side, std::int64_t revision) {
  const auto& status = nodes.at(side).status;
  if (!status) return fmt::format("lockstepd on {} does not answer.", name_of(nodes, side));
  if (status->revision >= revision) return std::nullopt;
  return fmt::format("lockstepd on {} has yet to be told.", name_of(nodes, side));
}

std::string why_not_learnt(const ReplicaStatus* replica, const std::string& volume, const std::string& node) {
  if (!replica) return fmt::format("{} is not attached on {}.", volume, node);
  if (replica->state != "in_sync") return fmt::format("{} on {} is {}, not in sync.", volume, node, replica->state);
  if (!replica->failover_limited) return {};
  return replica->reason.empty() ? fmt::format("The witness was not told of {} by {} yet.", volume, node)
                                 : fmt::format("{} on {}: {}", volume, node, replica->reason);
}

}  // namespace

std::optional<std::string> why_not_in_sync(const BothNodes& nodes) {
  for (const NodeSide side : kSides) {
    const std::string& name = name_of(nodes, side);
    const auto& status = nodes.at(side).status;
    if (!status) return fmt::format("lockstepd on {} does not answer.", name);
    if (!status->partner_connected) return fmt::format("{} has no replication link to its partner.", name);
    for (const auto& volume : nodes.configuration->volumes) {
      if (!is_wanted(volume)) continue;
      const ReplicaStatus* replica = status->volume(volume.id);
      if (replica && replica->state == "in_sync") continue;
      return fmt::format("{} on {} is {}, not in sync.", volume.name, name, replica ? replica->state : "not attached");
    }
  }
  return std::nullopt;
}

std::optional<std::string> why_still_asking(const BothNodes& nodes, std::int64_t revision) {
  for (const NodeSide side : kSides) {
    if (const auto why = why_not_carried_out(nodes, side, revision)) return why;
    if (!nodes.at(side).status->witness_changing)
      return fmt::format("lockstepd on {} has not let go of the witness.", name_of(nodes, side));
  }
  return std::nullopt;
}

Learnt learnt_by(const BothNodes& nodes, std::int64_t revision) {
  Learnt learnt;
  const auto note = [&](const std::string& missing) {
    if (learnt.missing.empty()) learnt.missing = missing;
  };
  for (const auto& volume : nodes.configuration->volumes) {
    if (!is_wanted(volume)) continue;
    ++learnt.of;
    bool both = true;
    for (const NodeSide side : kSides) {
      const auto& status = nodes.at(side).status;
      const auto* replica = status ? status->volume(volume.id) : nullptr;
      const std::string why = why_not_learnt(replica, volume.name, name_of(nodes, side));
      both = both && why.empty();
      if (!why.empty()) note(why);
    }
    if (both) ++learnt.volumes;
  }
  for (const NodeSide side : kSides) {
    if (const auto why = why_not_carried_out(nodes, side, revision))
      note(*why);
    else if (nodes.at(side).status->witness_changing || !nodes.at(side).status->witness_reachable.value_or(false))
      note(fmt::format("{} does not reach the witness.", name_of(nodes, side)));
  }
  return learnt;
}

}  // namespace lockstep::mgmt
