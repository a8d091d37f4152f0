#pragma once
// The fabric's own state, on its control thread: devices, connections, listeners, and calls that nobody has taken yet.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "engine/net/socket_address.hpp"
#include "engine/rdma/real/control.hpp"
#include "engine/rdma/real/device.hpp"
#include "engine/rdma/real/graveyard.hpp"
#include "engine/rdma/verbs.hpp"

namespace lockstep::rdma {

class Connection;
class ListenerCore;

/// A call that was not accepted yet: its id, which is the fabric's until somebody takes it.
struct PendingCall {
  rdma_cm_id* id = nullptr;
  Device* device = nullptr;
  std::uint8_t responder_resources = 0;  ///< Reads that the peer wants to have under way
  std::uint8_t initiator_depth = 0;      ///< Reads that it grants us
};

class RealFabric final : public Fabric {
 public:
  explicit RealFabric(std::unique_ptr<Control> control);
  ~RealFabric() override;

  void add_arena(std::span<std::byte> arena) override;
  void remove_arena(std::span<std::byte> arena) override;
  [[nodiscard]] Registrations registrations() const override { return registrations_.now(); }
  [[nodiscard]] std::unique_ptr<Completions> attach(engine::Reactor& reactor) override;
  [[nodiscard]] engine::Result<std::unique_ptr<Listener>> listen(
      Completions& home, std::string_view address, engine::Callback<std::unique_ptr<Call>> called) override;
  [[nodiscard]] std::unique_ptr<QueuePair> connect(Completions& completions, Domain domain, std::string_view from,
                                                   std::string_view to, const Wanted& wanted,
                                                   std::span<const std::byte> private_data,
                                                   QueuePairUser& user) override;

  /// Any other thread: the reactor is told nothing more, and has let go of these.
  void detach(CompletionsCore& core, const std::vector<std::shared_ptr<QueueGroup>>& groups);
  [[nodiscard]] Control& control() { return *control_; }
  [[nodiscard]] Graveyard& graveyard() { return graveyard_; }
  template <class Work>
  void post(Work work) {
    control_->reactor().post(engine::Callback<>(std::move(work)));
  }

  // On the control thread.
  /// The device of an id that is bound to one; opened and its memory registered when it is the first.
  [[nodiscard]] engine::IoResult<Device*> device_of(rdma_cm_id& id);
  [[nodiscard]] std::span<const std::span<std::byte>> arenas() const { return arenas_; }
  [[nodiscard]] engine::IoResult<QueueGroup*> group_of(Device& device, const std::shared_ptr<CompletionsCore>& core);
  void removed(Device& device);
  void completion_queue_failed(const ibv_cq* queue);
  /// An id on the device is no more.
  void left(Device& device);
  [[nodiscard]] bool has_room_for_calls() const { return calls_.size() < kMaxCalls; }
  [[nodiscard]] std::uint64_t keep(PendingCall call);
  [[nodiscard]] PendingCall take(std::uint64_t call);
  void refuse(std::uint64_t call);

  /// For what may outlive the fabric in a reactor's queue.
  [[nodiscard]] std::weak_ptr<RealFabric*> token() const { return token_; }
  std::set<std::shared_ptr<Connection>> connections;
  std::set<std::shared_ptr<ListenerCore>> listeners;

 private:
  static constexpr std::size_t kMaxCalls = 256;  ///< that nobody has taken yet
  /// What happens to their ids meanwhile.
  class Callers final : public CmUser {
   public:
    explicit Callers(RealFabric& fabric) : fabric_(fabric) {}
    void on_cm_event(const CmEvent& event) override;

   private:
    RealFabric& fabric_;
  };
  void guard(Device& device, rdma_cm_id& id);
  void removed_later(Device& device);
  void happened(Device& device, const ibv_async_event& event);
  void end_calls(const Device* device);
  void returned(const std::shared_ptr<QueueGroup>& group);
  void forget_when_empty(Device& device);
  void close_all();

  std::shared_ptr<RealFabric*> token_ = std::make_shared<RealFabric*>(this);
  std::unique_ptr<Control> control_;
  RegistrationCount registrations_;
  Graveyard graveyard_{*control_};
  std::vector<std::span<std::byte>> arenas_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::map<std::uint64_t, PendingCall> calls_;
  Callers callers_{*this};
  std::uint64_t next_call_ = 1;
  std::uint64_t last_serial_ = 0;
};

[[nodiscard]] engine::SocketAddress address_of(const sockaddr* address);

}  // namespace lockstep::rdma
