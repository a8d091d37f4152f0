#include "mgmt/control/event_log.hpp"

#include <algorithm>
#include <cstdlib>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/database.hpp"
#include "mgmt/control/node_settings.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/table_rows.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

constexpr const char* kPartnersLast = "partner_event";

struct EventRow {
  static constexpr records::Rules rules(const Event*) { return {}; }
  static records::Cell cell(const Severity& severity) { return std::string(to_string(severity)); }
  static void take(const std::string& text, Severity& severity) { severity = severity_from(text); }
};

void insert(SQLite::Database& db, const Event& event, bool partners) {
  records::Row row = records::row_of<EventRow>(event);
  row.drop("id");  // the log gives it one of its own
  row.put("partner_id", partners ? records::Cell(event.id) : records::Cell());
  insert_row(db, "events", row, "INSERT OR IGNORE");
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

std::vector<Event> select_events(Database& database, std::string_view rest,
                                 const std::vector<records::Cell>& parameters) {
  std::vector<Event> events;
  database.use([&](SQLite::Database& db) { events = select_records<EventRow, Event>(db, "events", rest, parameters); });
  return events;
}

void log(const Event& event) {
  const auto level = event.severity == Severity::info      ? LogLevel::info
                     : event.severity == Severity::warning ? LogLevel::warning
                                                           : LogLevel::error;
  log(level, fmt::format("{}: {}{}", event.kind, event.message,
                         event.times == 1 ? "" : fmt::format(" ({} times)", event.times)));
}

}  // namespace

const char* to_string(Severity severity) { return records::word_of(severity); }

Severity severity_from(const std::string& text) { return records::from_word<Severity>(text).value_or(Severity::info); }

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
    log_error(fmt::format("An event could not be stored: {}", e.what()));
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
  auto events =
      select_events(database_, after ? "WHERE id > ? ORDER BY id LIMIT ?" : "WHERE id > ? ORDER BY id DESC LIMIT ?",
                    {after.value_or(0), limit});
  if (!after) std::ranges::reverse(events);
  return events;
}

std::vector<Event> EventLog::own(std::int64_t after, std::int64_t limit) const {
  return select_events(database_, "WHERE id > ? AND partner_id IS NULL ORDER BY id LIMIT ?", {after, limit});
}

std::int64_t EventLog::last_id() const {
  std::int64_t id = 0;
  database_.use(
      [&](SQLite::Database& db) { id = db.execAndGet("SELECT coalesce(max(id), 0) FROM events").getInt64(); });
  return id;
}

}  // namespace lockstep::mgmt
