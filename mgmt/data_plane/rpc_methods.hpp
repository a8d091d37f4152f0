#pragma once
// The methods of the control socket: parameters read here, on the control reactor; carried out on the home worker's;
// answered here again.
#include "engine/runtime/reactor.hpp"
#include "mgmt/data_plane/control_server.hpp"
#include "mgmt/data_plane/node.hpp"
#include "mgmt/data_plane/witness_trials.hpp"

namespace lockstep::data_plane {

class RpcMethods final : public RpcHandler {
 public:
  /// `stop` is asked when a client wants the daemon to end; the answer is sent before it is over.
  RpcMethods(engine::Reactor& control, engine::Reactor& home, Node& node, std::function<void(engine::Callback<>)> stop)
      : control_(control), home_(home), node_(node), stop_(std::move(stop)), trials_(home) {}

  void handle(const RpcRequest& request, RpcReply reply) override;

 private:
  using Method = void (RpcMethods::*)(const RpcRequest&, RpcReply);
  struct Entry {
    std::string_view name;
    Method method;
  };
  static const Entry kMethods[];

  void apply(const RpcRequest& request, RpcReply reply);
  void status(const RpcRequest& request, RpcReply reply);
  void shutdown(const RpcRequest& request, RpcReply reply);
  void replica_create(const RpcRequest& request, RpcReply reply);
  void replica_grow(const RpcRequest& request, RpcReply reply);
  void replica_delete(const RpcRequest& request, RpcReply reply);
  void leave(const RpcRequest& request, RpcReply reply);
  void force_solo(const RpcRequest& request, RpcReply reply);
  void listen_try(const RpcRequest& request, RpcReply reply);
  void link_try(const RpcRequest& request, RpcReply reply);
  void link_test(const RpcRequest& request, RpcReply reply);
  void witness_try(const RpcRequest& request, RpcReply reply);
  void fence_try(const RpcRequest& request, RpcReply reply);
  void witness_read(const RpcRequest& request, RpcReply reply);
  void witness_swap(const RpcRequest& request, RpcReply reply);
  void witness_forget(const RpcRequest& request, RpcReply reply);
  void give_up(const RpcRequest& request, RpcReply reply);

  /// A callback for the home reactor that answers on the control reactor; nothing to say but that it was done.
  engine::Callback<engine::Result<void>> plain(RpcReply reply);
  template <class T>
  engine::Callback<engine::IoResult<T>> answered(RpcReply reply);  ///< what the witness said, in the same way

  engine::Reactor& control_;
  engine::Reactor& home_;
  Node& node_;
  std::function<void(engine::Callback<>)> stop_;
  WitnessTrials trials_;  ///< used on the home reactor
};

}  // namespace lockstep::data_plane
