#pragma once
// What strangers can make happen as often as they like is told a few times, then counted: one event that says how often
// follows at the end of a while, and the while grows for as long as they go on.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/seams/clock.hpp"
#include "mgmt/data_plane/events.hpp"

namespace lockstep::data_plane {

/// Not thread-safe.
class RepeatedEvents {
 public:
  static constexpr std::uint64_t kToldAtOnce = 8;  ///< of one kind from one source, in a while
  static constexpr engine::Duration kFirstWhile = std::chrono::seconds(10);
  static constexpr engine::Duration kLongestWhile = std::chrono::minutes(10);

  /// More sources than `max_sources` at a time share one account.
  explicit RepeatedEvents(std::size_t max_sources) : max_sources_(max_sources) {}
  /// The event, when it is to be told now. `source` is whom it came from: an address without its port.
  [[nodiscard]] std::optional<Event> take(const std::string& source, Event event, engine::TimePoint now);
  /// What was counted and whose while is over. Their `times` say how often it happened, the rest is the last one's.
  [[nodiscard]] std::vector<Event> due(engine::TimePoint now);
  /// Nothing waits for due().
  [[nodiscard]] bool empty() const { return accounts_.empty(); }

 private:
  struct Account {
    engine::TimePoint ends;
    engine::Duration length{kFirstWhile};
    std::uint64_t told = 0;
    std::optional<Event> counted;
  };
  std::size_t max_sources_;
  std::map<std::pair<std::string, std::string>, Account> accounts_;  // by kind and source
};

}  // namespace lockstep::data_plane
