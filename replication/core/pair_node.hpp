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
#include "replication/core/node_settings.hpp"
#include "replication/core/replica_state.hpp"
#include "replication/core/volume_status.hpp"

namespace lockstep::replication {

struct VolumeSettings {
  engine::DiskInfo disk;
};

/// Told of changes; calls come on the node's reactor and must not call back into PairNode before returning, but for
/// `closed`.
class NodeObserver {
 public:
  virtual ~NodeObserver() = default;
  /// State, serving or access state changed.
  virtual void on_volume_changed(const engine::Uuid& volume) = 0;
  /// This node lost its lease on a volume: the initiators' sessions will be closed, and until then nothing new is
  /// forwarded for them. Whoever else serves volumes over the same sessions does as this does (fence()).
  virtual void on_fencing() {}
  /// Nothing that was dropped can be started any more: every initiator session is to be closed. `closed`, perhaps from
  /// in here, when none of them brings anything any more; what they bring until then is dropped, too.
  virtual void on_fenced(engine::Callback<> closed) = 0;
  /// This process is the one that it was at an earlier moment: its machine was set back to a snapshot with its memory.
  /// It is to end, and another one to begin in its place, which may be told by the sentence `why`. Nothing is answered
  /// any more, from before the call on; best never to return from here.
  virtual void on_set_back(const std::string& why) { (void)why; }
};

class PairNode final : public LinkEvents {
 public:
  PairNode(NodeSettings settings, NodeSeams seams, NodeObserver& observer);
  ~PairNode() override;

  /// The node goes on to another volume, perhaps of another PairNode's: its partner is to wait for what may be attached
  /// here yet.
  void note_attaching();
  /// Begins with the volumes attached so far; more may be attached later.
  void start();

  /// Another PairNode that serves over the same initiators' sessions is about to have them closed: what they brought
  /// here and was not started is dropped, and on_fenced() says when the partner holds nothing of it any more. Under way
  /// already: no effect.
  void fence();

  /// Takes over a replica whose metadata was read. `data` outlives detach()'s callback. Errc::refused when the volume
  /// is attached already or the store is smaller than the record says.
  [[nodiscard]] engine::Result<void> attach(VolumeSettings settings, engine::Store& data,
                                            std::unique_ptr<engine::MetadataArea> metadata);
  /// Stops serving, drains and lets go of the stores; the epoch stays as it is.
  void detach(const engine::Uuid& volume, engine::Callback<> done);

  /// Another lease, in the steps that partner.hpp has: `other` is the one that it takes the place of, or that is about
  /// to; 0: none. Both nodes have to be at a step before either takes the next one.
  void set_lease(engine::Duration lease, engine::Duration other);
  struct LeaseStatus {
    engine::Duration held{};  ///< on an answer of the partner's
    bool settled = false;     ///< nothing that was held, or sent, by another one is of importance any more
  };
  [[nodiscard]] LeaseStatus lease() const;

  /// Bytes a second, of all volumes together; a ceiling of 0: none. Counts from the next region on.
  void set_resync_rates(std::uint64_t floor, std::uint64_t ceiling);

  /// Put on or off while the volume is in use; off makes durable what was not. `told`: hosts may be told so, perhaps
  /// from inside the call; not before there is nothing left of what was answered and not durable, on either node.
  void set_write_cache(const engine::Uuid& volume, bool on, engine::Callback<> told);

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
  /// What is wished from now on: taken in an epoch of its own as soon as both nodes wish the same and are in sync. A
  /// preferred side is never taken in the place of another one, nor while this node asks a witness: that is the
  /// caller's to see to (next_arbiter() in verdict.hpp).
  void want_arbiter(const engine::Uuid& volume, ArbiterWish wish);

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
  void on_set_back() override;
  void on_partner_set_back(const engine::Uuid& process) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::replication
