#pragma once
// The witness as the mirror sees it: one small record a volume, changed only by compare-and-swap.
// Real: etcd (replication/arbiter). The arbiter `preferred` needs no seam: it is a rule in the core. The seam of
// `fence` is in fencing.hpp.
#include <array>
#include <cstdint>
#include <optional>

#include "engine/base/result.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::replication {

struct WitnessRecord {
  std::uint64_t number = 0;
  engine::Uuid epoch;
  engine::MemberSet members;
  /// What each replica is known to have reached when this was written, A's and B's (generations.hpp). One that has less
  /// was set back in time. They rise without a new epoch, and are no part of what was decided.
  std::array<std::uint64_t, 2> generations{};
  bool operator==(const WitnessRecord& o) const {
    return number == o.number && epoch == o.epoch && members == o.members;
  }
  [[nodiscard]] std::uint64_t generation_of(engine::NodeSide side) const {
    return generations[side == engine::NodeSide::a ? 0 : 1];
  }
};

struct WitnessView {
  std::optional<WitnessRecord> record;  ///< nothing: no record of this volume
  std::int64_t mod_revision = 0;        ///< of what stands there; 0: nothing does
  /// Which witness it is and, with a record, since when the record is there; never 0 in an answer. Another witness may
  /// have the same.
  std::uint64_t cluster = 0;
  std::int64_t revision = 0;  ///< rises with every write of any record there: lower, and it was set back
  std::int64_t writes = 0;    ///< of what stands there, since it was made
  bool tampered = false;      ///< something stands there that no node of this pair wrote, or not as the last
};

struct SwapOutcome {
  bool won = false;
  WitnessView current;  ///< as it stands now: mine if won, the winner's if not
};

class Witness {
 public:
  virtual ~Witness() = default;
  /// A linearizable read. Errc::timed_out or io_error: could not be asked.
  virtual void read(const engine::Uuid& volume, engine::Callback<engine::IoResult<WitnessView>> done) = 0;
  /// Writes `record` if what stands there is still what was `seen`. Errc::unknown_outcome: it may or may not have been
  /// written; read and ask again, never assume. `done` never runs from inside the call.
  virtual void swap(const engine::Uuid& volume, const WitnessView& seen, const WitnessRecord& record,
                    engine::Callback<engine::IoResult<SwapOutcome>> done) = 0;
  /// Removes the volume's record, when the volume is deleted.
  virtual void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) = 0;
};

}  // namespace lockstep::replication
