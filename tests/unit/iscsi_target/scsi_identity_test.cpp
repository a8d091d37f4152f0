// INQUIRY, capacity, mode pages, LUNs and port groups: what initiators learn about the unit.
#include <map>
#include <set>

#include "tests/unit/iscsi_target/scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

std::string text(const FakeCommand& c, std::size_t at, std::size_t size) {
  return {c.data_in.begin() + static_cast<std::ptrdiff_t>(at),
          c.data_in.begin() + static_cast<std::ptrdiff_t>(at + size)};
}

class ScsiIdentity : public ScsiTest {
 protected:
  std::unique_ptr<FakeCommand> vpd(std::uint8_t page) { return in({0x12, 0x01, page, 0x10, 0x00}); }
};

TEST_F(ScsiIdentity, StandardInquiryNamesVendorProductAndStandards) {
  const auto c = in({0x12, 0, 0, 0, 0xFF});
  expect_good(*c);
  ASSERT_EQ(c->data_in.size(), 96u);
  EXPECT_EQ(c->data_in[0], 0x00);
  EXPECT_EQ(c->data_in[2], 0x06);
  EXPECT_EQ(c->data_in[3] & 0x0F, 2);
  EXPECT_EQ(c->data_in[4], 91);
  EXPECT_EQ(c->data_in[5] & 0x30, 0x10) << "TPGS implicit";
  EXPECT_EQ(c->data_in[5] & 0x08, 0x08) << "3PC";
  EXPECT_EQ(text(*c, 8, 8), "LOCKSTEP");
  EXPECT_EQ(text(*c, 16, 16), "VDISK           ");
  EXPECT_EQ(text(*c, 32, 4), "0001");
  EXPECT_EQ(c->be16(62), 0x0460) << "SPC-4";
  EXPECT_EQ(c->be16(64), 0x04C0) << "SBC-3";
}

TEST_F(ScsiIdentity, ShortAllocationLengthsAreAnsweredTruncatedAndTheResidualFollowsThem) {
  for (std::uint16_t length = 0; length < 300; ++length) {
    const auto c = in({0x12, 0, 0, static_cast<std::uint8_t>(length >> 8), static_cast<std::uint8_t>(length)}, 512);
    expect_good(*c);
    EXPECT_EQ(c->data_in.size(), std::min<std::size_t>(length, 96));
    EXPECT_EQ(c->residual_in(), 512 - std::min<std::int64_t>(length, 96));
  }
  const auto cut = in({0x12, 0, 0, 0, 96}, 36);  // the initiator takes less than it asked for
  EXPECT_EQ(cut->data_in.size(), 36u);
  EXPECT_EQ(cut->residual_in(), 36 - 96);
}

TEST_F(ScsiIdentity, PageCodeWithoutEvpdIsRefused) {
  expect_field(*in({0x12, 0, 0x80, 0, 0xFF}), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 2, .bit = 7});
  expect_field(*in({0x12, 1, 0x55, 0, 0xFF}), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 2, .bit = 7});
}

TEST_F(ScsiIdentity, EveryVpdPageOfTheListIsThereWithItsOwnLengthAndTheListAscends) {
  const auto list = vpd(0x00);
  expect_good(*list);
  ASSERT_EQ(list->be16(2), list->data_in.size() - 4);
  for (std::size_t i = 4; i < list->data_in.size(); ++i) {
    if (i > 4) {
      EXPECT_LT(list->data_in[i - 1], list->data_in[i]);
    }
    const auto page = vpd(list->data_in[i]);
    expect_good(*page);
    EXPECT_EQ(page->data_in[1], list->data_in[i]);
    EXPECT_EQ(page->be16(2), page->data_in.size() - 4);
  }
  EXPECT_EQ(text(*vpd(0x80), 4, 7), "SERIAL1");
  EXPECT_EQ(vpd(0xB0)->data_in.size(), 64u);
}

struct Designator {
  std::uint8_t association, type;
  Bytes value;
};

std::vector<Designator> designators(const FakeCommand& page) {
  std::vector<Designator> out;
  for (std::size_t at = 4; at + 4 <= page.data_in.size();) {
    const std::size_t size = page.data_in[at + 3];
    const auto begin = page.data_in.begin() + static_cast<std::ptrdiff_t>(at + 4);
    out.push_back({static_cast<std::uint8_t>((page.data_in[at + 1] >> 4) & 3),
                   static_cast<std::uint8_t>(page.data_in[at + 1] & 15),
                   {begin, begin + static_cast<std::ptrdiff_t>(size)}});
    at += 4 + size;
  }
  return out;
}

TEST_F(ScsiIdentity, ThirdPartyCopyPageSaysWhatReceiveCopyOperatingParametersSays) {
  const auto page = vpd(0x8F);
  const auto parameters = in({0x84, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0});
  expect_good(*page);
  expect_good(*parameters);
  std::map<unsigned, std::vector<std::uint8_t>> descriptors;
  unsigned last = 0;
  for (std::size_t at = 4; at < page->data_in.size();) {
    const unsigned type = page->be16(at), length = page->be16(at + 2);
    EXPECT_GT(type, last);
    EXPECT_EQ(length % 4, 0u);
    ASSERT_LE(at + 4 + length, page->data_in.size());
    last = type;
    descriptors[type].assign(page->data_in.begin() + static_cast<std::ptrdiff_t>(at + 4),
                             page->data_in.begin() + static_cast<std::ptrdiff_t>(at + 4 + length));
    at += 4 + length;
  }
  using Bytes = std::vector<std::uint8_t>;
  EXPECT_EQ(descriptors[0x0001], (Bytes{7, 0x83, 1, 0x00, 0x84, 2, 0x00, 0x03}));
  EXPECT_EQ(descriptors[0x0008], (Bytes{3, 0x02, 0x0A, 0xE4}));
  EXPECT_EQ(descriptors[0x000C], (Bytes{0, 0, 0, 0}));
  const auto part = [](const Bytes& of, std::size_t at, std::size_t size) {
    return Bytes(of.begin() + static_cast<std::ptrdiff_t>(at), of.begin() + static_cast<std::ptrdiff_t>(at + size));
  };
  ASSERT_EQ(descriptors[0x0004].size(), 0x1Cu);
  ASSERT_EQ(descriptors[0x8001].size(), 0x20u);
  const Bytes told(parameters->data_in.begin(), parameters->data_in.end());
  EXPECT_EQ(part(descriptors[0x0004], 4, 8), part(told, 8, 8)) << "descriptors, and the bytes of their list";
  EXPECT_EQ(part(descriptors[0x8001], 8, 4), part(told, 16, 4)) << "bytes of a segment";
  EXPECT_EQ(descriptors[0x8001][12], told[39]) << "granularity";
}

TEST_F(ScsiIdentity, TheTextThatIdentifiesAUnitIsItsName) {
  const auto of_type = [&](std::uint8_t type) {
    return in({0xA3, 0x05, 0, 0, 0, 0, 0, 0, 0x10, 0, static_cast<std::uint8_t>(type << 1), 0});
  };
  const auto text_type = of_type(2);
  expect_good(*text_type);
  ASSERT_EQ(text_type->be16(2), text_type->data_in.size() - 4);
  ASSERT_GT(text_type->data_in.size(), 5u);
  EXPECT_EQ(text(*text_type, 4, text_type->data_in.size() - 5), disk_info().name);
  EXPECT_EQ(text_type->data_in.back(), 0);
  EXPECT_EQ(of_type(0)->be16(2), 0);
  EXPECT_EQ(of_type(0x7F)->be16(2), 8);
  expect_field(*of_type(1), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 10, .bit = 7});
  unit->set_name("another");
  EXPECT_EQ(text(*of_type(2), 4, 8), std::string("another") + '\0');
}

TEST_F(ScsiIdentity, BothNodesNameTheUnitAlikeAndTheirPortsApart) {
  const auto a = designators(*vpd(0x83));
  auto other = std::make_shared<LogicalUnit>(
      disk, UnitSettings{.target_name = "iqn.2026-11.io.lockstep:pair1", .port_group = 2});
  adopt({{0, other}});
  in({0x00}), in({0x00});
  const auto b = designators(*vpd(0x83));
  ASSERT_EQ(a.size(), b.size());
  std::set<std::uint8_t> unit_types;
  int differing = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].type, b[i].type);
    if (a[i].association == 1) {
      EXPECT_NE(a[i].value, b[i].value);
      ++differing;
    } else {
      EXPECT_EQ(a[i].value, b[i].value);
    }
    if (a[i].association == 0) unit_types.insert(a[i].type);
    if (a[i].type == 3) {
      EXPECT_EQ(a[i].value.size(), 16u);
      EXPECT_EQ(a[i].value[0] >> 4, 6);
    }
    if (a[i].type == 8) {
      EXPECT_EQ(a[i].value.size() % 4, 0u);
    }
  }
  EXPECT_EQ(unit_types, (std::set<std::uint8_t>{0x1, 0x3, 0x8, 0xA}));
  EXPECT_EQ(differing, 3) << "relative target port, target port group, port name";
}

TEST_F(ScsiIdentity, TheNaaDesignatorIsTheSameForever) {
  // Golden: multipath configurations and VMFS signatures hold it.
  const auto all = designators(*vpd(0x83));
  EXPECT_EQ(all[0].value,
            (Bytes{0x60, 0x24, 0xC5, 0x30, 0x01, 0x12, 0x23, 0x34, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0x01}));
}

TEST_F(ScsiIdentity, BlockLimitsSayWhatIsEnforced) {
  const auto page = vpd(0xB0);
  EXPECT_EQ(page->data_in[5], 255);
  EXPECT_EQ(page->be16(6), 8) << "granularity: 4 KiB in 512-byte blocks";
  EXPECT_EQ(page->be32(8), (32u << 20) / 512);
  EXPECT_EQ(page->be32(20), 0xffffffff) << "an UNMAP may cover any number of blocks";
  EXPECT_EQ(page->be32(24), 256u);
  EXPECT_EQ(page->be32(28), 8u) << "a granule that every initiator can give back";
  EXPECT_EQ(page->be64(36), (4ull << 30) / 512);
}

TEST_F(ScsiIdentity, CapacityIsTheLastBlockAndTheBlockSizes) {
  const auto ten = in({0x25});
  EXPECT_EQ(ten->be32(0), 2047u);
  EXPECT_EQ(ten->be32(4), 512u);
  EXPECT_EQ(ten->wanted_in, 8u);
  const auto sixteen = in({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32});
  EXPECT_EQ(sixteen->be64(0), 2047u);
  EXPECT_EQ(sixteen->be32(8), 512u);
  EXPECT_EQ(sixteen->data_in[13], 3) << "8 logical blocks a physical one";
  EXPECT_EQ(sixteen->data_in[14], 0xC0) << "LBPME, LBPRZ";
  for (std::uint8_t length = 0; length < 16; ++length) {
    const auto cut = in({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, length});
    expect_good(*cut);
    EXPECT_EQ(cut->data_in.size(), length);
  }
}

TEST_F(ScsiIdentity, ACapacityBeyondThirtyTwoBitsSendsTheInitiatorToTheLongForm) {
  unit->set_capacity(std::uint64_t{4} << 40);
  expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kModeParametersChanged);  // the threshold
  expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kCapacityDataHasChanged);
  EXPECT_EQ(in({0x25})->be32(0), 0xFFFFFFFFu);
  EXPECT_EQ(in({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32})->be64(0), (std::uint64_t{4} << 40) / 512 - 1);
  EXPECT_EQ(in({0x9E, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24})->be32(16), 0xFFFFFFFFu);
}

TEST_F(ScsiIdentity, LbaStatusTellsTheRunOfBlocksFromTheAskedOneOn) {
  Bytes data(512 * 16, 7);
  expect_good(*out({0x2A, 0, 0, 0, 0x01, 0x00, 0, 0, 16}, data));
  const auto status = [&](std::uint8_t high, std::uint8_t low, std::uint32_t blocks, std::uint8_t provisioning) {
    const auto c = in({0x9E, 0x12, 0, 0, 0, 0, 0, 0, high, low, 0, 0, 0, 24});
    expect_good(*c);
    ASSERT_EQ(c->data_in.size(), 24u);
    EXPECT_EQ(c->be32(0), 20u);
    EXPECT_EQ(c->be64(8), std::uint64_t{high} * 256 + low) << "the first descriptor begins at the asked block";
    EXPECT_EQ(c->be32(16), blocks);
    EXPECT_EQ(c->data_in[20], provisioning);
  };
  status(0, 0, 256, 1);
  status(0, 255, 1, 1);
  status(1, 0, 16, 0);
  status(1, 15, 1, 0);
  status(1, 16, 2048 - 272, 1);
}

TEST_F(ScsiIdentity, ModeSenseGivesEachPageAloneAndAllInOrder) {
  const auto all = in({0x1A, 0x08, 0x3F, 0, 0xFF});
  expect_good(*all);
  EXPECT_EQ(all->data_in[0], all->data_in.size() - 1);
  EXPECT_EQ(all->data_in[2], 0x10) << "DPOFUA, not write-protected";
  Bytes joined;
  for (const std::uint8_t page : {0x01, 0x08, 0x0A, 0x1C}) {
    const auto one = in({0x1A, 0x08, page, 0, 0xFF});
    expect_good(*one);
    EXPECT_EQ(one->data_in[4], page);
    joined.insert(joined.end(), one->data_in.begin() + 4, one->data_in.end());
  }
  EXPECT_EQ(Bytes(all->data_in.begin() + 4, all->data_in.end()), joined);
  const Bytes with_subpages = in({0x1A, 0x08, 0x3F, 0xFF, 0xFF})->data_in;
  const Bytes subpage = in({0x1A, 0x08, 0x1C, 0x02, 0xFF})->data_in;
  ASSERT_GT(with_subpages.size(), 28u);
  const auto border = with_subpages.end() - 24;
  EXPECT_EQ(Bytes(border, with_subpages.end()), Bytes(subpage.begin() + 4, subpage.end()));
  EXPECT_EQ(Bytes(with_subpages.begin() + 4, border), joined);
}

TEST_F(ScsiIdentity, ModeSenseRefusesUnknownPagesSubpagesAndSavedValues) {
  expect_field(*in({0x1A, 0, 0x02, 0, 0xFF}), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 2, .bit = 7});
  for (const auto& [page, subpage] : {std::pair{0x0A, 0x01}, {0x1C, 0x01}, {0x3F, 0x02}}) {
    expect_field(*in({0x1A, 0, static_cast<std::uint8_t>(page), static_cast<std::uint8_t>(subpage), 0xFF}),
                 scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 3, .bit = 7});
  }
  expect_sense(*in({0x1A, 0, 0xCA, 0, 0xFF}), scsi::SenseKey::illegal_request,
               scsi::asc::kSavingParametersNotSupported);
}

TEST_F(ScsiIdentity, ModeSenseTenCarriesTheLongBlockDescriptorWhenAccepted) {
  const auto shorter = in({0x5A, 0x00, 0x0A, 0, 0, 0, 0, 0, 0xFF});
  EXPECT_EQ(shorter->be16(0), shorter->data_in.size() - 2);
  EXPECT_EQ(shorter->be16(6), 8u);
  EXPECT_EQ(shorter->be32(8), 2048u);
  EXPECT_EQ(shorter->be32(12), 512u);
  const auto longer = in({0x5A, 0x10, 0x0A, 0, 0, 0, 0, 0, 0xFF});
  EXPECT_EQ(longer->data_in[4], 0x01);
  EXPECT_EQ(longer->be16(6), 16u);
  EXPECT_EQ(longer->be64(8), 2048u);
  EXPECT_EQ(longer->be32(20), 512u);
}

TEST_F(ScsiIdentity, ReportLunsListsWhatTheInitiatorMaySee) {
  RamDisk second(disk_info(2)), third(disk_info(3));
  const auto b = std::make_shared<LogicalUnit>(second, UnitSettings{});
  const auto c = std::make_shared<LogicalUnit>(third, UnitSettings{});
  adopt({{300, c}, {0, unit}, {2, b}}, std::make_shared<HideFrom>(uuid(2), "iqn.other"));
  scsi::Nexus other;
  open(other, 2, "iqn.other");
  const Bytes report{0xA0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0};
  const auto mine = in(report);
  ASSERT_EQ(mine->be32(0), 24u);
  EXPECT_EQ(mine->be64(8), 0u);
  EXPECT_EQ(mine->be64(16), 0x0002'0000'0000'0000u);
  EXPECT_EQ(mine->be64(24), 0x412C'0000'0000'0000u) << "flat addressing above 255";
  const auto theirs = run(report, other, 4096);
  ASSERT_EQ(theirs->be32(0), 16u);
  EXPECT_EQ(theirs->be64(16), 0x412C'0000'0000'0000u);

  auto hidden = make({0x00});
  hidden->nexus = &other;
  hidden->lun = 0x0002'0000'0000'0000;
  expect_sense(*run(std::move(hidden)), scsi::SenseKey::illegal_request, scsi::asc::kLogicalUnitNotSupported);
  close(other);
  adopt({{0, unit}});
}

TEST_F(ScsiIdentity, ReportLunsSelectsWellKnownUnits) {
  const auto select = [&](std::uint8_t what) { return in({0xA0, 0, what, 0, 0, 0, 0, 0, 0x10, 0}); };
  EXPECT_EQ(select(0)->be32(0), 8u);
  const auto known = select(1);
  ASSERT_EQ(known->be32(0), 8u);
  EXPECT_EQ(known->be64(8), kReportLunsWellKnownLun);
  EXPECT_EQ(select(2)->be32(0), 16u);
  expect_field(*select(0x10), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 2, .bit = 7});
}

TEST_F(ScsiIdentity, TheReportLunsWellKnownUnitAnswersItsFewCommands) {
  const auto at = [&](Bytes cdb) {
    auto c = make(std::move(cdb), 4096);
    c->lun = kReportLunsWellKnownLun;
    return run(std::move(c));
  };
  EXPECT_EQ(at({0x12, 0, 0, 0, 0xFF})->data_in[0], 0x1E);
  expect_good(*at({0xA0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0}));
  expect_good(*at({0x00}));
  expect_sense(*at({0x25}), scsi::SenseKey::illegal_request, scsi::asc::kInvalidCommandOperationCode);
}

TEST_F(ScsiIdentity, WhereThereIsNoUnitOnlyInquirySenseAndLunsAreAnswered) {
  const auto at = [&](Bytes cdb, std::uint64_t lun) {
    auto c = make(std::move(cdb), 4096);
    c->lun = lun;
    return run(std::move(c));
  };
  for (const std::uint64_t lun : {0x0001'0000'0000'0000u, 0x7FFF'0000'0000'0000u, 0x0000'0001'0000'0000u,
                                  0xFFFF'FFFF'FFFF'FFFFu, 0x0100'0000'0000'0000u}) {
    SCOPED_TRACE(lun);
    const auto inquiry = at({0x12, 0, 0, 0, 0xFF}, lun);
    expect_good(*inquiry);
    EXPECT_EQ(inquiry->data_in[0], 0x7F);
    expect_field(*at({0x12, 1, 0x83, 0, 0xFF}, lun), scsi::asc::kInvalidFieldInCdb,
                 {.in_cdb = true, .byte = 2, .bit = 7});
    const auto sense = at({0x03, 0, 0, 0, 0xFF}, lun);
    expect_good(*sense);
    EXPECT_EQ(scsi::parse_sense(sense->data_in)->additional, scsi::asc::kLogicalUnitNotSupported);
    EXPECT_EQ(at({0xA0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0}, lun)->be32(0), 8u);
    expect_sense(*at({0x00}, lun), scsi::SenseKey::illegal_request, scsi::asc::kLogicalUnitNotSupported);
    expect_sense(*at(cdb10(0x28, 0, 1), lun), scsi::SenseKey::illegal_request, scsi::asc::kLogicalUnitNotSupported);
  }
  expect_good(*at({0x00}, 0x4000'0000'0000'0000));  // LUN 0 by flat addressing
}

TEST_F(ScsiIdentity, PortGroupsShowBothNodesStates) {
  const auto plain = in({0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 0xFF, 0});
  expect_good(*plain);
  ASSERT_EQ(plain->be32(0), 24u);
  EXPECT_EQ(plain->data_in[4], 0x0) << "this node: active/optimized";
  EXPECT_EQ(plain->be16(6), 1u);
  EXPECT_EQ(plain->be16(14), 1u);
  EXPECT_EQ(plain->data_in[16], 0x0) << "nothing is said against a partner that was never heard of";
  EXPECT_EQ(plain->be16(18), 2u);
  EXPECT_EQ(plain->be16(26), 2u);

  unit->set_partner_access(engine::AccessState::unavailable);
  expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kAsymmetricAccessStateChanged);
  disk.access = engine::AccessState::transitioning;
  expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kAsymmetricAccessStateChanged);
  expect_sense(*in({0x5E, 2, 0, 0, 0, 0, 0, 0, 8, 0}), scsi::SenseKey::not_ready,
               scsi::asc::kLogicalUnitNotAccessibleAsymmetricAccessStateTransition);
  const auto extended = in({0xA3, 0x2A, 0, 0, 0, 0, 0, 0, 0xFF, 0});
  ASSERT_EQ(extended->be32(0), 28u);
  EXPECT_EQ(extended->data_in[4], 0x10);
  EXPECT_EQ(extended->data_in[8], 0xF);
  EXPECT_EQ(extended->data_in[20], 0x3);
  expect_field(*in({0xA3, 0x4A, 0, 0, 0, 0, 0, 0, 0xFF, 0}), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 1, .bit = 7});
}

TEST_F(ScsiIdentity, ThePartnersPortGroupGoesAndComesWithIt) {
  const auto groups = [&] { return in({0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 0xFF, 0})->be32(0) / 12; };
  expect_good(*in({0x16}));
  for (const bool paired : {false, true}) {
    unit->set_paired(paired);
    expect_sense(*in({0x00}), scsi::SenseKey::unit_attention, scsi::asc::kAsymmetricAccessStateChanged);
    expect_good(*in({0x00}));
    EXPECT_EQ(groups(), paired ? 2u : 1u);
    EXPECT_TRUE(unit->state()->reserved_by);
  }
  unit->set_paired(true);
  expect_good(*in({0x00}));  // that is no news
}

TEST_F(ScsiIdentity, TaskManagementFunctionsAreReported) {
  EXPECT_EQ(in({0xA3, 0x0D, 0, 0, 0, 0, 0, 0, 0, 4})->data_in, (Bytes{0xDA, 0, 0, 0}));
  const auto extended = in({0xA3, 0x0D, 0x80, 0, 0, 0, 0, 0, 0, 16});
  EXPECT_EQ(extended->data_in.size(), 16u);
  EXPECT_EQ(extended->data_in[3], 0x0C);
  expect_sense(*in({0xA3, 0x0D, 0, 0, 0, 0, 0, 0, 0, 3}), scsi::SenseKey::illegal_request,
               scsi::asc::kInvalidFieldInCdb);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
