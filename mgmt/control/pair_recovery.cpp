#include "mgmt/control/pair_recovery.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {

PairRecovery::PairRecovery(NodeCore& core, std::function<void()> recovered, Connect connect)
    : core_(core),
      recovered_(std::move(recovered)),
      connect_(connect ? std::move(connect)
                       : [&core](const HttpsTarget& target) { return std::make_unique<Peer>(core.identity, target); }) {
}

std::vector<FoundReplica> PairRecovery::replicas_found() const {
  std::vector<FoundReplica> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(core_.local.volume_folder, error)) {
    if (entry.path().extension() != ".meta") continue;
    const auto volume = Uuid::parse(entry.path().stem().string());
    if (!volume) continue;
    std::error_code no_data;
    const auto bytes = std::filesystem::file_size(replica_files(core_.local.volume_folder, *volume).data, no_data);
    found.push_back({*volume, no_data ? 0 : static_cast<std::int64_t>(bytes)});
  }
  std::ranges::sort(found, {}, &FoundReplica::volume);
  return found;
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
  if (!standing) {
    view.partner = PartnerWord::away;
    view.partner_says = fmt::format("{} {}.", partner->name, standing.error().detail);
    return;
  }
  if (standing->head) {
    view.partner = PartnerWord::paired;
    view.partner_says = fmt::format("{} has the configuration in force, revision {}.", partner->name, *standing->head);
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

RecoveryView PairRecovery::look() const {
  RecoveryView view;
  view.replicas = replicas_found();
  if (const auto configuration = core_.configuration(); configuration->pair) {
    view.problem = fmt::format("This node is in the pair {}: there is nothing to recover.", configuration->pair->name);
    return view;
  }
  auto saved = core_.saved_file.read();
  if (!saved) {
    view.problem = saved.error().detail;
    return view;
  }
  view.saved = std::move(*saved);
  ask_partner(view);
  return view;
}

Outcome<void> PairRecovery::recover(const std::string& confirm, const Token& token) {
  const RecoveryView view = look();
  if (!view.problem.empty()) return refuse(RefusalKind::conflict, view.problem);
  const SavedConfiguration& saved = *view.saved;
  const std::string& name = saved.configuration.pair->name;
  if (confirm != name)
    return refuse(RefusalKind::confirmation_needed,
                  fmt::format("The pair {} as it was at revision {} is put in force here. {} Send the pair's name, {}, "
                              "as `confirm`.",
                              name, saved.revision.n, view.partner_says, name),
                  {{"/confirm", fmt::format("Must be {}.", name)}});
  Node here = *saved.here();
  here.id = core_.node_id;
  here.fingerprint = core_.identity.fingerprint;
  Configuration next = recovered(saved.configuration, saved.node, here, token);
  cut_off_volumes(next);
  const RevisionState now = core_.revisions.state();
  const RevisionId id{random_uuid(), saved.revision.n + 1, random_uuid()};
  const std::string summary = fmt::format("Recovered from the copy of revision {}", saved.revision.n);
  if (core_.configuration()->pair || !core_.revisions.begin_epoch(now, id, summary, next))
    return refuse(RefusalKind::conflict, "This node got into a pair meanwhile.");
  core_.events.append({.kind = "pair.recovered",
                       .severity = Severity::warning,
                       .side = here.side,
                       .volume = {},
                       .message = fmt::format("The pair {} was recovered on {} from its copy of revision {}. {}", name,
                                              here.name, saved.revision.n, view.partner_says)});
  recovered_();
  return {};
}

}  // namespace lockstep::mgmt
