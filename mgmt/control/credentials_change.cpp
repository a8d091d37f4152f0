#include "mgmt/control/credentials_change.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/chap_secrets.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

Initiator* initiator_in(Configuration& configuration, const std::string& iqn) {
  const auto found = std::ranges::find(configuration.initiators, iqn, &Initiator::iqn);
  return found == configuration.initiators.end() ? nullptr : &*found;
}

Refusal unknown() { return {RefusalKind::not_found, "No initiator of this name is known.", {}}; }

Chap with_user(Chap chap, const std::optional<Chap>& now) {
  if (chap.user.empty() && now) chap.user = now->user;
  return chap;
}

Outcome<void> check_time(const Initiator& before, const std::optional<std::chrono::seconds>& live,
                         std::int64_t now_ms) {
  constexpr const char* kField = "/old_valid_for_seconds";
  if (!live || live->count() == 0) return {};
  if (*live > kOldCredentialsLiveAtMost || live->count() < 0)
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.",
                  {{kField, fmt::format("Must be from 0 to {}.", kOldCredentialsLiveAtMost.count())}});
  if (!before.chap)
    return refuse(RefusalKind::conflict,
                  fmt::format("{} has no secret yet, so that there is no old one to accept. Leave out the time: its "
                              "sessions end, and it logs in with the secret.",
                              before.iqn));
  if (are_in_use(before.old, now_ms))
    return refuse(RefusalKind::conflict,
                  fmt::format("The secret that {} had before the last change is accepted until {}, and no more than "
                              "two are. Wait, or end it first (`lockstep initiator secret {} --end-old`); with a "
                              "time of 0 the new one is the only one at once.",
                              before.iqn, utc_text(before.old->until_ms), before.iqn));
  return {};
}

/// What a second change finds is one that must not push out the first without being asked to.
std::optional<std::chrono::seconds> time_of(const CredentialsChange& change, const Initiator& before) {
  if (change.old_live || !before.chap) return change.old_live;
  return kOldCredentialsLive;
}

}  // namespace

Outcome<void> change_credentials(Configuration& configuration, const CredentialsChange& change, std::int64_t now_ms) {
  Initiator* initiator = initiator_in(configuration, change.iqn);
  if (!initiator) return std::unexpected(unknown());
  const auto live = time_of(change, *initiator);
  if (auto good = check_time(*initiator, live, now_ms); !good) return good;
  Initiator next = *initiator;
  next.chap = with_user(change.chap, initiator->chap);
  if (change.mutual) next.mutual = with_user(*change.mutual, initiator->mutual);
  // Checked beside the new ones also where they go at once: the same secret again would be no change.
  next.old.reset();
  if (initiator->chap) next.old = OldCredentials{*initiator->chap, initiator->mutual, 0};
  if (auto problems = chap_problems(next, configuration); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  if (next.old) next.old->until_ms = now_ms + live.value_or(std::chrono::seconds{0}).count() * 1000;
  if (!are_in_use(next.old, now_ms)) next.old.reset();
  *initiator = std::move(next);
  return {};
}

Outcome<void> end_old_credentials(Configuration& configuration, const std::string& iqn, std::int64_t now_ms) {
  Initiator* initiator = initiator_in(configuration, iqn);
  if (!initiator) return std::unexpected(unknown());
  if (!are_in_use(initiator->old, now_ms))
    return refuse(RefusalKind::not_found, fmt::format("No old secret of {} is accepted.", iqn));
  initiator->old.reset();
  return {};
}

bool are_in_use(const std::optional<OldCredentials>& old, std::int64_t now_ms) { return old && now_ms < old->until_ms; }

bool has_lapsed_credentials(const Configuration& configuration, std::int64_t now_ms) {
  return std::ranges::any_of(configuration.initiators,
                             [&](const Initiator& i) { return i.old && !are_in_use(i.old, now_ms); });
}

void forget_lapsed_credentials(Configuration& configuration, std::int64_t now_ms) {
  for (auto& i : configuration.initiators)
    if (!are_in_use(i.old, now_ms)) i.old.reset();
}

}  // namespace lockstep::mgmt
