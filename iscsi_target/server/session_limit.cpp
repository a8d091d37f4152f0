#include "iscsi_target/server/session_limit.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::iscsi_target {

using iscsi::LoginStatus;

SessionLimit::Verdict SessionLimit::enter(std::uint64_t id, std::string_view name, std::string_view address,
                                          bool takes_over) {
  if (!takes_over) {
    if (Verdict verdict = judge(name, address); verdict.status != LoginStatus::success) return verdict;
  }
  const Member member{names_.try_emplace(std::string(name)).first, addresses_.try_emplace(std::string(address)).first};
  ++member.name->second.sessions;
  ++member.address->second.sessions;
  all_.emplace(id, member);
  return {};
}

SessionLimit::Verdict SessionLimit::judge(std::string_view name, std::string_view address) {
  const std::size_t of_name = sessions_of(names_, name), from_address = sessions_of(addresses_, address);
  if (of_name != 0 && of_name >= bounds_.of_name) {
    return {LoginStatus::too_many_connections,
            "The initiator has " + std::to_string(of_name) + " sessions, as many as one name may have.",
            !std::exchange(names_.find(name)->second.is_told, true)};
  }
  if (from_address != 0 && from_address >= bounds_.from_address) {
    return {
        LoginStatus::too_many_connections,
        "There are " + std::to_string(from_address) + " sessions from its address, as many as there may be from one.",
        !std::exchange(addresses_.find(address)->second.is_told, true)};
  }
  const bool has_few = std::max(of_name, from_address) < kFew;
  const std::size_t room = has_few ? bounds_.in_all : bounds_.in_all - std::min(bounds_.reserve, bounds_.in_all);
  if (all_.size() < room) return {};
  return {LoginStatus::out_of_resources, "There are as many sessions as may be.", !std::exchange(is_full_told_, true)};
}

void SessionLimit::leave(std::uint64_t id) {
  const auto at = all_.find(id);
  if (at == all_.end()) return;
  one_less(names_, at->second.name);
  one_less(addresses_, at->second.address);
  all_.erase(at);
  is_full_told_ = false;
}

void SessionLimit::one_less(Counts& counts, Counts::iterator count) {
  count->second.is_told = false;
  if (--count->second.sessions == 0) counts.erase(count);
}

std::size_t SessionLimit::sessions_of(const Counts& counts, std::string_view key) {
  const auto at = counts.find(key);
  return at == counts.end() ? 0 : at->second.sessions;
}

}  // namespace lockstep::iscsi_target
