#include "mgmt/control/event_log.hpp"

#include <algorithm>
#include <cstdlib>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/database.hpp"
#include "mgmt/control/node_settings.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

constexpr const char* kPartnersLast = "partner_event";
constexpr const char* kColumns = "SELECT id, at_ms, kind, severity, side, volume, message, times FROM events ";

void insert(SQLite::Database& db, const Event& event, bool partners) {
  SQLite::Statement q(db,
                      "INSERT OR IGNORE INTO events (at_ms, kind, severity, side, volume, message, partner_id, "
                      "times) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  q.bind(1, event.at_ms);
  q.bind(2, event.kind);
  q.bind(3, to_string(event.severity));
  if (event.side) q.bind(4, side_name(*event.side));
  if (event.volume) q.bind(5, event.volume->to_string());
  q.bind(6, event.message);
  if (partners) q.bind(7, event.id);
  q.bind(8, event.times);
  q.exec();
}

// What happens often pushes out what is of its own family, and nothing else.
void drop_oldest(SQLite::Database& db, const std::string& kind) {
  SQLite::Statement own(db,
                        "DELETE FROM events WHERE family = ?1 AND id <= "
                        "(SELECT id FROM events WHERE family = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)");
  own.bind(1, kind.substr(0, kind.find('.')));
  own.bind(2, kMaxEventsOfFamily);
  own.exec();
  SQLite::Statement all(db, "DELETE FROM events WHERE id <= (SELECT id FROM events ORDER BY id DESC LIMIT 1 OFFSET ?)");
  all.bind(1, kMaxEvents);
  all.exec();
}

std::vector<Event> read(SQLite::Statement& q) {
  std::vector<Event> events;
  while (q.executeStep()) {
    Event e;
    e.id = q.getColumn(0).getInt64();
    e.at_ms = q.getColumn(1).getInt64();
    e.kind = q.getColumn(2).getString();
    e.severity = severity_from(q.getColumn(3).getString());
    if (!q.getColumn(4).isNull()) e.side = q.getColumn(4).getString() == "a" ? NodeSide::a : NodeSide::b;
    if (!q.getColumn(5).isNull()) e.volume = Uuid::parse(q.getColumn(5).getString());
    e.message = q.getColumn(6).getString();
    e.times = q.getColumn(7).getInt64();
    events.push_back(std::move(e));
  }
  return events;
}

void log(const Event& event) {
  const auto level = event.severity == Severity::info      ? spdlog::level::info
                     : event.severity == Severity::warning ? spdlog::level::warn
                                                           : spdlog::level::err;
  spdlog::log(level, "{}: {}{}", event.kind, event.message,
              event.times == 1 ? "" : fmt::format(" ({} times)", event.times));
}

}  // namespace

const char* to_string(Severity severity) {
  return severity == Severity::info ? "info" : severity == Severity::warning ? "warning" : "critical";
}

Severity severity_from(const std::string& text) {
  return text == "critical" ? Severity::critical : text == "warning" ? Severity::warning : Severity::info;
}

EventLog::EventLog(Database& database) : database_(database) {}

void EventLog::append(Event event) {
  if (event.at_ms == 0) event.at_ms = wall_clock_ms();
  log(event);
  try {
    database_.transact([&](SQLite::Database& db) {
      insert(db, event, false);
      drop_oldest(db, event.kind);
    });
  } catch (const std::exception& e) {
    spdlog::error("An event could not be stored: {}", e.what());
  }
}

void EventLog::append_from_partner(const std::vector<Event>& events) {
  if (events.empty()) return;
  database_.transact([&](SQLite::Database& db) {
    for (const auto& event : events) {
      insert(db, event, true);
      drop_oldest(db, event.kind);
    }
    NodeSettings(database_).set(kPartnersLast, std::to_string(events.back().id));
  });
}

// The event itself may have been pushed out since.
std::int64_t EventLog::last_from_partner() const {
  if (const auto noted = NodeSettings(database_).get(kPartnersLast)) return std::atoll(noted->c_str());
  std::int64_t id = 0;
  database_.use(
      [&](SQLite::Database& db) { id = db.execAndGet("SELECT coalesce(max(partner_id), 0) FROM events").getInt64(); });
  return id;
}

void EventLog::forget_partner_ids() {
  database_.transact([this](SQLite::Database& db) {
    db.exec("UPDATE events SET partner_id = NULL");
    NodeSettings(database_).set(kPartnersLast, "0");
  });
}

std::vector<Event> EventLog::list(std::optional<std::int64_t> after, std::int64_t limit) const {
  std::vector<Event> events;
  database_.use([&](SQLite::Database& db) {
    SQLite::Statement q(db, std::string(kColumns) +
                                (after ? "WHERE id > ? ORDER BY id LIMIT ?" : "WHERE id > ? ORDER BY id DESC LIMIT ?"));
    q.bind(1, after.value_or(0));
    q.bind(2, limit);
    events = read(q);
  });
  if (!after) std::ranges::reverse(events);
  return events;
}

std::vector<Event> EventLog::own(std::int64_t after, std::int64_t limit) const {
  std::vector<Event> events;
  database_.use([&](SQLite::Database& db) {
    SQLite::Statement q(db, std::string(kColumns) + "WHERE id > ? AND partner_id IS NULL ORDER BY id LIMIT ?");
    q.bind(1, after);
    q.bind(2, limit);
    events = read(q);
  });
  return events;
}

std::int64_t EventLog::last_id() const {
  std::int64_t id = 0;
  database_.use(
      [&](SQLite::Database& db) { id = db.execAndGet("SELECT coalesce(max(id), 0) FROM events").getInt64(); });
  return id;
}

}  // namespace lockstep::mgmt
