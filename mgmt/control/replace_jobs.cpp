#include "mgmt/control/replace_jobs.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/https_client.hpp"
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using Kind = ReplicaOrder::Kind;
using nlohmann::json;

constexpr std::size_t kMaxFolder = 3500;  ///< bytes; a file's name has room behind it
/// Steps whose outcome nobody changes any more: it is being taken back, or may be published already.
constexpr const char* kDecided[] = {"publish", "clear", "back_out", "back_in", "unmake"};
/// Longer than a survivor takes to go on alone. If it does not, hosts wait.
constexpr std::int64_t kGoesOnWithinMs = 10'000;
constexpr double kInPlace = 0.3;  ///< of the whole progress, when copying begins

std::optional<std::string> check_folder(const std::string& folder) {
  if (folder.empty()) return std::nullopt;
  if (!folder.starts_with('/')) return "Must be a folder's path that starts with /.";
  if (folder.size() > kMaxFolder) return fmt::format("Must be of {} bytes at the most.", kMaxFolder);
  const bool plain = std::ranges::none_of(folder, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  return plain ? std::nullopt : std::optional<std::string>("Must not hold control characters.");
}

/// As it is kept: without what says the same in another way.
std::string normal(const std::string& folder) {
  if (folder.empty()) return {};
  const auto path = std::filesystem::path(folder).lexically_normal();
  return path.has_filename() ? path.string() : path.parent_path().string();
}

Copy after(const Copy& before, const std::string& store) {
  return {before.number + 1, store.empty() ? before.folder : store, false};
}

}  // namespace

/// A job with what its steps work on.
struct ReplaceJobs::Task {
  Job& job;
  std::shared_ptr<const Configuration> configuration;
  const Volume& volume;
  json parameters;

  [[nodiscard]] NodeSide side() const { return parameters.at("side") == "a" ? NodeSide::a : NodeSide::b; }
  [[nodiscard]] NodeSide survivor() const { return engine::other(side()); }
  [[nodiscard]] const std::string& named() const { return configuration->node(side())->name; }
  [[nodiscard]] const std::string& other() const { return configuration->node(survivor())->name; }
  [[nodiscard]] bool moves() const { return parameters.at("moves"); }
  [[nodiscard]] bool is_first() const { return parameters.value("first", false); }
  [[nodiscard]] Copy old_copy() const {
    return {parameters.at("old").at("number"), parameters.at("old").at("folder"), false};
  }
  [[nodiscard]] Copy new_copy() const { return after(old_copy(), parameters.at("store")); }
  /// How long it has been at this step.
  [[nodiscard]] std::int64_t since_ms() const { return age_ms(parameters.at("step_since_ms").get<std::int64_t>()); }
  [[nodiscard]] bool is_published() const { return volume.copy(side()).number == new_copy().number; }
  [[nodiscard]] Volume with(const Copy& copy) const {
    Volume v = volume;
    v.copy(side()) = copy;
    return v;
  }
  StepResult next(const char* step, double progress, std::string message) {
    parameters["step_since_ms"] = wall_clock_ms();
    job.parameters = parameters.dump();
    return move_on(job, step, progress, std::move(message));
  }
};

PairHands hands_of(NodeCore& core, ReplicaAgent& agent, std::function<PairReports()> reports) {
  const auto away = [](Refusal refusal, const char* who) {
    refusal.detail = fmt::format("{} {}.", who, trouble_with_partner(refusal));
    return std::unexpected(std::move(refusal));
  };
  PairHands hands;
  hands.look = [&core, &agent, away](NodeSide side) -> Outcome<NodeReport> {
    if (core.side() == side) return agent.look();
    const auto peer = core.peer();
    if (!peer) return refuse(RefusalKind::conflict, "That node is not in the pair.");
    auto seen = peer->look();
    if (!seen) return away(seen.error(), "The partner");
    return seen;
  };
  hands.carry_out = [&core, &agent, away](NodeSide side, const ReplicaOrder& order) -> Outcome<void> {
    if (core.side() == side) return agent.carry_out(order);
    const auto peer = core.peer();
    if (!peer) return refuse(RefusalKind::conflict, "That node is not in the pair.");
    auto done = peer->carry_out(order);
    if (!done) return away(done.error(), "The partner");
    return done;
  };
  hands.last_seen = [&core, reports = std::move(reports)](NodeSide side) -> std::optional<NodeReport> {
    const PairReports now = reports();
    if (core.side() == side) return now.here;
    return now.partner_reachable ? std::optional(now.there) : std::nullopt;
  };
  hands.change = [&core](const std::string& summary, const Revisions::Edit& edit) {
    return core.change(summary, edit);
  };
  return hands;
}

ReplaceJobs::ReplaceJobs(NodeCore& core, JobRunner& runner, PairHands hands, std::function<void()> poke)
    : core_(core), runner_(runner), hands_(std::move(hands)), poke_(std::move(poke)) {}

void ReplaceJobs::teach() {
  runner_.teach(kReplaceKind, [this](Job& job) { return step(job); });
}

// ---- what is seen ----

CopyView ReplaceJobs::last_seen(const Configuration& configuration, NodeSide side) const {
  return {configuration.node(side), hands_.last_seen(side).value_or(NodeReport{})};
}

/// What lockstepd says now, and what it found wrong when it was last told something.
Outcome<CopyView> ReplaceJobs::look(const Configuration& configuration, NodeSide side) const {
  auto seen = hands_.look(side);
  if (!seen) return std::unexpected(seen.error());
  CopyView view{configuration.node(side), std::move(*seen)};
  view.report.problems = last_seen(configuration, side).report.problems;
  return view;
}

Outcome<LoneEpoch> ReplaceJobs::survivor_alone(const Task& task) const {
  const auto seen = look(*task.configuration, task.survivor());
  if (!seen) return std::unexpected(seen.error());
  if (const auto lone = lone_epoch_of(*seen, task.volume)) return *lone;
  return refuse(RefusalKind::conflict, fmt::format("{} does not serve {} alone.", task.other(), task.volume.name));
}

Outcome<bool> ReplaceJobs::is_detached(const Task& task) const {
  const auto seen = look(*task.configuration, task.side());
  if (!seen) return std::unexpected(seen.error());
  return seen->report.status->revision >= core_.revisions.state().head.n && !seen->status(task.volume);
}

/// The copy that is to be replaced serves alone by now: it was forced, or the survivor failed.
std::optional<std::string> ReplaceJobs::why_not_dropped(const Task& task) const {
  const auto named = look(*task.configuration, task.side());
  return named ? mgmt::why_not_dropped(*named, task.volume) : std::nullopt;
}

/// A node that left and was restarted since is a member again.
bool ReplaceJobs::has_come_back(const Task& task) const {
  const auto seen = look(*task.configuration, task.survivor());
  const ReplicaStatus* status = seen ? seen->status(task.volume) : nullptr;
  return status && status->state == "in_sync";
}

bool ReplaceJobs::out_of_patience(const Task& task) const {
  return task.since_ms() >= core_.local.create_patience.count() * 1000;
}

// ---- the request ----

Outcome<void> ReplaceJobs::check_free(const Uuid& id) const {
  const auto configuration = core_.configuration();
  const Volume* volume = configuration->volume(id);
  if (!volume) return refuse(RefusalKind::not_found, "There is no volume with this id.");
  if (volume->lifecycle != Lifecycle::ready)
    return refuse(RefusalKind::conflict, fmt::format("{} is being made or deleted.", volume->name));
  for (const auto& other : core_.jobs.unfinished())
    if (other.volume == id || other.kind == kLeaveKind)
      return refuse(RefusalKind::conflict, "Another job is at work on this volume. Try again when it has ended.");
  return {};
}

Outcome<Job> ReplaceJobs::replace(const Uuid& id, const ReplaceWish& wish) {
  const auto only = begins_.begin();
  if (!only) return std::unexpected(only.error());
  const auto configuration = core_.configuration();
  const Volume* volume = configuration->volume(id);
  if (!volume) return refuse(RefusalKind::not_found, "There is no volume with this id.");
  if (configuration->nodes.size() != 2)
    return refuse(RefusalKind::conflict, "The pair has one node so far: there is no other copy to replace one from.");
  if (const auto complaint = check_folder(wish.store))
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", {{"/store", *complaint}});
  if (auto good = check_free(id); !good) return std::unexpected(good.error());
  const auto named = look(*configuration, wish.side);
  if (!named) return std::unexpected(named.error());
  const auto survivor = look(*configuration, engine::other(wish.side));
  if (!survivor) return std::unexpected(survivor.error());
  if (auto good = core_.check_orders_for_both(); !good) return std::unexpected(good.error());
  const std::string store = normal(wish.store);
  const Copy& old = volume->copy(wish.side);
  const auto plan = plan_replacement(*named, *survivor, *volume, !store.empty() && store != old.folder);
  if (!plan) return std::unexpected(plan.error());
  if (plan->moves && wish.confirm != volume->name)
    return refuse(RefusalKind::confirmation_needed,
                  fmt::format("{} has one copy only until the new one is whole, and the old one's files are removed "
                              "then. Confirm it with the volume's name, {}.",
                              volume->name, volume->name),
                  {{"/confirm", fmt::format("Must be {}.", volume->name)}});
  Job job = make_job(core_, kReplaceKind, plan->leaves ? "leave" : "make",
                     fmt::format("Makes a new copy of {} on {}.", volume->name, named->node->name));
  job.volume = id;
  job.parameters = json{
      {"side", side_name(wish.side)},
      {"store", store},
      {"moves", plan->moves},
      {"first", old.unmade},
      {"old", {{"number", old.number}, {"folder", old.folder}}},
      {"step_since_ms",
       job.created_ms}}.dump();
  // Once more: asking both nodes took seconds, in which a job of another kind may have begun.
  if (auto good = check_free(id); !good) return std::unexpected(good.error());
  runner_.submit(job);
  return job;
}

void ReplaceJobs::make_first(const Volume& volume, NodeSide side) {
  const std::string& name = core_.configuration()->node(side)->name;
  Job job = make_job(core_, kReplaceKind, "make",
                     fmt::format("Makes the copy of {} on {}, which was away.", volume.name, name));
  job.volume = volume.id;
  const Copy& old = volume.copy(side);
  job.parameters = json{
      {"side", side_name(side)},
      {"store", ""},
      {"moves", false},
      {"first", true},
      {"old", {{"number", old.number}, {"folder", old.folder}}},
      {"step_since_ms",
       job.created_ms}}.dump();
  runner_.submit(job);
}

// ---- the steps ----

StepResult ReplaceJobs::step(Job& job) {
  const auto configuration = core_.configuration();
  const Volume* volume = job.volume ? configuration->volume(*job.volume) : nullptr;
  Volume gone;
  gone.id = job.volume.value_or(Uuid{});
  Task task{job, configuration, volume ? *volume : gone, json::parse(job.parameters)};
  const bool whole = volume && configuration->nodes.size() == 2;
  const StepResult result = !whole ? end_without(task) : is_cancelled(core_, job) ? cancel(task) : take(task);
  if (job.finished()) forget_cancel(core_, job);
  return result;
}

/// The volume, or a node, is gone. The copy that the job made, or was to remove, is nobody else's concern.
StepResult ReplaceJobs::end_without(Task& task) {
  Job& job = task.job;
  const bool published = job.step == "sync" || job.step == "clear";
  const Copy left = published ? task.old_copy() : task.new_copy();
  const bool none = job.step == "leave" || (published && task.is_first());
  const Volume* volume = task.configuration->volume(task.volume.id);
  Refusal why{RefusalKind::not_found, "The volume, or its second node, is gone.", {}};
  if (none || (volume && volume->copy(task.side()).number == left.number)) return fail(core_, job, std::move(why));
  // A disk that failed is not touched again.
  const bool touched = task.configuration->node(task.side()) && (!published || task.moves());
  const auto removed =
      touched ? hands_.carry_out(task.side(), {.kind = Kind::discard, .volume = task.with(left), .birth = {}})
              : Outcome<void>(std::unexpected(why));
  if (!removed && passing(removed.error()) && !out_of_patience(task)) return wait(job, removed.error().detail);
  const auto files = replica_files("", task.volume.id, {left.number, "", false});
  if (!removed)
    why.detail += fmt::format(
        " Of no use any more, on the node of side {}: {} and {} in {}; remove them if they are to be found.",
        side_name(task.side()), files.data, files.metadata, left.folder.empty() ? "volume_folder" : left.folder);
  return fail(core_, job, std::move(why));
}

StepResult ReplaceJobs::cancel(Task& task) {
  Job& job = task.job;
  const bool decided = std::ranges::find(kDecided, job.step) != std::end(kDecided);
  if (decided) return take(task);
  if (!task.is_published())
    return give_up(task, {RefusalKind::conflict, "It was cancelled; the copy is as it was before.", {}});
  return fail(
      core_, job,
      {RefusalKind::conflict,
       fmt::format("It was cancelled. The new copy of {} on {} is in place and goes on being brought up to date.",
                   task.volume.name, task.named()),
       {}});
}

StepResult ReplaceJobs::take(Task& task) {
  const std::string& step = task.job.step;
  if (step == "leave") return leave(task);
  if (step == "make") return make(task);
  if (step == "retire") return retire(task);
  if (step == "detach") return detach(task);
  if (step == "publish") return publish(task);
  if (step == "sync") return sync(task);
  if (step == "clear") return clear(task);
  if (step == "back_out") return back_out(task);
  if (step == "back_in") return back_in(task);
  if (step == "unmake") return unmake(task);
  return fail(core_, task.job, {RefusalKind::internal, "The job is at a step that this version does not know.", {}});
}

StepResult ReplaceJobs::leave(Task& task) {
  const auto left = hands_.carry_out(task.side(), {.kind = Kind::leave, .volume = task.volume, .birth = {}});
  // Also a refusal: a node that has just been restarted is brought up to date before it can leave.
  if (!left && !out_of_patience(task)) return wait(task.job, left.error().detail);
  if (!left) return fail(core_, task.job, left.error());
  return task.next("make", 0.05, task.job.message);
}

StepResult ReplaceJobs::make(Task& task) {
  const auto lone = survivor_alone(task);
  if (!lone && task.moves() && has_come_back(task)) return task.next("leave", 0, task.job.message);
  if (!lone && !out_of_patience(task)) return wait(task.job, lone.error().detail);
  if (!lone) return give_up(task, lone.error());
  if (const auto why = why_not_dropped(task)) return give_up(task, {RefusalKind::conflict, *why, {}});
  const ReplicaOrder order{.kind = Kind::create,
                           .volume = task.with(task.new_copy()),
                           .birth = {.both = false, .clean = false, .joins = *lone}};
  const auto made = hands_.carry_out(task.side(), order);
  // Reserving all of a volume's space takes some file systems long: what was begun there is found when asked again.
  if (!made && passing(made.error()) && !(task.volume.thin && out_of_patience(task)))
    return wait(task.job, made.error().detail);
  if (!made) return give_up(task, made.error());
  return task.next("retire", 0.1, fmt::format("Takes the old copy on {} out of service.", task.named()));
}

Outcome<RevisionId> ReplaceJobs::change_copy(const Task& task, const std::string& summary,
                                             const std::function<void(Copy&)>& edit) {
  return hands_.change(summary, [&](Configuration& c) -> Outcome<void> {
    if (Volume* v = c.volume(task.volume.id)) edit(v->copy(task.side()));
    return {};
  });
}

StepResult ReplaceJobs::retire(Task& task) {
  if (task.is_first()) return task.next("detach", 0.15, task.job.message);  // there never was one in service
  // A survivor that does not go on alone would stop when its partner is taken away.
  const auto lone = survivor_alone(task);
  if (!lone && task.moves() && has_come_back(task)) return task.next("leave", 0, task.job.message);
  if (!lone && !out_of_patience(task)) return wait(task.job, lone.error().detail);
  if (!lone) return give_up(task, lone.error());
  if (const auto why = why_not_dropped(task)) return give_up(task, {RefusalKind::conflict, *why, {}});
  const auto changed = change_copy(task, fmt::format("A copy of {} out of service", task.volume.name),
                                   [](Copy& copy) { copy.retired = true; });
  if (!changed && passing(changed.error()) && !out_of_patience(task)) return wait(task.job, changed.error().detail);
  if (!changed) return give_up(task, changed.error());
  return task.next("detach", 0.15, task.job.message);
}

/// That the survivor is alone counts only when it was seen after the old copy could change nothing any more.
StepResult ReplaceJobs::detach(Task& task) {
  poke_();
  const auto detached = is_detached(task);
  const bool out = detached && *detached;
  const auto lone = out ? survivor_alone(task) : Outcome<LoneEpoch>(refuse(RefusalKind::conflict, task.job.message));
  if (lone) return task.next("publish", 0.2, fmt::format("Puts the new copy on {} in place.", task.named()));
  const Refusal why = detached ? lone.error() : detached.error();
  const bool stopped = out && !passing(why) && task.since_ms() > kGoesOnWithinMs;
  if (!stopped && !out_of_patience(task)) return wait(task.job, why.detail);
  return give_up(task, why);
}

StepResult ReplaceJobs::publish(Task& task) {
  const Copy copy = task.new_copy();
  if (!task.is_published() && !task.volume.copy(task.side()).retired) {
    task.job.error = Refusal{RefusalKind::conflict,
                             fmt::format("The copy of {} on {} was put in service again meanwhile, and stays.",
                                         task.volume.name, task.named()),
                             {}};
    return task.next("unmake", task.job.progress, task.job.message);
  }
  const auto changed = hands_.change(
      fmt::format("A new copy of {}", task.volume.name), [&task, &copy](Configuration& c) -> Outcome<void> {
        Volume* v = c.volume(task.volume.id);
        if (v && !v->copy(task.side()).retired && v->copy(task.side()).number != copy.number)
          return refuse(RefusalKind::not_current, "The old copy is in service.");  // the next turn sees it
        if (v) v->copy(task.side()) = copy;
        return {};
      });
  // Whatever else it is, it is known next time whether it was done.
  if (!changed) return wait(task.job, changed.error().detail);
  poke_();
  return task.next("sync", kInPlace, fmt::format("Brings the new copy of {} up to date.", task.volume.name));
}

StepResult ReplaceJobs::sync(Task& task) {
  const CopyView named = last_seen(*task.configuration, task.side());
  const CopyView survivor = last_seen(*task.configuration, task.survivor());
  const ReplicaStatus* copy = named.status(task.volume);
  const ReplicaStatus* source = survivor.status(task.volume);
  const bool current = named.report.status && named.report.status->revision >= core_.revisions.state().head.n;
  if (current && copy && copy->state == "in_sync" && source && source->state == "in_sync") {
    core_.events.append(
        {.kind = "replica.replaced",
         .side = task.side(),
         .volume = task.volume.id,
         .message = fmt::format("The new copy of {} on {} is in sync.", task.volume.name, task.named())});
    return task.next("clear", 0.98, task.job.message);
  }
  poke_();
  const auto failed = [&](const std::string& why) {
    return fail(core_, task.job,
                {RefusalKind::conflict,
                 fmt::format("The new copy of {} on {} is in place, and not in sync: {} {} serves alone. When that is "
                             "mended it goes on by itself; else replace the copy again.",
                             task.volume.name, task.named(), why, task.other()),
                 {}});
  };
  if (current && copy && copy->state == "failed") return failed(copy->reason);
  const std::string problem = current && !copy ? named.problem(task.volume) : "";
  if (!problem.empty() && out_of_patience(task)) return failed(problem);
  if (!problem.empty()) return wait(task.job, problem);
  if (!source || !source->resync_running || source->resync_total <= 0) return StepResult::again_later;
  const double done = static_cast<double>(source->resync_done) / static_cast<double>(source->resync_total);
  const int percent = static_cast<int>(std::clamp(done, 0.0, 1.0) * 100);
  task.job.progress = kInPlace + (0.97 - kInPlace) * percent / 100;
  return wait(task.job, fmt::format("Brings the new copy of {} up to date: {} %.", task.volume.name, percent));
}

/// A disk that failed is not touched again: it might hang whoever does.
StepResult ReplaceJobs::clear(Task& task) {
  const std::string done =
      fmt::format("{} is in sync on both nodes, with a new copy on {}.", task.volume.name, task.named());
  const Copy old = task.old_copy();
  const auto stays = [&](const std::string& why) {
    const auto files = replica_files("", task.volume.id, {old.number, "", false});
    return finish(
        task.job,
        fmt::format("{}{} The old copy's files are of no use any more: {} and {} in {} there; remove "
                    "them if they are still to be found.",
                    done, why, files.data, files.metadata, old.folder.empty() ? "volume_folder" : old.folder));
  };
  if (task.is_first()) return finish(task.job, fmt::format("{} is in sync on both nodes.", task.volume.name));
  if (!task.moves()) return stays("");
  const auto removed = hands_.carry_out(task.side(), {.kind = Kind::discard, .volume = task.with(old), .birth = {}});
  if (!removed && passing(removed.error()) && !out_of_patience(task)) return wait(task.job, removed.error().detail);
  return removed ? finish(task.job, done) : stays(" " + removed.error().detail);
}

// ---- the way back ----

/// The copy is what it was before, attached anew, so that one that left for this comes back.
StepResult ReplaceJobs::give_up(Task& task, Refusal reason) {
  const std::string message = fmt::format("Takes everything back: {}", reason.detail);
  task.job.error = std::move(reason);
  const bool untouched = task.is_first() || (!task.volume.copy(task.side()).retired && !task.moves());
  return task.next(untouched ? "unmake" : "back_out", task.job.progress, message);
}

StepResult ReplaceJobs::back_out(Task& task) {
  const bool in_service = !task.volume.copy(task.side()).retired;
  if (in_service && why_not_dropped(task)) return task.next("unmake", task.job.progress, task.job.message);
  const auto changed = change_copy(task, fmt::format("A copy of {} out of service", task.volume.name),
                                   [](Copy& copy) { copy.retired = true; });
  if (!changed) return wait(task.job, fmt::format("Will take everything back. {}", changed.error().detail));
  return task.next("back_in", task.job.progress, task.job.message);
}

StepResult ReplaceJobs::back_in(Task& task) {
  poke_();
  const auto detached = is_detached(task);
  if (!(detached && *detached) && !out_of_patience(task)) return StepResult::again_later;
  const auto changed = change_copy(task, fmt::format("The copy of {} in service again", task.volume.name),
                                   [](Copy& copy) { copy.retired = false; });
  if (!changed) return wait(task.job, fmt::format("Will take everything back. {}", changed.error().detail));
  poke_();
  return task.next("unmake", task.job.progress, task.job.message);
}

StepResult ReplaceJobs::unmake(Task& task) {
  if (task.is_published()) return fail(core_, task.job, *task.job.error);
  const auto removed =
      hands_.carry_out(task.side(), {.kind = Kind::discard, .volume = task.with(task.new_copy()), .birth = {}});
  if (!removed && passing(removed.error()) && !out_of_patience(task)) return StepResult::again_later;
  return fail(core_, task.job, *task.job.error);
}

}  // namespace lockstep::mgmt
