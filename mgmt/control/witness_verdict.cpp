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

std::string arbiter_name(const Arbiter& arbiter) {
  if (arbiter.witness) return "witness";
  if (arbiter.fence) return "fence";
  return arbiter.preferred == NodeSide::a ? "preferred_a" : "preferred_b";
}

namespace {

/// Empty when it does.
std::string why_not_named(const BothNodes& nodes, NodeSide side, const Volume& volume, const std::string& arbiter,
                          bool silent_is_well) {
  const auto& status = nodes.at(side).status;
  const auto* replica = status ? status->volume(volume.id) : nullptr;
  if (!replica) return fmt::format("{} is not attached on {}.", volume.name, name_of(nodes, side));
  const std::string named = replica->epoch ? replica->epoch->arbiter : "";
  if (named == arbiter || (named.empty() && silent_is_well)) return {};
  if (named.empty())
    return fmt::format("lockstepd on {} runs version {}, which can't give a volume in use another arbiter.",
                       name_of(nodes, side), status->version);
  return fmt::format("{} on {} goes by {}.", volume.name, name_of(nodes, side), named);
}

}  // namespace

std::optional<std::string> why_named_otherwise(const BothNodes& nodes, const std::string& arbiter,
                                               bool silent_is_well) {
  for (const auto& volume : nodes.configuration->volumes) {
    if (!is_wanted(volume)) continue;
    for (const NodeSide side : kSides)
      if (auto why = why_not_named(nodes, side, volume, arbiter, silent_is_well); !why.empty()) return why;
  }
  return std::nullopt;
}

std::optional<std::string> why_silent(const BothNodes& nodes) {
  for (const NodeSide side : kSides) {
    const auto& status = nodes.at(side).status;
    if (!status) return fmt::format("lockstepd on {} does not answer.", name_of(nodes, side));
    for (const auto& replica : status->volumes)
      if (replica.epoch && replica.epoch->arbiter.empty())
        return fmt::format("lockstepd on {} runs version {}, which can't give a volume in use another arbiter.",
                           name_of(nodes, side), status->version);
  }
  return std::nullopt;
}

namespace {

void note(Learnt& learnt, const std::string& missing) {
  if (learnt.missing.empty()) learnt.missing = missing;
}

/// How many volumes have it on both nodes. `why_not`: of one side's copy of a volume; empty where it has.
template <class WhyNot>
Learnt learnt_on_both(const BothNodes& nodes, const WhyNot& why_not) {
  Learnt learnt;
  for (const auto& volume : nodes.configuration->volumes) {
    if (!is_wanted(volume)) continue;
    ++learnt.of;
    bool both = true;
    for (const NodeSide side : kSides) {
      const std::string why = why_not(side, volume);
      both = both && why.empty();
      if (!why.empty()) note(learnt, why);
    }
    if (both) ++learnt.volumes;
  }
  return learnt;
}

}  // namespace

Learnt learnt_preference(const BothNodes& nodes, std::int64_t revision, const Arbiter& preferred) {
  Learnt learnt = learnt_on_both(nodes, [&](NodeSide side, const Volume& volume) {
    return why_not_named(nodes, side, volume, arbiter_name(preferred), false);
  });
  for (const NodeSide side : kSides)
    if (const auto why = why_not_carried_out(nodes, side, revision)) note(learnt, *why);
  return learnt;
}

Learnt learnt_by(const BothNodes& nodes, std::int64_t revision) {
  Learnt learnt = learnt_on_both(nodes, [&](NodeSide side, const Volume& volume) {
    const auto& status = nodes.at(side).status;
    return why_not_learnt(status ? status->volume(volume.id) : nullptr, volume.name, name_of(nodes, side));
  });
  for (const NodeSide side : kSides) {
    if (const auto why = why_not_carried_out(nodes, side, revision))
      note(learnt, *why);
    else if (nodes.at(side).status->witness_changing || !nodes.at(side).status->witness_reachable.value_or(false))
      note(learnt, fmt::format("{} does not reach the witness.", name_of(nodes, side)));
  }
  return learnt;
}

}  // namespace lockstep::mgmt
