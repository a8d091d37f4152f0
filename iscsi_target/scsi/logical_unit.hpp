#pragma once
// A volume as initiators see it: identity, capacity, mode parameters, asymmetric access. One object a volume and node,
// shared by all reactors; what changes is atomic, or a text that is replaced as a whole.
//
// Reservations, mode parameters and what else both nodes agree on are the disk's (engine/scsi/lu_state.hpp): it orders
// their changes, and the unit hears of each state that is installed.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/disk.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/lu_state.hpp"
#include "engine/scsi/sense.hpp"
#include "iscsi_target/scsi/owed_losses.hpp"
#include "iscsi_target/scsi/published.hpp"
#include "iscsi_target/scsi/test_buffers.hpp"
#include "iscsi_target/scsi/unit_attention.hpp"

namespace lockstep::iscsi_target {

/// Where this node stands in its pair. Side A is target port group 1 and relative target port 1, side B 2 and 2.
struct UnitSettings {
  std::string target_name;        ///< iSCSI name, the same on both nodes
  std::uint16_t port_group = 1;   ///< of this node: 1 or 2; also its relative target port identifier
  bool paired = true;             ///< when the unit is made; later: LogicalUnit::paired()
  std::string product = "VDISK";  ///< at most 16 characters
  std::string revision = "0001";  ///< at most 4 characters
  engine::Uuid instance{};        ///< random, new whenever the unit is made: requests are numbered with it
};

using ModeState = scsi::LuMode;

/// The state that the disk installed last, and the unit attentions that came of all of them. The disk tells it on its
/// reactor; it is read on any.
class InstalledState final : public scsi::LuStateListener {
 public:
  void on_state(const scsi::LuState& state, std::span<const scsi::LuEvent> events) override;
  [[nodiscard]] std::shared_ptr<const scsi::LuState> get() const { return state_.load(); }
  /// False: reservations, write protection and the medium stop nobody.
  [[nodiscard]] bool restricted() const { return restricted_.load(std::memory_order_acquire); }
  [[nodiscard]] ModeState mode() const {
    const auto bits = mode_.load(std::memory_order_relaxed);
    return {.descriptor_sense = (bits & 1) != 0,
            .software_write_protect = (bits & 2) != 0,
            .threshold_off = (bits & 4) != 0};
  }
  UnitEvents events;

 private:
  Published<scsi::LuState> state_;
  std::atomic<bool> restricted_{false};
  std::atomic<std::uint8_t> mode_{0};
};

class LogicalUnit;
struct EndSanitizing {
  inline void operator()(LogicalUnit* unit) const;
};
/// Whoever has it sanitizes the unit, on this node: nobody else begins meanwhile. May be given up on any thread.
using SanitizeClaim = std::unique_ptr<LogicalUnit, EndSanitizing>;

class LogicalUnit {
 public:
  static constexpr const char* kVendor = "LOCKSTEP";
  /// Bytes a command moves at most: as many as ESXi sends at most to an array, whatever that says of itself.
  static constexpr std::uint64_t kMaxTransfer = engine::BufferPool::kMaxBuffer;
  static constexpr std::uint64_t kMaxRange = std::uint64_t{4}
                                             << 30;  ///< bytes of a WRITE SAME: what Linux asks for at most
  /// Bytes that the disk is asked to unmap, or to fill with a block, at once: what a file system punches in about a
  /// second at its worst.
  static constexpr std::uint64_t kRangePiece = std::uint64_t{64} << 20;
  static constexpr std::uint64_t kMaxOrWrite = std::uint64_t{4} << 20;  ///< bytes an ORWRITE changes at most
  static constexpr std::uint32_t kMaxUnmapDescriptors = 256;
  /// Bytes that a disk compares and writes in one step at most; the mirror takes no more.
  static constexpr std::uint64_t kMaxCompare = std::uint64_t{512} << 10;

  /// `disk` outlives the unit. Its info() is read here, once.
  LogicalUnit(engine::Disk& disk, UnitSettings settings);

  [[nodiscard]] engine::Disk& disk() const { return disk_; }
  [[nodiscard]] const UnitSettings& settings() const { return settings_; }
  /// As it was when the unit was made; what may have changed since: name(), blocks(), read_only(), write_cache().
  [[nodiscard]] const engine::DiskInfo& info() const { return info_; }
  [[nodiscard]] const engine::Uuid& volume() const { return info_.id; }
  [[nodiscard]] std::uint32_t block_size() const { return info_.block_size; }
  [[nodiscard]] unsigned block_shift() const { return block_shift_; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t max_blocks(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>(bytes >> block_shift_);
  }

  /// Of COMPARE AND WRITE, whose field for them is a byte.
  [[nodiscard]] std::uint32_t compare_blocks() const { return std::min(255u, max_blocks(kMaxCompare)); }
  /// What a store writes whole or not at all; WRITE ATOMIC is bounded by it and aligned to it.
  [[nodiscard]] std::uint32_t atomic_blocks() const {
    return max_blocks(std::max(info_.physical_block_size, info_.block_size));
  }

  /// The volume was resized to `size` bytes; false: it had them. Any thread.
  bool set_capacity(std::uint64_t size);
  /// Blocks that a command may name: more than blocks() while the volume grows, so that an initiator that heard of the
  /// new capacity from the other node is not refused here; the disk has the last word then.
  [[nodiscard]] std::uint64_t addressable() const {
    return std::max(blocks(), addressable_.load(std::memory_order_relaxed));
  }
  /// There is room for `size` bytes. Any thread.
  void set_room(std::uint64_t size) { addressable_.store(size >> block_shift_, std::memory_order_relaxed); }
  /// The volume was made read-only or writable, its write cache put on or off: initiators hear of changed mode
  /// parameters. Any thread.
  void set_use(bool read_only, bool write_cache);
  /// The volume is called otherwise: for people alone. Any thread.
  void set_name(std::string name) { name_.store(std::make_shared<const std::string>(std::move(name))); }
  [[nodiscard]] std::shared_ptr<const std::string> name() const { return name_.load(); }
  [[nodiscard]] bool read_only() const { return read_only_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool write_cache() const { return write_cache_.load(std::memory_order_relaxed); }
  /// The node has a partner, or has none any more. Not even a RESERVE goes with that. Any thread.
  void set_paired(bool paired);
  /// False: this node's port group is the only one there is.
  [[nodiscard]] bool paired() const { return paired_.load(std::memory_order_relaxed); }
  /// The access state of the partner's port group, as it was last heard. Any thread.
  void set_partner_access(engine::AccessState state);
  [[nodiscard]] engine::AccessState partner_access() const { return partner_access_.load(std::memory_order_relaxed); }
  /// This node's, from the disk. A change is told to every nexus. Any thread.
  [[nodiscard]] engine::AccessState access_state() {
    const auto state = disk_.access_state();
    if (state != known_access_.load(std::memory_order_relaxed)) note_access(state);
    return state;
  }

  /// As the disk installed it last.
  [[nodiscard]] std::shared_ptr<const scsi::LuState> state() const { return installed_->get(); }
  [[nodiscard]] bool restricted() const { return installed_->restricted(); }
  [[nodiscard]] ModeState mode() const { return installed_->mode(); }
  /// A request to change it, numbered so that it is carried out once even if it goes to both nodes.
  [[nodiscard]] scsi::LuRequest request(scsi::LuRequestKind kind, const scsi::NexusKey& nexus);
  [[nodiscard]] scsi::SenseFormat sense_format() const {
    return mode().descriptor_sense ? scsi::SenseFormat::descriptor : scsi::SenseFormat::fixed;
  }
  [[nodiscard]] bool write_protected() const { return read_only() || mode().software_write_protect; }

  /// Null: somebody has it. Any thread.
  [[nodiscard]] SanitizeClaim claim_sanitizing() {
    return SanitizeClaim(sanitizing_.load() || sanitizing_.exchange(true) ? nullptr : this);
  }
  void set_sanitize_progress(std::uint64_t of_65536) {
    sanitize_progress_.store(static_cast<std::uint16_t>(std::min<std::uint64_t>(of_65536, 65535)));
  }
  [[nodiscard]] std::uint16_t sanitize_progress() const { return sanitize_progress_.load(); }

  [[nodiscard]] UnitEvents& events() { return installed_->events; }
  [[nodiscard]] OwedLosses& losses() { return losses_; }
  [[nodiscard]] TestBuffers& test_buffers() { return test_buffers_; }

 private:
  friend struct EndSanitizing;
  void note_access(engine::AccessState state);

  engine::Disk& disk_;
  const UnitSettings settings_;
  const engine::DiskInfo info_;
  const unsigned block_shift_;
  std::atomic<std::uint64_t> blocks_;
  std::atomic<std::uint64_t> addressable_{0};
  std::atomic<bool> read_only_;
  std::atomic<bool> write_cache_;
  std::atomic<bool> paired_;
  std::atomic<engine::AccessState> known_access_;
  std::atomic<engine::AccessState> partner_access_{engine::AccessState::active_optimized};
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<bool> sanitizing_{false};
  std::atomic<std::uint16_t> sanitize_progress_{0};
  Published<std::string> name_;
  TestBuffers test_buffers_;
  OwedLosses losses_;
  const std::shared_ptr<InstalledState> installed_ = std::make_shared<InstalledState>();
};

void EndSanitizing::operator()(LogicalUnit* unit) const { unit->sanitizing_.store(false); }

}  // namespace lockstep::iscsi_target
