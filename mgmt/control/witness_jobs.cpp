#include "mgmt/control/witness_jobs.hpp"

#include <algorithm>
#include <array>
#include <future>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/fence_check.hpp"
#include "mgmt/control/https_client.hpp"
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/witness_place.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

/// While no witness is asked a node that dies stops the other one: the way back is not taken late.
constexpr std::int64_t kStopsWithinMs = 10'000;
constexpr double kStopped = 0.3, kStarted = 0.4, kLearnt = 0.95;  ///< of the whole progress

std::string said(const Arbiter& arbiter) {
  if (arbiter.fence) return "the fence";
  if (!arbiter.witness) return fmt::format("side {} preferred", arbiter.preferred == NodeSide::a ? "A" : "B");
  return fmt::format("{}", fmt::join(arbiter.endpoints, ", "));
}

/// "The witness is http://…", "The arbiter is side A preferred".
const char* subject(const Job& job) { return job.kind == kWitnessKind ? "witness" : "arbiter"; }

Outcome<void> let_go(Configuration& c) {
  // Its copies are being made with the arbiter of now, which would be seen by nobody here.
  const auto made = std::ranges::find(c.volumes, Lifecycle::creating, &Volume::lifecycle);
  if (made != c.volumes.end())
    return refuse(RefusalKind::conflict, fmt::format("The volume {} is being made: wait until it is.", made->name));
  c.pair->arbiter.changing = true;
  return {};
}

}  // namespace

Arbiter arbiter_after(const WitnessWish& wish, const Arbiter& now) {
  Arbiter next = now;
  next.changing = false;
  if (!wish.endpoints.empty()) {
    next.endpoints = wish.endpoints;
    next.access = {};
  }
  auto& access = next.access;
  for (const auto& [given, field] : {std::pair{&wish.ca, &access.ca},
                                     {&wish.certificate, &access.certificate},
                                     {&wish.key, &access.key},
                                     {&wish.user, &access.user},
                                     {&wish.password, &access.password}})
    if (*given) *field = **given;
  return next;
}

/// A job with what its steps work on.
struct WitnessJobs::Task {
  Job& job;
  std::shared_ptr<const Configuration> configuration;
  json parameters;

  [[nodiscard]] Arbiter arbiter(const char* which) const {
    return arbiter_from_document(parameters.at(which).get<std::string>()).value_or(Arbiter{});
  }
  /// Where it goes to: the new one, or back.
  [[nodiscard]] Arbiter target() const { return arbiter(goes_back() ? "old" : "new"); }
  [[nodiscard]] const Arbiter& now() const { return configuration->pair->arbiter; }
  /// No volume changes what its epoch names.
  [[nodiscard]] bool among_witnesses() const { return arbiter("old").witness && arbiter("new").witness; }
  [[nodiscard]] bool goes_back() const { return parameters.at("back"); }
  /// The arbiter in force is neither what this job left nor what it names: somebody else named it since.
  [[nodiscard]] bool is_overtaken() const {
    if (now().changing) return false;
    if (job.step == "stop") return now() != arbiter(goes_back() ? "new" : "old");
    if (job.step == "stopped") return true;
    return now() != target();
  }
  /// The new one may be asked by some node: nobody can say that it never was.
  [[nodiscard]] bool new_was_named() const { return parameters.at("named"); }
  [[nodiscard]] std::int64_t since_ms() const { return age_ms(parameters.at("step_since_ms").get<std::int64_t>()); }
  StepResult next(const char* step, double progress, std::string message) {
    parameters["step_since_ms"] = wall_clock_ms();
    job.parameters = parameters.dump();
    return move_on(job, step, progress, std::move(message));
  }
};

WitnessHands hands_of(NodeCore& core, DataPlane& data_plane, PairHands pair) {
  WitnessHands hands;
  hands.look = std::move(pair.look);
  hands.change = std::move(pair.change);
  hands.try_endpoints = [&core, &data_plane](NodeSide side, const Arbiter& arbiter) -> Outcome<WitnessTrial> {
    const auto configuration = core.configuration();
    if (core.side() == side && configuration->pair) return try_endpoints(data_plane, configuration->pair->id, arbiter);
    const auto peer = core.peer();
    if (!peer) return refuse(RefusalKind::conflict, "That node is not in the pair.");
    auto tried = peer->try_endpoints(arbiter);
    if (!tried) tried.error().detail = fmt::format("The partner {}.", trouble_with_partner(tried.error()));
    return tried;
  };
  hands.try_fence = [&core, &data_plane](NodeSide side) -> Outcome<void> {
    if (core.side() == side) return try_fence_of_running(data_plane);
    const auto peer = core.peer();
    if (!peer) return refuse(RefusalKind::conflict, "That node is not in the pair.");
    return peer->try_fence();
  };
  hands.forget = [&core, &data_plane](const std::string& endpoint, const replication::WitnessAccess& access,
                                      const std::string& keep) -> Outcome<void> {
    constexpr auto kPatience = std::chrono::seconds(20);
    const auto done =
        data_plane.call("witness.forget", forget_parameters(endpoint, access, keep, *core.configuration()), kPatience);
    if (!done) return std::unexpected(done.error());
    return {};
  };
  return hands;
}

WitnessJobs::WitnessJobs(NodeCore& core, JobRunner& runner, WitnessHands hands, std::function<void()> poke)
    : core_(core), runner_(runner), hands_(std::move(hands)), poke_(std::move(poke)) {}

void WitnessJobs::teach() {
  for (const char* kind : {kWitnessKind, kArbiterKind}) runner_.teach(kind, [this](Job& job) { return step(job); });
}

Outcome<BothNodes> WitnessJobs::look(const Configuration& configuration) const {
  BothNodes both{&configuration, {}};
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    auto seen = hands_.look(side);
    if (!seen) return std::unexpected(seen.error());
    both.reports[static_cast<std::size_t>(side)] = std::move(*seen);
  }
  return both;
}

// ---- the request ----

Outcome<void> WitnessJobs::check_idle() const {
  for (const auto& job : core_.jobs.unfinished())
    if (job.runner == core_.node_id)
      return refuse(RefusalKind::conflict,
                    fmt::format("Another job ({}) is under way. Try again when it has ended.", job.kind));
  return {};
}

Outcome<void> WitnessJobs::may_begin(const Configuration& configuration, const Arbiter& next) const {
  const bool among_witnesses = next.witness && configuration.pair->arbiter.witness;
  if (configuration.nodes.size() != 2)
    return refuse(RefusalKind::conflict, "The pair has one node so far. Try again when the second one has joined.");
  if (auto idle = check_idle(); !idle) return idle;
  // A change that lost its job goes on with whatever state it left.
  const auto both = look(configuration);
  const bool changing = configuration.pair->arbiter.changing;
  auto why = !both ? std::optional(both.error().detail) : changing ? std::nullopt : why_not_in_sync(*both);
  if (!why && !among_witnesses) why = why_silent(*both);
  if (!why) return {};
  return refuse(both ? RefusalKind::conflict : both.error().kind,
                fmt::format("{} The {} was not changed: that takes both nodes, with every volume in sync on both. "
                            "Try again when `lockstep health` says that they are.",
                            *why, among_witnesses ? "witness" : "arbiter"));
}

Learnt WitnessJobs::learnt_of(const BothNodes& both, const Arbiter& target) const {
  const std::int64_t revision = core_.revisions.state().head.n;
  return target.witness ? learnt_by(both, revision) : learnt_preference(both, revision, target);
}

Outcome<void> WitnessJobs::try_on_both(const Configuration& configuration, const Arbiter& next) const {
  auto by_b = std::async(std::launch::async, [&] { return hands_.try_endpoints(NodeSide::b, next); });
  std::vector<Outcome<WitnessTrial>> tried{hands_.try_endpoints(NodeSide::a, next)};
  tried.push_back(by_b.get());
  std::vector<NodeTrial> trials;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    auto& trial = tried[static_cast<std::size_t>(side)];
    if (!trial) return std::unexpected(trial.error());
    trials.push_back({configuration.node(side)->name, std::move(*trial)});
  }
  auto problems = problems_of(trials);
  if (problems.empty()) return {};
  return refuse(
      RefusalKind::invalid,
      "The witness was not changed: at least one of the endpoints must answer each node, none may answer as a "
      "witness does not, and all must be of one etcd cluster.",
      std::move(problems));
}

/// At once, as by two people: a device may take its time.
Outcome<void> WitnessJobs::try_fence_on_both(const Configuration& configuration) const {
  auto by_b = std::async(std::launch::async, [&] { return hands_.try_fence(NodeSide::b); });
  const std::array<Outcome<void>, 2> tried{hands_.try_fence(NodeSide::a), by_b.get()};
  std::vector<FieldProblem> problems;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const auto& one = tried[static_cast<std::size_t>(side)];
    const std::string& name = configuration.node(side)->name;
    if (one) continue;
    if (one.error().kind != RefusalKind::invalid)
      return refuse(one.error().kind, fmt::format("The fence of {} could not be tried: {} Nothing was changed.", name,
                                                  one.error().detail));
    problems.push_back({"/kind", fmt::format("{}: {}", name, one.error().detail)});
  }
  if (problems.empty()) return {};
  return refuse(RefusalKind::invalid,
                "The arbiter was not changed: each node's fence has to be able to power the other off.",
                std::move(problems));
}

Outcome<Job> WitnessJobs::change(const WitnessWish& wish) {
  const auto configuration = core_.configuration();
  if (!configuration->pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  const Arbiter& old = configuration->pair->arbiter;
  if (!old.witness)
    return refuse(RefusalKind::conflict,
                  fmt::format("The pair {} has no witness, but {}: `lockstep pair arbiter set --witness URL` gives it "
                              "one.",
                              configuration->pair->name, old.fence ? "a fence" : "a preferred side"));
  return begin(kWitnessKind, *configuration, arbiter_after(wish, old));
}

Outcome<Job> WitnessJobs::change_arbiter(const Arbiter& next) {
  const auto configuration = core_.configuration();
  if (!configuration->pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  return begin(kArbiterKind, *configuration, next);
}

Outcome<Job> WitnessJobs::begin(const char* kind, const Configuration& configuration, const Arbiter& next) {
  if (auto good = may_begin(configuration, next); !good) return std::unexpected(good.error());
  const Arbiter& old = configuration.pair->arbiter;
  auto problems = problems_of(next);
  if (problems.empty()) problems = problems_of_place(next, configuration.nodes);
  if (!problems.empty()) {
    constexpr std::string_view kBelow = "/arbiter";
    for (auto& p : problems) p.pointer.erase(0, kBelow.size());
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  }
  if (next == old)
    return refuse(RefusalKind::conflict, next.witness ? "The pair's witness is this one already, asked in this way."
                                         : next.fence ? "The pair's arbiter is the fence already."
                                                      : "The pair prefers this side already.");
  if (next.witness)
    if (auto usable = try_on_both(configuration, next); !usable) return std::unexpected(usable.error());
  if (next.fence)
    if (auto usable = try_fence_on_both(configuration); !usable) return std::unexpected(usable.error());
  Job job = make_job(core_, kind, "stop",
                     fmt::format("Has both nodes let go of the {}.", old.witness ? "witness"
                                                                     : old.fence ? "fence"
                                                                                 : "preferred side"));
  Arbiter back = old;
  back.changing = false;
  job.parameters = json{
      {"new", arbiter_document(next)},
      {"old", arbiter_document(back)},
      {"back", false},
      {"named", old.changing},  // by the job that was lost, perhaps
      {"step_since_ms",
       job.created_ms}}.dump();
  // The new one was asked meanwhile, which may have taken long: somebody else may have begun, too.
  const std::lock_guard one_at_a_time(begin_mutex_);
  if (auto idle = check_idle(); !idle) return std::unexpected(idle.error());
  if (core_.configuration()->pair->arbiter != old)
    return refuse(RefusalKind::conflict, "The pair's arbiter was changed meanwhile. Look at it, then try again.");
  runner_.submit(job);
  return job;
}

// ---- the steps ----

StepResult WitnessJobs::step(Job& job) {
  const auto configuration = core_.configuration();
  if (!configuration->pair || configuration->nodes.size() != 2) {
    forget_cancel(core_, job);
    job.parameters = "{}";
    return fail(core_, job, {RefusalKind::not_found, "The pair, or its second node, is gone.", {}});
  }
  Task task{job, configuration, json::parse(job.parameters)};
  const bool cancelled = is_cancelled(core_, job) && !task.goes_back() && job.step != "clear";
  const StepResult result = task.is_overtaken() ? overtaken(task) : cancelled ? cancel(task) : take(task);
  if (!job.finished()) return result;
  forget_cancel(core_, job);
  job.parameters = "{}";  // nobody needs the secrets any more
  return result;
}

/// From one named arbiter to another there is no way but by way of none, so that this job has no step left to take.
StepResult WitnessJobs::overtaken(Task& task) {
  return fail(
      core_, task.job,
      {RefusalKind::conflict,
       fmt::format("Another arbiter was named meanwhile ({}), and stays. `lockstep pair arbiter set` changes it.",
                   said(task.now())),
       {}});
}

StepResult WitnessJobs::cancel(Task& task) { return give_up(task, {RefusalKind::conflict, "It was cancelled.", {}}); }

StepResult WitnessJobs::take(Task& task) {
  const std::string& step = task.job.step;
  if (step == "stop") return stop(task);
  if (step == "stopped") return stopped(task);
  if (step == "start") return start(task);
  if (step == "learn") return learn(task);
  if (step == "clear") return clear(task);
  return fail(core_, task.job, {RefusalKind::internal, "The job is at a step that this version does not know.", {}});
}

/// Not while a node is alone, or might become so: it needs its witness.
StepResult WitnessJobs::stop(Task& task) {
  if (task.now().changing) return task.next("stopped", kStopped / 2, task.job.message);
  const auto both = look(*task.configuration);
  auto why = both ? why_not_in_sync(*both) : std::optional(both.error().detail);
  Refusal reason{RefusalKind::conflict, why.value_or(""), {}};
  if (!why) {
    const auto changed = hands_.change(fmt::format("The {} is being changed", subject(task.job)), let_go);
    poke_();
    if (changed) return task.next("stopped", kStopped / 2, task.job.message);
    reason = changed.error();
  }
  if (!task.goes_back() && task.since_ms() > kStopsWithinMs) return give_up(task, reason);
  return wait(task.job, reason.detail);
}

/// What a lockstepd says of itself, after that revision was decided, is all that counts.
StepResult WitnessJobs::stopped(Task& task) {
  poke_();
  const auto both = look(*task.configuration);
  auto why = both ? why_still_asking(*both, core_.revisions.state().head.n) : std::optional(both.error().detail);
  if (!why) why = why_not_in_sync(*both);
  if (!why) why = why_named_otherwise(*both, "witness", task.among_witnesses());
  if (!why) {
    if (!task.goes_back()) task.parameters["named"] = true;
    return task.next(
        "start", kStopped,
        task.goes_back() ? task.job.message : fmt::format("Names the new {} to both nodes.", subject(task.job)));
  }
  if (!task.goes_back() && task.since_ms() > kStopsWithinMs) return give_up(task, {RefusalKind::conflict, *why, {}});
  return wait(task.job, *why);
}

StepResult WitnessJobs::start(Task& task) {
  const Arbiter target = task.target();
  if (task.now() != target) {
    const std::string summary = fmt::format("The {} is {}", subject(task.job), said(target));
    const auto changed = hands_.change(summary, [&target](Configuration& c) -> Outcome<void> {
      if (!c.pair->arbiter.changing)
        return refuse(RefusalKind::not_current, "Another arbiter was named meanwhile.");  // the next turn sees it
      c.pair->arbiter = target;
      return {};
    });
    if (!changed && (task.goes_back() || passing(changed.error()))) return wait(task.job, changed.error().detail);
    if (!changed) return give_up(task, changed.error());
  }
  poke_();
  return task.next("learn", kStarted,
                   task.goes_back() ? task.job.message
                   : target.witness ? "Both nodes put their records at the new witness."
                                    : "The volumes go over to it, one after the other.");
}

StepResult WitnessJobs::learn(Task& task) {
  poke_();
  const auto both = look(*task.configuration);
  const Learnt learnt = both ? learnt_of(*both, task.target()) : Learnt{0, 0, both.error().detail};
  if (learnt.done() && task.goes_back()) {
    Refusal reason = *task.job.error;
    reason.detail += fmt::format(" The {} is {}, as before.", subject(task.job), said(task.target()));
    return fail(core_, task.job, std::move(reason));
  }
  if (learnt.done()) return task.next("clear", kLearnt, "Removes what the old one has no use for any more.");
  const bool late = task.since_ms() > core_.local.create_patience.count() * 1000;
  if (late && task.goes_back()) {
    Refusal reason = *task.job.error;
    reason.detail += fmt::format(" The {} is {} again, but not all is well with it: {}", subject(task.job),
                                 said(task.target()), learnt.missing);
    return fail(core_, task.job, std::move(reason));
  }
  // Without the partner the new one may be what lets a node go on.
  if (late && both && !why_not_in_sync(*both))
    return give_up(
        task,
        {RefusalKind::conflict, fmt::format("The new {} is not taken: {}", subject(task.job), learnt.missing), {}});
  if (learnt.of == 0) return wait(task.job, learnt.missing);
  task.job.progress =
      kStarted + (kLearnt - kStarted) * static_cast<double>(learnt.volumes) / static_cast<double>(learnt.of);
  return wait(task.job, fmt::format("{} of {} volumes go by it. {}", learnt.volumes, learnt.of, learnt.missing));
}

// ---- the end ----

/// A sentence about what became of the old one's records. What may be the cluster in use is left alone.
std::string WitnessJobs::forget(const Task& task) const {
  if (!task.arbiter("old").witness) return "";
  constexpr const char* kSame = "It is the same etcd cluster as before, or has the same id: nothing is removed there.";
  const auto here = core_.side().value_or(NodeSide::a);
  const Arbiter next = task.arbiter("new"), old = task.arbiter("old");
  const auto is_still_asked = [&next](const std::string& e) {
    return std::ranges::find(next.endpoints, e) != next.endpoints.end();
  };
  if (std::ranges::any_of(old.endpoints, is_still_asked)) return kSame;
  const auto in_use = next.witness ? hands_.try_endpoints(here, next) : Outcome<WitnessTrial>(WitnessTrial{});
  const std::string keep = in_use ? cluster_of(*in_use) : "";
  const bool not_told = next.witness && keep.empty();
  const auto there = not_told ? Outcome<WitnessTrial>(WitnessTrial{}) : hands_.try_endpoints(here, old);
  std::string why = "it does not answer";
  for (const auto& t : there ? *there : WitnessTrial{}) {
    if (!keep.empty() && t.cluster == keep) return kSame;
    const Outcome<void> gone = t.cluster.empty() ? refuse(RefusalKind::conflict, t.problem.empty() ? why : t.problem)
                                                 : hands_.forget(t.endpoint, old.access, keep);
    if (gone) return "Its records were removed from the old one.";
    why = gone.error().detail;
  }
  if (why.ends_with('.')) why.pop_back();
  return fmt::format(
      "The records at {} could not be removed ({}). If that is another etcd than the one in use, they are "
      "of no use any more: `etcdctl del --prefix /lockstep/{}/` there.",
      said(old), why, task.configuration->pair->id.to_string());
}

StepResult WitnessJobs::clear(Task& task) {
  const std::string gone = forget(task);
  return end(task, fmt::format("The {} is {} now.{}{}", subject(task.job), said(task.target()), gone.empty() ? "" : " ",
                               gone));
}

StepResult WitnessJobs::end(Task& task, std::string message) {
  core_.events.append({.kind = "pair.changed", .side = {}, .volume = {}, .message = message});
  return finish(task.job, std::move(message));
}

/// While only the old one was ever asked it may be asked again at once, whatever state the nodes are in.
StepResult WitnessJobs::give_up(Task& task, Refusal reason) {
  if (!task.now().changing && !task.new_was_named()) {
    reason.detail += fmt::format(" The {} was not changed.", subject(task.job));
    return fail(core_, task.job, std::move(reason));
  }
  task.parameters["back"] = true;
  const std::string message = fmt::format("Goes back to the old {}: {}", subject(task.job), reason.detail);
  task.job.error = std::move(reason);
  return task.next(task.new_was_named() ? "stop" : "start", task.job.progress, message);
}

}  // namespace lockstep::mgmt
