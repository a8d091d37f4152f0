#pragma once
// The control socket: JSON-RPC 2.0 over a Unix stream socket, one object a line.
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "engine/base/result.hpp"
#include "engine/runtime/reactor.hpp"
#include "mgmt/data_plane/instance_lock.hpp"
#include "mgmt/data_plane/json_rpc.hpp"

namespace lockstep::data_plane {

using RpcReply = engine::Callback<RpcResult>;

class RpcHandler {
 public:
  virtual ~RpcHandler() = default;
  /// `reply` is owed once, on the control reactor, now or later. events.subscribe never comes here.
  virtual void handle(const RpcRequest& request, RpcReply reply) = 0;
};

/// Owned by the control reactor.
class ControlServer {
 public:
  /// Bytes; a longer line ends the connection. The largest configuration that management lets in fits several times.
  static constexpr std::size_t kMaxLine = std::size_t{64} << 20;
  static constexpr std::size_t kMaxClients = 32;                   ///< one more is told so and closed
  static constexpr std::size_t kMaxPending = 64;                   ///< unanswered requests a client; then not read
  static constexpr std::size_t kMaxUnsent = std::size_t{8} << 20;  ///< bytes a client leaves unread; then dropped

  /// Listens at the lock's path, mode 0600. A socket that a dead process left there is replaced. Errors are sentences.
  /// The lock and `handler` outlive the server.
  [[nodiscard]] static engine::Result<std::unique_ptr<ControlServer>> create(engine::Reactor& reactor,
                                                                             const InstanceLock& lock,
                                                                             RpcHandler& handler);
  ~ControlServer();  ///< closes every connection and removes the socket; replies still owed go nowhere
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// To every client that subscribed: a notification "event".
  void publish(const nlohmann::json& event);
  /// Calls back when everything answered so far was handed to the kernel, or after `patience`.
  void drain(engine::Duration patience, engine::Callback<> done);

 private:
  struct Impl;
  explicit ControlServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::data_plane
