#include "mgmt/control/job.hpp"

#include <algorithm>
#include <stdexcept>

#include <SQLiteCpp/SQLiteCpp.h>

#include "mgmt/control/database.hpp"
#include "mgmt/control/refusal_json.hpp"
#include "mgmt/control/table_rows.hpp"
#include "mgmt/records/json.hpp"

namespace lockstep::mgmt {
namespace {

using engine::Uuid;
using records::json;
using records::Row;
using records::Rules;

// In both forms an error is the text of a problem document.
struct JobMessage {
  static constexpr Rules rules(const void*) { return {.required = "*"}; }
  static json to_json(const Refusal& error) { return to_json_text(error); }
  static void from_json(const json& j, Refusal& error) { error = refusal_from(j.get<std::string>()); }
};

struct JobRow {
  static constexpr Rules rules(const Job*) { return {.hidden = "finished_ms"}; }
  static records::Cell cell(const Refusal& error) { return to_json_text(error); }
  static void take(const std::string& text, Refusal& error) { error = refusal_from(text); }
  static void wrote(Row& row, const std::string&, const Job& job) {
    row.put("finished_ms", job.finished_ms ? records::Cell(job.finished_ms) : records::Cell());
  }
  static void read(const Row& row, const std::string&, Job& job) {
    job.finished_ms = row.is_null("finished_ms") ? 0 : row.number("finished_ms");
  }
};

std::vector<Job> select_jobs(Database& database, std::string_view rest,
                             const std::vector<records::Cell>& parameters = {}) {
  std::vector<Job> jobs;
  database.use([&](SQLite::Database& db) { jobs = select_records<JobRow, Job>(db, "jobs", rest, parameters); });
  return jobs;
}

void drop_oldest(SQLite::Database& db) {
  SQLite::Statement q(db,
                      "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE finished_ms IS NOT NULL "
                      "ORDER BY created_ms DESC LIMIT -1 OFFSET ?)");
  q.bind(1, kMaxFinishedJobs);
  q.exec();
}

}  // namespace

const char* to_string(JobState state) { return records::word_of(state); }

void JobTable::put(const Job& job) {
  database_.transact([&](SQLite::Database& db) {
    insert_row(db, "jobs", records::row_of<JobRow>(job), "INSERT OR REPLACE");
    drop_oldest(db);
  });
}

void JobTable::put_from_partner(const Job& job) {
  const auto known = get(job.id);
  if (known && (known->runner != job.runner || (known->finished() && !job.finished()))) return;
  put(job);
}

void JobTable::erase(const Uuid& id) {
  database_.transact([&](SQLite::Database& db) {
    SQLite::Statement q(db, "DELETE FROM jobs WHERE id = ?");
    q.bind(1, id.to_string());
    q.exec();
  });
}

std::optional<Job> JobTable::get(const Uuid& id) const {
  auto found = select_jobs(database_, "WHERE id = ?", {id.to_string()});
  return found.empty() ? std::nullopt : std::optional(std::move(found.front()));
}

std::vector<Job> JobTable::newest(std::int64_t limit) const {
  // Unfinished first, so that the limit never hides one; then all by time.
  auto jobs = select_jobs(database_, "ORDER BY finished_ms IS NOT NULL, created_ms DESC LIMIT ?", {limit});
  std::ranges::stable_sort(jobs, std::greater<>(), &Job::created_ms);
  return jobs;
}

std::vector<Job> JobTable::unfinished() const {
  return select_jobs(database_, "WHERE finished_ms IS NULL ORDER BY created_ms");
}

std::string to_json_text(const Job& job) { return records::to_json<JobMessage>(job).dump(); }

Outcome<Job> job_from(std::string_view text) {
  try {
    return records::from_json<JobMessage, Job>(json::parse(text));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::malformed, std::string("This is not a job: ") + e.what());
  }
}

}  // namespace lockstep::mgmt
