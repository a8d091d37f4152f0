#pragma once
// Values in the texts that set-up makes: commands for an operator's shell, and TOML. No value ends its own quotes.
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli::setup {

/// One word of a POSIX shell's command line, in single quotes where that is needed.
[[nodiscard]] std::string shell_word(std::string_view text);
/// A basic string of TOML, on one line whatever `text` holds.
[[nodiscard]] std::string toml_string(std::string_view text);
[[nodiscard]] std::string toml_list(const std::vector<std::string>& texts);

}  // namespace lockstep::cli::setup
