#include "mgmt/control/configuration_copy.hpp"

#include <fmt/format.h>

#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {

ConfigurationCopy::Seen ConfigurationCopy::look_and_write(const SavedConfigurationFile& file,
                                                          const SavedConfiguration& now) {
  const auto there = file.read();
  if (there && there->revision == now.revision && there->node == now.node) return {};
  if (there && there->configuration.pair->id == now.configuration.pair->id && there->revision.n > now.revision.n)
    return {fmt::format("{} holds revision {}, this node's database only {}.", file.path().string(), there->revision.n,
                        now.revision.n),
            there->revision.n};
  const auto written = file.write(now);
  return {written ? "" : written.error().message};
}

void ConfigurationCopy::update(const SavedConfiguration& now) {
  auto seen = thread_.ask([file = file_, now] { return look_and_write(file, now); });
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
  return refuse(RefusalKind::internal, fmt::format("The configuration's copy can't be kept as {}: {}", path.string(),
                                                   error ? error->message() + "." : silence()));
}

void ConfigurationCopy::remove() {
  (void)thread_.ask([file = file_] {
    std::error_code ignored;
    return std::filesystem::remove(file.path(), ignored);
  });
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
