#include "mgmt/control/leave_jobs.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "mgmt/control/https_client.hpp"
#include "mgmt/control/leave_task.hpp"
#include "mgmt/control/pair_members.hpp"

namespace lockstep::mgmt {
namespace {

using Kind = ReplicaOrder::Kind;
using nlohmann::json;

/// Steps before the pair's new epoch is committed.
constexpr const char* kUndecided[] = {"leave", "retire", "detach", "delete", "decide"};

/// Of two attempts to have a node leave. One of a node that is lost is always the later word, whatever the clock says.
bool is_after(const Job& one, const Job& other) {
  const auto rank = [](const Job& job) {
    return std::tuple(json::parse(job.parameters).value("lost", false), job.created_ms, job.id);
  };
  return rank(one) > rank(other);
}

bool is_begun(const Configuration& configuration) {
  return std::ranges::any_of(configuration.volumes, [](const Volume& v) { return v.lifecycle == Lifecycle::deleting; });
}

/// Who asked for the volumes' end has had another word since; what was marked before that is gone by the first one.
std::string gave_way(const Configuration& configuration) {
  return is_begun(configuration)
             ? "It gave way to `pair leave --lost`. The volumes that it had marked are deleted all the same."
             : "It gave way to `pair leave --lost`: the volumes are kept.";
}

std::int64_t patience_of(const NodeCore& core) { return core.local.create_patience.count() * 1000; }

}  // namespace

LeaveJobs::LeaveJobs(NodeCore& core, JobRunner& runner, LeaveHands hands, std::function<void()> poke)
    : core_(core), runner_(runner), hands_(std::move(hands)), poke_(std::move(poke)) {}

void LeaveJobs::teach() {
  for (const char* kind : {kLeaveKind, kDissolveKind, kReleaseKind})
    runner_.teach(kind, [this](Job& job) { return step(job); });
}

Outcome<CopyView> LeaveJobs::look(const Configuration& configuration, NodeSide side) const {
  auto seen = hands_.look(side);
  if (!seen) return std::unexpected(seen.error());
  return CopyView{configuration.node(side), std::move(*seen)};
}

// ---- the steps ----

StepResult LeaveJobs::step(Job& job) {
  Task task{job, core_.configuration(), json::parse(job.parameters)};
  const std::string& at = job.step;
  const bool needs_pair = at != "end";
  if (needs_pair && !task.configuration->pair)
    return fail(core_, job, {RefusalKind::no_pair, "This node is in no pair any more.", {}});
  const auto others = core_.jobs.unfinished();
  const bool overtaken = job.kind == kLeaveKind && std::ranges::any_of(others, [&](const Job& o) {
                           return o.kind == kLeaveKind && o.runner == core_.node_id && is_after(o, job);
                         });
  if (overtaken) return fail(core_, job, {RefusalKind::conflict, "A newer attempt took the place of this one.", {}});
  if (const auto why = why_given_up(task)) return fail(core_, job, {RefusalKind::conflict, *why, {}});
  return take(task);
}

/// What the job is to do to a node is another's concern by now: a later word, or another machine, has its place.
std::optional<std::string> LeaveJobs::why_given_up(const Task& task) const {
  const std::string& at = task.job.step;
  const bool dissolves = task.job.kind == kDissolveKind;
  const bool undecided = std::ranges::find(kUndecided, at) != std::end(kUndecided);
  if (undecided && dissolves && lost_is_let_go(task)) return gave_way(*task.configuration);
  const bool goes_on = !undecided && !(dissolves && (at == "release" || at == "forget"));
  if (goes_on || (task.has_other() && task.in_pair())) return std::nullopt;
  const Node* joined = core_.partner(*task.configuration);
  if (joined && task.has_other())
    return fmt::format("Another machine took the place of {} meanwhile. Nothing more was changed.", task.node().name);
  if (joined) return fmt::format("{} joined the pair meanwhile. Nothing more was changed.", joined->name);
  // From `decide` on the node is out by this job's own doing.
  if (!task.has_other() || at == "decide" || !undecided) return std::nullopt;
  return fmt::format("{} was taken out of the pair meanwhile. Nothing more was changed.", task.node().name);
}

/// After the pair was to be dissolved: while that is under way no other node than a lost one is let go.
bool LeaveJobs::lost_is_let_go(const Task& dissolution) const {
  if (!dissolution.has_other()) return false;
  const std::string other = dissolution.node().id.to_string();
  return std::ranges::any_of(core_.jobs.newest(kMaxFinishedJobs), [&](const Job& job) {
    if (job.kind != kLeaveKind || job.runner != core_.node_id) return false;
    if (job.finished() && job.created_ms < dissolution.job.created_ms) return false;
    return json::parse(job.parameters).value(json::json_pointer("/node/id"), std::string()) == other;
  });
}

StepResult LeaveJobs::take(Task& task) {
  const std::string& step = task.job.step;
  if (step == "leave") return leave(task);
  if (step == "retire") return retire(task);
  if (step == "detach") return detach(task);
  if (step == "delete") return remove_volumes(task);
  if (step == "decide") return decide(task);
  if (step == "release") return release(task);
  if (step == "forget") return forget(task);
  if (step == "back_out") return back_out(task);
  if (step == "back_in") return back_in(task);
  if (step == "stop") return stop(task);
  if (step == "clear") return clear(task);
  if (step == "end") return end(task);
  return fail(core_, task.job, {RefusalKind::internal, "The job is at a step that this version does not know.", {}});
}

/// Each copy leaves by agreement, so that hosts wait for nothing when it is taken away.
StepResult LeaveJobs::leave(Task& task) {
  const auto stays = look(*task.configuration, task.stays());
  std::optional<Refusal> why;
  if (!stays) why = stays.error();
  for (const auto& volume : task.configuration->volumes) {
    if (why || lone_epoch_of(*stays, volume)) continue;
    if (const auto unsettled = why_not_settled(volume)) {
      why = Refusal{RefusalKind::conflict, *unsettled, {}};
      continue;
    }
    const auto left = hands_.carry_out(task.side(), {.kind = Kind::leave, .volume = volume, .birth = {}});
    if (!left) why = left.error();
  }
  // What a lockstepd says after that is what counts.
  const auto now = why ? stays : look(*task.configuration, task.stays());
  for (const auto& volume : task.configuration->volumes) {
    if (why) break;
    const auto not_alone = now ? why_not_alone(*now, volume) : std::optional(now.error().detail);
    if (not_alone) why = Refusal{RefusalKind::conflict, *not_alone, {}};
  }
  if (!why) return task.next("retire", 0.2, fmt::format("Takes the copies on {} out of service.", task.node().name));
  poke_();
  if (task.since_ms() >= patience_of(core_)) return give_up(task, *why);
  return wait(task.job, why->detail);
}

StepResult LeaveJobs::retire(Task& task) {
  const auto stays = look(*task.configuration, task.stays());
  Outcome<void> changed;
  if (!stays) changed = std::unexpected(stays.error());
  for (const auto& volume : task.configuration->volumes)
    if (const auto why = stays ? why_not_alone(*stays, volume) : std::nullopt)
      return task.next("leave", 0.1, *why);  // its lockstepd was restarted since, and is a member again
  const auto leaves = look(*task.configuration, task.side());
  if (changed && !leaves) changed = std::unexpected(leaves.error());
  for (const auto& volume : task.configuration->volumes)  // it was forced since
    if (const auto why = changed ? why_not_dropped(*leaves, volume) : std::nullopt)
      changed = refuse(RefusalKind::conflict, *why);
  if (changed) changed = hands_.retire(task.side(), true);
  poke_();
  if (changed) return task.next("detach", 0.3, task.job.message);
  if (!passing(changed.error()) || task.since_ms() >= patience_of(core_)) return give_up(task, changed.error());
  return wait(task.job, changed.error().detail);
}

/// That the node which stays is alone counts only when it was seen after the other could change nothing any more.
std::optional<std::string> LeaveJobs::why_not_detached(const Task& task) const {
  const auto leaves = look(*task.configuration, task.side());
  if (!leaves) return leaves.error().detail;
  if (leaves->report.status->revision < core_.revisions.state().head.n || !leaves->report.status->volumes.empty())
    return fmt::format("Waits until {} has let go of its copies.", task.node().name);
  const auto stays = look(*task.configuration, task.stays());
  if (!stays) return stays.error().detail;
  for (const auto& volume : task.configuration->volumes)
    if (auto why = why_not_alone(*stays, volume)) return why;
  return std::nullopt;
}

StepResult LeaveJobs::detach(Task& task) {
  poke_();
  const auto why = why_not_detached(task);
  if (!why) return task.next("decide", 0.4, task.job.message);
  if (task.since_ms() >= patience_of(core_)) return give_up(task, {RefusalKind::conflict, *why, {}});
  return wait(task.job, *why);
}

Outcome<RevisionId> LeaveJobs::mark_deleting(const Task& task) {
  return hands_.change("All volumes to be deleted", [&](Configuration& c) -> Outcome<void> {
    if (is_cancelled(core_, task.job)) return refuse(RefusalKind::conflict, "It is being cancelled.");
    if (!std::ranges::all_of(c.volumes, [&](const Volume& v) { return task.is_to_end(v); }))
      return refuse(RefusalKind::conflict, "A volume was made meanwhile.");
    for (auto& v : c.volumes)
      if (v.lifecycle == Lifecycle::ready) v.lifecycle = Lifecycle::deleting;
    return {};
  });
}

/// The job that does is known by its id: clocks are set back. Gives why it failed.
std::optional<std::string> LeaveJobs::delete_volume(Task& task, const Volume& volume) {
  const json::json_pointer mine("/deletes/" + volume.id.to_string());
  const auto id = Uuid::parse(task.parameters.value(mine, std::string()));
  if (const auto begun = id ? core_.jobs.get(*id) : std::nullopt)
    return begun->state == JobState::failed
               ? std::optional(
                     fmt::format("The pair is not dissolved: {} could not be deleted. {}", volume.name, begun->message))
               : std::nullopt;
  const auto others = core_.jobs.unfinished();
  if (std::ranges::find(others, volume.id, &Job::volume) != others.end()) return std::nullopt;
  Job job = make_job(core_, "volume.delete", "detach", fmt::format("Deletes {} with the pair.", volume.name));
  job.volume = volume.id;
  job.parameters = json{{"name", volume.name}}.dump();
  task.parameters[mine] = job.id.to_string();
  task.job.parameters = task.parameters.dump();
  core_.jobs.put(task.job);
  runner_.submit(job);
  return std::nullopt;
}

/// Each in a job of its own, as if it had been deleted by itself.
StepResult LeaveJobs::remove_volumes(Task& task) {
  const auto& volumes = task.configuration->volumes;
  if (is_cancelled(core_, task.job) && !is_begun(*task.configuration)) {
    forget_cancel(core_, task.job);
    const char* why = task.has_marked() ? "It was cancelled when its volumes were being deleted by then, and they are "
                                          "gone. The pair goes on without them."
                                        : "It was cancelled. The pair goes on as it is.";
    return fail(core_, task.job, {RefusalKind::conflict, why, {}});
  }
  if (const auto other = std::ranges::find_if_not(volumes, [&](const Volume& v) { return task.is_to_end(v); });
      other != volumes.end())
    return fail(
        core_, task.job,
        {RefusalKind::conflict,
         fmt::format("The pair is not dissolved: {} was made since that was asked for, and nobody has agreed to "
                     "its end. It is kept.",
                     other->name),
         {}});
  if (volumes.empty()) return task.next(task.has_other() ? "decide" : "forget", 0.4, "Ends the pair.");
  if (std::ranges::any_of(volumes, [](const Volume& v) { return v.lifecycle == Lifecycle::ready; }))
    if (const auto marked = mark_deleting(task); !marked) return wait(task.job, marked.error().detail);
  if (!task.has_marked()) {  // told durably before any of them is gone
    task.parameters[kHasMarked] = true;
    task.job.parameters = task.parameters.dump();
    core_.jobs.put(task.job);
  }
  for (const auto& volume : volumes)
    if (const auto why = delete_volume(task, volume)) return fail(core_, task.job, {RefusalKind::conflict, *why, {}});
  return wait(task.job, fmt::format("Deletes {}.", volumes_of(*task.configuration)));
}

/// Both nodes are seen to have the same revision, and nothing that waits, so that nothing that a user was told is lost.
Outcome<std::int64_t> LeaveJobs::may_decide(const Task& task, const Revisions::Newest& newest) const {
  if (task.lost()) {
    const auto found = hands_.look_for_lost(task.node());
    if (!found) return std::unexpected(found.error());
    return std::max(newest.n(), found->reached);
  }
  const auto theirs = hands_.ask_partner();
  if (!theirs) return std::unexpected(theirs.error());
  const bool agree = theirs->state.head == newest.state.head && !theirs->state.tentative && !newest.state.tentative;
  if (!agree) return refuse(RefusalKind::not_current, "Waits until both nodes have the same configuration.");
  return newest.n();
}

/// The way back ends here.
StepResult LeaveJobs::decide(Task& task) {
  const Node node = task.node();
  const char* after = task.lost() ? "forget" : "release";
  const std::string rest = fmt::format("{} is out of the pair, and forgets it.", node.name);
  if (!task.in_pair()) {  // it ended between the commit and the job's next step
    if (task.lost()) hands_.delete_cut_off();
    return task.next(after, 0.6, rest);
  }
  const auto newest = core_.revisions.newest();
  if (!newest) return fail(core_, task.job, newest.error());
  const bool keeps_volumes = task.job.kind == kLeaveKind;
  if (!keeps_volumes && is_cancelled(core_, task.job)) return task.next("delete", 0.1, "It is being cancelled.");
  const auto may = may_decide(task, *newest);
  if (!may && task.lost()) return fail(core_, task.job, may.error());
  if (!may && keeps_volumes && task.since_ms() >= patience_of(core_)) return give_up(task, may.error());
  if (!may) return wait(task.job, may.error().detail);
  for (const auto& volume : newest->configuration.volumes)
    if (!task.lost() && (!keeps_volumes || !volume.copy(node.side).retired))
      return task.next(keeps_volumes ? "leave" : "delete", 0.1, "A volume was made meanwhile.");
  if (const auto why = task.lost() || newest->configuration.volumes.empty() ? std::nullopt : why_not_detached(task))
    return task.next("detach", 0.3, *why);
  Configuration next = with_node_left(newest->configuration, node.side);
  if (task.lost() && node.side == NodeSide::a) cut_off_volumes(next);  // their jobs are lost with it
  if (task.lost()) delete_volumes_only_elsewhere(next, task.stays());
  const RevisionId id{random_uuid(), *may + 1, random_uuid()};
  // Refused by name from here on, also when this process ends before it is decided.
  core_.replaced.add(task.configuration->node(node.side) ? *task.configuration->node(node.side) : node, true);
  if (!core_.revisions.begin_epoch(newest->state, id, "A node left", next))
    return wait(task.job, "The configuration changed meanwhile.");
  if (task.lost()) hands_.delete_cut_off();
  core_.events.append(
      {.kind = "pair.left",
       .severity = task.lost() ? Severity::warning : Severity::info,
       .side = node.side,
       .volume = {},
       .message = fmt::format(
           "{}, side {}, is out of the pair {}.{}", node.name, side_name(node.side), next.pair->name,
           newest->tentative.empty()
               ? ""
               : fmt::format(" What it had proposed, and perhaps decided, holds now: {}.", newest->tentative))});
  poke_();
  return task.next(after, 0.6, rest);
}

StepResult LeaveJobs::release(Task& task) {
  const Node node = task.node();
  const auto gone = hands_.release(node, task.configuration->pair->id);
  const std::string why = gone ? "" : trouble_with_partner(gone.error());
  if (!gone && task.since_ms() < patience_of(core_)) return wait(task.job, fmt::format("{} {}.", node.name, why));
  if (!gone)
    task.note(
        fmt::format("{} has not forgotten it yet: it {}. It is refused until it has: run `lockstep pair leave {}` "
                    "there.",
                    node.name, why, side_name(node.side)));
  return task.next("forget", 0.8, "Removes the pair's records from the witness.");
}

/// An old copy that turns up, with the record of a time when both were members, wins nothing where there is none.
StepResult LeaveJobs::forget(Task& task) {
  const Arbiter arbiter = task.configuration->pair->arbiter;
  Outcome<void> gone;
  if (const Node* joined = core_.partner(*task.configuration))
    return finish(task.job, fmt::format("{} is out of the pair {}, and {} has joined since, so that the witness's "
                                        "records stay.{}",
                                        task.node().name, task.configuration->pair->name, joined->name, task.notes()));
  for (const auto& endpoint : arbiter.witness ? arbiter.endpoints : std::vector<std::string>{}) {
    gone = hands_.forget(endpoint, *task.configuration);
    if (gone) break;
  }
  if (!gone && task.since_ms() < patience_of(core_)) return wait(task.job, gone.error().detail);
  const Uuid& pair = task.configuration->pair->id;
  if (!gone)
    task.note(
        fmt::format("The witness's records could not be removed ({}): `etcdctl del --prefix /lockstep/{}/` there.",
                    gone.error().detail, pair.to_string()));
  if (task.job.kind == kDissolveKind) return task.next("stop", 0.85, "Ends the pair on this node.");
  return finish(task.job,
                fmt::format("{} is out of the pair {}. {} goes on alone with {}; `lockstep pair invite` makes "
                            "an invitation for another node.{}",
                            task.node().name, task.configuration->pair->name, task.configuration->nodes.front().name,
                            volumes_of(*task.configuration), task.notes()));
}

// ---- the way back ----

/// The copies are attached anew, so that those which left come back.
StepResult LeaveJobs::give_up(Task& task, Refusal reason) {
  const std::string message = fmt::format("Takes everything back: {}", reason.detail);
  reason.detail += " Nothing was changed.";
  task.job.error = std::move(reason);
  return task.next("back_out", task.job.progress, message);
}

StepResult LeaveJobs::back_out(Task& task) {
  if (!task.in_pair()) return fail(core_, task.job, *task.job.error);
  const auto leaves = look(*task.configuration, task.side());
  for (const auto& volume : task.configuration->volumes) {
    const auto why = leaves && !volume.copy(task.side()).retired ? why_not_dropped(*leaves, volume) : std::nullopt;
    if (!why) continue;
    // Out of service, even for a moment, nobody would serve it.
    Refusal reason = *task.job.error;
    reason.detail += fmt::format(
        " {} So the copies on {} were not attached anew: those that have left come back when lockstepd there is "
        "restarted, which is to wait until {} has all volumes.",
        *why, task.node().name, task.configuration->node(task.stays())->name);
    return fail(core_, task.job, std::move(reason));
  }
  const auto out = hands_.retire(task.side(), true);
  poke_();
  if (!out) return wait(task.job, fmt::format("Will take everything back. {}", out.error().detail));
  return task.next("back_in", task.job.progress, task.job.message);
}

StepResult LeaveJobs::back_in(Task& task) {
  if (!task.in_pair()) return fail(core_, task.job, *task.job.error);
  poke_();
  const auto leaves = look(*task.configuration, task.side());
  const bool out = leaves && leaves->report.status->revision >= core_.revisions.state().head.n &&
                   leaves->report.status->volumes.empty();
  if (!out && task.since_ms() < patience_of(core_)) return StepResult::again_later;
  const auto in = hands_.retire(task.side(), false);
  if (!in) return wait(task.job, fmt::format("Will take everything back. {}", in.error().detail));
  poke_();
  return fail(core_, task.job, *task.job.error);
}

}  // namespace lockstep::mgmt
