#pragma once
// How a command ends when it does not end well.
#include <expected>
#include <string>
#include <utility>

namespace lockstep::cli {

/// The command's exit codes; documented in lockstep(1).
enum class Exit : int {
  ok = 0,
  refused = 1,      ///< the server said no, the job failed, or (health) all is not well
  usage = 2,        ///< the command line or the configuration makes no sense
  unreachable = 3,  ///< no answer from the server, or not the server that was expected
};

struct Failure {
  Exit exit = Exit::refused;
  std::string message;  ///< for a person, may have several lines; empty when everything was said already
  std::string type{};   ///< the server's problem type, where it was the server that refused
};

template <class T>
using Outcome = std::expected<T, Failure>;

[[nodiscard]] inline std::unexpected<Failure> fail(Exit exit, std::string message) {
  return std::unexpected(Failure{exit, std::move(message)});
}

}  // namespace lockstep::cli
