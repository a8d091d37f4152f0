#pragma once
// Completion of commands and options in a shell, from the commands themselves.
#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// A script for bash: `eval "$(lockstep completion)"`. zsh runs it after `autoload -U +X bashcompinit && bashcompinit`.
[[nodiscard]] std::string completion_script(const CLI::App& app);

}  // namespace lockstep::cli
