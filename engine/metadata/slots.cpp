#include "engine/metadata/slots.hpp"

#include <algorithm>

namespace lockstep::engine::layout {
namespace {

std::unexpected<Error> refuse(std::string_view where, std::string_view what, Errc code, std::string reason) {
  return fail(code, std::string(where) + ": " + std::string(what) + " " + std::move(reason) + ".");
}

/// What both kinds have in common; `later(a, b)` is positive when a counts, negative when b does, 0 when both are
/// alike.
template <class T, class Later>
Result<Choice<T>> choose_slot(const SlotPair<T>& slots, std::string_view where, const std::string& what, Later later) {
  for (std::size_t i = 0; i < 2; ++i) {
    if (slots[i] || slots[i].error().damaged) continue;
    return refuse(where, what + " slot " + std::to_string(i), slots[i].error().code, slots[i].error().reason);
  }
  if (!slots[0] && !slots[1]) {
    return refuse(where, "no " + what + " is left: slot 0", Errc::corrupt,
                  slots[0].error().reason + "; slot 1 " + slots[1].error().reason);
  }
  if (!slots[0]) return Choice<T>{*slots[1], {true, false}};
  if (!slots[1]) return Choice<T>{*slots[0], {false, true}};
  const int order = later(*slots[0], *slots[1]);
  if (order > 0) return Choice<T>{*slots[0], {false, true}};
  if (order < 0) return Choice<T>{*slots[1], {true, false}};
  if (slots[0]->value == slots[1]->value && slots[0]->key == slots[1]->key) return Choice<T>{*slots[0], {}};
  return refuse(where, "the two slots of the " + what, Errc::corrupt, "contradict one another");
}

template <class N>
int compare(const N& a, const N& b) {
  return a > b ? 1 : a < b ? -1 : 0;
}

}  // namespace

Checked<Slot<VolumeIdentity>> read_superblock(ConstBlock block, std::uint64_t slot, const Uuid& volume,
                                              NodeSide owner) {
  const auto sealed = unseal(block, Kind::superblock, slot);
  if (!sealed) return std::unexpected(sealed.error());
  Key expected = sealed->key;
  expected.volume = volume;
  expected.owner = owner;
  if (const auto ours = check_key(sealed->key, expected); !ours) return std::unexpected(ours.error());
  const auto identity = decode_identity(block, sealed->key);
  if (!identity) return std::unexpected(identity.error());
  return Slot<VolumeIdentity>{*identity, sealed->key, sealed->generation};
}

Checked<Slot<ReplicaRecord>> read_record(ConstBlock block, std::uint64_t slot, const Key& key) {
  const auto sealed = unseal(block, Kind::epoch, slot);
  if (!sealed) return std::unexpected(sealed.error());
  if (const auto ours = check_key(sealed->key, key); !ours) return std::unexpected(ours.error());
  const auto record = decode_record(block);
  if (!record) return std::unexpected(record.error());
  return Slot<ReplicaRecord>{*record, sealed->key, sealed->generation};
}

Checked<Slot<StateBytes>> read_state(ConstBlock first, std::span<const std::byte> room, std::uint64_t slot,
                                     const Key& key) {
  if (std::ranges::all_of(first, [](std::byte b) { return b == std::byte{0}; })) return Slot<StateBytes>{{}, key, 0};
  const auto sealed = unseal(first, Kind::state, slot);
  if (!sealed) return std::unexpected(sealed.error());
  if (const auto ours = check_key(sealed->key, key); !ours) return std::unexpected(ours.error());
  const auto length = decode_state(first, room);
  if (!length) return std::unexpected(length.error());
  return Slot<StateBytes>{
      {room.begin(), room.begin() + static_cast<std::ptrdiff_t>(*length)}, sealed->key, sealed->generation};
}

Result<Choice<VolumeIdentity>> choose(const SlotPair<VolumeIdentity>& slots, std::string_view where) {
  return choose_slot<VolumeIdentity>(slots, where, "superblock", [](const auto& a, const auto& b) {
    return a.key == b.key ? compare(a.generation, b.generation) : 0;
  });
}

Result<Choice<ReplicaRecord>> choose(const SlotPair<ReplicaRecord>& slots, std::string_view where) {
  return choose_slot<ReplicaRecord>(slots, where, "epoch record", [](const auto& a, const auto& b) {
    const EpochRecord &x = a.value.epoch, &y = b.value.epoch;
    if (x.number != y.number) return compare(x.number, y.number);
    return x.id == y.id ? compare(a.generation, b.generation) : 0;
  });
}

Result<Choice<StateBytes>> choose(const SlotPair<StateBytes>& slots, std::string_view where) {
  return choose_slot<StateBytes>(slots, where, "state record",
                                 [](const auto& a, const auto& b) { return compare(a.generation, b.generation); });
}

}  // namespace lockstep::engine::layout
