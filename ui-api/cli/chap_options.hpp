#pragma once
// The options that name a CHAP user and its secret.
#include <string>

#include "ui-api/cli/context.hpp"

namespace CLI {
class App;
}

namespace lockstep::cli {

struct ChapOptions {
  std::string user, secret, secret_file;

  /// `prefix` is such as "--chap"; `who` proves itself so.
  void add_to(CLI::App& command, const std::string& prefix, const std::string& who);
  /// Null when no user was named. `prefix` as before.
  [[nodiscard]] Outcome<json> body(Context& context, const char* prefix) const;
};

}  // namespace lockstep::cli
