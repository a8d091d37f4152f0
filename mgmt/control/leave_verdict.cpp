#include "mgmt/control/leave_verdict.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::mgmt {
namespace {

std::string state_of(const CopyView& copy, const Volume& volume) {
  const ReplicaStatus* status = copy.status(volume);
  if (!status) return "not in use";
  return status->reason.empty() ? status->state : fmt::format("{} ({})", status->state, status->reason);
}

}  // namespace

std::optional<std::string> why_not_settled(const Volume& volume) {
  if (volume.lifecycle == Lifecycle::ready && volume.import_secret.empty()) return std::nullopt;
  return fmt::format("{} is being made, filled or deleted: wait until it is.", volume.name);
}

std::optional<std::string> why_not_left(const CopyView& stays, const CopyView& leaves, const Volume& volume) {
  if (auto why = why_not_settled(volume)) return why;
  if (lone_epoch_of(stays, volume)) return why_not_dropped(leaves, volume);
  const ReplicaStatus* here = stays.status(volume);
  const ReplicaStatus* there = leaves.status(volume);
  if (here && here->serving && here->state == "in_sync" && there && there->state == "in_sync") return std::nullopt;
  return fmt::format("{} is {} on {} and {} on {}: {} has to have all of it first.", volume.name,
                     state_of(stays, volume), stays.node->name, state_of(leaves, volume), leaves.node->name,
                     stays.node->name);
}

bool is_only_elsewhere(const Volume& volume, NodeSide here) {
  return volume.lifecycle == Lifecycle::ready && volume.copy(here).unmade;
}

bool is_kept_in_a_split(const CopyView& stays, const Volume& volume) {
  const ReplicaStatus* status = stays.status(volume);
  if (volume.lifecycle != Lifecycle::ready || !stays.report.running || !status || !status->epoch) return false;
  return status->state == "split_brain" && status->serving && status->epoch->members == side_name(stays.node->side);
}

std::optional<std::string> why_not_alone(const CopyView& stays, const Volume& volume) {
  if (volume.lifecycle != Lifecycle::ready || lone_epoch_of(stays, volume)) return std::nullopt;
  return fmt::format("{} does not serve {} alone: it is {} there.", stays.node->name, volume.name,
                     state_of(stays, volume));
}

std::vector<const Volume*> not_served_alone(const CopyView& stays, const Configuration& configuration) {
  std::vector<const Volume*> found;
  for (const auto& volume : configuration.volumes)
    if (why_not_alone(stays, volume)) found.push_back(&volume);
  return found;
}

std::string with_states(const CopyView& copy, const std::vector<const Volume*>& volumes) {
  const std::size_t told = std::min<std::size_t>(volumes.size(), 3);
  std::string text;
  for (std::size_t i = 0; i < told; ++i)
    text += fmt::format("{}{} is {}", i == 0 ? "" : ", ", volumes[i]->name, state_of(copy, *volumes[i]));
  return told == volumes.size() ? text : fmt::format("{}, and {} more", text, volumes.size() - told);
}

}  // namespace lockstep::mgmt
