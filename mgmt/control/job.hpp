#pragma once
// What takes longer than a request: a row that survives a restart, and the steps that its runner takes.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "engine/base/uuid.hpp"
#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

class Database;

enum class JobState : std::uint8_t { pending, running, done, failed };
BOOST_DESCRIBE_ENUM(JobState, pending, running, done, failed)
[[nodiscard]] const char* to_string(JobState state);

struct Job {
  engine::Uuid id;
  std::string kind;     ///< "volume.create"
  engine::Uuid runner;  ///< the node that runs it; the other only knows of it
  JobState state = JobState::pending;
  std::string step;  ///< where it stands; its runner goes on from there
  double progress = 0;
  std::string message;
  std::optional<Refusal> error;
  std::optional<engine::Uuid> volume;
  std::string parameters;  ///< JSON, of its kind
  std::int64_t created_ms = 0;
  std::int64_t finished_ms = 0;  ///< 0: not finished

  [[nodiscard]] bool finished() const { return state == JobState::done || state == JobState::failed; }
};
BOOST_DESCRIBE_STRUCT(Job, (),
                      (id, kind, runner, state, step, progress, message, error, volume, parameters, created_ms,
                       finished_ms))

constexpr std::int64_t kMaxFinishedJobs = 1000;

class JobTable {
 public:
  explicit JobTable(Database& database) : database_(database) {}
  void put(const Job& job);  ///< inserts or replaces; the oldest finished ones beyond kMaxFinishedJobs go
  /// What the partner tells of a job of its own. It may come late: what has ended stays ended.
  void put_from_partner(const Job& job);
  void erase(const engine::Uuid& id);
  [[nodiscard]] std::optional<Job> get(const engine::Uuid& id) const;
  [[nodiscard]] std::vector<Job> newest(std::int64_t limit) const;  ///< unfinished ones always, newest first
  [[nodiscard]] std::vector<Job> unfinished() const;                ///< oldest first

 private:
  Database& database_;
};

/// For the partner, so that both nodes know of every job.
[[nodiscard]] std::string to_json_text(const Job& job);
[[nodiscard]] Outcome<Job> job_from(std::string_view text);

}  // namespace lockstep::mgmt
