#include "mgmt/control/job.hpp"

#include <algorithm>
#include <stdexcept>

#include <SQLiteCpp/SQLiteCpp.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/database.hpp"
#include "mgmt/control/refusal_json.hpp"

namespace lockstep::mgmt {
namespace {

using engine::Uuid;
constexpr const char* kStates[] = {"pending", "running", "done", "failed"};
constexpr const char* kColumns =
    "SELECT id, kind, runner, state, step, progress, message, error, volume, parameters, created_ms, finished_ms "
    "FROM jobs ";

Uuid parsed(const std::string& text) {
  const auto id = Uuid::parse(text);
  if (!id) throw std::runtime_error("A job holds a malformed UUID: " + text);
  return *id;
}

JobState state_from(const std::string& text) {
  for (int i = 0; i < 4; ++i)
    if (text == kStates[i]) return static_cast<JobState>(i);
  throw std::runtime_error("A job has the unknown state " + text);
}

Job read(SQLite::Statement& q) {
  Job job;
  job.id = parsed(q.getColumn(0).getString());
  job.kind = q.getColumn(1).getString();
  job.runner = parsed(q.getColumn(2).getString());
  job.state = state_from(q.getColumn(3).getString());
  job.step = q.getColumn(4).getString();
  job.progress = q.getColumn(5).getDouble();
  job.message = q.getColumn(6).getString();
  if (!q.getColumn(7).isNull()) job.error = refusal_from(q.getColumn(7).getString());
  if (!q.getColumn(8).isNull()) job.volume = parsed(q.getColumn(8).getString());
  job.parameters = q.getColumn(9).getString();
  job.created_ms = q.getColumn(10).getInt64();
  if (!q.getColumn(11).isNull()) job.finished_ms = q.getColumn(11).getInt64();
  return job;
}

std::vector<Job> read_all(SQLite::Statement& q) {
  std::vector<Job> jobs;
  while (q.executeStep()) jobs.push_back(read(q));
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

const char* to_string(JobState state) { return kStates[static_cast<int>(state)]; }

void JobTable::put(const Job& job) {
  database_.transact([&](SQLite::Database& db) {
    SQLite::Statement q(db, "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    q.bind(1, job.id.to_string());
    q.bind(2, job.kind);
    q.bind(3, job.runner.to_string());
    q.bind(4, to_string(job.state));
    q.bind(5, job.step);
    q.bind(6, job.progress);
    q.bind(7, job.message);
    if (job.error) q.bind(8, to_json_text(*job.error));
    if (job.volume) q.bind(9, job.volume->to_string());
    q.bind(10, job.parameters);
    q.bind(11, job.created_ms);
    if (job.finished_ms) q.bind(12, job.finished_ms);
    q.exec();
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
  std::optional<Job> job;
  database_.use([&](SQLite::Database& db) {
    SQLite::Statement q(db, std::string(kColumns) + "WHERE id = ?");
    q.bind(1, id.to_string());
    if (q.executeStep()) job = read(q);
  });
  return job;
}

std::vector<Job> JobTable::newest(std::int64_t limit) const {
  std::vector<Job> jobs;
  database_.use([&](SQLite::Database& db) {
    // Unfinished first, so that the limit never hides one; then all by time.
    SQLite::Statement q(db, std::string(kColumns) + "ORDER BY finished_ms IS NOT NULL, created_ms DESC LIMIT ?");
    q.bind(1, limit);
    jobs = read_all(q);
  });
  std::ranges::stable_sort(jobs, std::greater<>(), &Job::created_ms);
  return jobs;
}

std::vector<Job> JobTable::unfinished() const {
  std::vector<Job> jobs;
  database_.use([&](SQLite::Database& db) {
    SQLite::Statement q(db, std::string(kColumns) + "WHERE finished_ms IS NULL ORDER BY created_ms");
    jobs = read_all(q);
  });
  return jobs;
}

std::string to_json_text(const Job& job) {
  nlohmann::json j = {{"id", job.id.to_string()},
                      {"kind", job.kind},
                      {"runner", job.runner.to_string()},
                      {"state", to_string(job.state)},
                      {"step", job.step},
                      {"progress", job.progress},
                      {"message", job.message},
                      {"error", nullptr},
                      {"volume", nullptr},
                      {"parameters", job.parameters},
                      {"created_ms", job.created_ms},
                      {"finished_ms", job.finished_ms}};
  if (job.error) j["error"] = to_json_text(*job.error);
  if (job.volume) j["volume"] = job.volume->to_string();
  return j.dump();
}

Outcome<Job> job_from(std::string_view text) {
  try {
    const auto j = nlohmann::json::parse(text);
    Job job;
    job.id = parsed(j.at("id"));
    job.kind = j.at("kind");
    job.runner = parsed(j.at("runner"));
    job.state = state_from(j.at("state"));
    job.step = j.at("step");
    job.progress = j.at("progress");
    job.message = j.at("message");
    if (!j.at("error").is_null()) job.error = refusal_from(j.at("error").get<std::string>());
    if (!j.at("volume").is_null()) job.volume = parsed(j.at("volume"));
    job.parameters = j.at("parameters");
    job.created_ms = j.at("created_ms");
    job.finished_ms = j.at("finished_ms");
    return job;
  } catch (const std::exception& e) {
    return refuse(RefusalKind::malformed, std::string("This is not a job: ") + e.what());
  }
}

}  // namespace lockstep::mgmt
