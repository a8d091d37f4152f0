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
using A = scsi::AccessClass;

constexpr std::uint8_t kAnyMedium = kWithoutMedium | kWhileSanitizing;
constexpr std::uint8_t kBasic = kWhileUnavailable | kKeepsAttention | kWithoutUnit | kOnWellKnownUnit | kAnyMedium;

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
  e.access = effect == Effect::reads ? A::read : effect == Effect::writes ? A::write : A::configure;
  e.flags = effect == Effect::writes ? kChangesMedium : 0;
  return e;
}

constexpr CommandEntry reserve_in(std::int16_t service_action, std::string_view name) {
  return {.opcode = 0x5E,
          .service_action = service_action,
          .name = name,
          .cdb_length = 10,
          .usage = {0x5E, 0x1F, 0, 0, 0, 0, 0, 0xFF, 0xFF},
          .direction = in,
          .bytes = {7, 2},
          .handler = h::persistent_reserve_in,
          .access = A::status,
          .flags = kAnyMedium | kAwaitsAccess};
}

/// Who may do what is decided where the step is made.
constexpr CommandEntry reserve_out(std::int16_t service_action, std::string_view name) {
  return {.opcode = 0x5F,
          .service_action = service_action,
          .name = name,
          .cdb_length = 10,
          .usage = {0x5F, 0x1F, 0xFF, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
          .direction = out,
          .bytes = {5, 4},
          .handler = h::persistent_reserve_out,
          .access = A::unrestricted,
          .flags = kAnyMedium | kAwaitsAccess};
}

constexpr CommandEntry sanitize(std::int16_t service_action, std::string_view name, DataDirection direction) {
  return {.opcode = 0x48,
          .service_action = service_action,
          .name = name,
          .cdb_length = 10,
          .usage = {0x48, 0xBF, 0, 0, 0, 0, 0, 0xFF, 0xFF},  // IMMED, AUSE; no zones: ZNR is left out
          .direction = direction,
          .bytes = {7, 2},
          .handler = h::sanitize,
          .serialization = S::write,
          .access = A::write,
          .flags = kChangesMedium | kWhileSanitizing};
}

/// The mode is processed as a service action (SPC-4 6.18.1, 6.49.1). `place`: usage of the buffer's number and of the
/// offset; the echo buffer ignores both. No medium is needed.
constexpr CommandEntry buffer_command(std::uint8_t opcode, std::int16_t mode, std::string_view name,
                                      std::array<std::uint8_t, 2> place, void (*handler)(Task&)) {
  return {.opcode = opcode,
          .service_action = mode,
          .name = name,
          .cdb_length = 10,
          .usage = {opcode, 0x1F, place[0], place[1], place[1], place[1], 0xFF, 0xFF, 0xFF},
          .direction = opcode == 0x3B ? out : in,
          .bytes = {6, 3},
          .handler = handler,
          .flags = kWithoutMedium};
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

constexpr auto kAsksNobody = [](CommandEntry& e) { e.flags &= static_cast<std::uint16_t>(~kAwaitsAccess); };

constexpr auto kAtomicFields = [](CommandEntry& e) {  // the boundary is evaluated: there is none
  e.blocks = {12, 2};
};

/// START STOP UNIT that starts, without a power condition, and moves no medium: SBC-3 lets everybody do that beside
/// persistent reservations.
constexpr bool starts_only(const std::uint8_t* cdb) { return (cdb[4] & 0xF3) == 0x01; }

constexpr auto k256 = ZeroBlocks::is_256;
constexpr auto kToTheEnd = ZeroBlocks::to_the_end;
using L = BlockLimit;
using enum Effect;

// clang-format off
constexpr std::array kTable = std::to_array<CommandEntry>({
    {.opcode = 0x00, .name = "TEST UNIT READY", .cdb_length = 6, .usage = {0x00},
     .handler = h::test_unit_ready, .access = A::status, .flags = kOnWellKnownUnit | kAwaitsAccess},
    {.opcode = 0x03, .name = "REQUEST SENSE", .cdb_length = 6, .usage = {0x03, 0x01, 0, 0, 0xFF},
     .direction = in, .bytes = {4, 1}, .handler = h::request_sense, .access = A::unrestricted, .flags = kBasic},
    block_command(0x08, "READ(6)", 0x1F, in, reads, h::read, L::transfer, k256),
    block_command(0x0A, "WRITE(6)", 0x1F, out, writes, h::write, L::transfer, k256),
    {.opcode = 0x12, .name = "INQUIRY", .cdb_length = 6, .usage = {0x12, 0x01, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {3, 2}, .handler = h::inquiry, .access = A::unrestricted, .flags = kBasic},
    {.opcode = 0x15, .name = "MODE SELECT(6)", .cdb_length = 6, .usage = {0x15, 0x10, 0, 0, 0xFF},
     .direction = out, .bytes = {4, 1}, .handler = h::mode_select_6, .flags = kAnyMedium | kAwaitsAccess},
    {.opcode = 0x16, .name = "RESERVE(6)", .cdb_length = 6, .usage = {0x16},
     .handler = h::reserve, .access = A::unrestricted, .flags = kAnyMedium | kAwaitsAccess},
    {.opcode = 0x17, .name = "RELEASE(6)", .cdb_length = 6, .usage = {0x17},
     .handler = h::release, .access = A::unrestricted, .flags = kAnyMedium | kAwaitsAccess},
    {.opcode = 0x1A, .name = "MODE SENSE(6)", .cdb_length = 6, .usage = {0x1A, 0x08, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {4, 1}, .handler = h::mode_sense_6, .access = A::read, .flags = kWhileUnavailable | kAnyMedium},
    {.opcode = 0x1B, .name = "START STOP UNIT", .cdb_length = 6, .usage = {0x1B, 0x01, 0, 0x0F, 0xF7},
     .handler = h::start_stop_unit, .serialization = S::whole, .does_nothing = starts_only, .flags = kWithoutMedium},
    {.opcode = 0x1E, .name = "PREVENT ALLOW MEDIUM REMOVAL", .cdb_length = 6, .usage = {0x1E, 0, 0, 0, 0x01},
     .handler = h::prevent_allow_medium_removal, .flags = kWithoutMedium},
    {.opcode = 0x25, .name = "READ CAPACITY(10)", .cdb_length = 10, .usage = {0x25},
     .direction = in, .handler = h::read_capacity_10, .access = A::unrestricted, .flags = kWhileUnavailable | kWhileSanitizing},
    block_command(0x28, "READ(10)", 0x1A, in, reads, h::read),
    block_command(0x2A, "WRITE(10)", 0x1A, out, writes, h::write),
    block_command(0x2E, "WRITE AND VERIFY(10)", 0x12, out, writes, h::write_and_verify),
    block_command(0x2F, "VERIFY(10)", 0x16, out, reads, h::verify),
    block_command(0x34, "PRE-FETCH(10)", 0x02, none, reads, h::prefetch, L::none, kToTheEnd),
    block_command(0x35, "SYNCHRONIZE CACHE(10)", 0x06, none, flushes, h::synchronize_cache, L::none, kToTheEnd),
    {.opcode = 0x37, .name = "READ DEFECT DATA(10)", .cdb_length = 10, .usage = {0x37, 0, 0x1F, 0, 0, 0, 0, 0xFF, 0xFF},
     .direction = in, .bytes = {7, 2}, .handler = h::read_defect_data},
    buffer_command(0x3B, 0x02, "WRITE BUFFER, DATA", {0xFF, 0xFF}, h::write_buffer_data),
    buffer_command(0x3B, 0x0A, "WRITE BUFFER, ECHO", {0xFF, 0xFF}, h::write_buffer_echo),
    buffer_command(0x3C, 0x02, "READ BUFFER, DATA", {0xFF, 0xFF}, h::read_buffer_data),
    buffer_command(0x3C, 0x03, "READ BUFFER, DESCRIPTOR", {0xFF, 0x00}, h::read_buffer_descriptor),
    buffer_command(0x3C, 0x0A, "READ BUFFER, ECHO", {0xFF, 0xFF}, h::read_buffer_echo),
    buffer_command(0x3C, 0x0B, "READ BUFFER, ECHO DESCRIPTOR", {0x00, 0x00}, h::read_buffer_echo_descriptor),
    but(block_command(0x41, "WRITE SAME(10)", 0x08, out, writes, h::write_same, L::write_same, kToTheEnd),
        kUnmapsWhenThin),
    {.opcode = 0x42, .name = "UNMAP", .cdb_length = 10, .usage = {0x42, 0, 0, 0, 0, 0, 0x1F, 0xFF, 0xFF},
     .direction = out, .bytes = {7, 2}, .handler = h::unmap, .serialization = S::write, .access = A::write,
     .flags = kChangesMedium | kThinOnly},
    sanitize(0x01, "SANITIZE, OVERWRITE", out),
    sanitize(0x02, "SANITIZE, BLOCK ERASE", none),
    but(sanitize(0x03, "SANITIZE, CRYPTOGRAPHIC ERASE", none), [](CommandEntry& e) { e.flags |= kEncryptedOnly; }),
    sanitize(0x1F, "SANITIZE, EXIT FAILURE MODE", none),
    {.opcode = 0x55, .name = "MODE SELECT(10)", .cdb_length = 10, .usage = {0x55, 0x10, 0, 0, 0, 0, 0, 0xFF, 0xFF},
     .direction = out, .bytes = {7, 2}, .handler = h::mode_select_10, .flags = kAnyMedium | kAwaitsAccess},
    {.opcode = 0x56, .name = "RESERVE(10)", .cdb_length = 10, .usage = {0x56},
     .handler = h::reserve, .access = A::unrestricted, .flags = kAnyMedium | kAwaitsAccess},
    {.opcode = 0x57, .name = "RELEASE(10)", .cdb_length = 10, .usage = {0x57},
     .handler = h::release, .access = A::unrestricted, .flags = kAnyMedium | kAwaitsAccess},
    {.opcode = 0x5A, .name = "MODE SENSE(10)", .cdb_length = 10,
     .usage = {0x5A, 0x18, 0xFF, 0xFF, 0, 0, 0, 0xFF, 0xFF},
     .direction = in, .bytes = {7, 2}, .handler = h::mode_sense_10, .access = A::read, .flags = kWhileUnavailable | kAnyMedium},
    reserve_in(0x00, "PERSISTENT RESERVE IN, READ KEYS"),
    reserve_in(0x01, "PERSISTENT RESERVE IN, READ RESERVATION"),
    but(reserve_in(0x02, "PERSISTENT RESERVE IN, REPORT CAPABILITIES"), kAsksNobody),
    reserve_in(0x03, "PERSISTENT RESERVE IN, READ FULL STATUS"),
    reserve_out(0x00, "PERSISTENT RESERVE OUT, REGISTER"),
    reserve_out(0x01, "PERSISTENT RESERVE OUT, RESERVE"),
    reserve_out(0x02, "PERSISTENT RESERVE OUT, RELEASE"),
    reserve_out(0x03, "PERSISTENT RESERVE OUT, CLEAR"),
    reserve_out(0x04, "PERSISTENT RESERVE OUT, PREEMPT"),
    reserve_out(0x05, "PERSISTENT RESERVE OUT, PREEMPT AND ABORT"),
    reserve_out(0x06, "PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY"),
    reserve_out(0x07, "PERSISTENT RESERVE OUT, REGISTER AND MOVE"),
    {.opcode = 0x83, .service_action = 0x00, .name = "EXTENDED COPY(LID1)", .cdb_length = 16,
     .usage = {0x83, 0x1F, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = out, .bytes = {10, 4}, .handler = h::extended_copy},
    {.opcode = 0x84, .service_action = 0x00, .name = "RECEIVE COPY STATUS(LID1)", .cdb_length = 16,
     .usage = {0x84, 0x1F, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {10, 4}, .handler = h::receive_copy_status},
    {.opcode = 0x84, .service_action = 0x03, .name = "RECEIVE COPY OPERATING PARAMETERS", .cdb_length = 16,
     .usage = {0x84, 0x1F, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {10, 4}, .handler = h::receive_copy_operating_parameters, .access = A::unrestricted},
    block_command(0x88, "READ(16)", 0x1A, in, reads, h::read),
    but(block_command(0x89, "COMPARE AND WRITE", 0x1A, out, writes, h::compare_and_write, L::compare), kByteThirteen),
    block_command(0x8A, "WRITE(16)", 0x1A, out, writes, h::write),
    block_command(0x8B, "ORWRITE(16)", 0x1A, out, writes, h::or_write, L::or_write),
    block_command(0x8E, "WRITE AND VERIFY(16)", 0x12, out, writes, h::write_and_verify),
    block_command(0x8F, "VERIFY(16)", 0x16, out, reads, h::verify),
    block_command(0x90, "PRE-FETCH(16)", 0x02, none, reads, h::prefetch, L::none, kToTheEnd),
    block_command(0x91, "SYNCHRONIZE CACHE(16)", 0x06, none, flushes, h::synchronize_cache, L::none, kToTheEnd),
    but(block_command(0x93, "WRITE SAME(16)", 0x09, out, writes, h::write_same, L::write_same, kToTheEnd),
        kUnmapsWhenThin),
    but(block_command(0x9C, "WRITE ATOMIC(16)", 0x1A, out, writes, h::write_atomic, L::atomic), kAtomicFields),
    {.opcode = 0x9E, .service_action = 0x10, .name = "READ CAPACITY(16)", .cdb_length = 16,
     .usage = {0x9E, 0x1F, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {10, 4}, .handler = h::read_capacity_16, .access = A::unrestricted,
     .flags = kWhileUnavailable | kWhileSanitizing},
    {.opcode = 0x9E, .service_action = 0x12, .name = "GET LBA STATUS", .cdb_length = 16,
     .usage = {0x9E, 0x1F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .lba = {2, 8}, .bytes = {10, 4}, .handler = h::get_lba_status, .serialization = S::read,
     .access = A::read},
    {.opcode = 0xA0, .name = "REPORT LUNS", .cdb_length = 12,
     .usage = {0xA0, 0, 0xFF, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::report_luns, .access = A::unrestricted, .flags = kBasic},
    {.opcode = 0xA3, .service_action = 0x05, .name = "REPORT IDENTIFYING INFORMATION", .cdb_length = 12,
     .usage = {0xA3, 0x1F, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE},
     .direction = in, .bytes = {6, 4}, .handler = h::report_identifying_information, .access = A::unrestricted,
     .flags = kWhileUnavailable | kAnyMedium},
    {.opcode = 0xA3, .service_action = 0x0A, .name = "REPORT TARGET PORT GROUPS", .cdb_length = 12,
     .usage = {0xA3, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::report_target_port_groups, .access = A::unrestricted,
     .flags = kWhileUnavailable | kAnyMedium},
    {.opcode = 0xA3, .service_action = 0x0C, .name = "REPORT SUPPORTED OPERATION CODES", .cdb_length = 12,
     .usage = {0xA3, 0x1F, 0x87, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::report_supported_operation_codes, .access = A::unrestricted,
     .flags = kWhileUnavailable | kAnyMedium},
    {.opcode = 0xA3, .service_action = 0x0D, .name = "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS", .cdb_length = 12,
     .usage = {0xA3, 0x1F, 0x80, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::report_supported_task_management_functions,
     .access = A::unrestricted, .flags = kWhileUnavailable | kAnyMedium},
    block_command(0xA8, "READ(12)", 0x1A, in, reads, h::read),
    block_command(0xAA, "WRITE(12)", 0x1A, out, writes, h::write),
    block_command(0xAE, "WRITE AND VERIFY(12)", 0x12, out, writes, h::write_and_verify),
    block_command(0xAF, "VERIFY(12)", 0x16, out, reads, h::verify),
    {.opcode = 0xB7, .name = "READ DEFECT DATA(12)", .cdb_length = 12,
     .usage = {0xB7, 0x1F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
     .direction = in, .bytes = {6, 4}, .handler = h::read_defect_data},
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
    if ((e.serialization == S::write) != (e.access == A::write)) return false;
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

bool exists_on(const CommandEntry& entry, const engine::DiskInfo* unit) {
  return ((unit && unit->thin) || !entry.has(kThinOnly)) && ((unit && unit->encrypted) || !entry.has(kEncryptedOnly));
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
