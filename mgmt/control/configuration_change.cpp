#include "mgmt/control/configuration_change.hpp"

#include <optional>

#include <fmt/format.h>

#include "mgmt/control/https_client.hpp"

namespace lockstep::mgmt {
namespace {

// The partner was asked to keep the change, and may have: `alone` is about this node only.
std::unexpected<Refusal> perhaps_made(const Refusal& alone) {
  Refusal refusal{RefusalKind::not_current,
                  fmt::format("It is not known whether the change was made: the partner was asked to keep it and did "
                              "not answer. If the partner goes on alone, it takes it for made; else it is dropped when "
                              "the two can talk. On this node alone: {}",
                              alone.detail),
                  alone.fields};
  refusal.perhaps_done = true;
  return std::unexpected(std::move(refusal));
}

Outcome<RevisionId> go_on_alone(const Deciders& who, const std::string& summary, const ConfigurationEdits& edits) {
  return who.revisions.change_alone(summary, edits.alone ? edits.alone : edits.together, *who.arbiter);
}

Outcome<RevisionId> alone(const Deciders& who, const std::string& summary, const ConfigurationEdits& edits,
                          Agreement agreement, const Refusal& away) {
  if (!who.arbiter) return std::unexpected(away);
  if (agreement == Agreement::both) {
    Refusal refusal{away.kind, away.detail + " What is asked for can't be done by one node alone.", {}};
    if (away.perhaps_done) return perhaps_made(refusal);
    return std::unexpected(std::move(refusal));
  }
  auto changed = go_on_alone(who, summary, edits);
  if (!changed && away.perhaps_done) return perhaps_made(changed.error());
  return changed;
}

Outcome<RevisionId> together(const Deciders& who, const std::string& summary, const ConfigurationEdits& edits,
                             Agreement agreement) {
  auto changed = who.revisions.change(summary, edits.together, who.partner);
  if (changed || !changed.error().partner_away) return changed;
  return alone(who, summary, edits, agreement, changed.error());
}

Refusal away_now(const Refusal& trouble) {
  return {RefusalKind::not_current,
          fmt::format("The change was not made: it must be stored on both nodes, and the partner {}.",
                      trouble_with_partner(trouble)),
          {}};
}

}  // namespace

bool orders(const ConfigurationEpoch& epoch, engine::NodeSide side) {
  return epoch.members.is_both() ? side == engine::NodeSide::a : epoch.is_only(side);
}

Outcome<RevisionId> change_configuration(const Deciders& who, const std::string& summary,
                                         const ConfigurationEdits& edits, Agreement agreement) {
  if (!who.partner) return who.revisions.change(summary, edits.together, nullptr);
  const ConfigurationEpoch epoch = who.revisions.state().epoch;
  const bool mine = epoch.is_only(who.me);
  if (epoch.members.is_both() && orders(epoch, who.me)) return together(who, summary, edits, agreement);
  // The only member goes on as long as the two have not begun to decide together again.
  std::optional<Outcome<RevisionId>> went_on;
  if (mine && agreement == Agreement::one_is_let && who.arbiter) went_on = go_on_alone(who, summary, edits);
  if (went_on && (*went_on || went_on->error().kind != RefusalKind::not_current)) return *went_on;
  const auto there = who.partner->ask();
  if (there && mine)
    return refuse(RefusalKind::not_current,
                  "The partner is back and is taking over what was changed without it. Try again in a moment.");
  if (there)
    return refuse(
        RefusalKind::not_current,
        "Changes are made through the other node at present. Send the request there, or try again in a moment.");
  if (there.error().kind != RefusalKind::not_current || there.error().other_certificate)
    return std::unexpected(away_now(there.error()));
  if (went_on) return *went_on;
  return alone(who, summary, edits, agreement, away_now(there.error()));
}

}  // namespace lockstep::mgmt
