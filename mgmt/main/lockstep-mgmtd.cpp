// lockstep-mgmtd: reads its configuration file, opens the node's management, serves the API until it is told to stop.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "mgmt/control/controller.hpp"
#include "mgmt/control/mgmtd_config.hpp"
#include "mgmt/log/log.hpp"
#include "mgmt/process/readiness.hpp"
#include "mgmt/process/secrecy.hpp"
#include "ui-api/rest/api.hpp"
#include "ui-api/rest/https_server.hpp"

namespace {

using namespace lockstep;

int refuse_to_start(const std::string& reason) {
  mgmt::say_refusal("lockstep-mgmtd", reason);
  return 1;
}

mgmt::AddressProblems not_listened(const std::map<std::string, std::string>& problems) {
  mgmt::AddressProblems all;
  for (const auto& [address, why] : problems) all.push_back({address, why});
  return all;
}

int say_whether_usable(const std::string& file, const engine::Result<mgmt::MgmtdConfig>& config) {
  const auto complaints = config ? mgmt::not_usable(*config) : std::vector{config.error().message};
  for (const auto& complaint : complaints) fmt::print(stderr, "{}\n", complaint);
  if (complaints.empty()) fmt::print("The configuration file {} can be used.\n", file);
  return complaints.empty() ? 0 : 1;
}

// Blocks the signals in every thread made from now on; main() waits for them.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return signals;
}

/// In the midst of what it does, since none of that may go on: jobs take their next step many times a second.
void end_at_once() {
  mgmt::flush_log();
  std::_Exit(EXIT_FAILURE);
}

int run(const mgmt::MgmtdConfig& config, const std::string& file) {
  const sigset_t signals = block_signals();
  auto controller = mgmt::Controller::open(config.local);
  if (!controller) return refuse_to_start(controller.error().message);
  const auto& identity = (*controller)->core().identity;
  const auto configuration = (*controller)->core().configuration();
  for (const auto& node : configuration->nodes)
    if (node.id == (*controller)->core().node_id)
      for (const auto& d : mgmt::not_in_force(config, node))
        mgmt::log_warning(fmt::format("{} {}", d.sentence, d.advice));
  ui_api::Api api(**controller, {.web_folder = config.web_folder});
  ui_api::HttpsServer server(identity, (*controller)->core().page, {}, api);
  const auto listening = server.start(config.listen);
  if (!listening) return refuse_to_start(listening.error().message);
  mgmt::log_info(fmt::format("lockstep-mgmtd {} serves https://{}; SHA-256 of its certificate: {}", LOCKSTEP_VERSION,
                             *listening, (*controller)->core().page.view().facts.fingerprint));
  mgmt::FileWatch watch(file);
  (*controller)
      ->use_listener(
          [&server](const std::vector<std::string>& addresses) {
            return not_listened(server.also_listen_at(addresses));
          },
          [&watch](const mgmt::Node& node) { return watch.differences(node); });
  (*controller)->end_with(end_at_once);
  (*controller)->start();
  mgmt::tell_ready();
  int signal = 0;
  sigwait(&signals, &signal);
  mgmt::log_info(fmt::format("Stops, on signal {}.", signal));
  server.stop();
  (*controller)->stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Lockstep's management: REST API, web page, desired state of the pair.", "lockstep-mgmtd");
  std::string file = "/etc/lockstep/mgmtd.toml";
  app.add_option("--config", file, "Configuration file")->capture_default_str();
  bool check = false;
  app.add_flag("--check", check, "Say whether the configuration file can be used, and start nothing");
  app.set_version_flag("--version", "lockstep-mgmtd " LOCKSTEP_VERSION);
  CLI11_PARSE(app, argc, argv);
  const auto config = mgmt::read_mgmtd_config(file);
  if (check) return say_whether_usable(file, config);
  if (!config) return refuse_to_start(config.error().message);
  mgmt::start_log("lockstep-mgmtd", config->log_level);
  mgmt::forbid_dumps();
  if (const auto why_not = mgmt::keep_in_memory()) mgmt::log_info(*why_not);
  int status = 1;
  try {
    status = run(*config, file);
  } catch (const std::exception& e) {
    status = refuse_to_start(fmt::format("{}.", e.what()));
  }
  mgmt::flush_log();
  return status;
}
