#pragma once
// What one shard's link has for RDMA: memory for its messages and for copies of what it sends, known to the fabric
// together with the reserve, and the figures of its calls.
#include <cstddef>
#include <memory>

#include "engine/rdma/verbs.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "iscsi_target/server/server.hpp"
#include "mgmt/data_plane/worker.hpp"
#include "replication/link/iscsi_link.hpp"

namespace lockstep::data_plane {

class ShardRdma {
 public:
  /// Bytes: for the receives of every path that there may be, either way, and for what waits for a disk.
  static constexpr std::size_t kMessages = std::size_t{64} << 20;
  /// Bytes: for what is encrypted for the partner, or lies where no network card can read it. Of the mirror's budget of
  /// what is under way (link_budget.hpp), 27 MiB, and of what is answered with data, 11, in blocks that may be twice as
  /// long; the rest is for what goes ahead (iser::kCopiesAhead).
  static constexpr std::size_t kCopies = std::size_t{96} << 20;
  static constexpr std::size_t kMemory = kMessages + kCopies;

  /// Null: there is no RDMA. The others outlive it.
  [[nodiscard]] static std::unique_ptr<ShardRdma> make(rdma::Fabric* fabric, Worker& worker,
                                                       engine::BufferPool& reserve);
  ShardRdma(rdma::Fabric& fabric, rdma::Completions& completions, engine::BufferPool& reserve);
  /// No connection is left.
  ~ShardRdma();
  ShardRdma(const ShardRdma&) = delete;
  ShardRdma& operator=(const ShardRdma&) = delete;

  /// For the way out.
  [[nodiscard]] replication::LinkRdma* link() { return &link_; }
  /// Of both ways.
  [[nodiscard]] const iser::Figures& figures() const { return figures_; }
  /// For the way in.
  [[nodiscard]] iscsi_target::RdmaService service() const {
    return {&fabric_, rdma::Domain::link, replication::kLinkTargetShape, false};
  }
  void add_to(iscsi_target::ServerReactor& reactor);

 private:
  rdma::Fabric& fabric_;
  rdma::Completions& completions_;
  engine::BufferPool& reserve_;
  engine::BufferPool messages_{kMessages};
  engine::BufferPool copies_{kCopies};
  iser::MessageMemory memory_{messages_};
  iser::Figures figures_;
  replication::LinkRdma link_;
};

}  // namespace lockstep::data_plane
