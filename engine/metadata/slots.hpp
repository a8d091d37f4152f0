#pragma once
// Which of the two slots of a superblock or an epoch record counts: pure decisions over what was read.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/metadata/layout.hpp"

namespace lockstep::engine::layout {

template <class T>
struct Slot {
  T value;
  Key key;
  std::uint64_t generation = 0;
};
template <class T>
using SlotPair = std::array<Checked<Slot<T>>, 2>;

template <class T>
struct Choice {
  Slot<T> slot;
  std::array<bool, 2> rewrite{};  ///< the slots that do not hold what counts
};

[[nodiscard]] Checked<Slot<VolumeIdentity>> read_superblock(ConstBlock block, std::uint64_t slot, const Uuid& volume,
                                                            NodeSide owner);
[[nodiscard]] Checked<Slot<ReplicaRecord>> read_record(ConstBlock block, std::uint64_t slot, const Key& key);

/// The state of the logical unit as it was given, nothing known of what is in it.
using StateBytes = std::vector<std::byte>;
/// A slot of the state: its first block and the bytes behind. One that was never written (zeros) is empty, generation
/// 0.
[[nodiscard]] Checked<Slot<StateBytes>> read_state(ConstBlock first, std::span<const std::byte> room,
                                                   std::uint64_t slot, const Key& key);

/// A slot that is whole and yet wrong refuses the area; a damaged one gives way to the other. Of two good ones the
/// later generation counts. `where` begins the messages: "Metadata of /path".
[[nodiscard]] Result<Choice<VolumeIdentity>> choose(const SlotPair<VolumeIdentity>& slots, std::string_view where);
/// The same, but the higher number counts first, and the same number with another id is corrupt.
[[nodiscard]] Result<Choice<ReplicaRecord>> choose(const SlotPair<ReplicaRecord>& slots, std::string_view where);
[[nodiscard]] Result<Choice<StateBytes>> choose(const SlotPair<StateBytes>& slots, std::string_view where);

}  // namespace lockstep::engine::layout
