#pragma once
// The sender's end of a path over RDMA: a queue pair with windows on the sender's memory, and the product's own
// RdmaPayloads that opens and shuts them. The peer's device reads and writes that memory through the windows, whether a
// process of this node runs or stands still, until the queue pair is destroyed.
//
// What breaks the rules of rdma::QueuePair ends the world: a key that is not open, a range or a right beyond its
// window, and memory that changes while the device or the peer may still use it.
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "replication/link/rdma_payloads.hpp"
#include "tests/simulation/scheduler.hpp"
#include "tests/simulation/violation.hpp"

namespace lockstep::simulation {

class SimRdma final : public iser::PayloadTransport {
 public:
  SimRdma(Scheduler& scheduler, Verdict& verdict, SimRandom random, Owner owner, replication::PayloadSizes sizes);

  /// A new queue pair. Payloads move by it from now on.
  void connect(replication::RdmaPayloads::User& user);
  /// Nothing reads or writes the sender's memory any more.
  void destroy();
  /// The same, and the memory went with the sender's process.
  void process_died();
  [[nodiscard]] replication::RdmaPayloads& payloads() { return *payloads_; }
  /// Whether what is given next lies in memory that the device knows: heartbeats never do, all else mostly.
  void next_is_registered(bool may_be) { may_be_registered_ = may_be; }

  /// The device reads what is sent until that is complete. Gives the number that complete() takes.
  [[nodiscard]] std::uint64_t post(std::span<const std::byte> memory, std::uint64_t owner);
  /// Gives the owner; nothing: its queue pair is destroyed.
  [[nodiscard]] std::optional<std::uint64_t> complete(std::uint64_t send);

  // What the peer's device does.
  enum class Outcome : std::uint8_t {
    moved,
    gone,     ///< the queue pair is
    refused,  ///< by the rules: the connection is lost
  };
  [[nodiscard]] Outcome read(const rdma::Remote& from, std::size_t offset, std::span<std::byte> into);
  [[nodiscard]] Outcome write(const rdma::Remote& to, std::size_t offset, std::span<const std::byte> from);
  /// By the message that is coming in.
  void invalidate(std::uint32_t key);

 private:
  struct Window {
    std::uint32_t key = 0;
    std::span<std::byte> memory;
    rdma::Access access{};
    std::uint64_t hash = 0;  ///< of what is to lie there
  };
  struct Posted {
    std::uint64_t number = 0, owner = 0;
    std::span<const std::byte> memory;
    std::uint64_t hash = 0;
  };
  struct Hiding {
    std::uint32_t key = 0;
    void* owner = nullptr;
  };

  // iser::PayloadTransport
  void begin_session(iser::Mover& mover, bool) override { mover_ = &mover; }
  [[nodiscard]] bool is_established() const override { return exists_; }
  [[nodiscard]] bool is_protected_rdma() const override { return false; }
  [[nodiscard]] const iser::Tagged& tagged() const override { return tagged_; }
  [[nodiscard]] bool is_registered(std::span<const std::byte> memory) const override;
  [[nodiscard]] bool has_room(bool) const override { return true; }
  [[nodiscard]] rdma::Remote expose(std::span<std::byte> memory, rdma::Access access) override;
  void hide(std::uint32_t key, void* owner) override;
  [[nodiscard]] iser::PayloadSeal seal_payload(std::span<const std::byte>, std::span<const std::byte>,
                                               std::span<std::byte>) override {
    return {};
  }
  [[nodiscard]] bool open_payload(const iser::PayloadSeal&, std::span<const std::byte>, std::span<std::byte>) override {
    return false;
  }
  void await_sends() override {}  // none is told late
  [[nodiscard]] iser::Figures& figures() override { return figures_; }
  [[nodiscard]] engine::Buffer make_copy(std::size_t bytes, bool goes_ahead) override;

  static void on_hidden(void* self, std::uint64_t pair);
  [[nodiscard]] Window* window_of(std::uint32_t key);
  /// The window, where the peer may do that; else nothing, and why the world ends.
  [[nodiscard]] Window* allowed(const rdma::Remote& what, std::size_t offset, std::size_t bytes, rdma::Access access);
  bool shut(std::uint32_t key);
  void look_at(const Window& window);

  Scheduler& scheduler_;
  Verdict& verdict_;
  mutable SimRandom random_;
  Owner owner_;
  replication::PayloadSizes sizes_;
  bool exists_ = false;
  bool may_be_registered_ = true;
  std::uint64_t pair_ = 0;  ///< the queue pair's number, the latest one's
  std::uint32_t last_key_ = 0;
  std::uint64_t last_send_ = 0;
  std::vector<Window> windows_;  ///< open
  std::vector<Posted> posted_;
  std::deque<Hiding> hiding_;
  iser::Mover* mover_ = nullptr;
  iser::Tagged tagged_;
  iser::Figures figures_;
  std::optional<replication::RdmaPayloads> payloads_;
};

}  // namespace lockstep::simulation
