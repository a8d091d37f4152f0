#pragma once
// What happened, in order, on this node and on its partner (whose events are fetched and get ids of this node's).
// Bounded: the oldest go when there are more than kMaxEvents, those of one family (what stands before the dot of a
// kind: session, volume, ...) when there are more than kMaxEventsOfFamily, so that what strangers cause pushes nothing
// else out. Thread-safe.
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::mgmt {

class Database;

enum class Severity : std::uint8_t { info, warning, critical };
BOOST_DESCRIBE_ENUM(Severity, info, warning, critical)
[[nodiscard]] const char* to_string(Severity severity);
[[nodiscard]] Severity severity_from(const std::string& text);  ///< info, where the word is not known

struct Event {
  std::int64_t id = 0;
  std::int64_t at_ms = 0;
  std::string kind;
  Severity severity = Severity::info;
  std::optional<engine::NodeSide> side;
  std::optional<engine::Uuid> volume;
  std::string message;
  std::int64_t times = 1;  ///< how often it happened; repeated ones are counted by whoever tells of them
};
BOOST_DESCRIBE_STRUCT(Event, (), (id, at_ms, kind, severity, side, volume, message, times))

constexpr std::int64_t kMaxEvents = 10'000;
constexpr std::int64_t kMaxEventsOfFamily = 2'000;

class EventLog {
 public:
  explicit EventLog(Database& database);

  /// `at_ms` 0: now. Never throws: an event that can't be stored is logged and lost.
  void append(Event event);
  /// Takes over events that the partner told of (with its ids), those that are here already apart.
  void append_from_partner(const std::vector<Event>& events);
  /// The highest id of the partner's that was taken over; 0 when none was.
  [[nodiscard]] std::int64_t last_from_partner() const;
  /// Begins again with the partner's ids: its log was begun anew.
  void forget_partner_ids();

  /// The first `limit` events after `after`, oldest first; without `after` the latest ones, oldest first.
  [[nodiscard]] std::vector<Event> list(std::optional<std::int64_t> after, std::int64_t limit) const;
  /// The same of this node's own events.
  [[nodiscard]] std::vector<Event> own(std::int64_t after, std::int64_t limit) const;
  [[nodiscard]] std::int64_t last_id() const;

 private:
  Database& database_;
};

}  // namespace lockstep::mgmt
