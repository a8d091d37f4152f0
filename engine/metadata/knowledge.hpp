#pragma once
// What a replica has learnt of its partner and of the witness, kept durably beside the epoch record. It tells a copy or
// a witness that was set back in time: one that has less than is known here.
#include <cstdint>

#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::engine {

/// All zero: nothing was learnt yet, as in an area of before there was such a record.
struct Knowledge {
  std::uint64_t generation = 0;          ///< this replica's own
  std::uint64_t partner_generation = 0;  ///< the partner's highest that is known to be durable there

  std::uint64_t witness_cluster = 0;  ///< etcd's cluster id; 0: no witness was ever seen
  /// How often both nodes together took the witness as it stood, although it had less than was known.
  std::uint64_t witness_repairs = 0;
  std::int64_t witness_revision = 0;  ///< the highest that this witness ever answered with

  // The witness's record as it was last seen. That the partner won is to be read from it.
  MemberSet record_members{};  ///< no bits: no record was ever seen
  std::uint64_t record_number = 0;
  Uuid record_epoch{};

  bool operator==(const Knowledge&) const = default;
  [[nodiscard]] bool record_seen() const { return record_members.bits != 0; }
  /// Nothing in `next` is older than here: generations, repairs, and in one cluster, unless that was repaired, the
  /// revision. Another cluster may take the place of the one that is known; none may not.
  [[nodiscard]] bool may_become(const Knowledge& next) const;
};

/// What the two slots of the epoch record hold.
struct ReplicaRecord {
  EpochRecord epoch;
  Knowledge knowledge;
  bool operator==(const ReplicaRecord&) const = default;
};

}  // namespace lockstep::engine
