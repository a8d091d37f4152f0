// INQUIRY: standard data and vital product data (SPC-4 6.6, 7.8; SBC-3 6.5). Everything that names the volume comes
// from its UUID, serial and the target's name: both nodes give the same answer but for the port designators.
#include <algorithm>
#include <array>
#include <bit>
#include <string>

#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/space_threshold.hpp"
#include "iscsi_target/scsi/task.hpp"
#include "iscsi_target/scsi/third_party_copy.hpp"
#include "iscsi_target/scsi/unit_name.hpp"

namespace lockstep::iscsi_target {
namespace {

// The company identifier of the NAA designator. A locally administered one: "LS" behind the local bit.
constexpr std::uint32_t kCompanyId = 0x024C53;

std::string hex(std::span<const std::byte> bytes) {
  std::string out;
  for (const std::byte b : bytes) {
    out += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    out += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return out;
}

}  // namespace

std::array<std::byte, 16> naa_of(const engine::Uuid& volume) {
  // 6h, 24 bits of company, then 36 bits from the front of the UUID and 64 from its end.
  std::array<std::byte, 16> out{};
  const auto& id = volume.bytes;
  engine::store_be<std::uint32_t>(out.data(), 0x60000000 | kCompanyId << 4 | id[0] >> 4);
  for (std::size_t i = 0; i < 4; ++i) out[4 + i] = std::byte(static_cast<std::uint8_t>(id[i] << 4 | id[i + 1] >> 4));
  for (std::size_t i = 0; i < 8; ++i) out[8 + i] = std::byte{id[8 + i]};
  return out;
}

std::string serial_of(const LogicalUnit& unit) {
  return unit.info().serial.empty() ? hex(std::as_bytes(std::span(unit.volume().bytes))) : unit.info().serial;
}

namespace {

constexpr std::uint8_t kNothingHere = 0x7F;  // peripheral qualifier 011b, device type 1Fh
constexpr std::uint8_t kWellKnownUnitType = 0x1E;
void standard_data(Reply& reply, const LogicalUnit* unit, bool well_known, const UnitSettings& settings) {
  reply.u8(unit ? 0x00 : well_known ? kWellKnownUnitType : kNothingHere);
  reply.u8(unit && unit->info().removable ? 0x80 : 0x00);
  reply.u8(0x06);                // SPC-4
  reply.u8(0x12);                // HISUP, response data format 2
  reply.u8(96 - 5);              // additional length
  reply.u8(unit ? 0x18 : 0x00);  // TPGS: implicit; 3PC
  reply.u8(unit ? 0x10 : 0x00);  // MULTIP
  reply.u8(0x02);                // CMDQUE
  reply.padded(LogicalUnit::kVendor, 8);
  reply.padded(settings.product, 16);
  reply.padded(settings.revision, 4);
  reply.zeros(58 - 36);
  for (const std::uint16_t standard : {0x00A0, 0x0960, 0x0460, 0x04C0})
    reply.be16(standard);  // SAM-5 iSCSI SPC-4 SBC-3
  reply.zeros(96 - reply.size());
}

enum class Association : std::uint8_t { unit = 0x00, port = 0x10, device = 0x20 };

/// One designation descriptor (SPC-4 7.8.5). Code set: 1 binary, 3 UTF-8.
void designator(Reply& reply, Association association, std::uint8_t code_set, std::uint8_t type,
                std::span<const std::byte> value) {
  constexpr std::uint8_t kIscsi = 0x50;
  const bool names_protocol = association != Association::unit;
  reply.u8(static_cast<std::uint8_t>((names_protocol ? kIscsi : 0) | code_set));
  reply.u8(static_cast<std::uint8_t>((names_protocol ? 0x80 : 0) | static_cast<std::uint8_t>(association) | type));
  reply.u8(0);
  reply.u8(static_cast<std::uint8_t>(value.size()));
  reply.bytes(value);
}

void name_designator(Reply& reply, Association association, std::string name) {
  name.resize((name.size() / 4 + 1) * 4);  // at least one NUL, in steps of four
  designator(reply, association, 3, 0x8, std::as_bytes(std::span(name)));
}

void number_designator(Reply& reply, std::uint8_t type, std::uint16_t number) {
  std::array<std::byte, 4> value{};
  engine::store_be<std::uint16_t>(&value[2], number);
  designator(reply, Association::port, 1, type, value);
}

void device_identification(Reply& reply, const LogicalUnit& unit) {
  const UnitSettings& settings = unit.settings();
  const auto naa = naa_of(unit.volume());
  designator(reply, Association::unit, 1, 0x3, naa);

  std::string vendor_specific(LogicalUnit::kVendor);
  vendor_specific += serial_of(unit);
  designator(reply, Association::unit, 2, 0x1, std::as_bytes(std::span(vendor_specific)));

  name_designator(reply, Association::unit, "naa." + hex(naa));

  std::array<std::byte, 18> uuid{std::byte{0x10}};
  std::ranges::copy(std::as_bytes(std::span(unit.volume().bytes)), &uuid[2]);
  designator(reply, Association::unit, 1, 0xA, uuid);

  number_designator(reply, 0x4, settings.port_group);  // relative target port
  number_designator(reply, 0x5, settings.port_group);  // target port group
  name_designator(reply, Association::port,
                  settings.target_name + ",t,0x000" + static_cast<char>('0' + settings.port_group));
  name_designator(reply, Association::device, settings.target_name);
}

void extended_inquiry(Reply& reply) {
  constexpr std::uint8_t kHeadOfQueueAndSimple = 0x05;
  reply.u8(0);
  reply.u8(kHeadOfQueueAndSimple);
  reply.u8(0x01);  // V_SUP: a volatile cache is possible
  reply.zeros(13 - 7);
  reply.u8(scsi::kMaxSense);
  reply.zeros(64 - 14);
}

void block_limits(Reply& reply, const LogicalUnit& unit) {
  const bool thin = unit.info().thin;
  const std::uint32_t granule = std::max(unit.info().physical_block_size, unit.block_size()) >> unit.block_shift();
  reply.u8(0x00);  // WSNZ: zero blocks means to the end
  reply.u8(static_cast<std::uint8_t>(unit.compare_blocks()));
  reply.be16(static_cast<std::uint16_t>(granule));  // optimal transfer length granularity
  reply.be32(unit.max_blocks(LogicalUnit::kMaxTransfer));
  reply.be32(0);                      // optimal transfer length: none better than others
  reply.be32(0);                      // PRE-FETCH: no limit
  reply.be32(thin ? 0xffffffff : 0);  // MAXIMUM UNMAP LBA COUNT: no limit
  reply.be32(thin ? LogicalUnit::kMaxUnmapDescriptors : 0);
  reply.be32(thin ? granule : 0);     // optimal unmap granularity
  reply.be32(thin ? 0x80000000 : 0);  // UGAVALID, alignment 0
  reply.be64(unit.max_blocks(LogicalUnit::kMaxRange));
  reply.be32(granule);  // WRITE ATOMIC: a physical block is written whole or not at all, more is not
  reply.be32(granule);  // its alignment
  reply.be32(granule);  // its granularity
  reply.be32(0);        // no boundaries within
  reply.be32(0);
}

void block_device_characteristics(Reply& reply) {
  reply.be16(0x0001);  // not rotating
  reply.u8(0);
  reply.u8(0x40);  // WABEREQ: after a block erase reads succeed
  reply.zeros(64 - 8);
}

void logical_block_provisioning(Reply& reply, const LogicalUnit& unit) {
  const bool thin = unit.info().thin;
  reply.u8(thin ? threshold_exponent(unit.block_shift()) : 0);
  reply.u8(thin ? 0xE4 : 0x00);  // LBPU, LBPWS, LBPWS10, LBPRZ
  reply.u8(thin ? 0x02 : 0x00);  // thinly provisioned
  reply.u8(0);
}

constexpr std::array<std::uint8_t, 8> kPages{0x00, 0x80, 0x83, 0x86, 0x8F, 0xB0, 0xB1, 0xB2};

/// False: there is no such page.
bool vital_product_data(Reply& reply, std::uint8_t page, const LogicalUnit& unit) {
  reply.u8(0x00);
  reply.u8(page);
  reply.be16(0);
  switch (page) {
    case 0x00:
      reply.bytes(std::as_bytes(std::span(kPages)));
      break;
    case 0x80:
      reply.text(serial_of(unit));
      break;
    case 0x83:
      device_identification(reply, unit);
      break;
    case 0x86:
      extended_inquiry(reply);
      break;
    case 0x8F:
      third_party_copy_descriptors(reply, unit);
      break;
    case 0xB0:
      block_limits(reply, unit);
      break;
    case 0xB1:
      block_device_characteristics(reply);
      break;
    case 0xB2:
      logical_block_provisioning(reply, unit);
      break;
    default:
      return false;
  }
  reply.set_be16(2, static_cast<std::uint16_t>(reply.size() - 4));
  return true;
}

}  // namespace

void handlers::inquiry(Task& task) {
  const bool evpd = task.cdb(1) & 0x01;
  const std::uint8_t page = task.cdb(2);
  Reply reply;
  if (evpd) {
    if (!task.use || !vital_product_data(reply, page, task.unit())) return fail_cdb(task, 2);
  } else {
    if (page != 0) return fail_cdb(task, 2);
    static const UnitSettings kNoUnit;
    standard_data(reply, task.use ? &task.unit() : nullptr, task.well_known,
                  task.use ? task.unit().settings() : kNoUnit);
  }
  finish_with_data(task, reply.done(), task.length);
}

}  // namespace lockstep::iscsi_target
