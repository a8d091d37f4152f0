#pragma once
// The options that say where the witness is, and what it is spoken to with. Secrets come in files, because a command
// line can be read by others on the machine.
#include <string>
#include <vector>

#include "ui-api/cli/context.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

struct WitnessOptions {
  std::vector<std::string> endpoints;
  std::string ca, user, password_file, certificate, key;

  /// Of a pair that is made: --witness, --witness-ca and so on, each with what belongs to it. Gives --witness.
  CLI::Option* add_to(CLI::App& command);
  /// Of a pair that there is: --endpoint, --ca and so on; what is not said may stay as it is.
  void add_for_change(CLI::App& command);
  /// The fields that were said.
  [[nodiscard]] Outcome<json> body(Context& context) const;
};

}  // namespace lockstep::cli
