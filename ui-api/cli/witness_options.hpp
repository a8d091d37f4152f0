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
  std::string token_file;  ///< says all of it at once (witness_token.hpp)

  /// The two options that name a witness; another kind of arbiter excludes them.
  struct Names {
    CLI::Option *endpoints, *token;
  };
  /// Of a pair that is made: --witness, --witness-ca and so on, each with what belongs to it.
  Names add_to(CLI::App& command);
  /// Of a pair that there is: --endpoint, --ca and so on; what is not said may stay as it is.
  void add_for_change(CLI::App& command);
  [[nodiscard]] bool name_one() const { return !endpoints.empty() || !token_file.empty(); }
  /// The fields that were said. The id of the pair that the token's user is for is left in `pair_id`, if there is a
  /// token and no id yet; Exit::usage where that is another one.
  [[nodiscard]] Outcome<json> body(Context& context, std::string* pair_id = nullptr) const;
};

}  // namespace lockstep::cli
