#include "iscsi_target/tcp/crowd.hpp"

#include <algorithm>

namespace lockstep::iscsi_target {

std::optional<ConnectionRef> Crowd::enter(ConnectionRef who, const std::string& address) {
  std::optional<ConnectionRef> gone;
  const auto there = counts_.find(address);
  if (there != counts_.end() && there->second >= most_per_address_) {
    gone = send_away_oldest(address);
  } else if (all_.size() >= most_) {
    gone = send_away_oldest(fullest_address());
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

std::string Crowd::fullest_address() const {
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::max_element(counts_.begin(), counts_.end(), fewer)->first;
}

std::optional<ConnectionRef> Crowd::send_away_oldest(const std::string& address) {
  const auto oldest =
      std::find_if(all_.begin(), all_.end(), [&](const auto& entry) { return entry.second.address == address; });
  if (oldest == all_.end()) return std::nullopt;
  const ConnectionRef who = oldest->second.who;
  leave(who.id);
  return who;
}

}  // namespace lockstep::iscsi_target
