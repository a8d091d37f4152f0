#pragma once
// What a node is told at its start, and the seams it reaches the world through. Owned by the PairNode; the parts of a
// mirror get what they use of it.
#include <chrono>
#include <cstdint>

#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/clock.hpp"
#include "engine/seams/random.hpp"
#include "replication/core/arbiter.hpp"
#include "replication/core/fencing.hpp"
#include "replication/core/left_records.hpp"
#include "replication/core/link.hpp"
#include "replication/core/link_budget.hpp"

namespace lockstep::replication {

struct NodeSettings {
  engine::Uuid pair;
  engine::NodeSide side = engine::NodeSide::a;
  engine::Uuid process;    ///< this process incarnation, new at every start
  std::uint64_t boot = 0;  ///< which boot of its machine this is, 0: not known
  // Of these the shorter lease of both nodes counts as soon as they have met, with the larger margin.
  engine::Duration lease = std::chrono::milliseconds(1500);
  /// While one lease takes the place of another: the other of the two, which the partner may hold; 0: there is none.
  /// Then `lease` is the one that this node holds, or, for the parts of a mirror, the shorter of all.
  engine::Duration other_lease{0};
  /// What is waited for of a lease that was granted: the longest that the partner may hold. The node fills it in.
  engine::Duration granted_lease{0};
  engine::Duration heartbeat_interval = std::chrono::milliseconds(250);  ///< a part of the lease
  unsigned drift_percent = 20;                                           ///< added to the lease by its grantor
  std::uint64_t dirty_bound = std::uint64_t{4} << 30;                    ///< bytes of volume that may be dirty in sync
  engine::Duration clean_after = std::chrono::seconds(10);               ///< a region unwritten for this long is cold
  std::uint64_t resync_floor = std::uint64_t{8} << 20;                   ///< bytes a second, of all volumes together
  std::uint64_t resync_ceiling = 0;                                      ///< the same; 0: none
  // What may be on its way to the partner and not answered, of all volumes together. With what the partner forwards,
  // this is less than a session of the link takes at once (240 requests, 32 MiB; replication/link/format.md).
  LinkLimits link_orders{std::uint64_t{8} << 20, 80};    ///< of this node's own initiators
  LinkLimits link_forwards{std::uint64_t{6} << 20, 56};  ///< the partner orders as much again for these
  LinkLimits link_copies{std::uint64_t{3} << 20, 24};    ///< of resyncs
  /// An I/O not completed by then is a failed store. Hosts bear it: a guest's disk waits 30 s, ESXi gives the heartbeat
  /// of a datastore 8 s.
  engine::Duration store_deadline = std::chrono::seconds(8);
  /// So is a store that holds something and has completed nothing at all for this long.
  engine::Duration store_silence = std::chrono::seconds(3);
  /// How often the witness hears of new generations of the replicas, while something is written.
  engine::Duration witness_refresh = std::chrono::seconds(60);
  /// This machine's clock may stand still while the world goes on, as a paused virtual machine's does: what reveals
  /// state waits for an answer of the partner's to a heartbeat that was sent after its command came.
  bool confirms_reads = false;
};

/// Of a process with several PairNodes, each volume in one of them. Where the two nodes have a volume in different ones
/// they don't meet; neither may take the other for one that knows nothing of it, and go on alone.
class OtherPairNodes {
 public:
  virtual ~OtherPairNodes() = default;
  /// Another one has the volume. Any thread.
  [[nodiscard]] virtual bool have(const engine::Uuid& volume) const = 0;
};

struct NodeSeams {
  engine::Clock& clock;
  engine::Random& random;
  engine::BufferPool& buffers;
  Link& link;
  Witness* witness = nullptr;           ///< null: no witness is configured
  LeftRecords* left_records = nullptr;  ///< null: a leaver without metadata can't leave
  Fencing* fencing = nullptr;           ///< null: no machine can be powered off
  const OtherPairNodes* others = nullptr;
};

}  // namespace lockstep::replication
