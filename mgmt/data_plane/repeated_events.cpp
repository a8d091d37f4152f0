#include "mgmt/data_plane/repeated_events.hpp"

#include <algorithm>

namespace lockstep::data_plane {

std::optional<Event> RepeatedEvents::take(const std::string& source, Event event, engine::TimePoint now) {
  auto key = std::pair(event.kind, source);
  if (accounts_.size() >= max_sources_ && !accounts_.contains(key)) key.second.clear();
  const auto [at, fresh] = accounts_.try_emplace(std::move(key));
  Account& account = at->second;
  if (fresh) account.ends = now + account.length;
  if (account.told < kToldAtOnce) {
    ++account.told;
    return event;
  }
  if (account.counted) event.times += account.counted->times;
  account.counted = std::move(event);
  return std::nullopt;
}

std::vector<Event> RepeatedEvents::due(engine::TimePoint now) {
  std::vector<Event> told;
  for (auto at = accounts_.begin(); at != accounts_.end();) {
    Account& account = at->second;
    if (now < account.ends) {
      ++at;
    } else if (!account.counted) {
      at = accounts_.erase(at);
    } else {
      told.push_back(std::move(*account.counted));
      account.counted.reset();
      account.told = kToldAtOnce;  // only the number is news
      account.length = std::min(2 * account.length, kLongestWhile);
      account.ends = now + account.length;
      ++at;
    }
  }
  return told;
}

}  // namespace lockstep::data_plane
