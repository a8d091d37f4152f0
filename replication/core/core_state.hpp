#pragma once
// What the parts of one volume's mirror share: its stores, its locks, where it stands in its epoch, and its parts.
//
// Membership alone changes the phase, and checks each that follows against the durable record (phase.hpp). The other
// parts ask:
//  1. Nothing is started while gated, and nothing at all in a phase that serves nothing.
//  2. A local read is answered only alone, or in sync with a valid lease and reads_here().
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/locks/range_lock.hpp"
#include "engine/metadata/metadata_area.hpp"
#include "replication/core/indeterminate_extents.hpp"
#include "replication/core/marks.hpp"
#include "replication/core/op.hpp"
#include "replication/core/pair_node.hpp"
#include "replication/core/partner.hpp"
#include "replication/core/phase.hpp"
#include "replication/core/replica_state.hpp"

namespace lockstep::replication {

class Front;
class Sequencer;
class Applier;
class Forwarder;
class ForwardServer;
class Regions;
class Cleaner;
class Resync;
class Membership;
class Witnessing;
class LuStateKeeper;
class Space;
class Generations;

/// `done`, counted in `owed` until it runs.
template <class Done>
[[nodiscard]] auto counted(unsigned& owed, Done done) {
  ++owed;
  return [&owed, done = std::move(done)](const auto& outcome) mutable {
    --owed;
    done(outcome);
  };
}

struct Core {
  Core(const NodeSettings& settings_in, NodeSeams& seams_in, Partner& partner_in, engine::DiskInfo info_in,
       engine::Store& data_in, std::unique_ptr<engine::MetadataArea> meta_in);
  ~Core();

  const NodeSettings& settings;
  NodeSeams& seams;
  Partner& partner;
  engine::DiskInfo info;
  engine::Store& data;
  std::unique_ptr<engine::MetadataArea> meta;
  /// What is known of the partner and of the witness, durable or on its way there.
  engine::Knowledge known = meta->knowledge();
  engine::RangeLock locks;
  IndeterminateExtents indeterminate;
  Pool<Op> ops;
  /// The write cache was on at some time since this volume was attached: the stores may hold what was not flushed.
  bool was_cached = info.write_cache;
  std::function<void()> changed;  ///< tells the observer
  std::function<void()> fence;    ///< closes the initiators' sessions

  ReplicaPhase phase;
  bool gated = false;            ///< new operations are held: a change is under way, or nobody knows who goes on
  engine::TimePoint last_grant;  ///< when this node last granted a lease, or may have (a process before this one)
  bool store_failed = false;
  bool store_may_return = false;  ///< it failed by its deadline or for want of space, and by nothing else since
  engine::TimePoint store_failed_at;
  engine::TimePoint store_returned_at;  ///< when the store last completed anything
  bool flush_failed = false;   ///< and what it lost no later flush brings back: the dirty bits stay, also alone
  bool partner_ready = false;  ///< states were exchanged on this way out: the old one's work there is over
  std::string reason;
  // What may still call back, and no operation stands for.
  unsigned owed_by_store = 0;
  unsigned owed_by_others = 0;  ///< the partner and the witness

  std::unique_ptr<Front> front;
  std::unique_ptr<Sequencer> sequencer;
  std::unique_ptr<Applier> applier;
  std::unique_ptr<Forwarder> forwarder;
  std::unique_ptr<ForwardServer> forwards;
  std::unique_ptr<Regions> regions;
  std::unique_ptr<Space> space;
  std::unique_ptr<Cleaner> cleaner;
  std::unique_ptr<Resync> resync;
  std::unique_ptr<Generations> generations;
  std::unique_ptr<Witnessing> witnessing;
  std::unique_ptr<LuStateKeeper> lu;
  std::unique_ptr<Membership> membership;

  [[nodiscard]] engine::NodeSide side() const { return settings.side; }
  [[nodiscard]] engine::TimePoint now() const { return seams.clock.now(); }
  [[nodiscard]] const engine::EpochRecord& epoch() const { return meta->epoch(); }
  [[nodiscard]] bool is_sequencer() const { return epoch().sequencer == side(); }
  [[nodiscard]] bool in_sync() const { return std::holds_alternative<phase::InSync>(phase); }
  [[nodiscard]] bool is_alone() const { return std::holds_alternative<phase::Solo>(phase); }
  [[nodiscard]] bool is_forwarding() const { return std::holds_alternative<phase::Forwarding>(phase); }
  [[nodiscard]] bool serves_nothing() const { return !in_sync() && !is_alone() && !is_forwarding(); }
  [[nodiscard]] const Lease* lease() const {
    const auto* p = std::get_if<phase::InSync>(&phase);
    return p && p->lease ? &*p->lease : nullptr;
  }
  /// One was granted since this node is in sync; it may have run out.
  [[nodiscard]] bool has_lease() const { return lease() != nullptr; }
  /// A member whose store may be read.
  [[nodiscard]] bool reads_here() const {
    const auto* p = std::get_if<phase::InSync>(&phase);
    return p && p->reads_here;
  }
  [[nodiscard]] const phase::Suspended* suspended() const { return std::get_if<phase::Suspended>(&phase); }
  /// Suspended with its initiators' sessions open: what was not started waits for this node's going on alone, which
  /// alone makes it certain that nobody else served meanwhile. Any other end closes the sessions and drops it.
  [[nodiscard]] bool keeps_sessions() const {
    return suspended() && suspended()->sessions == phase::Suspended::Sessions::kept;
  }
  /// No member, and the partner is known to have gone on in that epoch.
  [[nodiscard]] bool partner_went_on() const {
    const auto* p = std::get_if<phase::Forwarding>(&phase);
    return p && p->partner_went_on;
  }
  /// This node orders writes now.
  [[nodiscard]] bool orders() const { return is_alone() || (in_sync() && is_sequencer()); }
  [[nodiscard]] bool lease_valid() const { return lease() && now() < lease()->until; }
  /// The partner has answered since this program took `op`: that it is still a member does not rest on its clock
  /// alone.
  [[nodiscard]] bool is_confirmed(const Op& op) const {
    return !settings.confirms_reads || !in_sync() || op.entry || (lease() && lease()->from >= op.receipt.taken);
  }
  [[nodiscard]] std::uint32_t region_size() const { return meta->identity().region_size; }
  [[nodiscard]] std::uint64_t volume_size() const { return meta->epoch().size; }
  /// The size that this replica's stores have room for: the volume's, or more while it grows.
  [[nodiscard]] std::uint64_t room() const { return meta->identity().size; }
  /// Of the volume; the dirty map may have more.
  [[nodiscard]] std::uint64_t region_count() const { return (volume_size() + region_size() - 1) / region_size(); }
  [[nodiscard]] engine::Extent region_extent(std::uint64_t region) const;
  [[nodiscard]] engine::Durability durability(bool fua) const {
    return fua || !info.write_cache ? engine::Durability::durable : engine::Durability::cached;
  }
  /// Of an order or a forward. Durability is this node's word, where the write cache is off already: the other may not
  /// have heard of it yet.
  [[nodiscard]] std::uint16_t flags_of(const Op& op) const;
  /// A request about this volume, with epoch and watermark filled in.
  [[nodiscard]] Message message(MessageType type) const;
  /// From now on; when it is put off, what this store holds unflushed is made durable.
  void set_write_cache(bool on);
  /// The local store can't be relied on any more: this replica leaves. For want of space it comes back by itself.
  void fail_store(const std::string& why, std::error_code error = {});
  void fail_flush(std::error_code error);
  /// Makes `known` durable; a failure is the metadata's. `done` runs only when it went well.
  void keep_knowledge(engine::Callback<> done = [] {});
  /// The store completed something: it does not hang.
  void note_returned() { store_returned_at = now(); }
  /// Nothing of `which` is started any more: what waits ends now, what is being read, or was sent to the partner, when
  /// it comes back.
  void end_unstarted(const Selection& which);
};

}  // namespace lockstep::replication
