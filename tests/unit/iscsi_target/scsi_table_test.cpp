// What must hold for every command, asked of every row of the table.
#include <bit>

#include "iscsi_target/scsi/command_table.hpp"
#include "tests/unit/iscsi_target/scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

/// A CDB of the entry that is right in every bit: zero but for the opcode, the service action and PF.
Bytes plain_cdb(const CommandEntry& entry) {
  Bytes cdb(16);
  cdb[0] = entry.opcode;
  if (entry.has_service_action()) cdb[1] = static_cast<std::uint8_t>(entry.service_action);
  return cdb;
}

std::string where(const CommandEntry& entry, std::size_t byte, int bit) {
  return std::string(entry.name) + " byte " + std::to_string(byte) + " bit " + std::to_string(bit);
}

class ScsiTable : public ScsiTest {
 protected:
  ScsiTable() : ScsiTest(encrypted_disk_info()) {}
  /// What the initiator is ready to move: nothing out, so that no command changes anything; enough in.
  std::unique_ptr<FakeCommand> probe(Bytes cdb) { return in(std::move(cdb), 8192); }
};

TEST_F(ScsiTable, EveryRowHasAHandler) {
  for (const CommandEntry& entry : command_table()) EXPECT_NE(entry.handler, nullptr) << entry.name;
}

TEST_F(ScsiTable, EveryBitOutsideTheUsageDataIsRefusedWithAPointerToIt) {
  for (const CommandEntry& entry : command_table()) {
    for (std::uint16_t byte = 1; byte < entry.cdb_length; ++byte) {
      for (std::int8_t bit = 0; bit < 8; ++bit) {
        if (entry.usage[byte] & (1 << bit)) continue;
        SCOPED_TRACE(where(entry, byte, bit));
        Bytes cdb = plain_cdb(entry);
        cdb[byte] |= static_cast<std::uint8_t>(1 << bit);
        expect_field(*probe(cdb), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = byte, .bit = bit});
      }
    }
  }
}

TEST_F(ScsiTable, NoBitOfTheUsageDataIsCalledReserved) {
  for (const CommandEntry& entry : command_table()) {
    for (std::uint16_t byte = 1; byte < entry.cdb_length; ++byte) {
      Bytes cdb = plain_cdb(entry);
      cdb[byte] |= entry.usage[byte];
      if (byte == 1 && entry.has_service_action()) cdb[1] = static_cast<std::uint8_t>(entry.service_action);
      ReservedBit found;
      EXPECT_FALSE(find_reserved_bit(entry, cdb.data(), found)) << where(entry, byte, -1);
    }
  }
}

TEST_F(ScsiTable, BytesBehindTheCdbAreNotLookedAt) {
  for (const CommandEntry& entry : command_table()) {
    Bytes cdb = plain_cdb(entry);
    for (std::size_t i = entry.cdb_length; i < cdb.size(); ++i) cdb[i] = 0xFF;
    ReservedBit found;
    EXPECT_FALSE(find_reserved_bit(entry, cdb.data(), found)) << entry.name;
  }
}

TEST_F(ScsiTable, EveryOpcodeThatIsNotInTheTableIsUnknown) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    if (!commands_of(static_cast<std::uint8_t>(opcode)).empty()) continue;
    SCOPED_TRACE(opcode);
    expect_sense(*probe({static_cast<std::uint8_t>(opcode)}), scsi::SenseKey::illegal_request,
                 scsi::asc::kInvalidCommandOperationCode);
  }
}

TEST_F(ScsiTable, EveryServiceActionThatIsNotInTheTableIsAnInvalidField) {
  for (const std::uint8_t opcode : {0x3B, 0x3C, 0x9E, 0xA3}) {
    for (std::uint8_t action = 0; action < 32; ++action) {
      const auto rows = commands_of(opcode);
      if (std::ranges::any_of(rows, [&](const auto& e) { return e.service_action == action; })) continue;
      SCOPED_TRACE(int(opcode) * 256 + action);
      expect_field(*probe({opcode, action}), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 1, .bit = 4});
    }
  }
}

TEST_F(ScsiTable, EveryAddressedCommandIsRefusedPastTheEnd) {
  for (const CommandEntry& entry : command_table()) {
    if (!entry.lba.present()) continue;
    const auto at = [&](std::uint64_t lba, std::uint64_t blocks) {
      Bytes cdb = plain_cdb(entry);
      std::array<std::uint8_t, 8> be;
      engine::store_be<std::uint64_t>(be.data(), lba);
      for (unsigned i = 0; i < entry.lba.width; ++i) cdb[entry.lba.offset + i] |= be[8 - entry.lba.width + i];
      engine::store_be<std::uint64_t>(be.data(), blocks);
      for (unsigned i = 0; i < entry.blocks.width; ++i) cdb[entry.blocks.offset + i] |= be[8 - entry.blocks.width + i];
      return cdb;
    };
    SCOPED_TRACE(entry.name);
    const auto oob = [&](std::uint64_t lba, std::uint64_t blocks) {
      SCOPED_TRACE(lba);
      expect_sense(*probe(at(lba, blocks)), scsi::SenseKey::illegal_request, scsi::asc::kLogicalBlockAddressOutOfRange);
    };
    oob(capacity(), 0);
    oob(capacity(), 1);
    if (entry.blocks.present()) oob(capacity() - 1, 2);
    if (entry.lba.width == 8) oob(~std::uint64_t{0}, 1);
    if (entry.lba.width == 8 && entry.blocks.width == 4) oob(~std::uint64_t{0} - 0xFFFFFFFE, 0xFFFFFFFF);
  }
}

TEST_F(ScsiTable, EveryCommandThatChangesTheMediumIsRefusedWhenWriteProtected) {
  set_mode({.software_write_protect = true});
  for (const CommandEntry& entry : command_table()) {
    SCOPED_TRACE(entry.name);
    const auto c = probe(plain_cdb(entry));
    const bool refused =
        c->status == scsi::Status::check_condition && c->sense_data().key == scsi::SenseKey::data_protect;
    EXPECT_EQ(refused, entry.has(kChangesMedium));
  }
}

TEST_F(ScsiTable, WhileUnavailableOnlyTheMarkedCommandsAreAnswered) {
  disk.access = engine::AccessState::unavailable;
  probe({0x00});  // the change itself is an attention first
  for (const CommandEntry& entry : command_table()) {
    SCOPED_TRACE(entry.name);
    const auto c = probe(plain_cdb(entry));
    if (entry.has(kWhileUnavailable)) {
      EXPECT_NE(c->sense_data().key, scsi::SenseKey::not_ready);
    } else {
      expect_sense(*c, scsi::SenseKey::not_ready, scsi::asc::kLogicalUnitNotAccessibleTargetPortInUnavailableState);
    }
  }
}

/// Linux takes a unit whose capacity it can't read for one without blocks, until it is told to look again, and one
/// whose caching page it can't read for one that needs no flush.
TEST_F(ScsiTable, AHostThatScansANodeThatServesNothingLearnsHowLargeTheUnitIs) {
  for (const auto access : {engine::AccessState::unavailable, engine::AccessState::transitioning}) {
    disk.access = access;
    probe({0x00});  // the change itself is an attention first
    expect_good(*in({0x25}, 8));
    expect_good(*in({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32}, 32));
    expect_good(*in({0x1A, 0, 0x08, 0, 64}, 64));
    expect_good(*in({0x5A, 0, 0x08, 0, 0, 0, 0, 0, 64}, 64));
  }
}

TEST_F(ScsiTable, AnAttentionStopsEveryCommandButThoseThatKeepIt) {
  for (const CommandEntry& entry : command_table()) {
    if (entry.opcode == 0x03) continue;  // REQUEST SENSE takes it
    SCOPED_TRACE(entry.name);
    unit->set_capacity(unit->blocks() * 512 - 4096);
    const auto c = probe(plain_cdb(entry));
    const bool reported = c->sense_data().key == scsi::SenseKey::unit_attention;
    EXPECT_EQ(reported, !entry.has(kKeepsAttention));
    if (!reported) expect_sense(*probe({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kCapacityDataHasChanged);
    expect_good(*probe({0x00}));
  }
}

/// SPC-4 6.35: asks for every row as an initiator would and compares with the row itself.
TEST_F(ScsiTable, ReportSupportedOperationCodesTellsEveryRow) {
  const auto all = probe({0xA3, 0x0C, 0x00, 0, 0, 0, 0, 0, 0x20, 0});
  expect_good(*all);
  ASSERT_EQ(all->be32(0), command_table().size() * 8);
  std::size_t at = 4;
  for (const CommandEntry& entry : command_table()) {
    SCOPED_TRACE(entry.name);
    EXPECT_EQ(all->data_in[at], entry.opcode);
    EXPECT_EQ(all->be16(at + 2), entry.has_service_action() ? entry.service_action : 0);
    EXPECT_EQ(all->data_in[at + 5], entry.has_service_action() ? 1 : 0);
    EXPECT_EQ(all->be16(at + 6), entry.cdb_length);
    at += 8;

    const auto action = static_cast<std::uint8_t>(entry.has_service_action() ? entry.service_action : 0);
    const std::uint8_t right = entry.has_service_action() ? 2 : 1;
    expect_field(*probe({0xA3, 0x0C, static_cast<std::uint8_t>(3 - right), entry.opcode, 0, action, 0, 0, 1, 0}),
                 scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 2, .bit = 2});
    for (const std::uint8_t option : {right, std::uint8_t{3}}) {
      const auto one = probe({0xA3, 0x0C, option, entry.opcode, 0, action, 0, 0, 1, 0});
      expect_good(*one);
      EXPECT_EQ(one->data_in[1], 0x03);
      ASSERT_EQ(one->be16(2), entry.cdb_length);
      ASSERT_EQ(one->data_in.size(), 4u + entry.cdb_length);
      for (std::size_t i = 0; i < entry.cdb_length; ++i) {
        const std::uint8_t expected =
            i == 1 && entry.has_service_action() ? (entry.usage[1] & 0xE0) | action : entry.usage[i];
        EXPECT_EQ(one->data_in[4 + i], expected) << "byte " << i;
      }
    }
  }
}

TEST_F(ScsiTable, ReportSupportedOperationCodesAddsTimeoutsWhenAsked) {
  const auto all = probe({0xA3, 0x0C, 0x80, 0, 0, 0, 0, 0, 0x20, 0});
  expect_good(*all);
  ASSERT_EQ(all->be32(0), command_table().size() * 20);
  for (std::size_t at = 4; at < all->data_in.size(); at += 20) {
    EXPECT_TRUE(all->data_in[at + 5] & 0x02);
    EXPECT_EQ(all->be16(at + 8), 0x000A);
    EXPECT_NE(all->be32(at + 16), 0u);
  }
  const auto one = probe({0xA3, 0x0C, 0x81, 0x28, 0, 0, 0, 0, 1, 0});
  expect_good(*one);
  EXPECT_EQ(one->data_in[1], 0x83);
  EXPECT_EQ(one->data_in.size(), 4u + 10 + 12);
}

TEST_F(ScsiTable, ReportSupportedOperationCodesSaysNotSupported) {
  for (const Bytes& cdb :
       {Bytes{0xA3, 0x0C, 0x01, 0xC1, 0, 0, 0, 0, 1, 0}, Bytes{0xA3, 0x0C, 0x02, 0x9E, 0, 0x1F, 0, 0, 1, 0},
        Bytes{0xA3, 0x0C, 0x03, 0x28, 0, 1, 0, 0, 1, 0}}) {
    const auto c = probe(cdb);
    expect_good(*c);
    EXPECT_EQ(c->data_in, (Bytes{0, 0x01, 0, 0}));
  }
  expect_field(*probe({0xA3, 0x0C, 0x04, 0, 0, 0, 0, 0, 1, 0}), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 2, .bit = 2});
}

class ScsiThickTable : public ScsiTest {
 protected:
  ScsiThickTable()
      : ScsiTest([] {
          auto info = disk_info();
          info.thin = false;
          return info;
        }()) {}
};

TEST_F(ScsiThickTable, WithoutThinProvisioningUnmapDoesNotExistAndWriteSameHasNoUnmapBit) {
  expect_sense(*out({0x42}, {}), scsi::SenseKey::illegal_request, scsi::asc::kInvalidCommandOperationCode);
  expect_field(*out(cdb16(0x93, 0, 1, 0x08), Bytes(512)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 1, .bit = 3});
  EXPECT_EQ(in({0xA3, 0x0C, 0x01, 0x42, 0, 0, 0, 0, 1, 0})->data_in[1], 0x01);
  EXPECT_EQ(in({0xA3, 0x0C, 0x01, 0x93, 0, 0, 0, 0, 1, 0})->data_in[5], 0x01);
  EXPECT_EQ(in({0x12, 1, 0xB2, 0, 0xFF})->data_in[5], 0x00);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
