#pragma once
// Who listens, and who calls. A listener on an address of a device goes away with the device and comes again with it;
// one on a wildcard address belongs to none.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/net/socket_address.hpp"
#include "engine/rdma/real/real_fabric.hpp"
#include "engine/rdma/verbs.hpp"

namespace lockstep::rdma {

/// On the control thread, but for what is said of hand_out().
class ListenerCore final : public CmUser, public std::enable_shared_from_this<ListenerCore> {
 public:
  ListenerCore(RealFabric& fabric, engine::Reactor& home, const engine::SocketAddress& address,
               engine::Callback<std::unique_ptr<Call>> called);

  [[nodiscard]] engine::Result<void> open();
  void close();
  void device_removed(const Device& device);
  void on_cm_event(const CmEvent& event) override;

  [[nodiscard]] const std::string& address() const { return name_; }
  std::atomic<bool> closed = false;  ///< no call is told any more

 private:
  [[nodiscard]] engine::Result<void> bind();
  void called(const CmEvent& event);
  void hand_out(std::unique_ptr<Call> call);  // on the reactor of its home
  void unbind();
  void try_again();

  RealFabric& fabric_;
  engine::Reactor& home_;
  engine::SocketAddress address_;
  engine::Callback<std::unique_ptr<Call>> called_;
  std::string name_;
  rdma_cm_id* id_ = nullptr;
  Device* device_ = nullptr;
  engine::TimerId retry_ = engine::TimerId::none;
};

class RealListener final : public Listener {
 public:
  RealListener(RealFabric& fabric, std::shared_ptr<ListenerCore> core) : fabric_(fabric), core_(std::move(core)) {}
  ~RealListener() override;
  [[nodiscard]] const std::string& address() const override { return core_->address(); }

 private:
  RealFabric& fabric_;
  std::shared_ptr<ListenerCore> core_;
};

class RealCall final : public Call {
 public:
  struct About {
    std::string local, peer;
    std::vector<std::byte> private_data;
    bool can_invalidate = false;
  };
  RealCall(RealFabric& fabric, std::uint64_t number, About about)
      : fabric_(fabric), token_(fabric.token()), number_(number), about_(std::move(about)) {}
  ~RealCall() override;

  [[nodiscard]] const std::string& local_address() const override { return about_.local; }
  [[nodiscard]] const std::string& peer_address() const override { return about_.peer; }
  [[nodiscard]] std::span<const std::byte> private_data() const override { return about_.private_data; }
  [[nodiscard]] bool can_invalidate() const override { return about_.can_invalidate; }
  [[nodiscard]] std::unique_ptr<QueuePair> accept(Completions& completions, Domain domain, const Wanted& wanted,
                                                  std::span<const std::byte> private_data,
                                                  QueuePairUser& user) override;

 private:
  RealFabric& fabric_;
  std::weak_ptr<RealFabric*> token_;  // what nobody takes may outlive it
  std::uint64_t number_;              ///< of the fabric's calls; 0 once it is accepted
  About about_;
};

}  // namespace lockstep::rdma
