#include "mgmt/control/address_jobs.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/https_client.hpp"
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

std::string told(const AddressProblems& problems) {
  std::string all;
  for (const auto& p : problems) all += fmt::format("{}{}: {}", all.empty() ? "" : " ", p.object, p.message);
  return all;
}

std::string listed(const AddressChange& change) {
  std::string all;
  const auto add = [&](const char* what, const std::string& address) {
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", what, address);
  };
  if (change.before.portals != change.after.portals)
    add("portals", fmt::format("{}", fmt::join(change.after.portals, " ")));
  if (change.moves_link()) add("link", change.after.link_address);
  if (change.moves_management()) add("management", change.after.management_address);
  return all;
}

/// Those that were not there before; the link has ports above its own for the shards that have volumes.
std::vector<std::string> to_listen_at(const AddressChange& change, const Configuration& configuration) {
  std::vector<std::string> added;
  for (const auto& portal : change.after.portals)
    if (std::ranges::find(change.before.portals, portal) == change.before.portals.end()) added.push_back(portal);
  for (unsigned more = 0; change.moves_link() && more <= configuration.highest_shard(); ++more)
    added.push_back(with_port_above(change.after.link_address, more));
  return added;
}

}  // namespace

struct AddressJobs::Task {
  Job& job;
  std::shared_ptr<const Configuration> configuration;
  AddressChange change;
  std::int64_t since_ms = 0;
  std::string reason{};

  [[nodiscard]] const Node& node() const { return *configuration->node(change.side); }
  [[nodiscard]] const Node* partner() const { return configuration->node(engine::other(change.side)); }
  [[nodiscard]] std::int64_t waited_ms() const { return age_ms(since_ms); }
  StepResult next(const char* step, double progress, std::string message) {
    json parameters = json::parse(to_json_text(change));
    parameters["step_since_ms"] = wall_clock_ms();
    parameters["reason"] = reason;
    job.parameters = parameters.dump();
    return move_on(job, step, progress, std::move(message));
  }
};

AddressHands hands_of(NodeCore& core, const AddressAgent& agent, PairHands pair) {
  AddressHands hands;
  hands.look = std::move(pair.look);
  hands.change = std::move(pair.change);
  hands.look_for_partner_at = [&core](const std::string& address) { core.look_for_partner_at(address); };
  hands.try_out = [&core, &agent](NodeSide side, const AddressTrial& trial) -> Outcome<AddressProblems> {
    if (core.side() == side) return agent.try_out(trial);
    const auto peer = core.peer();
    if (!peer) return refuse(RefusalKind::conflict, "That node is not in the pair.");
    auto tried = peer->try_addresses(trial);
    if (!tried) {
      std::string& why = tried.error().detail;
      why = fmt::format("The partner {}", trouble_with_partner(tried.error()));
      if (!why.ends_with('.') && !why.ends_with('?')) why += '.';
    }
    return tried;
  };
  return hands;
}

AddressJobs::AddressJobs(NodeCore& core, JobRunner& runner, AddressHands hands, std::function<void()> poke)
    : core_(core), runner_(runner), hands_(std::move(hands)), poke_(std::move(poke)) {}

void AddressJobs::teach() {
  runner_.teach(kAddressesKind, [this](Job& job) { return step(job); });
}

// ---- the request ----

Outcome<void> AddressJobs::may_begin(const AddressWish& wish, const Configuration& c) const {
  if (!c.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  const Node* node = c.node(wish.side);
  if (!node)
    return refuse(RefusalKind::not_found, fmt::format("The pair has no node of side {} yet.", side_name(wish.side)));
  if (auto problems = problems_of(wish, c); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  for (const auto& job : core_.jobs.unfinished())
    if (job.kind == kAddressesKind)
      return refuse(RefusalKind::conflict, "A node's addresses are being changed already. Wait for that job to end.");
  if (wished(addresses_of(*node), wish) == addresses_of(*node) && node->beside.empty())
    return refuse(RefusalKind::conflict, fmt::format("{} has these addresses already.", node->name));
  return {};
}

Outcome<void> AddressJobs::can_listen(const AddressChange& change, const Node& node) const {
  constexpr const char* kTodo = "Nothing was changed.";
  AddressTrial trial;
  trial.listen = to_listen_at(change, *core_.configuration());
  if (change.moves_management()) trial.management = change.after.management_address;
  const auto tried = hands_.try_out(change.side, trial);
  if (!tried)
    return refuse(tried.error().kind,
                  fmt::format("{} was to try {}. {} {}", node.name, listed(change), tried.error().detail, kTodo));
  if (tried->empty()) return {};
  return refuse(RefusalKind::conflict, fmt::format("{} can't be reached there. {} {}", node.name, told(*tried), kTodo));
}

Outcome<Job> AddressJobs::change(const AddressWish& wish) {
  const auto only = begins_.begin();
  if (!only) return std::unexpected(only.error());
  if (auto good = may_begin(wish, *core_.configuration()); !good) return std::unexpected(good.error());
  if (core_.side() != wish.side && wish.management_address) hands_.look_for_partner_at(*wish.management_address);
  const auto configuration = core_.configuration();
  const Node& node = *configuration->node(wish.side);
  AddressChange change{wish.side, addresses_of(node), wished(addresses_of(node), wish), node.id};
  if (auto good = can_listen(change, node); !good) return std::unexpected(good.error());
  Job job = make_job(core_, kAddressesKind, "open", fmt::format("{} is to have {}.", node.name, listed(change)));
  Task task{job, configuration, std::move(change)};
  (void)task.next("open", 0, job.message);
  runner_.submit(job);
  return job;
}

// ---- the steps ----

StepResult AddressJobs::step(Job& job) {
  const auto change = address_change_from(job.parameters);
  if (!change) return fail(core_, job, change.error());
  const json parameters = json::parse(job.parameters);
  Task task{job, core_.configuration(), *change, parameters.value("step_since_ms", std::int64_t{0}),
            parameters.value("reason", "")};
  const Node* node = task.configuration->pair ? task.configuration->node(change->side) : nullptr;
  if (!node || node->id != change->node)
    return fail(core_, job, {RefusalKind::not_found, "That node is not in the pair any more.", {}});
  if (job.step == "open") return open(task);
  if (job.step == "try") return try_new(task);
  if (job.step == "move") return move(task);
  if (job.step == "close") return close(task);
  if (job.step == "back") return back(task);
  if (job.step == "unmake") return unmake(task);
  return fail(core_, job, {RefusalKind::internal, "The job is at a step that this version does not know.", {}});
}

/// What was edited already is found edited.
Outcome<void> AddressJobs::edit(Task& task, const char* what, Edit how) {
  if (how(task.node(), task.change) == task.node()) return {};
  const auto changed =
      hands_.change(fmt::format("{} of {}", what, task.node().name), [&](Configuration& c) -> Outcome<void> {
        const auto node = std::ranges::find(c.nodes, task.change.side, &Node::side);
        if (node == c.nodes.end()) return refuse(RefusalKind::not_found, "That node is not in the pair any more.");
        *node = how(*node, task.change);
        return {};
      });
  poke_();
  if (!changed) return std::unexpected(changed.error());
  task.configuration = core_.configuration();
  return {};
}

std::optional<std::string> AddressJobs::why_behind() const {
  const auto configuration = core_.configuration();
  const std::int64_t revision = core_.revisions.state().head.n;
  for (const auto& node : configuration->nodes) {
    const auto seen = hands_.look(node.side);
    if (!seen) return seen.error().detail;
    if (!seen->running || !seen->status) return fmt::format("lockstepd does not run on {}.", node.name);
    if (seen->status->revision < revision)
      return fmt::format("lockstepd on {} does not carry out the newest configuration yet.", node.name);
  }
  return std::nullopt;
}

std::optional<std::string> AddressJobs::why_not(const Task& task) const {
  if (auto why = why_behind()) return why;
  const AddressChange& change = task.change;
  const Node* partner = task.partner();
  AddressTrial own{.listen = to_listen_at(change, *task.configuration),
                   .management = {},
                   .link_from = {},
                   .link_to = {},
                   .partner = {}};
  AddressTrial others;
  if (partner && change.moves_link()) {
    own.link_from = others.link_to = change.after.link_address;
    own.link_to = others.link_from = partner->link_address;
  }
  if (partner && change.moves_management()) others.partner = change.after.management_address;
  for (const auto& [node, trial] : {std::pair{&task.node(), own}, std::pair{partner, others}}) {
    if (!node || trial == AddressTrial{}) continue;
    const auto tried = hands_.try_out(node->side, trial);
    if (!tried) return fmt::format("{} could not be asked: {}", node->name, tried.error().detail);
    if (!tried->empty()) return fmt::format("{} has tried it. {}", node->name, told(*tried));
  }
  return std::nullopt;
}

StepResult AddressJobs::open(Task& task) {
  if (auto done = edit(task, "New addresses", opened); !done) {
    const Refusal why = done.error();
    if (passing(why) && task.waited_ms() < kTriesForMs) return wait(task.job, why.detail);
    // Its outcome may not be known: whatever came of it is taken back.
    return passing(why) ? give_up(task, why.detail) : fail(core_, task.job, why);
  }
  return task.next("try", 0.2, "Waits until both nodes have tried the new addresses.");
}

StepResult AddressJobs::try_new(Task& task) {
  if (const auto why = why_not(task)) {
    poke_();
    if (task.waited_ms() < kTriesForMs) return wait(task.job, *why);
    return give_up(task, *why);
  }
  if (!task.change.moves()) return task.next("close", 0.6, "Closes what is not used any more.");
  return task.next("move", 0.4, "Both nodes have tried the new addresses.");
}

StepResult AddressJobs::move(Task& task) {
  if (auto done = edit(task, "The new addresses", moved); !done) return wait(task.job, done.error().detail);
  return task.next("close", 0.6, "Waits until both nodes use the new addresses.");
}

StepResult AddressJobs::close(Task& task) {
  const bool is_closed = closed(task.node(), task.change) == task.node();
  if (!is_closed) {
    if (const auto why = why_not(task)) {
      poke_();
      if (task.waited_ms() < kSettlesInMs) return wait(task.job, *why);
      return give_up(task, *why);
    }
    if (auto done = edit(task, "The addresses", closed); !done) return wait(task.job, done.error().detail);
  }
  if (const auto why = why_behind(); why && task.waited_ms() < 2 * kSettlesInMs) {
    poke_();
    return wait(task.job, *why);
  }
  const std::string message = fmt::format("{} has other addresses: {}.", task.node().name, listed(task.change));
  core_.events.append({.kind = "node.changed", .side = task.change.side, .volume = {}, .message = message});
  return finish(task.job, message);
}

// ---- the way back ----

StepResult AddressJobs::give_up(Task& task, std::string why) {
  task.reason = std::move(why);
  return task.next("back", 0.8, fmt::format("Goes back to the old addresses: {}", task.reason));
}

StepResult AddressJobs::back(Task& task) {
  if (unmade(task.node(), task.change) == task.node()) return task.next("unmake", 0.9, task.job.message);
  if (auto done = edit(task, "The old addresses", taken_back); !done) return wait(task.job, done.error().detail);
  return task.next("unmake", 0.9, task.job.message);
}

/// Who is at the revision before this one calls at the new addresses, perhaps: they are closed when both are past it.
StepResult AddressJobs::unmake(Task& task) {
  if (const auto why = why_behind(); why && task.waited_ms() < kTriesForMs) {
    poke_();
    return wait(task.job, task.job.message);
  }
  if (auto done = edit(task, "The old addresses", unmade); !done) return wait(task.job, done.error().detail);
  return fail(core_, task.job,
              {RefusalKind::conflict,
               fmt::format("{} keeps the addresses that it had. It was to have {}. {}", task.node().name,
                           listed(task.change), task.reason),
               {}});
}

}  // namespace lockstep::mgmt
