// The node that is out of its pair forgets it: lockstepd ends, and is told nothing any more when it is back; the copies
// are removed; then the configuration is one of no pair.
#include <filesystem>

#include <fmt/format.h>

#include "mgmt/control/leave_task.hpp"
#include "mgmt/control/volume_edits.hpp"

namespace lockstep::mgmt {

namespace {

/// By name, and which of them the other node has no copy of, as far as this one knows.
std::string deleted_here(const Configuration& configuration, NodeSide other) {
  std::string all, only_here;
  const auto add = [](std::string& names, const Volume& v) { names += (names.empty() ? "" : ", ") + v.name; };
  for (const auto& v : configuration.volumes) {
    add(all, v);
    if (is_only_elsewhere(v, other)) add(only_here, v);
  }
  if (!all.empty()) all = ": " + all;
  return only_here.empty() ? all : fmt::format("{}. THE ONLY COPY, as far as this node knows, of: {}", all, only_here);
}

}  // namespace

Outcome<Job> LeaveJobs::begin_release() {
  for (const auto& job : core_.jobs.unfinished())
    if (job.kind == kReleaseKind && job.runner == core_.node_id) return job;
  Job job = make_job(core_, kReleaseKind, "stop", "Ends the pair on this node.");
  runner_.submit(job);
  return job;
}

Outcome<void> LeaveJobs::on_release(const Uuid& pair, bool from_partner) {
  const auto configuration = core_.configuration();
  if (!configuration->pair || configuration->pair->id != pair) return {};
  if (!from_partner) return refuse(RefusalKind::forbidden, "This is for the partner node only.");
  // Before it decided, the partner saw this node let go of all of them.
  for (const auto& volume : configuration->volumes)
    if (!volume.copy(*core_.side()).retired)
      return refuse(RefusalKind::conflict, fmt::format("The copy of {} here is in service.", volume.name));
  const auto job = begin_release();
  if (!job) return std::unexpected(job.error());
  return refuse(RefusalKind::not_current, "is forgetting the pair");
}

/// Of a machine that was away when it was decided, or that another one has taken the place of.
Outcome<Job> LeaveJobs::release_here(const std::string& confirm) {
  const auto configuration = core_.configuration();
  const Node& mine = *configuration->node(*core_.side());
  const Node* other = core_.partner(*configuration);
  if (!other) return refuse(RefusalKind::conflict, "This node is alone in its pair: `lockstep pair dissolve` ends it.");
  if (core_.replaced.replaced_here_ms() == 0)
    return refuse(RefusalKind::conflict,
                  fmt::format("Side {} is this node itself, and who stays decides: run `lockstep pair leave {}` on {}. "
                              "If that one is lost for good, it is the one that leaves: `lockstep pair leave {} "
                              "--lost` here.",
                              side_name(mine.side), side_name(mine.side), other->name, side_name(other->side)));
  // Perhaps its database is the one that is of the past, and its copies are the only good ones.
  const auto seen = hands_.look(mine.side);
  if (!seen) return std::unexpected(seen.error());
  for (const auto& status : seen->status->volumes)
    if (status.serving)
      return refuse(RefusalKind::conflict,
                    "lockstepd on this node serves volumes of the pair. Look at the other node's health first; if what "
                    "this one has is not needed, restart lockstepd here, then try again.");
  if (confirm != mine.name)
    return refuse(RefusalKind::confirmation_needed,
                  fmt::format("This node is out of the pair {}; it forgets it now, and what it has of {} is deleted{}. "
                              "Send `{}` as `confirm`.",
                              configuration->pair->name, volumes_of(*configuration),
                              deleted_here(*configuration, other->side), mine.name),
                  {{"/confirm", fmt::format("Must be {}.", mine.name)}});
  return begin_release();
}

/// A lockstepd takes a pair once: one that is to have another is begun anew.
StepResult LeaveJobs::stop(Task& task) {
  core_.settings.set(kForgetsPair, "1");
  const auto seen = hands_.look(*core_.side());
  if (!seen) return wait(task.job, "Waits for lockstepd, which has to be running to remove what it has.");
  if (seen->status->revision == 0 && seen->status->volumes.empty())
    return task.next("clear", 0.9, "Removes this node's copies.");
  const auto ended = hands_.end_lockstepd();
  return wait(task.job, ended ? "lockstepd has ended, to forget the pair. Waits until it is started again, as systemd "
                                "does by itself."
                              : ended.error().detail);
}

/// The volumes live on in the other node's copies.
StepResult LeaveJobs::clear(Task& task) {
  for (const auto& volume : task.configuration->volumes) {
    const auto removed =
        hands_.carry_out(*core_.side(), {.kind = ReplicaOrder::Kind::discard, .volume = volume, .birth = {}});
    if (removed) continue;
    if (passing(removed.error())) return wait(task.job, removed.error().detail);
    const auto seen = hands_.look(*core_.side());
    if (!seen || seen->status->revision != 0) return task.next("stop", 0.85, "lockstepd was told of the pair again.");
    task.note(fmt::format("The copy of {} here could not be removed: {}", volume.name, removed.error().detail));
  }
  return task.next("end", 0.95, "Forgets the pair.");
}

StepResult LeaveJobs::end(Task& task) {
  const std::string pair = task.configuration->pair ? task.configuration->pair->name
                                                    : task.parameters.value("pair", std::string("that it was in"));
  if (task.configuration->pair) {
    // For after a cut behind the commit.
    task.parameters["pair"] = pair;
    task.job.parameters = task.parameters.dump();
    core_.jobs.put(task.job);
    core_.copy.remove();
    Configuration bare;
    bare.tokens = task.configuration->tokens;  // nobody is locked out
    core_.revisions.commit_new_epoch({random_uuid(), core_.revisions.state().head.n + 1, random_uuid()},
                                     "Left the pair", bare);
  }
  core_.replaced.set_replaced_here(false);
  core_.settings.erase(kForgetsPair);
  for (auto& job : core_.jobs.unfinished()) {
    if (job.runner == core_.node_id) continue;
    finish(job, "This node is in no pair any more; the rest is the other node's.");
    core_.jobs.put(job);
  }
  core_.events.append({.kind = "pair.left",
                       .side = {},
                       .volume = {},
                       .message = fmt::format("This node is in no pair any more; it was in {}.", pair)});
  return finish(task.job, fmt::format("This node is in no pair any more; it was in {}.{}", pair, task.notes()));
}

}  // namespace lockstep::mgmt
