#include "mgmt/control/controller.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/rebuilt_configuration.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/stale_database.hpp"

namespace lockstep::mgmt {
namespace {

Severity severity_of(const std::string& kind, const std::string& to) {
  if (kind == "store.failed" || kind == "fenced" || kind == "fence.failed") return Severity::critical;
  if (kind == "partner.lost" || kind == "link.stranger" || kind == "witness.lost" || kind == "witness.slow" ||
      kind == "witness.open" || kind == "session.refused" || kind == "store.full" || kind == "store.low_space" ||
      kind == "fence.begun" || kind == "fence.lost")
    return Severity::warning;
  if (kind != "volume.state") return Severity::info;
  if (to == "split_brain" || to == "failed" || to == "suspended" || to == "waiting") return Severity::critical;
  if (to == "solo" || to == "left") return Severity::warning;
  return Severity::info;
}

constexpr auto kTellAgain = std::chrono::hours(1);
/// A lockstepd that has its orders gets others only when the partner had this long to say that they are of the past.
constexpr auto kPatienceWithPartner = std::chrono::seconds(10);

}  // namespace

engine::Result<std::unique_ptr<Controller>> Controller::open(LocalSettings settings) {
  auto core = NodeCore::open(std::move(settings));
  if (!core) return std::unexpected(core.error());
  const auto token_file = (*core)->local.data_folder / "admin.token";
  auto controller = std::unique_ptr<Controller>(new Controller(std::move(*core)));
  if (auto there = controller->tokens_.ensure_token_file(token_file); !there) return std::unexpected(there.error());
  return controller;
}

Controller::Controller(std::unique_ptr<NodeCore> core)
    : core_(std::move(core)),
      data_plane_(core_->local.rpc_socket, {.connected = [this](bool) { reconciler_.poke(); },
                                            .event = [this](const std::string& p) { on_data_plane_event(p); }}),
      reconciler_(
          data_plane_, core_->events, [this] { return wanted(); }, [this] { return core_->side(); }),
      surroundings_(*core_, data_plane_),
      arbiter_(core_->revisions, surroundings_),
      partner_(*core_, arbiter_, [this] { returned_.turn(); }),
      agent_(*core_, data_plane_),
      runner_(*core_, {}, [this] { return database_time(); }),
      volume_jobs_(
          *core_, agent_, [this] { return reports(); }, [this] { poke(); },
          [this](const Volume& volume, NodeSide side) { return unserved_beside(volume, side); }),
      import_jobs_(*core_, volume_jobs_),
      replace_jobs_(*core_, runner_, hands_of(*core_, agent_, [this] { return reports(); }), [this] { poke(); }),
      witness_jobs_(*core_, runner_,
                    hands_of(*core_, data_plane_, hands_of(*core_, agent_, [this] { return reports(); })),
                    [this] { poke(); }),
      link_jobs_(*core_, runner_, hands_of(*core_, agent_, [this] { return reports(); }), [this] { poke(); }),
      link_tls_jobs_(*core_, runner_, hands_of(*core_, agent_, [this] { return reports(); }), [this] { poke(); }),
      address_agent_(*core_, data_plane_),
      address_jobs_(*core_, runner_,
                    hands_of(*core_, address_agent_, hands_of(*core_, agent_, [this] { return reports(); })),
                    [this] { poke(); }),
      lease_jobs_(*core_, runner_, hands_of(*core_, agent_, [this] { return reports(); }), [this] { poke(); }),
      tokens_(*core_),
      pair_(*core_, runner_, agent_, data_plane_, {}, [this] { return reconciler_.holds_back(); }),
      leave_jobs_(*core_, runner_,
                  hands_of(*core_, data_plane_, pair_, hands_of(*core_, agent_, [this] { return reports(); })),
                  [this] { poke(); }),
      recovery_(*core_, data_plane_, [this] { pair_.begin_deleting_cut_off_volumes(); }),
      volumes_(
          *core_, runner_, [this] { return ready_for_a_volume(); },
          [this](const Volume& volume) { return whole(volume); }, [this](const Volume& volume) { return lone(volume); },
          [this](const Volume& volume, NodeSide side) { return unserved_beside(volume, side); },
          [this] { return volume_jobs_.shards(); }),
      returned_(*core_, replace_jobs_, pair_),
      initiators_(*core_),
      lapses_(*core_, [this] {
        tokens_.see_to_token_file();
        tokens_.leave_to_the_pair();
        if (!core_->copy.problem().empty() || core_->database_time() == DatabaseTime::unknown) core_->save_copy();
        see_to_addresses();
      }) {
  core_->use_arbiter(arbiter_);
  volume_jobs_.teach(runner_);
  import_jobs_.teach(runner_);
  replace_jobs_.teach();
  witness_jobs_.teach();
  link_jobs_.teach();
  link_tls_jobs_.teach();
  address_jobs_.teach();
  lease_jobs_.teach();
  leave_jobs_.teach();
  core_->on_change([this] {
    poke();
    runner_.poke();
  });
}

Controller::~Controller() { stop(); }

void Controller::start() {
  data_plane_.start();
  reconciler_.start();
  partner_.start();
  runner_.start();
  lapses_.start();
}

void Controller::stop() {
  lapses_.stop();
  runner_.stop();
  partner_.stop();
  reconciler_.stop();
  data_plane_.stop();
}

void Controller::poke() {
  reconciler_.poke();
  partner_.poke();
}

PairReports Controller::reports() const {
  const PartnerView partner = partner_.view();
  return {reconciler_.report(), partner.report, partner.reachable};
}

std::optional<WantedState> Controller::wanted() const {
  // Nothing is taken away from a lockstepd by a node that is in no pair, or by a machine that is out of it. What is in
  // force is read last: a node that has come to the end of forgetting its pair by then is in none.
  if (core_->replaced.replaced_here_ms() != 0 || core_->forgets_pair()) return std::nullopt;
  const auto [head, configuration] = core_->revisions.in_force();
  const auto mine = std::ranges::find(configuration->nodes, core_->node_id, &Node::id);
  if (mine == configuration->nodes.end()) return std::nullopt;
  const bool answered = !core_->partner(*configuration) || partner_.view().reachable;
  const std::int64_t now_ms = wall_clock_ms();
  const auto shown = link_certificate_.at(now_ms);
  return WantedState{.revision = head.n,
                     .parameters = apply_parameters(*configuration, head.n, mine->side, core_->local.volume_folder,
                                                    now_ms, shown.get()),
                     .may_wait = !answered && std::chrono::steady_clock::now() - opened_ < kPatienceWithPartner,
                     .is_agreed = core_->revisions.compared().agreed == head};
}

/// The copy may be as old as the database: lockstepd and the partner may know better, and get a moment to say so.
DatabaseTime Controller::database_time() const {
  const auto status = reconciler_.report().status;  // before what is in force: that may go on meanwhile
  const auto compared = core_->revisions.compared();
  const auto [head, configuration] = core_->revisions.in_force();
  TimeSigns signs{
      .by_copy = core_->database_time(),
      .in_pair = configuration->pair.has_value(),
      .has_partner = core_->partner(*configuration) != nullptr,
      .agreed = compared.agreed == head,
      .lacks_decided = compared.behind_in && orders(*compared.behind_in, core_->side().value_or(NodeSide::a)),
      .may_hear = std::chrono::steady_clock::now() - opened_ < kPatienceWithPartner};
  if (status) signs.lockstepd_is_later = !status->volumes.empty() && status->revision > head.n;
  return judge_time(signs);
}

NodeReport Controller::report() const {
  NodeReport report = reconciler_.report();
  report.missing = core_->missing_replicas();
  // Beside what lockstepd finds, so that both nodes tell of it.
  if (auto trouble = core_->database().trouble(); !trouble.empty() && report.status)
    report.status->findings.push_back(trouble + " Free or add space on its file system.");
  return report;
}

bool Controller::is_partner(const std::string& nodes, const std::string& fingerprint) const {
  const auto configuration = core_->configuration();
  const Node* partner = core_->partner(*configuration);
  if (!partner || partner->fingerprint != fingerprint) return false;
  return nodes.empty() || nodes == fmt::format("{} {}", partner->id.to_string(), core_->node_id.to_string());
}

Outcome<NodeStanding> Controller::standing_of(const std::string& nodes, const std::string& fingerprint,
                                              const Uuid& pair) const {
  NodeStanding standing;
  if (is_partner(nodes, fingerprint))
    standing.asker = NodeStanding::Asker::partner;
  else if (core_->replaced.find(nodes.substr(0, nodes.find(' ')), fingerprint))
    standing.asker = NodeStanding::Asker::replaced;
  const auto [head, configuration] = core_->revisions.in_force();
  if (configuration->pair && configuration->pair->id == pair && core_->replaced.replaced_here_ms() == 0)
    standing.head = head.n;
  // Anybody may ask, as often as they like: the file is read only where it can say more than what is in memory.
  if (standing.head || (configuration->pair && configuration->pair->id != pair)) return standing;
  const auto saved = core_->copy.read();
  if (!saved && saved.error().kind == RefusalKind::not_current) return std::unexpected(saved.error());
  if (saved && saved->configuration.pair->id == pair) standing.saved = saved->revision.n;
  return standing;
}

std::string Controller::tell_of_stranger(const std::string& nodes, const std::string& fingerprint) {
  if (!core_->configuration()->pair) return "This node is in no pair.";
  const auto machine = core_->replaced.find(nodes.substr(0, nodes.find(' ')), fingerprint);
  if (!machine) return "This is for the partner node only.";
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(told_mutex_);
  const auto told = told_.find(machine->id);
  const bool on_its_way = machine->left && lets_go(*core_, core_->node_id);  // it is about to forget the pair
  if (!on_its_way && (told == told_.end() || now - told->second > kTellAgain)) {
    told_[machine->id] = now;
    core_->events.append(
        {.kind = "node.refused",
         .severity = Severity::warning,
         .side = machine->side,
         .volume = {},
         .message = fmt::format("The machine that was {}, side {}, until {} is back, and was refused. Run `lockstep "
                                "pair leave {}` on it, to have it forget the pair, or stop lockstepd and "
                                "lockstep-mgmtd there.",
                                machine->name, side_name(machine->side),
                                machine->left ? "it was taken out of the pair" : "another one took its place",
                                side_name(machine->side))});
  }
  if (machine->left)
    return fmt::format("{}, side {}, was taken out of the pair.", machine->name, side_name(machine->side));
  return fmt::format("Another machine took the place of {}, side {}.", machine->name, side_name(machine->side));
}

Outcome<void> Controller::ready_for_a_volume() const {
  const PairView now = view();
  if (!now.at(NodeSide::a).node && lacks_a_known_side(*now.configuration))
    return refuse(RefusalKind::conflict,
                  "Volumes are made through the node of side A, whose place is not taken yet. Make an invitation with "
                  "`lockstep pair invite`, and try again when a machine has joined with it.");
  for (const auto& n : now.nodes) {
    if (!n.node || !n.asked || !n.reachable || n.report.running) continue;
    return refuse(
        RefusalKind::data_plane_away,
        fmt::format("The volume was not made: on {}, {} Try again when it runs.", n.node->name, n.report.message));
  }
  return {};
}

Outcome<void> Controller::whole(const Volume& volume) const {
  const PairView now = view();
  const bool alone = core_->peer() == nullptr;
  const std::string todo = "While both nodes are there a volume grows on both; try again when both are in sync.";
  for (const auto& n : now.nodes) {
    if (!n.node || n.local || n.reachable) continue;
    Refusal refusal{
        RefusalKind::not_current, fmt::format("The management of {} cannot be reached. {}", n.node->name, todo), {}};
    refusal.partner_away = n.trouble == PartnerTrouble::away;
    return std::unexpected(std::move(refusal));
  }
  for (const auto& n : now.nodes) {
    if (!n.node) continue;
    const std::string& name = n.node->name;
    if (!n.report.running || !n.report.status)
      return refuse(RefusalKind::data_plane_away, fmt::format("lockstepd does not run on {}. {}", name, todo));
    const ReplicaStatus* replica = n.report.status->volume(volume.id);
    const bool good =
        replica && replica->serving && (replica->state == "in_sync" || (alone && replica->state == "solo"));
    if (good) continue;
    return refuse(RefusalKind::conflict, fmt::format("The replica of {} on {} is {}. {}", volume.name, name,
                                                     replica ? replica->state : "not attached", todo));
  }
  return {};
}

void Controller::use_listener(Listen listen, Differences differences) {
  listen_ = std::move(listen);
  differences_ = std::move(differences);
  see_to_addresses();
}

void Controller::see_to_addresses() {
  if (!listen_) return;
  auto not_listened = listen_(core_->managed_at());
  std::vector<FileDifference> differ;
  const auto configuration = core_->configuration();
  for (const auto& node : configuration->nodes)
    if (node.id == core_->node_id && differences_) differ = differences_(node);
  const std::lock_guard lock(addresses_mutex_);
  not_listened_ = std::move(not_listened);
  file_differences_ = std::move(differ);
}

/// Its management answers, so that it is not gone, whatever the link says.
Outcome<void> Controller::unserved_beside(const Volume& volume, NodeSide side) const {
  const PairView now = view();
  const NodeView& other = now.at(engine::other(side));
  if (!other.node || !other.current()) return {};
  const ReplicaStatus* replica = other.report.status->volume(volume.id);
  if (!replica || !replica->serving) return {};
  const std::string& name = other.node->name;
  return refuse(
      RefusalKind::conflict,
      fmt::format("{} says at this moment that it serves {} ({}), so that nothing has to be forced: hosts reach it "
                  "there. If both served it, each would take writes that the other lacks, and those of one side would "
                  "be lost later. Stop lockstepd on {} first, so that it stays stopped when that machine starts again "
                  "(`systemctl disable --now lockstepd` there), or cut its hosts off; if it is to be forced all the "
                  "same, say --despite-partner (despite_partner in the API).",
                  name, volume.name, replica->state, name));
}

Outcome<void> Controller::lone(const Volume& volume) {
  const auto configuration = core_->configuration();
  const CopyView here{configuration->node(core_->side().value_or(NodeSide::a)), {}};
  auto seen = agent_.look();
  if (!seen) return std::unexpected(seen.error());
  const CopyView now{here.node, std::move(*seen)};
  if (lone_epoch_of(now, volume)) return {};
  const ReplicaStatus* replica = now.status(volume);
  const std::string state = !replica                  ? "has it not in use"
                            : replica->reason.empty() ? "is " + replica->state
                                                      : fmt::format("is {} ({})", replica->state, replica->reason);
  return refuse(RefusalKind::conflict,
                fmt::format("the copy on {} {}, so that it is not certain that it is the current "
                            "one.",
                            now.node->name, state));
}

Unpaired Controller::unpaired() const {
  Unpaired found;
  const NodeReport report = reconciler_.report();
  if (report.running && report.status) found.served = report.status->volumes.size();
  const auto replicas = core_->replicas_there();
  found.replicas = replicas ? replicas->size() : 0;
  const auto saved = core_->copy.read();
  found.saved = saved || saved.error().kind != RefusalKind::not_found;
  if (!found.saved) return found;
  if (saved)
    found.saved_of = saved->configuration.pair->name;
  else
    found.saved_problem = saved.error().detail;
  return found;
}

std::vector<Uuid> Controller::volumes_at_work() const {
  std::vector<Uuid> volumes;
  for (const auto& job : core_->jobs.unfinished())
    if (job.volume) volumes.push_back(*job.volume);
  return volumes;
}

PairView Controller::view() const {
  PairView view;
  std::vector<Uuid> at_work = volumes_at_work();  // and once more below: one may begin or end in between
  view.configuration = core_->configuration();
  view.revision = core_->revisions.state();
  view.conflict = core_->revisions.conflict();
  view.replaced_ms = core_->replaced.replaced_here_ms();
  view.save_problem = core_->copy.problem();
  view.newer_copy = core_->copy.newer();
  view.certificate_problem = core_->page.problem(wall_clock_ms());
  if (!view.configuration->pair) view.unpaired = unpaired();
  if (view.configuration->pair && core_->orders_changes()) {
    std::ranges::copy(volumes_at_work(), std::back_inserter(at_work));
    view.at_work = std::move(at_work);
  }
  {
    const std::lock_guard lock(addresses_mutex_);
    for (const auto& p : not_listened_) view.not_listened.push_back(p.message);
    view.file_differences = file_differences_;
  }
  for (const auto& node : view.configuration->nodes) {
    NodeView& n = view.nodes[static_cast<std::size_t>(node.side)];
    n.node = &node;
    n.local = node.id == core_->node_id;
    if (n.local) {
      view.local_side = node.side;
      n.report = report();
      n.asked = n.report.at_ms != 0;
      continue;
    }
    const PartnerView partner = partner_.view();
    n.asked = partner.asked;
    n.reachable = partner.reachable;
    n.reason = partner.reason;
    n.trouble = partner.trouble;
    n.refuses = partner.refuses;
    n.since_ms = partner.since_ms;
    n.report = partner.report;
  }
  return view;
}

void Controller::on_data_plane_event(const std::string& params) {
  const auto j = nlohmann::json::parse(params, nullptr, false);
  if (!j.is_object()) return;
  const auto text = [&](const char* key) {
    const auto found = j.find(key);
    return found != j.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  Event event;
  event.kind = text("kind");
  event.severity = severity_of(event.kind, text("to"));
  event.side = core_->side();
  event.volume = Uuid::parse(text("volume"));
  event.message = text("message");
  if (event.message.empty()) event.message = event.kind + ".";
  if (const auto at = j.find("time_ms"); at != j.end() && at->is_number_integer())
    event.at_ms = at->get<std::int64_t>();
  if (const auto times = j.find("times"); times != j.end() && times->is_number_integer())
    event.times = std::max<std::int64_t>(1, times->get<std::int64_t>());
  core_->events.append(std::move(event));
  reconciler_.poke();
}

}  // namespace lockstep::mgmt
