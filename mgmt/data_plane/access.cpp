#include "mgmt/data_plane/access.hpp"

#include <algorithm>

namespace lockstep::data_plane {

std::optional<iscsi::ChapCredentials> to_chap(const Authentication& authentication) {
  if (!authentication.chap) return std::nullopt;
  iscsi::ChapCredentials chap;
  chap.user = authentication.chap->user;
  chap.secret = authentication.chap->secret;
  if (authentication.mutual) {
    chap.mutual_user = authentication.mutual->user;
    chap.mutual_secret = authentication.mutual->secret;
  }
  return chap;
}

Access::Access(const std::vector<VolumeSpec>& volumes, WallClock clock) : clock_(std::move(clock)) {
  for (const VolumeSpec& volume : volumes) {
    if (volume.any_initiator) open_.insert(volume.id);
    for (const AccessEntry& entry : volume.access) {
      lists_[entry.initiator].insert(volume.id);
      know(entry.initiator, entry.authentication, 0);
      if (entry.old) know(entry.initiator, entry.old->authentication, entry.old->until_ms);
    }
  }
}

void Access::know(const std::string& initiator, const Authentication& authentication, std::int64_t until_ms) {
  const auto chap = to_chap(authentication);
  if (!chap) return;
  auto& all = credentials_[initiator];
  const bool repeated = std::ranges::any_of(all, [&](const Known& known) {
    const iscsi::ChapCredentials& c = known.chap;
    return known.until_ms == until_ms && c.user == chap->user && c.secret == chap->secret &&
           c.mutual_user == chap->mutual_user && c.mutual_secret == chap->mutual_secret;
  });
  if (!repeated) all.push_back({*chap, until_ms});
}

bool Access::may_access(const engine::Uuid& volume, std::string_view initiator) const {
  if (open_.contains(volume)) return true;
  const auto list = lists_.find(initiator);
  return list != lists_.end() && list->second.contains(volume);
}

iscsi_target::AccessAnswer Access::may_log_in(std::string_view initiator, std::string_view) const {
  using Verdict = iscsi_target::AccessAnswer::Verdict;
  iscsi_target::AccessAnswer answer;
  answer.verdict = !open_.empty() || lists_.contains(initiator) ? Verdict::allowed : Verdict::unknown;
  const auto all = credentials_.find(initiator);
  if (all == credentials_.end()) return answer;
  const std::int64_t now = clock_();
  for (const Known& known : all->second)
    if (known.until_ms == 0 || now < known.until_ms) answer.chap.push_back(known.chap);
  return answer;
}

}  // namespace lockstep::data_plane
