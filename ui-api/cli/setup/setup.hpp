#pragma once
// `lockstep setup`: from the package to a node of a pair. Asks, looks, and only then writes.
#include "ui-api/cli/context.hpp"
#include "ui-api/cli/setup/answers.hpp"

namespace lockstep::cli::setup {

/// Running it again changes nothing that is as it was said. What fails before the file is written has changed nothing;
/// what fails until management answers leaves the file as it was.
[[nodiscard]] Outcome<void> run(const Options& options, const Machine& machine);

}  // namespace lockstep::cli::setup
