#pragma once
// The options that name a CHAP user and its secret.
#include <string>

#include "ui-api/cli/context.hpp"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// The secret itself, of `secret` or `secret_file`; Exit::usage when it can't be read or is missing.
[[nodiscard]] Outcome<std::string> secret_of(Context& context, const char* option, const std::string& secret,
                                             const std::string& secret_file);

struct ChapOptions {
  std::string user, secret, secret_file;

  /// `prefix` is such as "--chap"; `who` proves itself so.
  void add_to(CLI::App& command, const std::string& prefix, const std::string& who);
  /// Null when no user was named. `prefix` as before.
  [[nodiscard]] Outcome<json> body(Context& context, const char* prefix) const;
};

}  // namespace lockstep::cli
