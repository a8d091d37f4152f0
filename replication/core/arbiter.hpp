#pragma once
// The witness as the mirror sees it: one small record a volume, changed only by compare-and-swap.
// Real: etcd (replication/arbiter). The arbiter `preferred` needs no seam: it is a rule in the core.
#include <cstdint>
#include <optional>

#include "engine/base/result.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::replication {

struct WitnessRecord {
  std::uint64_t number = 0;
  engine::Uuid epoch;
  engine::MemberSet members;
  bool operator==(const WitnessRecord&) const = default;
};

struct WitnessView {
  std::optional<WitnessRecord> record;  ///< nothing: no record of this volume
  std::int64_t mod_revision = 0;        ///< 0: no record
  std::uint64_t cluster = 0;            ///< which witness it is; never 0 in an answer. Another one may have the same.
  std::int64_t revision = 0;            ///< rises with every write of any record there: lower, and it was set back
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
  /// Writes `record` if the volume's mod_revision is still `expected` (0: no record). Errc::unknown_outcome: it may or
  /// may not have been written; read and ask again, never assume. `done` never runs from inside the call.
  virtual void swap(const engine::Uuid& volume, std::int64_t expected, const WitnessRecord& record,
                    engine::Callback<engine::IoResult<SwapOutcome>> done) = 0;
  /// Removes the volume's record, when the volume is deleted.
  virtual void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) = 0;
};

}  // namespace lockstep::replication
