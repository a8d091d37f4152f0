#pragma once
// The server's refusals (RFC 9457 problem documents) in words for a terminal.
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "ui-api/cli/transport.hpp"

namespace lockstep::cli {

/// Title, detail, then each field at fault on a line, then what to do where that is known.
[[nodiscard]] std::string render_problem(const nlohmann::json& problem);

/// The Failure that a response with an error status stands for; any body will do.
[[nodiscard]] Failure failure_of(const Response& response);

}  // namespace lockstep::cli
