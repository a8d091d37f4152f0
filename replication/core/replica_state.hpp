#pragma once
// What a node tells its partner of its replica of one volume, and its bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/metadata/identity.hpp"

namespace lockstep::replication {

/// What this node was told to have its volumes decided by, as far as that differs from what they name.
enum class ArbiterWish : std::uint8_t {
  none,         ///< it stays, or this version is not told
  nobody,       ///< a witness of which this node asks none: alone, neither goes on
  preferred_a,  ///< and this node asks no witness
  preferred_b,
  fence,  ///< the same, and this node has a command; an older version takes it for none
};

struct ReplicaState {
  engine::EpochRecord record;  ///< durable here
  engine::NodeSide side = engine::NodeSide::a;
  bool running = false;                 ///< this process was let into `record`, or into the one that it was made from
  bool able = false;                    ///< store and metadata are well, nobody asked it to leave: may be a member
  bool only_failed_operations = false;  ///< not able for nothing else, and its store holds nothing
  bool serving = false;                 ///< answers I/O under `record` now
  bool changing = false;                ///< in the middle of a step: ask again before acting on this
  bool forwarding = false;              ///< answers I/O through its partner now; false of a version that does not tell
  bool set_back = false;                ///< in time (generations.hpp); does not travel: both nodes find out
  std::uint64_t attempted = 0;          ///< the highest number asked of the witness that nothing decided yet; 0: none
  ArbiterWish wish = ArbiterWish::none;
  bool operator==(const ReplicaState&) const = default;
};

/// At most this many bytes, and far below kMaxLinkPayload.
constexpr std::size_t kMaxStateBytes = 4096;

/// Flags of the upper byte may come from a later version, and are of no importance to one that does not know them.
[[nodiscard]] std::vector<std::byte> encode_state(const ReplicaState& state);
/// corrupt or wrong_version. Checks its checksum before anything else and every value against its range.
[[nodiscard]] engine::IoResult<ReplicaState> decode_state(std::span<const std::byte> bytes);

}  // namespace lockstep::replication
