#include "iscsi_target/server/crowd.hpp"

#include <algorithm>
#include <ranges>

namespace lockstep::iscsi_target {

std::optional<ConnectionRef> Crowd::enter(ConnectionRef who, const std::string& address) {
  std::optional<ConnectionRef> gone;
  const auto there = counts_.find(address);
  const std::size_t has = there == counts_.end() ? 0 : there->second;
  if (has >= most_per_address_ || (all_.size() >= most_ && has != 0 && has + 1 >= most_of_one_address())) {
    gone = send_away_oldest([&](const Member& member) { return member.address == address; });
  } else if (all_.size() >= most_) {
    gone = send_away_oldest([this, most = most_of_one_address()](const Member& member) {
      return counts_.find(member.address)->second == most;
    });
  }
  all_.emplace(who.id, Member{who, address});
  ++counts_[address];
  return gone;
}

void Crowd::leave(std::uint64_t id) {
  const auto at = all_.find(id);
  if (at == all_.end()) return;
  const auto count = counts_.find(at->second.address);
  if (--count->second == 0) counts_.erase(count);
  all_.erase(at);
}

std::size_t Crowd::most_of_one_address() const { return std::ranges::max(counts_ | std::views::values); }

std::optional<ConnectionRef> Crowd::send_away_oldest(const std::function<bool(const Member&)>& eligible) {
  const auto oldest = std::ranges::find_if(all_, [&](const auto& entry) { return eligible(entry.second); });
  if (oldest == all_.end()) return std::nullopt;
  const ConnectionRef who = oldest->second.who;
  leave(who.id);
  return who;
}

}  // namespace lockstep::iscsi_target
