#pragma once
// What commands read from files that their options name.
#include <string>

#include "ui-api/cli/context.hpp"

namespace lockstep::cli {

/// The first line of a file, or of standard input for "-": secrets do not belong on a command line.
[[nodiscard]] Outcome<std::string> read_secret(Context& context, const std::string& path);
/// The whole of a file that is not empty, at most 1 MiB.
[[nodiscard]] Outcome<std::string> read_text(const std::string& path);

}  // namespace lockstep::cli
