#include "iscsi_target/scsi/command_table.hpp"

#include <bit>
#include <cstring>

#include "engine/base/byte_order.hpp"
#include "iscsi_target/scsi/handlers.hpp"

namespace lockstep::iscsi_target {
namespace {

using enum DataDirection;
namespace h = handlers;
using S = Serialization;
using R = ReservationClass;

constexpr std::uint8_t kBasic = kWhileUnavailable | kKeepsAttention | kWithoutUnit | kOnWellKnownUnit;

enum class Effect : std::uint8_t { reads, writes, flushes };

/// A command on a run of blocks, with its fields where the group of its opcode has them (SPC-4 4.2.5). In the usage
/// data, group numbers are accepted and ignored (GROUP_SUP is zero, SBC-3 4.23), and so is FUA_NV, which older
/// initiators set: there is no non-volatile cache to tell apart. The *PROTECT fields are left out: without protection
/// information they must be zero. ANCHOR is left out: ANC_SUP is zero.
constexpr CommandEntry block_command(std::uint8_t opcode, std::string_view name, std::uint8_t byte_1,
                                     DataDirection direction, Effect effect, void (*handler)(Task&),
                                     BlockLimit limit = BlockLimit::transfer,
                                     ZeroBlocks zero_blocks = ZeroBlocks::nothing) {
  CommandEntry e{.opcode = opcode,
                 .name = name,
                 .direction = direction,
                 .zero_blocks = zero_blocks,
                 .limit = limit,
                 .handler = handler};
  std::uint8_t group_number = 0;  // where it is
  switch (opcode >> 5) {
    case 0:
      e.cdb_length = 6, e.lba = {1, 3}, e.blocks = {4, 1};
      break;
    case 1:
    case 2:
      e.cdb_length = 10, e.lba = {2, 4}, e.blocks = {7, 2}, group_number = 6;
      break;
    case 4:
      e.cdb_length = 16, e.lba = {2, 8}, e.blocks = {10, 4}, group_number = 14;
      break;
    default:
      e.cdb_length = 12, e.lba = {2, 4}, e.blocks = {6, 4}, group_number = 10;
      break;
  }
  for (const CdbField field : {e.lba, e.blocks}) {
    for (std::size_t i = 0; i < field.width; ++i) e.usage[field.offset + i] = 0xFF;
  }
  e.usage[0] = opcode;
  e.usage[1] = byte_1;
  if (group_number != 0) e.usage[group_number] = 0x1F;
  e.serialization = effect == Effect::reads ? S::read : effect == Effect::writes ? S::write : S::whole;
  e.reservation = effect == Effect::reads ? R::read : R::refused;
  e.flags = effect == Effect::writes ? kChangesMedium : 0;
  return e;
}

/// For the rows of which one thing is out of line.
template <class Change>
constexpr CommandEntry but(CommandEntry entry, Change change) {
  change(entry);
  return entry;
}

constexpr auto kUnmapsWhenThin = [](CommandEntry& e) { e.thin_bits = 0x08; };
constexpr auto kByteThirteen = [](CommandEntry& e) {  // COMPARE AND WRITE counts its blocks in one byte
  e.blocks = {13, 1};
  for (std::size_t i = 10; i < 13; ++i) e.usage[i] = 0;
};

constexpr auto k256 = ZeroBlocks::is_256;
constexpr auto kToTheEnd = ZeroBlocks::to_the_end;
using L = BlockLimit;
using enum Effect;

// clang-format off
constexpr std::array kTable = std::to_array<CommandEntry>({
    {.opcode = 0x00, .name = "TEST UNIT READY", .cdb_length = 6, .usage = {0x00},
     .handler = h::test_unit_ready, .reservation = R::always, .flags = kOnWellKnownUnit},
    {.opcode = 0x03, .name = "REQUEST SENSE", .cdb_length = 6, .usage = {0x03, 0x01, 0, 0, 0xFF},
     .direction = in, .bytes = {4, 1}, .handler = h::request_sense, .reservation = R::always, .flags = kBasic},
    block_command(0x08, "READ(6)", 0x1F, in, reads, h::read, L::transfer, k256),
    block_command(0x0A, "WRITE(6)", 0x1F, out, writes, h::write, L::transfer, k256),
    {.opcode = 0x12, .name = "INQUIRY", .cdb_length = 6, .usage = {0x12, 0x01, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {3, 2}, .handler = h::inquiry, .reservation = R::always, .flags = kBasic},
    {.opcode = 0x15, .name = "MODE SELECT(6)", .cdb_length = 6, .usage = {0x15, 0x10, 0, 0, 0xFF},
     .direction = out, .bytes = {4, 1}, .handler = h::mode_select_6},
    {.opcode = 0x1A, .name = "MODE SENSE(6)", .cdb_length = 6, .usage = {0x1A, 0x08, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {4, 1}, .handler = h::mode_sense_6},
    {.opcode = 0x1B, .name = "START STOP UNIT", .cdb_length = 6, .usage = {0x1B, 0x01, 0, 0, 0x05},
     .handler = h::start_stop_unit, .serialization = S::whole},
    {.opcode = 0x1E, .name = "PREVENT ALLOW MEDIUM REMOVAL", .cdb_length = 6, .usage = {0x1E, 0, 0, 0, 0x01},
     .handler = h::prevent_allow_medium_removal},
    {.opcode = 0x25, .name = "READ CAPACITY(10)", .cdb_length = 10, .usage = {0x25},
     .direction = in, .handler = h::read_capacity_10, .reservation = R::always},
    block_command(0x28, "READ(10)", 0x1A, in, reads, h::read),
    block_command(0x2A, "WRITE(10)", 0x1A, out, writes, h::write),
    block_command(0x2E, "WRITE AND VERIFY(10)", 0x12, out, writes, h::write_and_verify),
    block_command(0x2F, "VERIFY(10)", 0x16, out, reads, h::verify),
    block_command(0x34, "PRE-FETCH(10)", 0x02, none, reads, h::prefetch, L::none, kToTheEnd),
    block_command(0x35, "SYNCHRONIZE CACHE(10)", 0x06, none, flushes, h::synchronize_cache, L::none, kToTheEnd),
    but(block_command(0x41, "WRITE SAME(10)", 0x08, out, writes, h::write_same, L::write_same, kToTheEnd),
        kUnmapsWhenThin),
    {.opcode = 0x42, .name = "UNMAP", .cdb_length = 10, .usage = {0x42, 0, 0, 0, 0, 0, 0x1F, 0xFF, 0xFF},
     .direction = out, .bytes = {7, 2}, .handler = h::unmap, .serialization = S::write,
     .flags = kChangesMedium | kThinOnly},
    {.opcode = 0x55, .name = "MODE SELECT(10)", .cdb_length = 10, .usage = {0x55, 0x10, 0, 0, 0, 0, 0, 0xFF, 0xFF},
     .direction = out, .bytes = {7, 2}, .handler = h::mode_select_10},
    {.opcode = 0x5A, .name = "MODE SENSE(10)", .cdb_length = 10,
     .usage = {0x5A, 0x18, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0xFF},
     .direction = in, .bytes = {7, 2}, .handler = h::mode_sense_10},
    block_command(0x88, "READ(16)", 0x1A, in, reads, h::read),
    but(block_command(0x89, "COMPARE AND WRITE", 0x1A, out, writes, h::compare_and_write, L::compare), kByteThirteen),
    block_command(0x8A, "WRITE(16)", 0x1A, out, writes, h::write),
    block_command(0x8E, "WRITE AND VERIFY(16)", 0x12, out, writes, h::write_and_verify),
    block_command(0x8F, "VERIFY(16)", 0x16, out, reads, h::verify),
    block_command(0x90, "PRE-FETCH(16)", 0x02, none, reads, h::prefetch, L::none, kToTheEnd),
    block_command(0x91, "SYNCHRONIZE CACHE(16)", 0x06, none, flushes, h::synchronize_cache, L::none, kToTheEnd),
    but(block_command(0x93, "WRITE SAME(16)", 0x09, out, writes, h::write_same, L::write_same, kToTheEnd),
        kUnmapsWhenThin),
    {.opcode = 0x9E, .service_action = 0x10, .name = "READ CAPACITY(16)", .cdb_length = 16,
     .usage = {0x9E, 0x1F, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {10, 4}, .handler = h::read_capacity_16, .reservation = R::always},
    {.opcode = 0x9E, .service_action = 0x12, .name = "GET LBA STATUS", .cdb_length = 16,
     .usage = {0x9E, 0x1F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .lba = {2, 8}, .bytes = {10, 4}, .handler = h::get_lba_status, .serialization = S::read,
     .reservation = R::read},
    {.opcode = 0xA0, .name = "REPORT LUNS", .cdb_length = 12,
     .usage = {0xA0, 0, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::report_luns, .reservation = R::always, .flags = kBasic},
    {.opcode = 0xA3, .service_action = 0x0A, .name = "REPORT TARGET PORT GROUPS", .cdb_length = 12,
     .usage = {0xA3, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::report_target_port_groups, .reservation = R::always,
     .flags = kWhileUnavailable},
    {.opcode = 0xA3, .service_action = 0x0C, .name = "REPORT SUPPORTED OPERATION CODES", .cdb_length = 12,
     .usage = {0xA3, 0x1F, 0x87, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::report_supported_operation_codes, .reservation = R::always,
     .flags = kWhileUnavailable},
    {.opcode = 0xA3, .service_action = 0x0D, .name = "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS", .cdb_length = 12,
     .usage = {0xA3, 0x1F, 0x80, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::report_supported_task_management_functions,
     .reservation = R::always, .flags = kWhileUnavailable},
    block_command(0xA8, "READ(12)", 0x1A, in, reads, h::read),
    block_command(0xAA, "WRITE(12)", 0x1A, out, writes, h::write),
    block_command(0xAE, "WRITE AND VERIFY(12)", 0x12, out, writes, h::write_and_verify),
    block_command(0xAF, "VERIFY(12)", 0x16, out, reads, h::verify),
});
// clang-format on

constexpr bool in_order() {
  for (std::size_t i = 1; i < kTable.size(); ++i) {
    const auto &a = kTable[i - 1], &b = kTable[i];
    if (a.opcode > b.opcode) return false;
    if (a.opcode == b.opcode && (!a.has_service_action() || a.service_action >= b.service_action)) return false;
  }
  return true;
}

constexpr bool lengths_follow_group_codes() {  // SPC-4 4.2.5.1
  constexpr std::array<std::uint8_t, 8> kLengths{6, 10, 10, 0, 16, 12, 0, 0};
  for (const auto& e : kTable) {
    if (e.cdb_length != kLengths[e.opcode >> 5]) return false;
    for (std::size_t i = std::size_t{e.cdb_length} - 1; i < e.usage.size(); ++i) {
      if (e.usage[i] != 0) return false;  // CONTROL: NACA and its neighbours are not supported
    }
  }
  return true;
}

constexpr bool rows_make_sense() {
  for (const auto& e : kTable) {
    if (e.usage[0] != e.opcode || e.name.empty()) return false;
    if (e.has_service_action() && (e.usage[1] & kServiceActionMask) != kServiceActionMask) return false;
    if (e.has(kChangesMedium) != (e.serialization == S::write)) return false;
    if (e.serialization == S::write && e.reservation != R::refused) return false;
    if (e.thin_bits & ~e.usage[1]) return false;
    for (const CdbField field : {e.lba, e.blocks, e.bytes}) {
      if (field.offset + field.width > e.cdb_length - 1) return false;
    }
  }
  return true;
}

static_assert(in_order());
static_assert(lengths_follow_group_codes());
static_assert(rows_make_sense());

struct Rows {
  std::uint8_t first = 0;
  std::uint8_t count = 0;
};

constexpr std::array<Rows, 256> kByOpcode = [] {
  std::array<Rows, 256> rows{};
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    auto& r = rows[kTable[i].opcode];
    if (r.count++ == 0) r.first = static_cast<std::uint8_t>(i);
  }
  return rows;
}();
static_assert(kTable.size() < 256);

}  // namespace

std::span<const CommandEntry> command_table() { return kTable; }

std::span<const CommandEntry> commands_of(std::uint8_t opcode) {
  const Rows rows = kByOpcode[opcode];
  return std::span(kTable).subspan(rows.first, rows.count);
}

bool find_reserved_bit(const CommandEntry& entry, const std::uint8_t* cdb, ReservedBit& found) {
  // Nearly every CDB is right, and the bytes behind it are zero: sixteen at a time.
  std::uint64_t bits[2], usage[2];
  std::memcpy(bits, cdb, sizeof bits);
  std::memcpy(usage, entry.usage.data(), sizeof usage);
  if (((bits[0] & ~usage[0]) | (bits[1] & ~usage[1])) == 0) return false;
  for (std::uint16_t i = 1; i < entry.cdb_length; ++i) {
    const std::uint8_t wrong = cdb[i] & static_cast<std::uint8_t>(~entry.usage[i]);
    if (wrong == 0) continue;
    found = {i, static_cast<std::int8_t>(std::bit_width(wrong) - 1)};
    return true;
  }
  return false;
}

std::uint64_t read_field(const std::uint8_t* cdb, CdbField field) {
  if (!field.present()) return 0;
  return engine::load_be<std::uint64_t>(cdb + field.offset) >> (64 - 8 * field.width);
}

}  // namespace lockstep::iscsi_target
