#pragma once
// Where this replica stands: its phase, the epoch that is durable here, the gate and the lease.
//
// PhaseRunner changes it, and checks each phase against the durable record (phase.hpp). Every other part has it const,
// and keeps two rules:
//  1. Nothing is started while gated, and nothing at all in a phase that serves nothing.
//  2. A local read is answered only alone, or in sync with a valid lease and reads_here().
#include "engine/metadata/metadata_area.hpp"
#include "replication/core/node_settings.hpp"
#include "replication/core/op.hpp"
#include "replication/core/phase.hpp"

namespace lockstep::replication {

struct Standing {
  Standing(const NodeSettings& settings_in, const engine::Clock& clock_in, const engine::MetadataArea& meta)
      : settings(settings_in), clock(clock_in), record(meta) {}

  const NodeSettings& settings;
  const engine::Clock& clock;
  const engine::MetadataArea& record;
  ReplicaPhase phase;
  bool gated = false;  ///< new operations are held: a change is under way, or nobody knows who goes on

  [[nodiscard]] engine::NodeSide side() const { return settings.side; }
  [[nodiscard]] const engine::EpochRecord& epoch() const { return record.epoch(); }
  [[nodiscard]] bool is_sequencer() const { return epoch().sequencer == side(); }
  [[nodiscard]] bool in_sync() const { return std::holds_alternative<phase::InSync>(phase); }
  [[nodiscard]] bool is_alone() const { return std::holds_alternative<phase::Solo>(phase); }
  [[nodiscard]] bool is_forwarding() const { return std::holds_alternative<phase::Forwarding>(phase); }
  [[nodiscard]] bool serves_nothing() const { return !in_sync() && !is_alone() && !is_forwarding(); }
  /// The volume is detached here.
  [[nodiscard]] bool closed() const { return std::holds_alternative<phase::Closed>(phase); }
  /// The metadata can't be relied on.
  [[nodiscard]] bool metadata_failed() const { return std::holds_alternative<phase::Failed>(phase); }
  [[nodiscard]] const Lease* lease() const {
    const auto* p = std::get_if<phase::InSync>(&phase);
    return p && p->lease ? &*p->lease : nullptr;
  }
  /// One was granted since this node is in sync; it may have run out.
  [[nodiscard]] bool has_lease() const { return lease() != nullptr; }
  [[nodiscard]] bool lease_valid(engine::TimePoint now) const { return lease() && now < lease()->until; }
  [[nodiscard]] bool lease_valid() const { return lease_valid(clock.now()); }
  /// The partner was in sync after that: it granted a lease that was asked for later, perhaps by a clock that stood
  /// still.
  [[nodiscard]] bool is_leased_since(engine::TimePoint at) const { return lease() && lease()->from > at; }
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
  /// The partner has answered since this program took `op`: that it is still a member does not rest on its clock
  /// alone.
  [[nodiscard]] bool is_confirmed(const Op& op) const {
    return !settings.confirms_reads || !in_sync() || op.entry || (lease() && lease()->from >= op.receipt.taken);
  }
};

}  // namespace lockstep::replication
