#pragma once
// Whether a witness is the one that this node knows: what it says now beside what was seen of it before. A witness that
// was set back in time, emptied or replaced may let both nodes win, one after the other: it grants nothing until both
// nodes together have put it right. Pure; what is known is kept durably in the metadata
// (engine/metadata/knowledge.hpp).
#include "engine/metadata/knowledge.hpp"
#include "replication/core/arbiter.hpp"

namespace lockstep::replication {

enum class WitnessTrust : std::uint8_t {
  ok,                  ///< nothing that was seen is missing
  behind,              ///< set back in time: its revision, or its record, is older than what was seen, or beside it
  other_cluster,       ///< another witness than the one that was seen
  no_record_any_more,  ///< there was a record, and now there is none
  tampered,            ///< somebody else wrote there
  let_go,              ///< this node has let go of the one that it knew: the partner is to know the same one
};
[[nodiscard]] const char* to_string(WitnessTrust trust);

/// The record that was seen there last.
[[nodiscard]] std::optional<WitnessRecord> last_seen(const engine::Knowledge& known);

/// A witness is known, and was not let go of.
[[nodiscard]] bool has_taken_witness(const engine::Knowledge& known);
/// Until both nodes take one together it grants nothing; what was seen of it is remembered.
[[nodiscard]] engine::Knowledge let_go_of_witness(engine::Knowledge known);

/// `known`: as it was when the witness was asked, for answers may overtake one another. The first that holds of
/// tampered, let_go, no_record_any_more, other_cluster and behind. A record that is not the one that was seen was
/// written after that, with a higher number: any other is of a witness that was set back, and has perhaps gone another
/// way since. A witness that was never seen is ok, also without a record: `judge` in verdict.hpp grants nothing without
/// one.
[[nodiscard]] WitnessTrust judge_witness(const engine::Knowledge& known, const WitnessView& view);

/// What is known with what a witness that is ok tells; of any other, and of an answer that was overtaken, nothing is
/// learnt. To be durable before anything is done because of the answer.
[[nodiscard]] engine::Knowledge learn(engine::Knowledge known, const WitnessView& view);

/// Both nodes in sync have put it right, and its record is theirs: from now on this is what is known, also where it is
/// less than before. Without less it is learn().
[[nodiscard]] engine::Knowledge accept_witness(engine::Knowledge known, const WitnessView& view);

}  // namespace lockstep::replication
