#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>

#include <unistd.h>

#include "ui-api/cli/https.hpp"
#include "ui-api/cli/run.hpp"
#include "ui-api/cli/setup/local_host.hpp"

int main(int argc, char** argv) {
  using namespace lockstep::cli;
  std::signal(SIGPIPE, SIG_IGN);
  World world{std::cin, std::cout, std::cerr, isatty(STDIN_FILENO) && isatty(STDERR_FILENO), {}, {}, {}};
  world.getenv = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
  world.connect = [](const Settings& settings) { return make_https_transport(settings); };
  const auto host = setup::make_local_host();
  world.host = host.get();
  world.sleep = [](unsigned ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  try {
    return run({argv + 1, argv + argc}, std::move(world));
  } catch (const std::exception& e) {
    std::cerr << "lockstep: an unexpected error: " << e.what() << '\n';
    return static_cast<int>(Exit::refused);
  }
}
