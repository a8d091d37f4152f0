#pragma once
// Who goes on, who follows, who is resynced from whom: one total function of what two talking nodes know of a volume.
// What it tells one node fits what it tells the other; tests go through every combination.
#include <optional>
#include <string>

#include "engine/metadata/identity.hpp"
#include "replication/core/replica_state.hpp"

namespace lockstep::replication {

enum class Verdict : std::uint8_t {
  wait,          ///< nobody may go on: an operator or a repaired store is needed
  follow,        ///< the partner acts next
  settled,       ///< both serve the epoch that they share
  drive_resume,  ///< same epoch, nothing decided since: tell the partner to go on with me
  drive_both,    ///< agree the next epoch {A,B}, I am its sequencer
  drive_solo,    ///< agree the next epoch {me}; the partner leaves first
  start_solo,    ///< my record names only me: serve
  source,        ///< I serve alone: bring the partner up to date
  adopt,         ///< record the partner's epoch, which names only it, and be its target
  target,        ///< not a member: forward, and be brought up to date
  take_over,     ///< the partner left in my favour and I did not record it yet: record, then serve
  split_brain,   ///< neither epoch descends from the other
};
[[nodiscard]] const char* to_string(Verdict verdict);

enum class Relation : std::uint8_t { same, mine_newer, theirs_newer, unrelated };

/// A record that its holder cannot have served alone ({A,B}, or one that names only the other) and that the partner
/// never made its own is void: nothing was acknowledged under it, its parent counts. Two void ones: the higher number.
[[nodiscard]] Relation relate(const ReplicaState& mine, const ReplicaState& theirs);
[[nodiscard]] Verdict decide(const ReplicaState& mine, const ReplicaState& theirs);
/// The partner is a member of an epoch that follows `mine`.
[[nodiscard]] bool went_on_without(const engine::EpochRecord& mine, const ReplicaState& theirs);

/// The record that follows mine: higher than its number and than `above`.
[[nodiscard]] engine::EpochRecord next_epoch(const engine::EpochRecord& mine, engine::MemberSet members,
                                             engine::NodeSide sequencer, const engine::Uuid& id, std::uint64_t above);
/// The record that follows both: higher than either number and than `above`, and descending from both. Its parent is
/// the newest epoch that may have been served, so that a second one that nobody comes to serve is as void as the first.
[[nodiscard]] engine::EpochRecord next_epoch(const ReplicaState& mine, const ReplicaState& theirs,
                                             engine::MemberSet members, engine::NodeSide sequencer,
                                             const engine::Uuid& id, std::uint64_t above);

/// What a replica records that gives up its own line of epochs after a split brain: an epoch of the `survivor` alone
/// that follows both lines. The kept one comes first, so that this record is void beside whatever the survivor, not
/// knowing of it yet, makes of `kept` meanwhile.
[[nodiscard]] engine::EpochRecord epoch_after_giving_up(const engine::EpochRecord& kept,
                                                        const engine::EpochRecord& given_up, engine::NodeSide survivor,
                                                        const engine::Uuid& id, std::uint64_t above);

/// May a node that talks to nobody ask to go on alone, and whom? (`preferred` and `fence` have no memory: only for a
/// node that was in sync in this process.)
enum class AloneRule : std::uint8_t { start, ask_witness, preferred_goes_on, fence_partner, stay };
struct Arbiters {
  bool witness = false;  ///< one can be asked
  bool fence = false;    ///< there is a command
};
[[nodiscard]] AloneRule decide_alone(const ReplicaState& mine, Arbiters configured);

/// Whom the next epoch {A,B} names as arbiter; nothing: whom the present one does. Its two records become durable one
/// after the other, and whoever holds the older one goes by the older arbiter meanwhile. So another arbiter is named
/// only where both nodes were told of it, and between any two there is an epoch in which none lets a node go on alone:
/// a witness that neither node asks.
[[nodiscard]] std::optional<engine::ArbiterSettings> next_arbiter(const ReplicaState& mine, const ReplicaState& theirs);

/// What a record at the witness means to a node that wants {me}.
enum class WitnessWord : std::uint8_t { may_try, lost, no_record };
struct WitnessRecord;
/// `agreed`: the partner is known to have recorded my epoch, too. What it won before that is void; what it won without
/// having recorded an {A,B} that I drove stands, whatever the numbers, unless that epoch descends from it.
[[nodiscard]] WitnessWord judge(const ReplicaState& mine, const WitnessRecord* record, bool agreed);

}  // namespace lockstep::replication
