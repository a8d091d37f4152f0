#include "mgmt/control/database.hpp"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "mgmt/control/migrations.hpp"

namespace lockstep::mgmt {
namespace {

using engine::Errc;

// SQLITE_IOERR, SQLITE_CORRUPT, SQLITE_FULL, SQLITE_NOTADB
constexpr int kIoError = 10, kCorrupt = 11, kFull = 13, kNotADatabase = 26;
constexpr std::uintmax_t kLeastSpace = std::uintmax_t{1} << 20;  // bytes; a change takes some tens of KiB at once

int pragma(SQLite::Database& db, const char* name) { return db.execAndGet(fmt::format("PRAGMA {}", name)).getInt(); }

engine::Result<void> check_version(SQLite::Database& db, const std::string& path) {
  const int version = pragma(db, "user_version");
  const int known = static_cast<int>(migrations().size());
  const int application = pragma(db, "application_id");
  const bool empty = db.execAndGet("SELECT count(*) FROM sqlite_schema").getInt() == 0;
  if (!empty && application != kApplicationId)
    return engine::fail(Errc::foreign, fmt::format("{} is a database, but not one of Lockstep's. Move it away or set "
                                                   "another data folder in the configuration file.",
                                                   path));
  if (version > known)
    return engine::fail(Errc::wrong_version,
                        fmt::format("{} has schema version {}; this lockstep-mgmtd knows versions up to {}. It was "
                                    "written by a newer lockstep-mgmtd: install that one again. Nothing was changed. "
                                    "To stay with this one, move {} and its -wal file away and start "
                                    "lockstep-mgmtd: this node is then in no pair. Run `lockstep node replace SIDE` on "
                                    "its partner, with this node's side, and `lockstep pair join INVITATION` here.",
                                    path, version, known, path));
  return {};
}

engine::Result<void> check_integrity(SQLite::Database& db, const std::string& path) {
  const std::string verdict = db.execAndGet("PRAGMA integrity_check(1)").getString();
  if (verdict == "ok") return {};
  return engine::fail(Errc::corrupt, verdict + " in " + path);
}

void migrate(SQLite::Database& db) {
  const auto all = migrations();
  for (auto version = static_cast<std::size_t>(pragma(db, "user_version")); version < all.size(); ++version) {
    SQLite::Transaction transaction(db);
    db.exec(std::string(all[version]));
    db.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
    db.exec(fmt::format("PRAGMA user_version = {}", version + 1));
    transaction.commit();
  }
}

std::string corrupt_message(const std::string& path, const char* reason) {
  return fmt::format(
      "{} is damaged ({}). The volumes themselves are not touched by this, and lockstepd goes on with them: do not "
      "restart "
      "it. Move {} and its -wal and -shm files away and start lockstep-mgmtd: this node is then in no pair. If its "
      "partner "
      "has its database, run `lockstep node replace SIDE` there, with this node's side, and `lockstep pair join "
      "INVITATION` "
      "here. If no node has its database any more, run `lockstep pair recover` here.",
      path, reason, path);
}

}  // namespace

Database::Database(std::unique_ptr<SQLite::Database> handle)
    : handle_(std::move(handle)), path_(handle_->getFilename()) {}
Database::~Database() = default;

engine::Result<std::unique_ptr<Database>> Database::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  const mode_t before = ::umask(0077);  // SQLite makes the file and its -wal beside it with what the umask leaves
  try {
    auto handle = std::make_unique<SQLite::Database>(name, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, 5000);
    ::umask(before);
    // Nobody else reads it. The WAL's index is in memory then: to start takes no space on a disk that may be full.
    handle->exec("PRAGMA locking_mode = EXCLUSIVE");
    auto good = check_version(*handle, name);
    if (!good) return std::unexpected(good.error());
    handle->exec("PRAGMA journal_mode = WAL");
    handle->exec("PRAGMA synchronous = FULL");
    handle->exec("PRAGMA foreign_keys = ON");
    handle->exec("PRAGMA secure_delete = ON");  // secrets that are accepted no more
    good = check_integrity(*handle, name);
    if (!good) return engine::fail(Errc::corrupt, corrupt_message(name, good.error().message.c_str()));
    migrate(*handle);
    return std::unique_ptr<Database>(new Database(std::move(handle)));
  } catch (const SQLite::Exception& e) {
    ::umask(before);
    const int code = e.getErrorCode();
    const bool damaged = code == kCorrupt || code == kNotADatabase;
    if (damaged) return engine::fail(Errc::corrupt, corrupt_message(name, e.what()));
    return engine::fail(Errc::io_error, fmt::format("Cannot open the database {}: {}. Check the folder's permissions "
                                                    "and free space, and that no other lockstep-mgmtd uses it.",
                                                    name, e.what()));
  }
}

void Database::note(std::string failure) {
  const std::lock_guard lock(trouble_mutex_);
  failure_ = std::move(failure);
}

std::string Database::lack_of_space() const {
  std::error_code error;
  const auto space = std::filesystem::space(std::filesystem::path(path_).parent_path(), error);
  if (error || space.available >= kLeastSpace) return {};
  return fmt::format("Less than 1 MiB is left for {}: changes of the configuration are refused, or soon will be.",
                     path_);
}

std::string Database::trouble() const {
  if (auto lack = lack_of_space(); !lack.empty()) return lack;
  const std::lock_guard lock(trouble_mutex_);
  return failure_;
}

void Database::use(const std::function<void(SQLite::Database&)>& work) {
  const std::lock_guard lock(mutex_);
  work(*handle_);
}

void Database::empty_log() {
  use([](SQLite::Database& db) { db.execAndGet("PRAGMA wal_checkpoint(TRUNCATE)"); });
}

void Database::transact(const std::function<void(SQLite::Database&)>& work) {
  const std::lock_guard lock(mutex_);
  if (depth_ > 0) return work(*handle_);
  struct Depth {
    int& depth;
    explicit Depth(int& d) : depth(d) { ++depth; }
    ~Depth() { --depth; }
  } const nested(depth_);
  try {
    SQLite::Transaction transaction(*handle_);
    work(*handle_);
    transaction.commit();
    note("");
  } catch (const SQLite::Exception& e) {
    if (e.getErrorCode() == kIoError) note(fmt::format("{} can't be written: {}.", path_, e.what()));
    if (e.getErrorCode() != kFull) throw;
    note(fmt::format("There is no space left for {}: changes of the configuration are refused.", path_));
    throw std::runtime_error(fmt::format(
        "There is no space left for {}, so nothing was changed. Free or add space on its file system, then try again",
        handle_->getFilename()));
  }
}

}  // namespace lockstep::mgmt
