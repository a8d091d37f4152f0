#pragma once
// The witness's token: what a pair needs to know of its witness, in one line to be pasted. `lockstep-witness` makes it
// (packaging/witness/lockstep_witness/token.py has the form). It holds a password.
#include <string>
#include <string_view>
#include <vector>

#include "ui-api/cli/api.hpp"

namespace lockstep::cli {

struct WitnessToken {
  std::string pair;  ///< the pair's name at the witness
  std::string id;    ///< the pair's id that the user is for
  std::vector<std::string> endpoints;
  std::string ca, user, password;

  /// As an arbiter of the REST API, without its kind.
  [[nodiscard]] json access() const;
};

/// Every field is checked. Spaces and line ends around the text, as pasting brings them, are passed over. Exit::usage
/// with a sentence that never repeats the token.
[[nodiscard]] Outcome<WitnessToken> witness_token_from(std::string_view text);

}  // namespace lockstep::cli
