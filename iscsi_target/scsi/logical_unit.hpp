#pragma once
// A volume as initiators see it: identity, capacity, mode parameters, asymmetric access. One object a volume and node,
// shared by all reactors; what changes is atomic, what is text never changes.
//
// Mode parameters and unit attentions are this node's own: the partner does not hear of a MODE SELECT or a reset.
#include <atomic>
#include <cstdint>
#include <string>

#include "engine/disk.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/sense.hpp"
#include "iscsi_target/scsi/unit_attention.hpp"

namespace lockstep::iscsi_target {

/// Where this node stands in the pair. Side A is target port group 1 and relative target port 1, side B 2 and 2.
struct UnitSettings {
  std::string target_name;        ///< iSCSI name, the same on both nodes
  std::uint16_t port_group = 1;   ///< of this node: 1 or 2; also its relative target port identifier
  bool paired = true;             ///< false: this node's group is the only one there is
  std::string product = "VDISK";  ///< at most 16 characters
  std::string revision = "0001";  ///< at most 4 characters
};

/// What MODE SELECT may change, and what reset puts back.
struct ModeState {
  bool descriptor_sense = false;        ///< D_SENSE
  bool software_write_protect = false;  ///< SWP
  bool operator==(const ModeState&) const = default;
};

class LogicalUnit {
 public:
  static constexpr const char* kVendor = "LOCKSTEP";
  static constexpr std::uint64_t kMaxTransfer = engine::BufferPool::kMaxBuffer;  ///< bytes a command moves at most
  static constexpr std::uint64_t kMaxWriteSame = std::uint64_t{16} << 20;        ///< bytes a WRITE SAME covers at most
  static constexpr std::uint64_t kMaxUnmap = std::uint64_t{512} << 20;           ///< bytes an UNMAP covers at most
  static constexpr std::uint32_t kMaxUnmapDescriptors = 256;
  static constexpr std::uint32_t kMaxCompareBlocks = 255;

  /// `disk` outlives the unit. Its info() is read here, once.
  LogicalUnit(engine::Disk& disk, UnitSettings settings);

  [[nodiscard]] engine::Disk& disk() const { return disk_; }
  [[nodiscard]] const UnitSettings& settings() const { return settings_; }
  /// As it was when the unit was made; the capacity may have changed since: blocks().
  [[nodiscard]] const engine::DiskInfo& info() const { return info_; }
  [[nodiscard]] const engine::Uuid& volume() const { return info_.id; }
  [[nodiscard]] std::uint32_t block_size() const { return info_.block_size; }
  [[nodiscard]] unsigned block_shift() const { return block_shift_; }
  [[nodiscard]] std::uint64_t blocks() const { return blocks_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t max_blocks(std::uint64_t bytes) const {
    return static_cast<std::uint32_t>(bytes >> block_shift_);
  }

  /// The volume was resized to `size` bytes. Any thread.
  void set_capacity(std::uint64_t size);
  /// The access state of the partner's port group, as it was last heard. Any thread.
  void set_partner_access(engine::AccessState state);
  [[nodiscard]] engine::AccessState partner_access() const { return partner_access_.load(std::memory_order_relaxed); }
  /// This node's, from the disk. A change is told to every nexus. Any thread.
  [[nodiscard]] engine::AccessState access_state() {
    const auto state = disk_.access_state();
    if (state != known_access_.load(std::memory_order_relaxed)) note_access(state);
    return state;
  }

  [[nodiscard]] ModeState mode() const { return unpack(mode_.load(std::memory_order_relaxed)); }
  /// False: nothing changed. The caller raises the unit attention.
  bool set_mode(ModeState state) { return mode_.exchange(pack(state), std::memory_order_relaxed) != pack(state); }
  [[nodiscard]] scsi::SenseFormat sense_format() const {
    return mode().descriptor_sense ? scsi::SenseFormat::descriptor : scsi::SenseFormat::fixed;
  }
  [[nodiscard]] bool write_protected() const { return info_.read_only || mode().software_write_protect; }

  /// LOGICAL UNIT RESET, or a target reset: mode parameters are as configured, every nexus is told. Any thread.
  void reset(UnitAttention kind);

  [[nodiscard]] UnitEvents& events() { return events_; }

 private:
  static constexpr std::uint8_t pack(ModeState m) {
    return static_cast<std::uint8_t>((m.descriptor_sense ? 1 : 0) | (m.software_write_protect ? 2 : 0));
  }
  static constexpr ModeState unpack(std::uint8_t bits) {
    return {.descriptor_sense = (bits & 1) != 0, .software_write_protect = (bits & 2) != 0};
  }
  void note_access(engine::AccessState state);

  engine::Disk& disk_;
  const UnitSettings settings_;
  const engine::DiskInfo info_;
  const unsigned block_shift_;
  std::atomic<std::uint64_t> blocks_;
  std::atomic<engine::AccessState> known_access_;
  std::atomic<engine::AccessState> partner_access_{engine::AccessState::unavailable};
  std::atomic<std::uint8_t> mode_{0};
  UnitEvents events_;
};

}  // namespace lockstep::iscsi_target
