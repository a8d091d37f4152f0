#include "mgmt/control/initiator_service.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/chap_secrets.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

std::vector<FieldProblem> problems_of(const Initiator& i, const Configuration& c) {
  std::vector<FieldProblem> problems = chap_problems(i, c);
  if (const auto complaint = check_iscsi_name(i.iqn)) problems.insert(problems.begin(), {"/iqn", *complaint});
  return problems;
}

}  // namespace

Outcome<Initiator> InitiatorService::create(Initiator wanted) {
  wanted.created_ms = wall_clock_ms();
  const auto changed = core_.change(
      fmt::format("Initiator {} made known", wanted.iqn),
      [&](Configuration& c) -> Outcome<void> {
        if (auto problems = problems_of(wanted, c); !problems.empty())
          return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
        if (!c.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
        if (c.initiator(wanted.iqn)) {
          const std::string known = fmt::format("{} is known already.", wanted.iqn);
          return refuse(RefusalKind::conflict, known + " To change its secret, use `lockstep initiator secret`.",
                        {{"/iqn", known}});
        }
        if (c.initiators.size() >= kMaxInitiators)
          return refuse(
              RefusalKind::conflict,
              fmt::format("There are {} initiators already, which is the most there can be.", kMaxInitiators));
        c.initiators.push_back(wanted);
        return {};
      },
      Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  core_.events.append({.kind = "initiator.created",
                       .side = {},
                       .volume = {},
                       .message = fmt::format("The initiator {} was made known.", wanted.iqn)});
  return wanted;
}

Outcome<void> InitiatorService::remove(const std::string& iqn) {
  const auto changed = core_.change(
      fmt::format("Initiator {} forgotten", iqn),
      [&](Configuration& c) -> Outcome<void> {
        const auto found = std::ranges::find(c.initiators, iqn, &Initiator::iqn);
        if (found == c.initiators.end()) return refuse(RefusalKind::not_found, "No initiator of this name is known.");
        for (const auto& volume : c.volumes)
          if (std::ranges::find(volume.access, iqn) != volume.access.end())
            return refuse(
                RefusalKind::conflict,
                fmt::format("The volume {} lets this initiator in. Take it off the volume's access list first.",
                            volume.name));
        c.initiators.erase(found);
        return {};
      },
      Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  core_.events.append({.kind = "initiator.deleted",
                       .side = {},
                       .volume = {},
                       .message = fmt::format("The initiator {} was forgotten.", iqn)});
  return {};
}

Outcome<Initiator> InitiatorService::change_credentials(const CredentialsChange& change) {
  const std::int64_t now = wall_clock_ms();
  Initiator after;
  const auto changed = core_.change(
      fmt::format("Initiator {} has another secret", change.iqn),
      [&](Configuration& c) -> Outcome<void> {
        auto done = mgmt::change_credentials(c, change, now);
        if (done) after = *c.initiator(change.iqn);
        return done;
      },
      Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  core_.events.append(
      {.kind = "initiator.secret",
       .side = {},
       .volume = {},
       .message = fmt::format(
           "The initiator {} was given another secret; the one of before is {}.", change.iqn,
           after.old ? fmt::format("accepted until {}", utc_text(after.old->until_ms)) : "accepted no more")});
  return after;
}

Outcome<void> InitiatorService::end_old_credentials(const std::string& iqn) {
  const std::int64_t now = wall_clock_ms();
  const auto changed = core_.change(
      fmt::format("Initiator {}: only the newest secret is accepted", iqn),
      [&](Configuration& c) { return mgmt::end_old_credentials(c, iqn, now); }, Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  core_.events.append({.kind = "initiator.secret",
                       .side = {},
                       .volume = {},
                       .message = fmt::format("The secret of before of the initiator {} is accepted no more.", iqn)});
  return {};
}

}  // namespace lockstep::mgmt
