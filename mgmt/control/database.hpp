#pragma once
// lockstep-mgmtd's memory: one SQLite file (WAL, synchronous=FULL, foreign keys), its schema brought up to date by
// numbered migrations. A statement that fails throws std::runtime_error (SQLite::Exception): a broken disk is nobody's
// ordinary case, and the borders (a request, a job's step, a loop's turn) report it. Without space on the disk what is
// there can be opened and read, by one process at a time.
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>

#include "engine/base/result.hpp"

namespace SQLite {
class Database;
}

namespace lockstep::mgmt {

class Database {
 public:
  /// Opens or makes the file (mode 0600), checks it and migrates it. Errors: corrupt (what to do is in the message),
  /// wrong_version (made by a newer lockstep-mgmtd; nothing was changed), foreign (not a database of Lockstep's).
  [[nodiscard]] static engine::Result<std::unique_ptr<Database>> open(const std::filesystem::path& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Runs `work` alone, outside any transaction.
  void use(const std::function<void(SQLite::Database&)>& work);
  /// Runs `work` alone and durably, whole or not at all. May be nested: the outermost one commits.
  void transact(const std::function<void(SQLite::Database&)>& work);
  /// Why changes can't be stored, or soon may not be: the last one failed, or next to no space is left. A sentence;
  /// empty when all is well.
  [[nodiscard]] std::string trouble() const;
  /// The latter of the two.
  [[nodiscard]] std::string lack_of_space() const;
  /// Empties the write-ahead log into the database: pages of before are in neither any more.
  void empty_log();

 private:
  explicit Database(std::unique_ptr<SQLite::Database> handle);
  std::unique_ptr<SQLite::Database> handle_;
  std::recursive_mutex mutex_;
  int depth_ = 0;
  mutable std::mutex trouble_mutex_;
  std::string path_;
  std::string failure_;  ///< of the last transaction; empty when it was stored
  void note(std::string failure);
};

}  // namespace lockstep::mgmt
