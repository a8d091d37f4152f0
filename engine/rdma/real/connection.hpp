#pragma once
// A connection as the control thread sees it: the id, its way to a queue pair that stands, and the way back. The queue
// pair's user and memory are RealQueuePair's, on its reactor; this one tells it by posting, and says "dead" last.
//
//   resolving ─► prepared ─► answering ─► up        (an accepted call begins at prepared)
//       └───────────┴───────────┴─────────┴──► closing ─► burying ─► dead
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/net/socket_address.hpp"
#include "engine/rdma/real/completions.hpp"
#include "engine/rdma/real/flow.hpp"
#include "engine/rdma/real/real_fabric.hpp"

namespace lockstep::rdma {

class RealQueuePair;

class Connection final : public CmUser, public std::enable_shared_from_this<Connection> {
 public:
  struct Plan {
    Domain domain{};
    Wanted wanted;
    std::vector<std::byte> private_data;
    std::uint32_t send_depth = 0;  ///< of the queue: more than is wanted
  };
  Connection(RealFabric& fabric, std::shared_ptr<CompletionsCore> core, RealQueuePair& pair, Plan plan);

  void dial(const engine::SocketAddress& from, const engine::SocketAddress& to);
  void answer(std::uint64_t call);
  /// It ends before it began.
  void fail(std::error_code why);
  /// The receives are posted: the peer may be asked or answered.
  void go();
  /// Something was received before the peer said that the connection stands.
  void heard();
  void close(Rest rest);
  /// It is less now than when it was closed.
  void rests(Rest rest);

  void device_removed(const Device& device);
  void port_down(const Device& device, int port);
  /// `tells_nothing`: what was posted may never come back.
  void queue_pair_failed(const ibv_qp* pair, bool tells_nothing);
  void completion_queue_failed(const ibv_cq* queue);
  void on_cm_event(const CmEvent& event) override;

 private:
  enum class Phase : std::uint8_t { resolving, prepared, answering, up, closing, burying, dead };

  void resolved();
  void prepare();
  [[nodiscard]] std::error_code create_queue_pair(Limits& limits);
  [[nodiscard]] engine::IoResult<ibv_cq*> reserve(QueueKind kind, std::uint32_t entries);
  [[nodiscard]] std::error_code allocate_windows();
  void established(const CmEvent& event);
  void lose(std::error_code why);
  void disconnect();
  void fell_silent();
  void wait_for_flush();
  void bury();
  void buried();
  void tell_dead();
  template <class Work>
  void tell(Work work);
  [[nodiscard]] rdma_conn_param parameters() const;

  RealFabric& fabric_;
  std::shared_ptr<CompletionsCore> core_;
  RealQueuePair* pair_;  ///< nothing once it was told that it is dead
  Plan plan_;
  Phase phase_ = Phase::resolving;
  bool calling_;
  bool answered_ = false;  ///< the peer was asked or told
  bool lost_ = false;
  rdma_cm_id* id_ = nullptr;
  Device* device_ = nullptr;
  ibv_cq* receives_ = nullptr;  // the completion queues
  ibv_cq* sends_ = nullptr;
  QueueGroup* group_ = nullptr;
  std::vector<ibv_mw*> windows_;
  std::uint8_t offered_ = 0;  ///< Reads that the peer wants
  std::uint8_t reads_ = 0;    ///< that we may have under way
  Rest rest_ = Rest::awaited;
  bool silent_ = false;  ///< completions may not come any more
  engine::TimerId patience_ = engine::TimerId::none;
};

}  // namespace lockstep::rdma
