#pragma once
// What a replica's superblock says of its volume, and the epoch record beside it: values, not bytes (see format.md).
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/uuid.hpp"

namespace lockstep::engine {

/// The two nodes of a pair. Which is which is fixed when the pair is made.
enum class NodeSide : std::uint8_t { a = 0, b = 1 };
[[nodiscard]] constexpr NodeSide other(NodeSide s) { return s == NodeSide::a ? NodeSide::b : NodeSide::a; }

/// A set of members: {A}, {B} or {A,B}. Never empty in a record.
struct MemberSet {
  std::uint8_t bits = 0;  ///< 1 = A, 2 = B
  bool operator==(const MemberSet&) const = default;
  [[nodiscard]] static constexpr MemberSet both() { return {3}; }
  [[nodiscard]] static constexpr MemberSet only(NodeSide s) { return {static_cast<std::uint8_t>(1u << unsigned(s))}; }
  [[nodiscard]] constexpr bool contains(NodeSide s) const { return bits & only(s).bits; }
  [[nodiscard]] constexpr bool is_both() const { return bits == 3; }
};

enum class ArbiterKind : std::uint8_t { witness = 1, preferred = 2, fence = 3 };

struct ArbiterSettings {
  ArbiterKind kind = ArbiterKind::preferred;
  NodeSide preferred = NodeSide::a;  ///< kind preferred: goes on alone
  std::string address;               ///< witness: etcd endpoints, comma separated; at most 255 bytes
  bool operator==(const ArbiterSettings&) const = default;
};

/// An agreement on who the members are. Two records with the same number and different ids are different agreements.
struct EpochRecord {
  static constexpr std::size_t kMaxAncestors = 128;

  std::uint64_t number = 0;
  Uuid id;
  std::vector<Uuid> ancestors;  ///< newest first, at most kMaxAncestors
  MemberSet members;
  NodeSide sequencer = NodeSide::a;
  std::uint64_t size = 0;  ///< bytes of the volume
  ArbiterSettings arbiter;
  bool operator==(const EpochRecord&) const = default;
  /// True when this record is `older` or was made from it.
  [[nodiscard]] bool descends_from(const EpochRecord& older) const;
};

/// The key of an encrypted replica's blocks, sealed with a node's key (engine/encryption/keys.hpp).
struct SealedKey {
  static constexpr std::size_t kSize = 72;
  Uuid node_key;  ///< which key it was sealed with
  std::array<std::byte, kSize> bytes{};
  bool operator==(const SealedKey&) const = default;
};

struct VolumeIdentity {
  Uuid pair;
  Uuid volume;
  NodeSide owner = NodeSide::a;  ///< whose replica this is
  std::string name;              ///< at most 63 bytes
  std::string serial;            ///< at most 32 bytes
  std::uint64_t size = 0;        ///< bytes
  std::uint32_t block_size = 512;
  std::uint32_t region_size = 65536;  ///< bytes a bit of the dirty map stands for
  /// Bytes into the metadata area where the state of the logical unit stands; 0: right behind the dirty map, where it
  /// is until the volume grows. The area's own business: who makes one leaves it 0.
  std::uint64_t state_at = 0;
  std::optional<SealedKey> key{};  ///< its blocks are encrypted
  bool operator==(const VolumeIdentity&) const = default;
};

}  // namespace lockstep::engine
