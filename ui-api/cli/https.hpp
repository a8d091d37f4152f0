#pragma once
// The real transport: HTTP/1.1 over TLS, or in the clear to this machine. One connection, kept for the next request.
#include <memory>

#include "ui-api/cli/settings.hpp"
#include "ui-api/cli/transport.hpp"

namespace lockstep::cli {

/// Connects at the first request. Every failure names the server and what to do.
[[nodiscard]] std::unique_ptr<Transport> make_https_transport(Settings settings);

}  // namespace lockstep::cli
