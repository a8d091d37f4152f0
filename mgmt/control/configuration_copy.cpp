#include "mgmt/control/configuration_copy.hpp"

#include <fmt/format.h>

#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {

ConfigurationCopy::Seen ConfigurationCopy::look(const SavedConfigurationFile& file, const SavedConfiguration& now) {
  const auto there = file.read();
  if (there && there->configuration.pair->id == now.configuration.pair->id && there->revision.n > now.revision.n)
    return {fmt::format("{} holds revision {}, this node's database only {}.", file.path().string(), there->revision.n,
                        now.revision.n),
            there->revision.n};
  return {};
}

/// One of a later time than the database was is not written over, though that has counted on since.
ConfigurationCopy::Seen ConfigurationCopy::look_and_write(const SavedConfigurationFile& file,
                                                          const SavedConfiguration& now, std::int64_t newer) {
  const auto there = file.read();
  if (there && there->revision == now.revision && there->node == now.node) return {};
  if (auto seen = look(file, now); seen.newer != 0) return seen;
  std::error_code error;  // what can't be kept is written over
  if (newer != 0 && there && there->revision.n == newer)
    std::filesystem::rename(file.path(), fmt::format("{}.revision-{}", file.path().string(), newer), error);
  const auto written = file.write(now);
  return {written ? "" : written.error().message};
}

/// The first look is one at the copy as the database of this start found it: nothing is written before, and what is
/// changed before the disk answers says nothing of the time of the database.
void ConfigurationCopy::update(const SavedConfiguration& now) {
  if (!was_seen_ && !see_first(now)) return;
  take(thread_.ask([file = file_, now, newer = newer()] { return look_and_write(file, now, newer); }), "");
}

/// True when it may be written.
bool ConfigurationCopy::see_first(const SavedConfiguration& now) {
  SavedConfiguration first = now;
  {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = now.revision.n;
    first.revision.n = *first_;
  }
  auto seen = thread_.ask([file = file_, first] { return look(file, first); });
  const bool is_newer = seen && seen->newer != 0;
  const bool answered = seen.has_value();
  take(std::move(seen), " Jobs from before lockstep-mgmtd's start wait for that.");
  if (is_newer) was_newer_ = true;
  was_seen_ = answered;
  return answered && !is_newer;
}

void ConfigurationCopy::take(std::optional<Seen> seen, const std::string& besides) {
  const std::lock_guard lock(mutex_);
  if (!seen) seen = Seen{silence() + besides, seen_.newer};
  if (!seen->problem.empty() && seen->problem != seen_.problem)
    log_error(fmt::format("The copy of the configuration is not of now: {}", seen->problem));
  seen_ = std::move(*seen);
}

Outcome<SavedConfiguration> ConfigurationCopy::read() {
  auto there = thread_.ask([file = file_] { return file.read(); });
  if (!there) return refuse(RefusalKind::not_current, silence());
  return std::move(*there);
}

Outcome<void> ConfigurationCopy::set_aside(const std::filesystem::path& path) {
  const auto error = thread_.ask([file = file_, path] {
    std::error_code failed;
    if (file.exists()) std::filesystem::rename(file.path(), path, failed);
    return failed;
  });
  if (error && !*error) return {};
  if (!error) is_owed();
  return refuse(RefusalKind::internal, fmt::format("The configuration's copy can't be kept as {}: {}", path.string(),
                                                   error ? error->message() + "." : silence()));
}

void ConfigurationCopy::remove() {
  (void)thread_.ask([file = file_] {
    std::error_code ignored;
    return std::filesystem::remove(file.path(), ignored);
  });
}

/// It may yet be done, so that update() has to look again.
void ConfigurationCopy::is_owed() {
  const std::lock_guard lock(mutex_);
  seen_.problem = silence();
}

std::string ConfigurationCopy::problem() const {
  const std::lock_guard lock(mutex_);
  return seen_.problem;
}

std::int64_t ConfigurationCopy::newer() const {
  const std::lock_guard lock(mutex_);
  return seen_.newer;
}

std::string ConfigurationCopy::silence() const {
  return fmt::format("The disk of {} does not answer.", file_.path().parent_path().string());
}

}  // namespace lockstep::mgmt
