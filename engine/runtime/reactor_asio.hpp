#pragma once
// The Asio context inside a reactor, for the drivers that open sockets on it. Include from .cpp files only: Asio is
// heavy.
#include <boost/asio/io_context.hpp>

#include "engine/runtime/reactor.hpp"

namespace lockstep::engine {

/// Handlers run on the reactor's thread as part of its turns. Lives as long as the reactor.
[[nodiscard]] boost::asio::io_context& io_context(Reactor& reactor);

}  // namespace lockstep::engine
