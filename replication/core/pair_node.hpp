#pragma once
// One node's half of a pair: leases, the partner's requests, and the mirrors of its volumes. Pure: it knows its seams
// and nothing else, and runs unchanged in lockstepd and in the simulator. Owned by one reactor.
//
// Destroying a PairNode while operations are outstanding is how a crash is played: no seam may call back afterwards.
// engine::Disk::submit() on a volume of a pair is called on the node's own reactor; who comes from another hops first.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/disk.hpp"
#include "engine/metadata/metadata_area.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/clock.hpp"
#include "engine/seams/random.hpp"
#include "engine/seams/store.hpp"
#include "replication/core/arbiter.hpp"
#include "replication/core/left_records.hpp"
#include "replication/core/link.hpp"
#include "replication/core/link_budget.hpp"

namespace lockstep::replication {

struct NodeSettings {
  engine::Uuid pair;
  engine::NodeSide side = engine::NodeSide::a;
  engine::Uuid process;    ///< this process incarnation, new at every start
  std::uint64_t boot = 0;  ///< which boot of its machine this is, 0: not known
  // Of these three the shorter lease of both nodes counts as soon as they have met, with the larger margin.
  engine::Duration lease = std::chrono::milliseconds(1500);
  engine::Duration heartbeat_interval = std::chrono::milliseconds(250);  ///< a part of the lease
  unsigned drift_percent = 20;                                           ///< added to the lease by its grantor
  std::uint64_t dirty_bound = std::uint64_t{4} << 30;                    ///< bytes of volume that may be dirty in sync
  engine::Duration clean_after = std::chrono::seconds(10);               ///< a region unwritten for this long is cold
  std::uint64_t resync_floor = std::uint64_t{8} << 20;                   ///< bytes a second
  std::uint64_t resync_ceiling = 0;                                      ///< bytes a second, 0: none
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

struct NodeSeams {
  engine::Clock& clock;
  engine::Random& random;
  engine::BufferPool& buffers;
  Link& link;
  Witness* witness = nullptr;           ///< null: no witness is configured
  LeftRecords* left_records = nullptr;  ///< null: a leaver without metadata can't leave
};

enum class MirrorState : std::uint8_t {
  starting,        ///< metadata read, partner or arbiter being asked
  in_sync,         ///< a member of {A,B}, serving
  solo,            ///< the only member, serving
  syncing_source,  ///< the only member, serving, bringing the partner up to date
  syncing_target,  ///< not a member, being brought up to date; I/O is forwarded
  suspended,       ///< was serving; the partner is lost and nobody has decided yet
  waiting,         ///< may not start alone: needs the partner, the witness or an operator
  split_brain,     ///< the two epochs do not descend from one another: refused, both data kept
  failed,          ///< this replica's store or metadata failed; I/O is forwarded while the partner serves
  left,            ///< not a member by agreement (maintenance); I/O is forwarded
};
[[nodiscard]] const char* to_string(MirrorState state);

struct ResyncProgress {
  bool running = false;
  std::uint64_t bytes_total = 0;  ///< to be compared or copied when it began
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_per_second = 0;
};

struct VolumeStatus {
  engine::Uuid volume;
  MirrorState state = MirrorState::starting;
  bool serving = false;           ///< initiators' I/O is answered by this node (by itself or by forwarding)
  bool undecided = false;         ///< it will soon be known whether this node serves: true for a bounded time only
  bool failover_limited = false;  ///< in sync, but the witness could not be told or asked
  bool partner_follows = false;   ///< the partner recorded this epoch, and forwards what its initiators ask
  engine::EpochRecord epoch;
  std::uint64_t dirty_bytes = 0;
  bool full = false;  ///< this node's store had no space for a write when it was last asked
  ResyncProgress resync;
  std::string reason;  ///< why it is not serving, limited or full, a sentence for a person; empty when all is well
};

struct VolumeSettings {
  engine::DiskInfo disk;
};

/// Told of changes; calls come on the node's reactor and must not call back into PairNode before returning.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  /// State, serving or access state changed.
  virtual void on_volume_changed(const engine::Uuid& volume) = 0;
  /// This node lost its lease on these volumes: every initiator session is to be closed and what it had received but
  /// not started is to be dropped.
  virtual void on_fenced() = 0;
};

class PairNode final : public LinkEvents {
 public:
  PairNode(NodeSettings settings, NodeSeams seams, NodeObserver& observer);
  ~PairNode() override;

  /// Begins with the volumes attached so far; more may be attached later.
  void start();

  /// Takes over a replica whose metadata was read. `data` outlives detach()'s callback. Errc::refused when the volume
  /// is attached already or the store is smaller than the record says.
  [[nodiscard]] engine::Result<void> attach(VolumeSettings settings, engine::Store& data,
                                            std::unique_ptr<engine::MetadataArea> metadata);
  /// Stops serving, drains and lets go of the stores; the epoch stays as it is.
  void detach(const engine::Uuid& volume, engine::Callback<> done);

  /// Put on or off while the volume is in use; off makes durable what was not.
  void set_write_cache(const engine::Uuid& volume, bool on);

  /// The seam's witness is another one now: it is told of each volume's epoch at once, rather than at the next look.
  void look_at_witness_again();

  // Growing (docs/developer/grow.md): first each replica makes room, then, when both have it, the size that is served
  // changes on both by a new epoch.
  struct Room {
    std::uint64_t size = 0;            ///< bytes of volume that the replica has room for
    std::uint64_t metadata_bytes = 0;  ///< of store that the metadata needs for the size that was asked about
  };
  [[nodiscard]] engine::Result<Room> room_for(const engine::Uuid& volume, std::uint64_t size) const;
  /// The stores have the bytes already. Nothing that is served changes.
  void make_room(const engine::Uuid& volume, std::uint64_t size, engine::Callback<engine::Result<void>> done);
  /// What is wanted from now on: taken as soon as both replicas have room and are in sync, or this one is alone and no
  /// partner is connected. A smaller one than there is stays without effect.
  void want_size(const engine::Uuid& volume, std::uint64_t size);

  /// The volume as a disk for initiators; null when not attached. Valid until detach().
  [[nodiscard]] engine::Disk* disk(const engine::Uuid& volume);
  [[nodiscard]] std::vector<VolumeStatus> status() const;
  [[nodiscard]] bool partner_connected() const;

  /// This node's replica leaves the epoch by agreement (maintenance); the partner goes on alone.
  void leave(const engine::Uuid& volume, engine::Callback<engine::Result<void>> done);
  /// An operator's word that the partner is gone for good: goes on alone without an arbiter. Can split the brain.
  void force_solo(const engine::Uuid& volume, bool accept_inconsistent, engine::Callback<engine::Result<void>> done);
  /// An operator's choice after a split brain: this replica gives up its own changes and is resynced from the partner.
  /// Done when that is durable here. Errc::refused: the partner is away or may not serve alone, there is no split
  /// brain, or the partner is changing, too; nothing was given up.
  void give_up(const engine::Uuid& volume, engine::Callback<engine::Result<void>> done);
  /// Clean stop of this node alone: leaves every epoch it shares, flushes, answers nothing afterwards.
  void shutdown(engine::Callback<> done);

  void on_link_up() override;
  void on_link_down() override;
  void on_inbound_up(std::uint64_t session) override;
  void on_inbound_down(std::uint64_t session) override;
  void on_request(std::uint64_t session, InboundRequest& request) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
