#pragma once
// A connection as its reactor sees it: what was posted, what is told to its user. The queue pair itself comes from the
// control thread (Connection) when the receives may be posted, and is destroyed there after close().
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <infiniband/verbs.h>

#include "engine/rdma/real/completions.hpp"
#include "engine/rdma/real/flow.hpp"
#include "engine/rdma/real/windows.hpp"
#include "engine/rdma/verbs.hpp"

namespace lockstep::rdma {

class Connection;
class Device;
class Keys;
class RealFabric;

class RealQueuePair final : public QueuePair, private engine::TurnHook {
 public:
  static constexpr std::uint32_t kMaxInline = 256;

  struct Names {
    std::string local, peer;
  };
  RealQueuePair(RealFabric& fabric, std::shared_ptr<CompletionsCore> core, const Wanted& wanted, bool calling,
                Names names, QueuePairUser& user);
  ~RealQueuePair() override;

  void receive(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t id) override;
  void send(const Send& send) override;
  void write(std::span<const std::byte> from, const Remote& to, std::uint64_t id) override;
  void read(std::span<std::byte> into, const Remote& from, std::uint64_t id) override;
  [[nodiscard]] bool is_registered(std::span<const std::byte> memory) const override;
  [[nodiscard]] Remote expose(std::span<std::byte> memory, Access access) override;
  void hide(std::uint32_t key, std::uint64_t id) override;
  void await_sends() override;
  void close(engine::Callback<> closed) override;
  [[nodiscard]] const Limits& limits() const override { return limits_; }
  [[nodiscard]] const std::string& local_address() const override { return names_.local; }
  [[nodiscard]] const std::string& peer_address() const override { return names_.peer; }

  /// Before anything else of the fabric's.
  void begin(std::shared_ptr<Connection> connection) { connection_ = std::move(connection); }
  [[nodiscard]] const std::shared_ptr<Connection>& connection() const { return connection_; }
  [[nodiscard]] std::uint32_t send_depth() const { return limits_.sends + SendFlow::kSignalEvery; }
  [[nodiscard]] ibv_qp* verbs() const { return pair_; }

  // What the control thread tells, on the reactor.
  /// `windows` are in the order of their keys.
  void ready(ibv_qp* pair, const Device& device, const Keys& keys, const Limits& limits, std::vector<ibv_mw*> windows);
  void established(std::span<const std::byte> private_data, std::uint32_t reads, Names names);
  void lost(std::error_code why);
  void dead();

  void completed(const ibv_wc& completion, WorkTag tag);
  /// Completions of what it sent are to come.
  [[nodiscard]] bool has_sent() const { return sends_.awaited() > unposted_sends_; }

 private:
  static constexpr std::size_t kBatch = 16;

  enum class Phase : std::uint8_t { connecting, up, lost, closing };
  struct Receive {
    std::span<std::byte> first, second;
    std::uint64_t id;
  };
  struct Request {
    ibv_send_wr work{};
    std::array<ibv_sge, kMaxPieces> pieces{};
    std::uint32_t copied = 0;  ///< bytes of `bytes`, which are what is sent then
    std::array<std::byte, kMaxInline> bytes;
  };
  struct StagedReceive {
    ibv_recv_wr work{};
    std::array<ibv_sge, 2> pieces{};
  };
  struct Read {
    std::span<std::byte> into;
    Remote from;
    std::uint64_t id;
  };

  void end_of_turn() override;
  void stage(const Receive& receive);
  void stage(const Read& read);
  void push(const Request& request, std::uint64_t id, Work work);
  void stage(const Request& request, std::uint64_t id, Work work);
  void stage_waiting();
  [[nodiscard]] ibv_sge piece_of(std::span<const std::byte> memory);
  void post_receives();
  void post_sends();
  void windows_posted(std::size_t count);
  void tell(const Completion& completion);
  void tell_established(std::span<const std::byte> private_data);
  void lose(std::error_code why);
  [[nodiscard]] Rest rest() const;
  void say_rest();
  void note_urgency();

  RealFabric& fabric_;
  std::shared_ptr<CompletionsCore> core_;
  std::shared_ptr<Connection> connection_;
  QueuePairUser* user_;
  Limits limits_;
  bool calling_;
  Names names_;
  WorkTag tag_;
  Phase phase_ = Phase::connecting;
  std::error_code loss_;       // to be told at the end of this turn
  Rest said_ = Rest::awaited;  // to the control thread, of what rests
  bool is_urgent_ = false;     // as the core was told
  ibv_qp* pair_ = nullptr;
  const Keys* keys_ = nullptr;
  unsigned invalidated_flags_ = 0;
  std::vector<ibv_mw*> window_handles_;  // the control thread's
  Windows windows_;
  engine::Callback<> closed_;

  SendFlow sends_;
  ReceiveFlow receives_;
  std::uint32_t receive_sequence_ = 0;
  std::vector<Receive> early_receives_;  // before there is a queue pair
  std::vector<Completion> early_;        // before the connection stands
  std::deque<Read> reads_waiting_;       // for one of those that the peer grants
  struct Waiting {
    Request request;
    std::uint64_t id;
    Work work;
  };
  std::deque<Waiting> waiting_;  // for room in the queue: seldom
  std::array<StagedReceive, kBatch> staged_receives_;
  std::size_t staged_receive_count_ = 0;
  std::array<Request, kBatch> staged_sends_;
  std::size_t staged_send_count_ = 0;
  // Counted by the flows, and never posted.
  std::uint32_t unposted_receives_ = 0;
  std::uint32_t unposted_sends_ = 0;
};

}  // namespace lockstep::rdma
