#include "mgmt/control/configuration_copy.hpp"

#include <fmt/format.h>

#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {

ConfigurationCopy::Seen ConfigurationCopy::look_and_write(const SavedConfigurationFile& file,
                                                          const SavedConfiguration& now, std::int64_t known) {
  const auto there = file.read();
  if (there && there->revision == now.revision && there->node == now.node) return {};
  if (there && there->configuration.pair->id == now.configuration.pair->id && there->revision.n > known)
    return {fmt::format("{} holds revision {}, this node's database only {}.", file.path().string(), there->revision.n,
                        known),
            there->revision.n};
  const auto written = file.write(now);
  return {written ? "" : written.error().message};
}

/// What is changed before the disk answers says nothing of the time of the database.
std::int64_t ConfigurationCopy::first_of(const SavedConfiguration& now) {
  const std::lock_guard lock(mutex_);
  if (!first_) first_ = now.revision.n;
  return *first_;
}

void ConfigurationCopy::update(const SavedConfiguration& now) {
  const std::int64_t known = was_seen_ ? now.revision.n : first_of(now);
  auto seen = thread_.ask([file = file_, now, known] { return look_and_write(file, now, known); });
  const std::lock_guard lock(mutex_);
  if (!seen)
    seen = Seen{silence(), seen_.newer};
  else
    was_seen_ = true;
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
  return fmt::format("The disk of {} does not answer.{}", file_.path().parent_path().string(),
                     was_seen_ ? "" : " Jobs from before lockstep-mgmtd's start wait for that.");
}

}  // namespace lockstep::mgmt
