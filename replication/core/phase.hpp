#pragma once
// Where a replica stands in its volume's epochs, as a value: one phase at a time, each with its own data, and one pure
// function from a phase and an event to the next phase and what has to be done on arriving there. PhaseRunner
// runs it; docs/developer/phases.md shows it as a table.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/metadata/identity.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::replication {

/// A member's leave to answer reads from its own store.
struct Lease {
  engine::TimePoint from;  ///< when the heartbeat was sent that it rests on
  engine::TimePoint until;
  bool operator==(const Lease&) const = default;
};

namespace phase {

/// This process has served nothing of the epoch that is recorded here.
struct Starting {
  bool operator==(const Starting&) const = default;
};
/// A member of {A,B}; both recorded that.
struct InSync {
  engine::TimePoint entered;
  bool reads_here = false;  ///< what this store holds may be read: the primary's always may
  std::optional<Lease> lease;
  bool operator==(const InSync&) const = default;
};
/// The only member.
struct Solo {
  bool operator==(const Solo&) const = default;
};
/// It served {A,B}, and does not know who goes on.
struct Suspended {
  enum class Sessions : std::uint8_t {
    kept,   ///< open: what was not started waits for this node to go on alone, and for nothing else
    held,   ///< open: what was not started waits until both nodes agree, or contact is lost
    closed  ///< by this node: nothing waits here
  };
  engine::TimePoint since;  ///< from when on the partner's orders were refused
  Sessions sessions = Sessions::closed;
  bool was_primary = false;
  bool reads_here = false;
  bool operator==(const Suspended&) const = default;
};
/// Between two epochs: nothing is served, and the record of the next one is on its way here or at the partner.
struct Recording {
  bool ran = false;  ///< this process served the epoch before
  bool operator==(const Recording&) const = default;
};
/// No member: everything goes to the partner, which brings this replica up to date.
struct Forwarding {
  engine::TimePoint entered;
  bool partner_went_on = false;  ///< the partner is known to serve alone
  bool operator==(const Forwarding&) const = default;
};
/// It serves nothing because of what it found in itself, until it agrees with the partner or may go on alone.
struct Stopped {
  bool ran = false;
  bool operator==(const Stopped&) const = default;
};
/// Its metadata can't be relied on.
struct Failed {
  bool ran = false;
  bool operator==(const Failed&) const = default;
};
/// The volume is detached here. Nothing follows.
struct Closed {
  bool operator==(const Closed&) const = default;
};

}  // namespace phase

using ReplicaPhase = std::variant<phase::Starting, phase::InSync, phase::Solo, phase::Suspended, phase::Recording,
                                  phase::Forwarding, phase::Stopped, phase::Failed, phase::Closed>;

namespace event {

struct RecordBegins {};  ///< of an epoch in which this node's part changes
struct BothRecorded {    ///< {A,B}
  engine::TimePoint now;
  bool equal = false;  ///< so are their stores
  bool primary = false;
};
struct AloneRecorded {};  ///< {this node}, by agreement, the arbiter's word or an operator's
struct PartnerRecorded {  ///< {the partner}
  engine::TimePoint now;
};
struct NotAgreed {  ///< this node recorded {A,B}; whether the partner did is not known
  engine::TimePoint now;
};
struct Resumed {  ///< both go on in the epoch that they share
  engine::TimePoint now;
  bool primary = false;
};
struct LeaseGranted {
  Lease lease;
};
struct StoresEqual {};    ///< the primary says so
struct PartnerWentOn {};  ///< it serves alone
struct LeaseLost {
  engine::TimePoint now;
  bool primary = false;
};
struct ContactLost {
  engine::TimePoint now;
  bool primary = false;
};
struct NotAlone {};        ///< this node will not go on alone from here, or not soon
struct SessionsClosed {};  ///< of this node's initiators, perhaps for the sake of another volume
struct Unfit {};           ///< a record that does not follow, a copy that was set back, the only store hangs
struct MetadataLost {};
struct LateRecordReturned {  ///< a record that was given up is durable after all
  bool member = false;       ///< it names this node
};
struct Detached {};

}  // namespace event

using PhaseEvent =
    std::variant<event::RecordBegins, event::BothRecorded, event::AloneRecorded, event::PartnerRecorded,
                 event::NotAgreed, event::Resumed, event::LeaseGranted, event::StoresEqual, event::PartnerWentOn,
                 event::LeaseLost, event::ContactLost, event::NotAlone, event::SessionsClosed, event::Unfit,
                 event::MetadataLost, event::LateRecordReturned, event::Detached>;

/// What is done on arriving, in this order.
enum class Effect : std::uint8_t {
  end_change,             ///< a change under way that recorded nothing yet is given up
  hold_new,               ///< new operations wait
  lift_hold,              ///< … no more; those that wait are dropped by what follows
  lift_hold_if_idle,      ///< the same, unless a change goes on
  close_sessions,         ///< of this node's initiators, and nothing that they sent is started
  drop_own,               ///< nothing that this node's initiators sent is started
  take_back_waiting,      ///< what waits for a lock or a lease waits at the gate
  drop_possibly_retried,  ///< what a host may have sent again through the partner
  stop_resync,
  stop_mirroring,  ///< if there is a target, it is brought up to date no more
  lose_target,     ///< the same, and operations go on without it
  begin_in_sync,   ///< a new epoch
  make_equal,      ///< by this node, before what differs is read or written
  serve_in_sync,
  resume_in_sync,
  serve_alone,
  forward_all,
  ask_about_leases,
  prove_store,
  tell_state,  ///< to a partner that asks, and to the observer
};

struct Transition {
  ReplicaPhase next;
  std::vector<Effect> effects;
};

/// Empty: that event can't be in that phase, and something is wrong with this program.
[[nodiscard]] std::optional<Transition> step(const ReplicaPhase& now, const PhaseEvent& event);

/// What no phase may contradict: the record that is durable here. Empty: it does not; else what is wrong.
[[nodiscard]] std::string contradiction(const ReplicaPhase& phase, const engine::EpochRecord& record,
                                        engine::NodeSide side);

/// The process serves the epoch that is recorded here, or did: it need not be brought up to date.
[[nodiscard]] bool ran(const ReplicaPhase& phase);
[[nodiscard]] const char* name_of(const ReplicaPhase& phase);
[[nodiscard]] const char* name_of(const PhaseEvent& event);
[[nodiscard]] const char* name_of(Effect effect);

}  // namespace lockstep::replication
