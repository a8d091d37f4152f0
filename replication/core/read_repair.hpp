#pragma once
// Rewrites on the member that does not order what its own store could not read. The node that orders has read it for
// the host; from there on the bytes may be written over at any time, so that this node may not write them by itself: it
// forwards a COMPARE AND WRITE of the same bytes, which is carried out on both members, in order, if they still stand.
//
// One range at a time, by whole physical blocks, and only those that this store still can't read. What comes meanwhile,
// and what is left when anything changes, is dropped: the next read of it tries again.
//
// Callers: the mirror, for forwarded reads that were answered.
#include "engine/disk.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "replication/core/front.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class ReadRepair {
 public:
  ReadRepair(engine::BufferPool& buffers, const Standing& standing, LocalStore& store, Front& front)
      : buffers_(buffers), standing_(standing), store_(store), front_(front) {}
  ReadRepair(const ReadRepair&) = delete;
  ReadRepair& operator=(const ReadRepair&) = delete;

  /// `bytes` are what the node that orders holds of `extent`; they are copied.
  void start(engine::Extent extent, std::span<const std::byte> bytes);

 private:
  static void on_swapped(engine::DiskRequest& request);
  void probe();
  void swap();
  void next();
  void end();
  [[nodiscard]] bool may_go_on() const;
  [[nodiscard]] std::span<std::byte> old_and_new() { return request_bytes_.span().first(2 * block_.length); }

  engine::BufferPool& buffers_;
  const Standing& standing_;
  LocalStore& store_;
  Front& front_;
  engine::Extent extent_;  ///< empty: nothing is under way
  engine::Extent block_;   ///< of it; a physical one
  engine::Buffer bytes_, request_bytes_;
  engine::DiskRequest request_;
};

}  // namespace lockstep::replication
