#pragma once
// A socket whose readiness a reactor tells. On that reactor.
#include <memory>

#include "engine/base/result.hpp"
#include "engine/runtime/reactor.hpp"
#include "tests/support/rdma_between/socket.hpp"

namespace lockstep::test::between {

class PacketSocket {
 public:
  PacketSocket(engine::Reactor& reactor, Descriptor descriptor);
  /// Closes it. Nobody is called any more.
  ~PacketSocket();
  PacketSocket(const PacketSocket&) = delete;
  PacketSocket& operator=(const PacketSocket&) = delete;

  /// Once, in a later turn; one of each kind at a time.
  void when_readable(engine::Callback<> action);
  void when_writable(engine::Callback<> action);
  [[nodiscard]] int number() const;
  /// It is another's, and nobody is called any more.
  [[nodiscard]] Descriptor take();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::test::between
