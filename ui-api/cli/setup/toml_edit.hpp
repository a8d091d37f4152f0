#pragma once
// Changes settings in the text of a TOML file and leaves all else of it as it is: other settings, comments, order.
// Pure.
#include <string>
#include <vector>

#include "ui-api/cli/outcome.hpp"

namespace lockstep::cli::setup {

struct Setting {
  std::string key;    ///< of the top level
  std::string value;  ///< as it stands in TOML
};

/// A setting that stands in the text gets the value in its place. Another one is put below the comment "#key = ..."
/// where there is one, else at the end. A setting that has this value already is not touched. The outcome is read again
/// and compared; Exit::refused when the text is not TOML, or cannot be changed without changing something else.
[[nodiscard]] Outcome<std::string> with_settings(const std::string& text, const std::vector<Setting>& settings);

}  // namespace lockstep::cli::setup
