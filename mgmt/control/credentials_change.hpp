#pragma once
// Other CHAP credentials for an initiator, while those of before are accepted for a while, so that a host can be told
// of them at leisure. No more than two are kept: those in force and those of before. Pure.
#include <chrono>
#include <optional>
#include <string>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

constexpr std::chrono::seconds kOldCredentialsLive{3600};  ///< when nothing else is asked for
constexpr std::chrono::seconds kOldCredentialsLiveAtMost{30LL * 24 * 3600};

struct CredentialsChange {
  std::string iqn;
  Chap chap{};                   ///< an empty user: the one that it has
  std::optional<Chap> mutual{};  ///< of the target towards it; nothing: what it has stays. An empty user as above
  /// For how long the old ones are accepted, 0: from now on not at all. Nothing: kOldCredentialsLive, where there are
  /// any.
  std::optional<std::chrono::seconds> old_live{};
};

/// Refusals: not_found; invalid, by the fields of CredentialsChange as the API names them; conflict, when credentials
/// from before the last change are accepted still, and `old_live` would add third ones.
[[nodiscard]] Outcome<void> change_credentials(Configuration& configuration, const CredentialsChange& change,
                                               std::int64_t now_ms);
/// The initiator's old ones are accepted no more. Refusal not_found: there is no such initiator, or there are none.
[[nodiscard]] Outcome<void> end_old_credentials(Configuration& configuration, const std::string& iqn,
                                                std::int64_t now_ms);

[[nodiscard]] bool are_in_use(const std::optional<OldCredentials>& old, std::int64_t now_ms);
/// Some initiator has old ones whose time is over.
[[nodiscard]] bool has_lapsed_credentials(const Configuration& configuration, std::int64_t now_ms);
void forget_lapsed_credentials(Configuration& configuration, std::int64_t now_ms);

}  // namespace lockstep::mgmt
