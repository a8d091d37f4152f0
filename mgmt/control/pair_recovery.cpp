#include "mgmt/control/pair_recovery.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/node_report.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/witness_check.hpp"

namespace lockstep::mgmt {
namespace {

/// The longest lease that a pair can have, with what is added for clocks that drift, and then some: which one the nodes
/// had is lost with the configuration.
constexpr auto kLeasesAreOver = std::chrono::seconds(75);

/// Beyond every number that the pair can have had, so that what is left of the old line nowhere counts as newer.
std::int64_t number_after(const RevisionId& head) { return std::max(head.n + 1, wall_clock_ms() / 1000); }

std::string count_of_volumes(std::size_t count) { return count == 1 ? "a volume" : fmt::format("{} volumes", count); }

}  // namespace

PairRecovery::PairRecovery(NodeCore& core, DataPlane& data_plane, std::function<void()> recovered, Connect connect)
    : core_(core),
      data_plane_(data_plane),
      recovered_(std::move(recovered)),
      connect_(connect ? std::move(connect)
                       : [&core](const HttpsTarget& target) { return std::make_unique<Peer>(core.identity, target); }) {
}

void PairRecovery::ask_partner(RecoveryView& view) const {
  const SavedConfiguration& saved = *view.saved;
  const Node* partner = saved.partner();
  if (!partner) return;
  const std::string side = side_name(saved.here()->side);
  const auto standing =
      connect_({partner->management_address, partner->fingerprint})->standing(saved.configuration.pair->id);
  if (!standing && standing.error().kind != RefusalKind::not_current) {
    // From before this was asked: it has a pair, or says that it has none, but not of which.
    view.partner = PartnerWord::paired;
    view.partner_says =
        fmt::format("{} answers, but its version of Lockstep does not say what it knows.", partner->name);
    view.problem = view.partner_says + " Install this node's version there.";
    return;
  }
  if (!standing && standing.error().answered) {
    view.partner = PartnerWord::newer;
    view.partner_says =
        fmt::format("{} can't say whether it has a newer copy: {}", partner->name, standing.error().detail);
    view.problem = view.partner_says + " Try again when it can, or switch that machine off.";
    return;
  }
  if (!standing) {
    view.partner = PartnerWord::away;
    view.partner_says = fmt::format("{} {}.", partner->name, standing.error().detail);
    return;
  }
  if (standing->head) {
    view.partner = PartnerWord::paired;
    view.partner_says = fmt::format("{} has the configuration in force, revision {}.", partner->name, *standing->head);
    if (*standing->head < saved.revision.n)
      view.partner_says += fmt::format(
          " The copy here is of revision {}: what this node changed alone since is lost when it joins, and a volume "
          "that "
          "only this copy has goes out of service, though its files stay.",
          saved.revision.n);
    view.problem = fmt::format("{} Run `lockstep node replace {}` there, then `lockstep pair join` here.",
                               view.partner_says, side);
  } else if (standing->saved.value_or(-1) > saved.revision.n) {
    view.partner = PartnerWord::newer;
    view.partner_says = fmt::format("{} has lost its database, too, but has a newer copy, of revision {}.",
                                    partner->name, *standing->saved);
    view.problem = fmt::format(
        "{} Run `lockstep pair recover` there, then `lockstep node replace {}`, then `lockstep pair join` here.",
        view.partner_says, side);
  } else {
    view.partner = PartnerWord::no_pair;
    view.partner_says = fmt::format("{} has lost its database, too, and has no newer copy.", partner->name);
  }
}

// A lease that this node granted its partner before lockstepd was started is over by the time that nobody can still
// have been granted one, whatever its length was. Who knows of none has granted none since.
std::string PairRecovery::why_not_now(const Rebuild& rebuild) const {
  const auto answer = data_plane_.call("node.status", "{}", std::chrono::seconds(3));
  const auto status = answer ? status_from(*answer) : std::unexpected(answer.error());
  if (!status) return "lockstepd on this node does not answer. Start it, and try again.";
  if (!status->volumes.empty())
    return fmt::format(
        "lockstepd on this node still serves {} as it was told before, and what it was told can't be "
        "made again from the replicas: hosts lose the volumes until they are let in anew. When they may, "
        "restart lockstepd here, and try again.",
        count_of_volumes(status->volumes.size()));
  const bool had_partner =
      std::ranges::any_of(rebuild.volumes, [](const auto& v) { return v.epoch.members.is_both(); });
  const auto up = std::chrono::milliseconds(status->uptime_ms);
  if (!had_partner || up >= kLeasesAreOver) return {};
  return fmt::format(
      "lockstepd on this node was started just now, and the other node may still rely on what it was "
      "told before. Try again in {} seconds.",
      std::chrono::ceil<std::chrono::seconds>(kLeasesAreOver - up).count());
}

/// A copy that could not be written for a while, or is from a backup, is older than what is here.
void PairRecovery::look_at_age(RecoveryView& view) const {
  const auto answer = data_plane_.call("node.status", "{}", std::chrono::seconds(3));
  std::optional<DataPlaneStatus> status;
  if (auto read = answer ? status_from(*answer) : std::unexpected(answer.error())) status = std::move(*read);
  view.verdict = judge_saved_copy(*view.saved, status, view.replicas);
  view.loses = view.verdict.loses;
  if (view.problem.empty()) view.problem = view.verdict.problem;
}

void PairRecovery::look_at_replicas(RecoveryView& view, const std::optional<Uuid>& pair) const {
  const std::string no_copy = view.problem;
  auto rebuild = rebuild_from(view.replicas, pair);
  if (!rebuild) {
    view.problem = fmt::format("{} {}", no_copy, rebuild.error().detail);
    return;
  }
  view.rebuild = std::move(*rebuild);
  // Whoever made another pair on a node that had lost its database has the first one's copy there.
  const std::string aside = core_.saved_file.path().string() + "." + view.rebuild->pair.to_string();
  std::error_code error;
  view.problem = std::filesystem::exists(std::filesystem::symlink_status(aside, error))
                     ? fmt::format(
                           "A copy of this pair's configuration was put aside as {}. Rename it to {}, and try "
                           "again.",
                           aside, core_.saved_file.path().string())
                     : why_not_now(*view.rebuild);
}

RecoveryView PairRecovery::look(const std::optional<Uuid>& pair) const {
  RecoveryView view;
  if (const auto configuration = core_.configuration(); configuration->pair) {
    view.problem = fmt::format("This node is in the pair {}: there is nothing to recover.", configuration->pair->name);
    return view;
  }
  auto replicas = core_.replicas_there_read();
  if (!replicas) {
    view.problem = fmt::format("The disk of {} does not answer.", core_.local.volume_folder.string());
    return view;
  }
  view.replicas = std::move(*replicas);
  auto saved = core_.copy.read();
  if (!saved) {
    view.problem = saved.error().detail;
    if (saved.error().kind == RefusalKind::not_found)
      look_at_replicas(view, pair);
    else if (saved.error().kind == RefusalKind::conflict)
      view.problem += fmt::format(
          " If it can't be had from a backup, move {} away: the configuration can then be made anew from the replicas, "
          "but for much that only the copy has.",
          core_.saved_file.path().string());
    return view;
  }
  view.saved = std::move(*saved);
  ask_partner(view);
  look_at_age(view);
  return view;
}

Outcome<void> PairRecovery::recover(const RecoveryWish& wish, const Token& token) {
  const RecoveryView view = look(wish.rebuild ? wish.rebuild->pair : std::nullopt);
  if (!view.problem.empty()) return refuse(RefusalKind::conflict, view.problem);
  return view.saved ? recover_saved(view, wish, token) : rebuild(view, wish, token);
}

Outcome<void> PairRecovery::put_in_force(const RevisionId& id, const std::string& summary, const Configuration& next,
                                         const std::string& message) {
  const RevisionState now = core_.revisions.state();
  if (core_.configuration()->pair || !core_.revisions.begin_epoch(now, id, summary, next))
    return refuse(RefusalKind::conflict, "This node got into a pair meanwhile.");
  core_.events.append({.kind = "pair.recovered",
                       .severity = Severity::warning,
                       .side = core_.side(),
                       .volume = {},
                       .message = message});
  recovered_();
  return {};
}

Outcome<void> PairRecovery::recover_saved(const RecoveryView& view, const RecoveryWish& wish, const Token& token) {
  const SavedConfiguration& saved = *view.saved;
  const std::string& name = saved.configuration.pair->name;
  if (wish.rebuild)
    return refuse(RefusalKind::invalid, "There is a saved copy of the configuration, which says all of it.",
                  {{"", "Send nothing but confirm."}});
  if (wish.confirm != name)
    return refuse(RefusalKind::confirmation_needed,
                  fmt::format("The pair {} as it was at revision {} is put in force here. {}{}Send the pair's name, "
                              "{}, as `confirm`.",
                              name, saved.revision.n, view.partner_says.empty() ? "" : view.partner_says + " ",
                              view.loses.empty() ? "" : view.loses + " ", name),
                  {{"/confirm", fmt::format("Must be {}.", name)}});
  Node here = *saved.here();
  here.id = core_.node_id;
  here.fingerprint = core_.identity.fingerprint;
  Configuration next = recovered(saved.configuration, saved.node, here, token);
  apply_verdict(view.verdict, here.side, next);
  return put_in_force({random_uuid(), std::max(saved.revision.n, view.verdict.told) + 1, random_uuid()},
                      fmt::format("Recovered from the copy of revision {}", saved.revision.n), next,
                      fmt::format("The pair {} was recovered on {} from its copy of revision {}. {}{}", name, here.name,
                                  saved.revision.n, view.partner_says, view.loses.empty() ? "" : " " + view.loses));
}

Outcome<void> PairRecovery::rebuild(const RecoveryView& view, const RecoveryWish& wish, const Token& token) {
  const RebuildWish wanted = wish.rebuild.value_or(RebuildWish{});
  const Rebuild& found = *view.rebuild;
  auto next = configuration_of(found, wanted, describe_node(core_, wish.node, found.side), token);
  if (!next) return std::unexpected(next.error());
  if (wish.confirm != wanted.name)
    return refuse(RefusalKind::confirmation_needed,
                  fmt::format("The pair {} is made anew on this node, as its side {}, from the replicas of {}. Hosts, "
                              "secrets and settings are lost; no host may use a volume until it is let in again. The "
                              "target has a name of its own, unless target_name names the one of before: then shut "
                              "down every host that used it first, since its LUNs may be other volumes' now. Use "
                              "the other node if it has its database or a saved copy. Send the pair's name, {}, as "
                              "`confirm`.",
                              wanted.name, side_name(found.side), count_of_volumes(found.volumes.size()), wanted.name),
                  {{"/confirm", fmt::format("Must be {}.", wanted.name)}});
  if (auto usable = try_witness(data_plane_, next->pair->id, next->pair->arbiter); !usable)
    return std::unexpected(usable.error());
  return put_in_force(
      {random_uuid(), number_after(core_.revisions.state().head), random_uuid()}, "Made anew from the replicas", *next,
      fmt::format("The pair {} was made anew on {} from the replicas of {}. No host may use them until it is let in.",
                  wanted.name, next->nodes.front().name, count_of_volumes(found.volumes.size())));
}

}  // namespace lockstep::mgmt
