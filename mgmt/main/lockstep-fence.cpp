// lockstep-fence: carries out one order of lockstepd's. Standard input is the connection: one line, "off" or "status",
// comes in, and one line of JSON is the answer. What is run says a file that only root writes; nothing that comes over
// the connection becomes part of it. When the connection ends, so does what was ordered.
#include <array>
#include <csignal>
#include <cstdlib>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "mgmt/fence/fence_command.hpp"
#include "mgmt/process/secrecy.hpp"

namespace {

using namespace lockstep::mgmt;
using namespace std::chrono_literals;

constexpr int kConnection = 0;

class ThisMachine final : public FenceWorld {
 public:
  explicit ThisMachine(const FenceSettings& settings) : settings_(settings) {}
  AgentEnd run(const std::string& action, std::chrono::milliseconds limit) override {
    return run_agent(settings_.agent, agent_input(settings_, action), limit, kConnection);
  }
  bool wait(std::chrono::milliseconds time) override { return wait_with(kConnection, time); }
  std::chrono::milliseconds now() override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch());
  }

 private:
  const FenceSettings& settings_;
};

std::optional<std::string> read_order() {
  std::string line;
  std::array<char, 64> chunk{};
  while (line.size() < chunk.size()) {
    pollfd readable{kConnection, POLLIN, 0};
    if (::poll(&readable, 1, 10000) <= 0) return std::nullopt;
    const ssize_t got = ::read(kConnection, chunk.data(), chunk.size());
    if (got <= 0) return std::nullopt;
    line.append(chunk.data(), static_cast<std::size_t>(got));
    if (line.ends_with('\n')) return line.substr(0, line.size() - 1);
  }
  return std::nullopt;
}

void answer(const FenceAnswer& said) {
  const std::string line = to_json_text(said) + "\n";
  if (!said.problem.empty()) std::fprintf(stderr, "%s\n", said.problem.c_str());
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t sent = ::write(1, line.data() + at, line.size() - at);
    if (sent <= 0) return;
    at += static_cast<std::size_t>(sent);
  }
}

/// systemd hands it on from root's file (LoadCredential=).
std::string default_file() {
  const char* folder = std::getenv("CREDENTIALS_DIRECTORY");
  return folder ? std::string(folder) + "/fence.toml" : "/etc/lockstep/fence.toml";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "lockstep-fence powers the partner of this node off, or looks whether it is, when lockstepd asks for it.\n"
      "It is started by systemd for each question (lockstep-fence.socket).");
  std::string path = default_file();
  app.add_option("--config", path, "What is run, and how (default: /etc/lockstep/fence.toml)");
  app.set_version_flag("--version", std::string("lockstep-fence ") + LOCKSTEP_VERSION);
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGPIPE, SIG_IGN);
  forbid_dumps();
  const auto order = read_order();
  if (!order || (*order != "off" && *order != "status")) {
    answer({false, FenceAnswer::Power::unknown, "The order must be \"off\" or \"status\"."});
    return 2;
  }
  const auto settings = load_fence_settings(path);
  if (!settings) {
    answer({false, FenceAnswer::Power::unknown, settings.error().message});
    return 1;
  }
  ThisMachine machine(*settings);
  const FenceAnswer said = *order == "off" ? power_off(*settings, machine) : look_at_power(*settings, machine);
  answer(said);
  return said.done ? 0 : 1;
}
