#pragma once
// The Asio context inside a reactor, for the drivers that open sockets on it. Include from .cpp files only: Asio is
// heavy.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include "engine/runtime/reactor.hpp"

namespace lockstep::engine {

/// Handlers run on the reactor's thread as part of its turns. Lives as long as the reactor.
[[nodiscard]] boost::asio::io_context& io_context(Reactor& reactor);

/// A descriptor on a reactor's context, and on no other: each of its waits takes less than where the kind of the
/// context is found out by asking.
using ReactorDescriptor = boost::asio::posix::basic_stream_descriptor<boost::asio::io_context::executor_type>;

/// In a handler of a socket that much is expected of, for all that it does: the turn that it asks for may follow at
/// once. Ends last, since anything may be gone then.
class ReactorEvent {
 public:
  explicit ReactorEvent(Reactor& reactor);
  ~ReactorEvent();
  ReactorEvent(const ReactorEvent&) = delete;
  ReactorEvent& operator=(const ReactorEvent&) = delete;

 private:
  Reactor& reactor_;
};

}  // namespace lockstep::engine
