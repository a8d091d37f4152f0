#pragma once
// Which nodes decide over the pair's configuration: the rules of a volume's epochs (docs/developer/mirror.md), for the
// configuration. Pure: no database, no network, no clock.
//
// In an epoch of both nodes a change is durable on both before it is answered. A node whose partner is away begins an
// epoch of its own, if the arbiter lets it; the partner takes over what was changed when it returns, and then both
// begin the next epoch. So a change needs two of three: this node, its partner, the witness.
#include <cstdint>
#include <vector>

#include <boost/describe/class.hpp>

#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"
#include "replication/core/witness_memory.hpp"

namespace lockstep::mgmt {

/// Revisions of one epoch are numbered in the order in which they were decided; `change` tells two attempts at the same
/// number apart. A new epoch begins when the pair's membership changes, when a node goes on without its partner, and
/// when both decide again.
struct RevisionId {
  engine::Uuid epoch;
  std::int64_t n = 0;
  engine::Uuid change;
  bool operator==(const RevisionId&) const = default;
};
BOOST_DESCRIBE_STRUCT(RevisionId, (), (epoch, n, change))

struct ConfigurationEpoch {
  static constexpr std::size_t kMaxAncestors = 128;

  engine::Uuid id;
  std::uint64_t number = 1;  ///< rises from an epoch to those that follow from it
  engine::MemberSet members = engine::MemberSet::both();
  /// Of each epoch before, the last revision that was taken over. Newest first; at most kMaxAncestors.
  std::vector<RevisionId> ancestors{};
  bool forced = false;  ///< begun by an operator's word: no arbiter was asked, and none is
  bool operator==(const ConfigurationEpoch&) const = default;

  /// True when this epoch follows from that revision of another one. What a database that was set back had lost is not
  /// followed from.
  [[nodiscard]] bool descends_from(const RevisionId& older) const;
  [[nodiscard]] bool is_only(engine::NodeSide side) const { return members == engine::MemberSet::only(side); }
  /// The epoch that follows from this one's revision `last`, with a number above `above` and above this one's.
  [[nodiscard]] ConfigurationEpoch next(const engine::Uuid& with_id, engine::MemberSet with_members,
                                        const RevisionId& last, std::uint64_t above) const;
};
BOOST_DESCRIBE_STRUCT(ConfigurationEpoch, (), (id, number, members, ancestors, forced))

/// What a node knows of its partner and of the pair's record at the witness. Durable before anything rests on it.
struct ConfigurationKnowledge {
  bool partner_knows_epochs = false;  ///< a partner of an earlier version could not take over what was changed alone
  engine::Knowledge witness;          ///< only the fields of the witness are used
  /// The highest revision that this node has had, or was about to have. A database that was set back has less than the
  /// witness knows.
  std::int64_t reached = 0;
  int partner_reads = 0;  ///< the newest version of a document that it read when the two last agreed; 0: not known
  bool operator==(const ConfigurationKnowledge&) const = default;
};

/// May a node whose partner is away make the next revision?
enum class ClaimVerdict : std::uint8_t {
  granted,
  partner_went_on,  ///< the partner has an epoch of its own
  set_back,         ///< this node's database is of an earlier time
  not_of_both,      ///< the witness does not have the epoch of both nodes (yet)
  distrusted,       ///< the witness is not the one that is known, lost its record, or was tampered with
};
struct Claim {
  ClaimVerdict verdict = ClaimVerdict::distrusted;
  replication::WitnessTrust trust = replication::WitnessTrust::ok;
  replication::WitnessRecord record{};  ///< granted: to be written there first
  ConfigurationEpoch epoch{};           ///< granted: the one that the revision will be of
};
/// `mine` is the epoch of `newest`, of both nodes or of `me` alone; `begun` the one of `me` alone that this process
/// began, `fresh` the id of a new one, if one has to begin for the revision after `newest`. A process doesn't go on in
/// another one's epoch: should its database be an older one, the partner, which may have more of that epoch, finds out.
[[nodiscard]] Claim judge_claim(engine::NodeSide me, const ConfigurationEpoch& mine, const RevisionId& newest,
                                const ConfigurationKnowledge& known, const replication::WitnessView& view,
                                const engine::Uuid& begun, const engine::Uuid& fresh);

/// What is to be done about the witness by a node that is of one mind with its partner: they were seen to have the same
/// revision, of an epoch of both, before the witness was asked.
enum class Mending : std::uint8_t {
  none,         ///< it has this epoch: what it says is to be taken as known
  write,        ///< `record` is to be written over what stands there
  next_epoch,   ///< a node won there and never knew: an epoch above that has to begin
  for_partner,  ///< it is the partner that writes
};
struct Mend {
  Mending what = Mending::none;
  replication::WitnessRecord record{};
};
/// `n` is the revision that both have. Only the node that orders changes writes.
[[nodiscard]] Mend judge_mend(bool orders, const ConfigurationEpoch& mine, std::int64_t n,
                              const ConfigurationKnowledge& known, const replication::WitnessView& view);

}  // namespace lockstep::mgmt
