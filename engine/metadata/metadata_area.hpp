#pragma once
// The metadata of one replica on a Store of its own: superblock and epoch record (two slots each, the latter
// with what the replica has learnt) and the dirty map.
// The layout is in format.md beside this file. Knows no files, sockets or clocks; runs unchanged under the simulator.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/extent.hpp"
#include "engine/base/result.hpp"
#include "engine/metadata/identity.hpp"
#include "engine/metadata/knowledge.hpp"
#include "engine/seams/store.hpp"

namespace lockstep::engine {

enum class InitialMap : std::uint8_t { clean, all_dirty };

/// Owned by one reactor; destroyed only when it is idle() (or when the store will never call back). Callbacks run from
/// inside the call only when there is nothing to write: arguments that are refused, bits that are durable already.
class MetadataArea {
 public:
  /// Bytes of Store that a volume of this size and region size needs; the largest number there is for sizes that no
  /// volume can have (0, above 64 TiB, a region size that is not a power of two from 4 KiB to 64 MiB).
  [[nodiscard]] static std::uint64_t required_size(std::uint64_t volume_size, std::uint32_t region_size);

  /// … and with room for the state of the logical unit, which areas made before there was one lack.
  [[nodiscard]] static std::uint64_t size_with_state(std::uint64_t volume_size, std::uint32_t region_size);

  /// Lays out a new area and makes it durable. What was there before is overwritten.
  static void format(Store& store, VolumeIdentity identity, EpochRecord epoch, InitialMap map,
                     Callback<Result<std::unique_ptr<MetadataArea>>> done);
  /// Reads an area back. Refuses by name (corrupt, foreign, wrong_version) what does not belong to `volume` and
  /// `owner`; one valid slot of two suffices; a map block that is damaged or unreadable has all its bits set. What was
  /// read is flushed before it counts: io_error where that fails.
  static void open(Store& store, const Uuid& volume, NodeSide owner,
                   Callback<Result<std::unique_ptr<MetadataArea>>> done);
  ~MetadataArea();

  /// No operation is in flight on the Store, and none waits for its turn: clear_dirty() and others go on after the call
  /// that nobody waits for.
  [[nodiscard]] bool idle() const;
  [[nodiscard]] const VolumeIdentity& identity() const;
  [[nodiscard]] const EpochRecord& epoch() const;
  /// What this replica has learnt, as it is durable; all zero: nothing yet.
  [[nodiscard]] const Knowledge& knowledge() const;
  /// Both slots are written and flushed, one after the other. One at a time (Errc::resource_exhausted); it waits for a
  /// write_knowledge() under way. Errc::refused: the record makes no sense, or its number is below the present one, or
  /// the same with another id. On any other error the outcome is unknown, epoch() and knowledge() stay what they were
  /// and no further record is taken: open the area again, or stop.
  void write_epoch(const EpochRecord& epoch, IoCallback done);
  /// … together with what was learnt: after a power cut both are there, or neither.
  void write_epoch(const EpochRecord& epoch, const Knowledge& knowledge, IoCallback done);
  /// The same slots, with the epoch that stands there. Waits for what is under way; what waits goes out together, each
  /// told when its own is durable, in order of the calls. Nothing is written for what is durable already.
  /// Errc::refused: it makes no sense, or goes back behind what is known or asked for before (Knowledge::may_become).
  /// More than kMaxRecordsWaiting: Errc::resource_exhausted. Other errors as of write_epoch().
  void write_knowledge(const Knowledge& knowledge, IoCallback done);
  /// What stands there once more, in both slots, whether or not it changed: tells whether the next record could be
  /// written. A write that is torn, or fails, leaves the other slot with the same. As write_knowledge() else.
  void rewrite_record(IoCallback done);
  static constexpr std::size_t kMaxRecordsWaiting = 64;

  /// Bytes of Store that grow() to this volume size needs; the largest number there is where it can't be.
  [[nodiscard]] std::uint64_t size_to_grow(std::uint64_t volume_size) const;
  /// Room for a larger volume, in use: the store has size_to_grow() bytes already, and what is added to the volume
  /// reads as zeros. A power cut at any moment leaves the old size or the new one, and everything else as it was. The
  /// epoch's size stays. Succeeds when there is room already. Errc::refused: no size for this volume; no_space: the
  /// store is too small; resource_exhausted: another grow() is under way. On any other error the outcome is unknown and
  /// the area grows no more: open it again.
  void grow(std::uint64_t volume_size, IoCallback done);

  /// Puts another sealed key in the place of the present one: both superblocks are written, one after the other, so
  /// that no disk block of the area holds the old one any more. Waits for a grow() under way, and a grow() for it. One
  /// at a time (Errc::resource_exhausted). Errc::refused: the replica has no key. On any other error either key may be
  /// the one that counts.
  void write_key(const SealedKey& key, IoCallback done);

  // The state of the logical unit (reservations, mode parameters): bytes that this class does not look into.
  static constexpr std::size_t kMaxState = std::size_t{60} << 10;  ///< bytes
  /// The store has room for it; without, write_state() gives Errc::no_space.
  [[nodiscard]] bool keeps_state() const;
  /// What was last written durably; empty: nothing ever was. Valid until a write_state() ends.
  [[nodiscard]] std::span<const std::byte> state() const;
  /// Both slots are written and flushed, one after the other; `state` is copied. One at a time
  /// (Errc::resource_exhausted), at most kMaxState bytes (Errc::refused). On any other error the outcome is unknown and
  /// no further state is taken: open the area again, or stop.
  void write_state(std::span<const std::byte> state, IoCallback done);

  // The dirty map: set = the two replicas may differ in this region.
  [[nodiscard]] std::uint64_t region_count() const;
  [[nodiscard]] std::uint64_t dirty_count() const;
  /// As the map stands in memory, whether or not it is durable yet. A bit whose clearing is under way counts as clear.
  [[nodiscard]] bool is_dirty(std::uint64_t region) const;
  /// True when every region of `extent` is set *and durable*: a write there may start at once.
  [[nodiscard]] bool is_durably_dirty(Extent extent) const;
  /// The first dirty region at or after `from`.
  [[nodiscard]] std::optional<std::uint64_t> next_dirty(std::uint64_t from) const;
  /// Sets every region of `extent` and calls back when that is durable. Requests that wait at the same moment go out
  /// together; one write a map block is in flight at a time. An error of the store is told to every request that waited
  /// for that write; the bits stay set in memory, not durable, and the next request tries again.
  void set_dirty(Extent extent, IoCallback done);
  /// Sets the regions whose bits are set in `words`, as words() has them, and calls back as set_dirty() does. Bits
  /// beyond the last region are an error.
  void set_dirty(std::span<const std::uint64_t> words, IoCallback done);
  /// Clears the regions, lazily durable: a crash may bring the bits back, which costs only a comparison. A set_dirty()
  /// that comes while the clearing is under way is made durable anew. Never for a region that a set_dirty() waits for.
  void clear_dirty(std::vector<std::uint64_t> regions, IoCallback done);
  /// The bitmap in memory, region 0 in the lowest bit of word 0, for exchange with the partner.
  [[nodiscard]] const std::vector<std::uint64_t>& words() const;

 private:
  struct Impl;
  friend struct AreaMaker;
  explicit MetadataArea(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
