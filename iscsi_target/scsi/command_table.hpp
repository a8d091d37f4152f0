#pragma once
// The commands that a logical unit knows, each said once. Dispatch, the check of reserved bits, range checks, write
// protection, what is refused while the node may not serve, and REPORT SUPPORTED OPERATION CODES all follow from the
// table; a new command is a row and a handler.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/disk.hpp"
#include "engine/scsi/lu_state.hpp"

namespace lockstep::iscsi_target {

struct Task;

enum class DataDirection : std::uint8_t { none, in, out };

/// A big-endian number inside the CDB. Reserved bits above it in its first byte are known to be zero when it is read.
struct CdbField {
  std::uint8_t offset = 0;
  std::uint8_t width = 0;  ///< bytes; 0: the command has no such field
  [[nodiscard]] constexpr bool present() const { return width != 0; }
};

/// What runs beside what on one logical unit. The disk orders overlapping extents itself; this is for what is not an
/// extent.
enum class Serialization : std::uint8_t {
  none,   ///< touches no medium
  read,   ///< reads its extent
  write,  ///< changes its extent
  whole,  ///< concerns everything written before it
};

/// What bounds the number of blocks; more is INVALID FIELD IN CDB. Values stand in VPD page B0h.
enum class BlockLimit : std::uint8_t { none, transfer, write_same, compare, atomic, or_write };

/// What the number of blocks means when it is zero.
enum class ZeroBlocks : std::uint8_t { nothing, is_256, to_the_end };

enum CommandFlags : std::uint16_t {
  kWhileUnavailable = 0x01,  ///< answered in the asymmetric access states unavailable and transitioning
  kKeepsAttention = 0x02,    ///< a pending unit attention neither stops it nor is reported by it
  kWithoutUnit = 0x04,       ///< answered for a LUN at which there is nothing
  kOnWellKnownUnit = 0x08,   ///< answered by the REPORT LUNS well known logical unit
  kChangesMedium = 0x10,     ///< refused when the unit is write-protected
  kThinOnly = 0x20,          ///< exists only on thinly provisioned units
  kWithoutMedium = 0x40,     ///< answered while there is no medium
  kWhileSanitizing = 0x80,   ///< answered while the medium is being sanitized
  kEncryptedOnly = 0x100,    ///< exists only on encrypted units
  kAwaitsAccess = 0x200,     ///< waits at the disk for the end of a transition, though it touches no medium
};

constexpr std::int16_t kNoServiceAction = -1;

struct CommandEntry {
  std::uint8_t opcode = 0;
  std::int16_t service_action = kNoServiceAction;
  std::string_view name;
  std::uint8_t cdb_length = 0;
  /// The CDB usage data of SPC-4 6.35.3: the opcode, then a one for every bit that is evaluated. All other bits of the
  /// CDB must be zero.
  std::array<std::uint8_t, 16> usage{};
  DataDirection direction = DataDirection::none;
  CdbField lba{};     ///< present: checked against the capacity together with `blocks`
  CdbField blocks{};  ///< number of logical blocks
  CdbField bytes{};   ///< allocation length or parameter list length
  ZeroBlocks zero_blocks = ZeroBlocks::nothing;
  BlockLimit limit = BlockLimit::none;
  void (*handler)(Task&) = nullptr;
  Serialization serialization = Serialization::none;
  scsi::AccessClass access = scsi::AccessClass::configure;  ///< what reservations of others refuse
  bool (*does_nothing)(const std::uint8_t* cdb) = nullptr;  ///< of these CDBs they refuse what they do of `status`
  std::uint16_t flags = 0;                                  ///< CommandFlags
  std::uint8_t thin_bits = 0;  ///< bits of byte 1 that are evaluated only on thinly provisioned units

  [[nodiscard]] constexpr bool has_service_action() const { return service_action != kNoServiceAction; }
  [[nodiscard]] constexpr bool has(CommandFlags flag) const { return flags & flag; }
  [[nodiscard]] constexpr scsi::AccessClass access_of(const std::uint8_t* cdb) const {
    return does_nothing && does_nothing(cdb) ? scsi::AccessClass::status : access;
  }
};

/// Ordered by opcode, then by service action.
[[nodiscard]] std::span<const CommandEntry> command_table();

/// The rows of one opcode; empty when there are none.
[[nodiscard]] std::span<const CommandEntry> commands_of(std::uint8_t opcode);

constexpr std::uint8_t kServiceActionMask = 0x1F;  // of byte 1

/// Whether a unit of this kind knows the command; null: where there is no unit.
[[nodiscard]] bool exists_on(const CommandEntry& entry, const engine::DiskInfo* unit);

/// Where the CDB has a bit that the command does not evaluate.
struct ReservedBit {
  std::uint16_t byte = 0;
  std::int8_t bit = -1;
};
/// The first byte with such a bit, and the highest of them in it. `cdb` has 16 bytes at least.
[[nodiscard]] bool find_reserved_bit(const CommandEntry& entry, const std::uint8_t* cdb, ReservedBit& found);

/// The number in `field`, which lies within the first 16 bytes of a CDB of at least 24.
[[nodiscard]] std::uint64_t read_field(const std::uint8_t* cdb, CdbField field);

}  // namespace lockstep::iscsi_target
