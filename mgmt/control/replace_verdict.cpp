#include "mgmt/control/replace_verdict.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::mgmt {
namespace {

Outcome<ReplacePlan> no(std::string why) { return refuse(RefusalKind::conflict, std::move(why)); }

std::string members_of(const ReplicaStatus& status) { return status.epoch ? status.epoch->members : ""; }

/// The survivor's epoch is not its own alone: the named copy may be the one that has everything.
Outcome<ReplacePlan> refuse_without_survivor(const CopyView& named, const CopyView& survivor, const Volume& volume,
                                             const ReplicaStatus& last) {
  const std::string& here = survivor.node->name;
  const std::string& there = named.node->name;
  if (members_of(last) == side_name(named.node->side))
    return no(
        fmt::format("The copy of {} on {} is the only whole one: {}'s is not, or not any more. Nothing was "
                    "changed. Bring {}'s copy up to date first; if {}'s is lost for good, what {} has can only "
                    "be forced: lockstep volume force-solo {} --node {} --accept-inconsistent.",
                    volume.name, there, here, here, there, here, volume.name, here));
  if (last.serving)
    return no(
        fmt::format("{} still counts the copy of {} on {} as in sync. Nothing was changed. Try again when it "
                    "serves alone, which takes some seconds after the other is lost.",
                    here, volume.name, there));
  return no(
      fmt::format("{} does not serve {} ({}), and without it nothing says that its copy is whole. Nothing was "
                  "changed. Bring {}'s copy back, or, if that one is gone for good, lockstep volume force-solo "
                  "{} --node {}; then replace it.",
                  here, volume.name, last.reason.empty() ? last.state : last.reason, there, volume.name, here));
}

}  // namespace

std::string CopyView::problem(const Volume& volume) const {
  const auto found = std::ranges::find(report.problems, "volume " + volume.name, &ApplyProblem::object);
  return found == report.problems.end() ? "" : found->message;
}

bool is_lost(const CopyView& copy, const Volume& volume) {
  if (volume.lifecycle != Lifecycle::ready) return false;
  if (volume.copy(copy.node->side).retired && !volume.copy(copy.node->side).unmade) return false;
  if (!copy.report.running || !copy.report.status) return false;
  const ReplicaStatus* status = copy.status(volume);
  if (volume.copy(copy.node->side).unmade) return !status;
  return status ? status->state == "failed" : !copy.problem(volume).empty();
}

std::optional<LoneEpoch> lone_epoch_of(const CopyView& survivor, const Volume& volume) {
  const ReplicaStatus* status = survivor.status(volume);
  const NodeSide side = survivor.node->side;
  if (!survivor.report.running || !status || !status->serving || !status->epoch) return std::nullopt;
  if (status->state != "solo" && status->state != "syncing_source") return std::nullopt;
  if (status->epoch->members != side_name(side) || !Uuid::parse(status->epoch->id)) return std::nullopt;
  return LoneEpoch{status->epoch->number, status->epoch->id, side, status->size};
}

std::optional<std::string> why_not_dropped(const CopyView& copy, const Volume& volume) {
  if (!lone_epoch_of(copy, volume)) return std::nullopt;
  return fmt::format(
      "{0} serves {1} alone, so that what was written there is nowhere else. If the other node serves it, too, one of "
      "the two has to be given up first: lockstep volume give-up {1} --node NODE.",
      copy.node->name, volume.name);
}

Outcome<ReplacePlan> plan_replacement(const CopyView& named, const CopyView& survivor, const Volume& volume,
                                      bool elsewhere) {
  const std::string& here = survivor.node->name;
  const std::string& there = named.node->name;
  const ReplicaStatus* last = survivor.status(volume);
  const ReplicaStatus* replaced = named.status(volume);
  if (!last)
    return no(
        fmt::format("{} does not have {} in use, so that the copy on {} may be the only one. Nothing was "
                    "changed. Look at {}'s health first.",
                    here, volume.name, there, here));
  const bool split = last->state == "split_brain" || (replaced && replaced->state == "split_brain");
  if (split)
    return no(
        fmt::format("Both copies of {} went on alone and differ. Nothing was changed. Give one up first: "
                    "lockstep volume give-up {} --node NODE.",
                    volume.name, volume.name));
  const bool in_sync = last->serving && last->state == "in_sync" && replaced && replaced->state == "in_sync";
  if (!in_sync && !lone_epoch_of(survivor, volume)) return refuse_without_survivor(named, survivor, volume, *last);
  if (const auto why = why_not_dropped(named, volume)) return no(*why + " Nothing was changed.");
  // Out of service without a job, or this would not have been asked: the job is lost, with its node or its database.
  const Copy& copy = volume.copy(named.node->side);
  const bool left_out = copy.retired && !copy.unmade && !replaced;
  if (left_out || is_lost(named, volume)) return ReplacePlan{};
  if (!replaced)
    return no(fmt::format("lockstepd on {} has not been told of {} yet. Try again in a moment.", there, volume.name));
  if (elsewhere) return ReplacePlan{.moves = true, .leaves = in_sync};
  return no(
      fmt::format("The copy of {} on {} is not lost: it is {}. Nothing was changed. To move it, name another "
                  "folder with --store.",
                  volume.name, there,
                  in_sync                               ? "in sync"
                  : replaced->state == "left"           ? "out for maintenance until lockstepd there is restarted"
                  : replaced->state == "syncing_target" ? "being brought up to date"
                                                        : replaced->state));
}

}  // namespace lockstep::mgmt
