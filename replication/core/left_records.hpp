#pragma once
// What a node keeps of replicas that left an epoch and could not record it in their own metadata: the partner went on
// alone by that word. Read at every start, until the metadata has it.
// Real: files in the node's state directory (mgmt/data_plane). Simulated: tests/simulation.
#include <optional>

#include "engine/base/result.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::replication {

class LeftRecords {
 public:
  virtual ~LeftRecords() = default;
  /// `done` runs when it is durable, and never from inside the call; kept() has it from now on, whatever becomes of it:
  /// it may be durable.
  virtual void keep(const engine::Uuid& volume, const engine::EpochRecord& record, engine::IoCallback done) = 0;
  /// An error: something is kept, and can't be read. Whether this replica left is not known then.
  [[nodiscard]] virtual engine::IoResult<std::optional<engine::EpochRecord>> kept(const engine::Uuid& volume) const = 0;
  /// The metadata has it, or an epoch that follows. A failure is harmless: it is forgotten the next time.
  virtual void forget(const engine::Uuid& volume) = 0;
};

}  // namespace lockstep::replication
