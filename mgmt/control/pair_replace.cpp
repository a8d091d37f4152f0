// Another machine, or the same with a new database, takes the place of a node: what the node that is left does.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/configuration_witness_node.hpp"
#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/leave_verdict.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/rebuilt_configuration.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

HttpsTarget target_of(const NodeCore& core, const Node& node) {
  return {node.management_address, node.fingerprint,
          fmt::format("{} {}", core.node_id.to_string(), node.id.to_string())};
}

/// What a lost node may have changed while this one was away, which is lost with it.
LostNode changed_alone(NodeCore& core, DataPlane& data_plane, const Node& lost) {
  const ConfigurationEpoch epoch = core.revisions.state().epoch;
  if (epoch.is_only(lost.side))
    return {.certain = true,
            .changes = "It has changed the configuration alone, and perhaps more than this node has taken over"};
  const Arbiter arbiter = core.configuration()->pair->arbiter;
  if (!epoch.members.is_both() || arbiter.fence || (!arbiter.witness && arbiter.preferred != lost.side)) return {};
  const std::string perhaps = "It may have changed the configuration alone since the two last talked";
  if (!arbiter.witness) return {.changes = perhaps};
  const auto view = NodeWitnessSurroundings(core, data_plane).read(arbiter);
  if (!view) return {.changes = fmt::format("{}: the witness can't be asked ({})", perhaps, view.error().detail)};
  const auto& record = view->record;
  if (!record || record->members != engine::MemberSet::only(lost.side)) return {};
  return {.certain = true,
          .changes = "The witness let it go on alone, and this node lacks what it has changed since",
          .reached = static_cast<std::int64_t>(record->generation_of(lost.side))};
}

/// Of a node that answers and has a configuration of the pair, what to do instead. `here`: as this node is in it.
std::string what_to_do_with(const Node& node, ShutOut why, bool here) {
  if (why == ShutOut::replaced)
    return ", so that nobody takes its place. If another machine is to, stop lockstepd and lockstep-mgmtd there "
           "first, for good (`systemctl disable --now lockstepd lockstep-mgmtd`); if its database is of no use, stop "
           "lockstep-mgmtd there first, move mgmt.db away and start it again.";
  if (here)
    return fmt::format(": it is not lost. Leave --lost off: `lockstep pair leave {}` has it go with nothing lost.",
                       side_name(node.side));
  return ": it is not lost. If its database is of no use, stop lockstep-mgmtd there first.";
}

/// What a node that is silent may have of the volumes, and this one lacks.
struct MayHave {
  std::vector<Uuid> volumes{};
  std::string words{};  ///< sentences without the last full stop; empty: nothing
};

// Its management alone may be away. Where the link stands its lockstepd runs: shut out of the link by what the new
// configuration says, it keeps its orders, and asks the arbiter to go on alone as this one does.
Outcome<MayHave> look_beside(ReplicaAgent& agent, const Configuration& configuration, const Node& lost,
                             const std::string& found) {
  const Node& here = *configuration.node(engine::other(lost.side));
  auto seen = agent.look();
  if (!seen)
    return refuse(seen.error().kind,
                  fmt::format("{}, and nothing says whether its lockstepd runs, since that of {} can't be asked: {} "
                              "Nothing was changed. Start lockstepd here first.",
                              found, here.name, seen.error().detail));
  if (is_linked(*seen))
    return refuse(RefusalKind::conflict,
                  fmt::format("{}, but its lockstepd runs and is connected to this node's, and hosts may be using it: "
                              "it is not lost. Nothing was changed. Start lockstep-mgmtd on {} again (move mgmt.db "
                              "away before, if that is of no use). If another machine is to take its place all the "
                              "same, stop lockstepd there first, for good (`systemctl disable --now lockstepd`), or "
                              "switch it off.",
                              found, lost.name));
  const CopyView view{&here, std::move(*seen)};
  MayHave may;
  const auto unserved = not_served_alone(view, configuration);
  for (const Volume* volume : unserved) may.volumes.push_back(volume->id);
  if (!unserved.empty())
    may.words = fmt::format(
        "{} does not serve all volumes alone: {}. {} may have what this node lacks, and hosts "
        "may use it there: see first that it is switched off",
        here.name, with_states(view, unserved), lost.name);
  return may;
}

}  // namespace

// A partner that has a configuration of the pair may change it, or hold a newer one: it is not shut out. One that can't
// be reached may have changed it alone, if the arbiter let it: changed_alone().
Outcome<PairService::HowFound> PairService::ask_of(const Node& lost, ShutOut why) {
  const auto peer = connect_(target_of(core_, lost));
  const auto has_it = [&](bool here) {
    return refuse(RefusalKind::conflict,
                  fmt::format("{} answers and has a configuration of the pair{}{}", lost.name,
                              here ? "" : ", in which this node is another one", what_to_do_with(lost, why, here)));
  };
  const auto answer = peer->ask();
  if (answer) return has_it(true);
  if (answer.error().kind == RefusalKind::not_current)
    return answer.error().other_certificate
               ? HowFound(fmt::format("{} answers with a new certificate, so that its management was set up anew",
                                      lost.name))
               : HowFound(fmt::format("{} {}", lost.name, answer.error().detail), true);
  const auto configuration = core_.configuration();
  if (!configuration->pair) return refuse(RefusalKind::no_pair, "This node is in no pair any more.");
  const auto standing = peer->standing(configuration->pair->id);
  if (standing && standing->asker == NodeStanding::Asker::replaced)
    return refuse(
        RefusalKind::conflict,
        fmt::format("{} says that this node is not in the pair any more: it is the one that is out.", lost.name));
  if (standing && standing->head) return has_it(false);
  if (!standing && !standing.error().answered)
    return refuse(RefusalKind::not_current,
                  fmt::format("{} answers, and then {}, so that it is not known whether it has a configuration of the "
                              "pair. Nothing was changed. Try again.",
                              lost.name, trouble_with_partner(standing.error())));
  return fmt::format("{} answers, but is in no pair: it has lost its database", lost.name);
}

Outcome<LostNode> PairService::look_for_lost(const Node& lost, ShutOut why) {
  if (auto good = check_not_of_the_past(); !good) return std::unexpected(good.error());
  auto found = ask_of(lost, why);
  if (!found) return std::unexpected(found.error());
  LostNode node = changed_alone(core_, data_plane_, lost);
  node.found = std::move(found->sentence);
  node.silent = found->silent;
  return node;
}

Outcome<NewInvitation> PairService::invite_in_place_of(NodeSide side, const std::string& confirm) {
  const auto configuration = core_.configuration();
  if (!configuration->pair)
    return refuse(RefusalKind::no_pair,
                  "This node is in no pair. Ask the node that still is, for the side of the one that is not.");
  if (core_.replaced.replaced_here_ms() != 0)
    return refuse(RefusalKind::conflict, "This node itself is out of the pair.");
  if (core_.side() == side)
    return refuse(
        RefusalKind::conflict,
        fmt::format("Side {} is this node itself. Ask the other node to have this one replaced.", side_name(side)));
  const Node* lost = configuration->node(side);
  if (!lost)
    return refuse(RefusalKind::conflict, "The pair has one node only. Make an invitation with `lockstep pair invite`.");
  const auto node = look_for_lost(*lost, ShutOut::replaced);
  if (!node) return std::unexpected(node.error());
  const auto has = node->silent ? look_beside(agent_, *configuration, *lost, node->found) : MayHave{};
  if (!has) return std::unexpected(has.error());
  const bool loses = node->certain || !has->volumes.empty();
  const std::string needed = loses ? lost->name + " without its changes" : lost->name;
  if (confirm != needed)
    return refuse(
        RefusalKind::confirmation_needed,
        fmt::format("{}. {}{}Whoever uses the invitation has side {} from then on; the machine that has it "
                    "now is shut out for good{}. Send `{}` as `confirm`{}.",
                    node->found, node->changes.empty() ? "" : node->changes + ". ",
                    has->words.empty() ? "" : has->words + ". ", side_name(side),
                    loses ? ", and what it has changed is lost. If it can be brought back, do that instead" : "",
                    needed, loses ? " (`lockstep node replace` with --without-its-changes)" : ""),
        {{"/confirm", fmt::format("Must be {}.", needed)}});
  const auto newest = core_.revisions.newest();
  if (!newest) return std::unexpected(newest.error());
  NewInvitation invitation = new_invitation(side);
  {
    const std::lock_guard lock(mutex_);
    lost_with_invitation_ = has->volumes;
  }
  invitation.undecided = newest->tentative;
  core_.events.append({.kind = "pair.replacement_invited",
                       .severity = Severity::warning,
                       .side = side,
                       .volume = {},
                       .message = fmt::format("{}. An invitation was made for whoever takes its place.", node->found)});
  return invitation;
}

/// It may have been back since the invitation was made. What was confirmed then is not asked about again.
Outcome<void> PairService::check_still_lost(const Configuration& configuration, const Node& lost) {
  const auto found = ask_of(lost, ShutOut::replaced);
  if (!found) return std::unexpected(found.error());
  const auto has = found->silent ? look_beside(agent_, configuration, lost, found->sentence) : MayHave{};
  if (!has) return std::unexpected(has.error());
  const std::lock_guard lock(mutex_);
  const bool more = std::ranges::any_of(has->volumes, [&](const Uuid& volume) {
    return std::ranges::find(lost_with_invitation_, volume) == lost_with_invitation_.end();
  });
  if (!more) return {};
  return refuse(RefusalKind::conflict,
                fmt::format("{}. Nobody has agreed to losing that: nothing was changed. If it is to be, make a new "
                            "invitation with `lockstep node replace {} --without-its-changes`.",
                            has->words, side_name(lost.side)));
}

/// They end within a minute, and what they are at would be taken for cut off.
Outcome<void> PairService::check_no_lone_jobs() {
  for (const auto& job : core_.jobs.unfinished())
    if (job.runner == core_.node_id && is_alone(job))
      return refuse(RefusalKind::conflict,
                    "A job on a volume is under way on the inviting node. Try again when it has ended.");
  return {};
}

Outcome<PairService::Offer> PairService::place_of(NodeSide side, const Node& joining, const Token& token) {
  const auto newest = core_.revisions.newest();
  if (!newest) return std::unexpected(newest.error());
  const Node* lost = newest->configuration.node(side);
  const bool unknown = !lost && lacks_a_known_side(newest->configuration);
  if ((!lost && !unknown) || (lost && lost->id == core_.node_id))
    return refuse(RefusalKind::conflict, "The invitation is for a side that is not to be replaced any more.");
  if (lost)
    if (auto still = check_still_lost(newest->configuration, *lost); !still) return std::unexpected(still.error());
  if (auto good = check_no_lone_jobs(); !good) return std::unexpected(good.error());
  if (unknown)
    if (auto good = check_no_volume_jobs(); !good) return std::unexpected(good.error());
  Configuration next = with_node_replaced(newest->configuration, joining, token);
  if (side == NodeSide::a) cut_off_volumes(next);  // volumes' jobs are side A's, and are lost with it
  // Beyond whatever the lost node may have decided: a pair's numbers never fall.
  const std::int64_t beyond = lost ? changed_alone(core_, data_plane_, *lost).reached : 0;
  const RevisionId id{random_uuid(), std::max(newest->n(), beyond) + 1, random_uuid()};
  return Offer{.offer = {id, to_document(next), /*replaces=*/true},
               .over = newest->state,
               .replaced = lost ? std::optional(*lost) : std::nullopt,
               .undecided = newest->tentative,
               .digest = {},
               .fingerprint = joining.fingerprint};
}

void PairService::begin_deleting_cut_off_volumes() {
  const auto configuration = core_.configuration();
  if (core_.side() != NodeSide::a && configuration->nodes.size() != 1) return;
  const auto unfinished = core_.jobs.unfinished();
  for (const auto& volume : configuration->volumes) {
    const bool at_work = std::ranges::any_of(
        unfinished, [&](const Job& job) { return job.volume == volume.id && job.runner == core_.node_id; });
    if (volume.lifecycle != Lifecycle::deleting || at_work) continue;
    begin_deleting(volume);
  }
}

void PairService::begin_deleting(const Volume& volume) {
  const bool elsewhere = volume.copy(NodeSide::a).unmade || volume.copy(NodeSide::b).unmade;
  Job job =
      make_job(core_, "volume.delete", "detach",
               elsewhere ? fmt::format("Removes what is left of {}, which one node deleted alone.", volume.name)
                         : fmt::format("Deletes {}, whose making, filling or deleting was cut off.", volume.name));
  job.volume = volume.id;
  job.parameters = nlohmann::json{{"name", volume.name}}.dump();
  jobs_.submit(job);
}

}  // namespace lockstep::mgmt
