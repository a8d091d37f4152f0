#pragma once
// The rare branches of the mirror that a batch of 10,000 seeds must have gone through; without these it proves little.
#include <array>

namespace lockstep::simulation {

inline constexpr auto kRequiredMarks = std::to_array<const char*>({
    "apply.dropped_with_its_session",
    "apply.duplicate",
    "apply.stale_order_refused",
    "cleaner.cleared",
    "forward.came_again",
    "forward.done_by_order",
    "forward.sent_again",
    "forward.taken_over",
    "forward.too_old",
    "forward.too_old_to_start",
    "lu_state.changed",
    "lu_state.taken",
    "membership.adopt",
    "membership.both_restarted",
    "membership.drive_both",
    "membership.drive_solo",
    "membership.follow_join",
    "membership.follow_leave",
    "membership.forwarding",
    "membership.goes_solo",
    "membership.in_sync",
    "membership.join",
    "membership.lease_lost",
    "membership.leaver_could_not_record",
    "membership.proposal_refused",
    "membership.resumed",
    "membership.solo",
    "membership.source",
    "membership.told_equal",
    "partner.contact_lost",
    "partner.restarted",
    "read.fetched_from_partner",
    "replicate.refused",
    "replicate.resent",
    "resync.copied_a_hole",
    "resync.on_demand",
    "resync.source_unreadable",
    "resync.target_lost",
    "store.failed",
    "witness.lost",
    "witness.outcome_unknown",
    "witness.record_is_above",
    "witness.unreachable",
    "witness.won",
});

}  // namespace lockstep::simulation
