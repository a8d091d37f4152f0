#pragma once
// Faults that tests plant to prove that their checkers see. Every field is false in production; nothing but a test sets
// one, through NodeSettings.

namespace lockstep::replication {

struct Defects {
  bool ack_before_partner = false;        ///< acknowledges a write when the local store has it
  bool forget_dirty_bit = false;          ///< writes without marking the region dirty first
  bool clear_dirty_early = false;         ///< clears bits without the flushes, and while writes are in flight
  bool serve_stale_replica = false;       ///< a replica that is no member reads its own store
  bool resync_wrong_way = false;          ///< copies from the target to the source
  bool ignore_lease = false;              ///< reads are answered without a look at the lease
  bool skip_lease_wait = false;           ///< goes solo without waiting for the leases that it granted
  bool ignore_uncommitted = false;        ///< the other member reads writes that the sequencer may not have yet
  bool skip_witness = false;              ///< goes solo without asking
  bool reenter_after_restart = false;     ///< a restarted process goes on in the epoch that its partner still runs
  bool drop_union = false;                ///< resyncs the source's dirty regions only
  bool forget_forward_results = false;    ///< carries a forward that is sent again out again
  bool keep_held_when_fenced = false;     ///< starts what it received before it lost its lease
  bool ack_state_before_partner = false;  ///< answers a change of the unit's state before the partner has it
  bool serve_before_equal = false;        ///< after both restarted, dirty regions are used before they were made equal
  bool write_without_room = false;        ///< writes without asking whether the partner has the space
  bool keep_freed_space = false;          ///< counts on space that was given back
};

}  // namespace lockstep::replication
