#pragma once
// What a node tells of one volume's mirror: for its operator, and for what initiators are told of its ports.
#include <cstdint>
#include <string>

#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::replication {

enum class MirrorState : std::uint8_t {
  starting,        ///< metadata read, partner or arbiter being asked
  in_sync,         ///< a member of {A,B}, serving
  solo,            ///< the only member, serving
  syncing_source,  ///< the only member, serving, bringing the partner up to date
  syncing_target,  ///< not a member, being brought up to date; I/O is forwarded
  suspended,       ///< was serving; the partner is lost and nobody has decided yet
  waiting,         ///< may not start alone: needs the partner, the witness or an operator
  split_brain,     ///< the two epochs do not descend from one another: refused, both data kept
  failed,          ///< this replica's store or metadata failed; I/O is forwarded while the partner serves
  left,            ///< not a member by agreement (maintenance); I/O is forwarded
};
[[nodiscard]] const char* to_string(MirrorState state);

struct ResyncProgress {
  bool running = false;
  std::uint64_t bytes_total = 0;  ///< to be compared or copied when it began
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_per_second = 0;
};

struct VolumeStatus {
  engine::Uuid volume;
  MirrorState state = MirrorState::starting;
  bool serving = false;           ///< initiators' I/O is answered by this node (by itself or by forwarding)
  bool undecided = false;         ///< it will soon be known whether this node serves: true for a bounded time only
  bool failover_limited = false;  ///< in sync, but the witness could not be told or asked
  bool partner_follows = false;   ///< the partner recorded this epoch, and forwards what its initiators ask
  engine::EpochRecord epoch;
  std::uint64_t dirty_bytes = 0;
  bool full = false;              ///< this node's store had no space for a write when it was last asked
  bool refuses_writes = false;    ///< the only member: its store takes none since a flush failed
  std::uint64_t read_errors = 0;  ///< reads that this node's store failed since the volume was attached
  std::uint64_t rewritten = 0;    ///< ranges that it could not read, and that were rewritten with the partner's bytes
  ResyncProgress resync;
  std::string reason;  ///< why it is not serving, limited or full, a sentence for a person; empty when all is well
};

}  // namespace lockstep::replication
