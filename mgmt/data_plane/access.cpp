#include "mgmt/data_plane/access.hpp"

#include <algorithm>

namespace lockstep::mgmt {

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

Access::Access(const std::vector<VolumeSpec>& volumes) {
  for (const VolumeSpec& volume : volumes) {
    if (volume.any_initiator) open_.insert(volume.id);
    for (const AccessEntry& entry : volume.access) {
      lists_[entry.initiator].insert(volume.id);
      const auto chap = to_chap(entry.authentication);
      if (!chap) continue;
      auto& known = credentials_[entry.initiator];
      const bool repeated = std::ranges::any_of(known, [&](const iscsi::ChapCredentials& c) {
        return c.user == chap->user && c.secret == chap->secret && c.mutual_user == chap->mutual_user &&
               c.mutual_secret == chap->mutual_secret;
      });
      if (!repeated) known.push_back(*chap);
    }
  }
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
  if (const auto known = credentials_.find(initiator); known != credentials_.end()) answer.chap = known->second;
  return answer;
}

}  // namespace lockstep::mgmt
