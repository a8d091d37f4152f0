#include "mgmt/main/run_lockstepd.hpp"

#include <filesystem>

#include <CLI/CLI.hpp>

#include "mgmt/data_plane/configuration.hpp"
#include "mgmt/data_plane/daemon.hpp"
#include "mgmt/data_plane/version.hpp"
#include "mgmt/log/log.hpp"
#include "mgmt/process/secrecy.hpp"

namespace {

constexpr const char* kDefaultConfiguration = "/etc/lockstep/lockstepd.toml";

// The default file may be missing: then the defaults hold.
lockstep::engine::Result<lockstep::data_plane::Configuration> configuration_of(const std::string& path) {
  if (path.empty() && !std::filesystem::exists(kDefaultConfiguration)) return lockstep::data_plane::Configuration{};
  return lockstep::data_plane::load_configuration(path.empty() ? kDefaultConfiguration : path);
}

int fail(const std::string& message) {
  lockstep::mgmt::say_refusal("lockstepd", message);
  return 1;
}

}  // namespace

int lockstep::run_lockstepd(int argc, char** argv, rdma::OpenFabric open_fabric) {
  CLI::App app(
      "lockstepd moves the data: it serves mirrored disks over iSCSI. It is told what to serve by\n"
      "lockstep-mgmtd through its control socket.");
  std::string path;
  app.add_option("--config", path, std::string("Configuration file (default: ") + kDefaultConfiguration + ")");
  app.set_version_flag("--version", std::string("lockstepd ") + lockstep::data_plane::kVersion);
  CLI11_PARSE(app, argc, argv);

  const auto configuration = configuration_of(path);
  if (!configuration) return fail(configuration.error().message);
  lockstep::mgmt::start_log("lockstepd", configuration->log_level);
  lockstep::mgmt::forbid_dumps();
  if (const auto why_not = lockstep::mgmt::keep_in_memory()) lockstep::mgmt::log_info(*why_not);
  auto daemon = lockstep::data_plane::Daemon::create(*configuration, open_fabric);
  if (!daemon) return fail(daemon.error().message);
  const int status = (*daemon)->run();
  lockstep::mgmt::flush_log();
  return status;
}
