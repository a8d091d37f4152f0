// Unit attentions, mode parameters, resets, and maps that change while nexuses are open.
#include <thread>

#include "tests/unit/iscsi_target/scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

class ScsiAttention : public ScsiTest {
 protected:
  ScsiAttention() { open(second, 2, "iqn.1994-05.com.example:two"); }
  ~ScsiAttention() override {
    if (second_open) close(second);
  }

  std::unique_ptr<FakeCommand> tur(scsi::Nexus& n, std::uint16_t lun = 0) {
    auto c = make({0x00});
    c->nexus = &n;
    c->lun = encode_lun(lun);
    return run(std::move(c));
  }
  void expect_attention(scsi::Nexus& n, scsi::AdditionalSense additional, std::uint16_t lun = 0) {
    expect_sense(*tur(n, lun), scsi::SenseKey::unit_attention, additional);
  }
  void expect_ready(scsi::Nexus& n, std::uint16_t lun = 0) { expect_good(*tur(n, lun)); }

  scsi::Nexus second;
  bool second_open = true;
};

/// MODE SELECT(6) of a control page.
Bytes control_page(std::uint8_t byte_2, std::uint8_t byte_4) {
  return {0, 0, 0, 0, 0x0A, 0x0A, byte_2, 0x10, byte_4, 0x40, 0, 0, 0, 0, 0, 0};
}
const Bytes kSelect{0x15, 0x10, 0, 0, 16, 0};

TEST_F(ScsiAttention, ANewNexusIsToldOfPowerOnOnceAndOfNothingOlder) {
  device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0);
  unit->set_capacity(4096);
  scsi::Nexus third;
  open(third, 3, "iqn.three", false);
  expect_attention(third, scsi::asc::kPowerOnOccurred);
  expect_ready(third);
  close(third);
}

TEST_F(ScsiAttention, SeveralAreReportedOneACommandInTheirOrder) {
  unit->set_partner_access(engine::AccessState::unavailable);
  unit->set_capacity(65536);
  device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0);
  for (auto* n : {&nexus, &second}) {
    expect_attention(*n, scsi::asc::kBusDeviceResetFunctionOccurred);
    expect_attention(*n, scsi::asc::kCapacityDataHasChanged);
    expect_attention(*n, scsi::asc::kAsymmetricAccessStateChanged);
    expect_ready(*n);
  }
}

TEST_F(ScsiAttention, TheSameEventTwiceIsToldOnce) {
  device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0);
  device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0);
  expect_attention(nexus, scsi::asc::kBusDeviceResetFunctionOccurred);
  expect_ready(nexus);
}

TEST_F(ScsiAttention, AnAttentionStopsTheCommandBeforeItDoesAnything) {
  device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0);
  disk.log.clear();
  expect_sense(*out(cdb10(0x2A, 0, 1), Bytes(512, 1)), scsi::SenseKey::unit_attention,
               scsi::asc::kBusDeviceResetFunctionOccurred);
  EXPECT_TRUE(disk.log.empty());
}

TEST_F(ScsiAttention, RequestSenseTakesTheAttentionAsDataInTheAskedFormat) {
  device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0);
  const auto fixed = in({0x03, 0, 0, 0, 0xFF});
  expect_good(*fixed);
  EXPECT_EQ(fixed->data_in[0], 0x70);
  EXPECT_EQ(scsi::parse_sense(fixed->data_in)->additional, scsi::asc::kBusDeviceResetFunctionOccurred);
  const auto nothing = in({0x03, 1, 0, 0, 0xFF});
  EXPECT_EQ(nothing->data_in[0], 0x72);
  EXPECT_EQ(scsi::parse_sense(nothing->data_in)->key, scsi::SenseKey::no_sense);
  disk.access = engine::AccessState::unavailable;
  EXPECT_EQ(scsi::parse_sense(in({0x03, 0, 0, 0, 0xFF})->data_in)->additional,
            scsi::asc::kAsymmetricAccessStateChanged);
  EXPECT_EQ(scsi::parse_sense(in({0x03, 0, 0, 0, 0xFF})->data_in)->additional,
            scsi::asc::kLogicalUnitNotAccessibleTargetPortInUnavailableState);
}

TEST_F(ScsiAttention, ModeSelectTellsEveryNexusButItsOwn) {
  expect_good(*out(kSelect, control_page(0x06, 0)));
  expect_ready(nexus);
  expect_attention(second, scsi::asc::kModeParametersChanged);
  expect_good(*out(kSelect, control_page(0x06, 0)));  // nothing changes
  expect_ready(second);
}

TEST_F(ScsiAttention, DescriptorSenseChangesTheFormatOfAutosense) {
  EXPECT_EQ(in({0xFF})->sense[0], 0x70);
  out(kSelect, control_page(0x06, 0));
  EXPECT_EQ(in({0xFF})->sense[0], 0x72);
  EXPECT_EQ(in({0x1A, 0x08, 0x0A, 0, 0xFF})->data_in[6], 0x06) << "current";
  EXPECT_EQ(in({0x1A, 0x08, 0x4A, 0, 0xFF})->data_in[6], 0x04) << "changeable";
  EXPECT_EQ(in({0x1A, 0x08, 0x8A, 0, 0xFF})->data_in[6], 0x02) << "default";
}

TEST_F(ScsiAttention, SoftwareWriteProtectHoldsUntilItIsClearedOrReset) {
  out(kSelect, control_page(0x02, 0x08));
  expect_sense(*out(cdb10(0x2A, 0, 1), Bytes(512)), scsi::SenseKey::data_protect,
               scsi::asc::kLogicalUnitSoftwareWriteProtected);
  EXPECT_EQ(in({0x1A, 0x08, 0x3F, 0, 0xFF})->data_in[2], 0x90);
  out(kSelect, control_page(0x02, 0x00));
  expect_good(*out(cdb10(0x2A, 0, 1), Bytes(512)));
  out(kSelect, control_page(0x02, 0x08));
  device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0);
  tur(nexus);
  expect_good(*out(cdb10(0x2A, 0, 1), Bytes(512)));
}

TEST_F(ScsiAttention, ModeSelectTakesBackWhatModeSenseGave) {
  Bytes six = in({0x1A, 0x00, 0x3F, 0, 0xFF})->data_in;
  six[0] = 0;
  expect_good(*out({0x15, 0x10, 0, 0, static_cast<std::uint8_t>(six.size()), 0}, six));
  Bytes ten = in({0x5A, 0x10, 0x3F, 0, 0, 0, 0, 0, 0xFF})->data_in;
  expect_good(*out({0x55, 0x10, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(ten.size()), 0}, ten));
  expect_ready(second);
}

TEST_F(ScsiAttention, ModeSelectPointsAtWhatIsWrongAndChangesNothing) {
  const auto list = [&](Bytes data) {
    return out({0x15, 0x10, 0, 0, static_cast<std::uint8_t>(data.size()), 0}, data);
  };
  const auto parameter = [](std::uint16_t byte, std::int8_t bit) {
    return scsi::FieldPointer{.in_cdb = false, .byte = byte, .bit = bit};
  };
  const auto wrong = scsi::asc::kInvalidFieldInParameterList;
  expect_field(*list(control_page(0x07, 0)), wrong, parameter(6, 0));     // GLTSD's neighbour RLEC
  expect_field(*list(control_page(0x06, 0x88)), wrong, parameter(8, 7));  // RAC
  expect_field(*list({0, 0, 0, 0, 0x0A, 0x09}), wrong, parameter(5, 7));
  expect_field(*list({0, 0, 0, 0, 0x02, 0x0A}), wrong, parameter(4, 5));
  expect_field(*list({0, 0, 0, 0, 0x4A, 0x01, 0, 0}), wrong, parameter(4, 5));
  expect_field(*list({0, 0, 0, 7}), wrong, parameter(3, 7));
  expect_field(*list({0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 2, 0}), wrong, parameter(4, 7));
  expect_field(*list({0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 4, 0}), wrong, parameter(8, 7));
  Bytes second_page_wrong = control_page(0x06, 0);
  second_page_wrong.insert(second_page_wrong.end(), {0x1C, 0x0A, 0xFF});
  for (const Bytes& cut : {Bytes{0, 0}, Bytes{0, 0, 0, 8, 0}, Bytes{0, 0, 0, 0, 0x0A}, Bytes{0, 0, 0, 0, 0x0A, 0x0A, 0},
                           second_page_wrong}) {
    expect_sense(*list(cut), scsi::SenseKey::illegal_request, scsi::asc::kParameterListLengthError);
  }
  expect_good(*list({}));
  expect_field(*out({0x15, 0x00, 0, 0, 16, 0}, control_page(0, 0)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 1, .bit = 4});
  expect_field(*out({0x15, 0x11, 0, 0, 16, 0}, control_page(0, 0)), scsi::asc::kInvalidFieldInCdb,
               {.in_cdb = true, .byte = 1, .bit = 0});
  EXPECT_EQ(unit->mode(), ModeState{});
  expect_ready(second);
}

TEST_F(ScsiAttention, AModeSelectWhoseUnitGoesOutOfSightMeanwhileStillEndsWell) {
  auto c = make(kSelect, 0, control_page(0x06, 0));
  c->defers_pull = true;
  c = run(std::move(c));
  adopt({});
  c->release_pull();
  expect_good(*c);
  EXPECT_TRUE(unit->mode().descriptor_sense);
  adopt({{0, unit}});
}

TEST_F(ScsiAttention, AUnitResetIsToldToAllItsIssuerIncluded) {
  EXPECT_TRUE(device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, 0));
  expect_attention(nexus, scsi::asc::kBusDeviceResetFunctionOccurred);
  expect_attention(second, scsi::asc::kBusDeviceResetFunctionOccurred);
  EXPECT_TRUE(device.task_management(nexus, scsi::TaskManagement::target_warm_reset, 0));
  expect_attention(second, scsi::asc::kScsiBusResetOccurred);
  EXPECT_TRUE(device.task_management(nexus, scsi::TaskManagement::abort_task, 0));
  EXPECT_FALSE(device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, encode_lun(9)));
  EXPECT_FALSE(device.task_management(nexus, scsi::TaskManagement::logical_unit_reset, kReportLunsWellKnownLun));
}

TEST_F(ScsiAttention, ANewVolumeIsAnnouncedAtTheOldOnesAndPowersOnAtItsOwn) {
  RamDisk other(disk_info(2));
  const auto added = std::make_shared<LogicalUnit>(other, UnitSettings{});
  adopt({{0, unit}, {5, added}});
  expect_attention(nexus, scsi::asc::kReportedLunsDataHasChanged);
  expect_ready(nexus);
  expect_attention(nexus, scsi::asc::kPowerOnOccurred, 5);
  expect_attention(nexus, scsi::asc::kReportedLunsDataHasChanged, 5);
  run({0xA0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0}, second, 4096);
  expect_ready(second);  // it has read the list
  adopt({{0, unit}});
  expect_sense(*tur(nexus, 5), scsi::SenseKey::illegal_request, scsi::asc::kLogicalUnitNotSupported);
  expect_attention(second, scsi::asc::kReportedLunsDataHasChanged);
  adopt({{0, unit}});
  expect_attention(nexus, scsi::asc::kReportedLunsDataHasChanged);
  expect_ready(nexus);  // the same map again is no news
}

TEST_F(ScsiAttention, AVolumeHiddenFromOneInitiatorIsNewsToThatOneAlone) {
  adopt({{0, unit}}, std::make_shared<HideFrom>(uuid(1), second.initiator_name));
  expect_sense(*tur(second), scsi::SenseKey::illegal_request, scsi::asc::kLogicalUnitNotSupported);
  expect_ready(nexus);
  adopt({{0, unit}});
  expect_attention(second, scsi::asc::kPowerOnOccurred);
}

TEST_F(ScsiAttention, AVolumeTakenAwayIsDrainedBeforeItsOwnerHearsSo) {
  RamDisk other(disk_info(2));
  auto added = std::make_shared<LogicalUnit>(other, UnitSettings{});
  const std::weak_ptr<LogicalUnit> watch = added;
  adopt({{0, unit}, {1, std::move(added)}});
  tur(nexus, 1), tur(nexus, 1);
  other.deferred = true;
  auto c = make(cdb10(0x28, 0, 1), 512);
  c->lun = encode_lun(1);
  c = run(std::move(c));
  bool drained = false;
  device.adopt(*LunMap::make({{0, unit}}, {}), [&] { drained = true; });
  EXPECT_FALSE(drained);
  EXPECT_FALSE(watch.expired());
  other.release_one();
  expect_good(*c);
  EXPECT_TRUE(drained);
  EXPECT_TRUE(watch.expired());
}

TEST_F(ScsiAttention, AVolumeTakenAwayDoesNotWaitForTheCommandsOfAnother) {
  RamDisk hung(disk_info(2)), other(disk_info(3));
  const auto first = std::make_shared<LogicalUnit>(hung, UnitSettings{});
  adopt({{0, unit}, {1, first}, {2, std::make_shared<LogicalUnit>(other, UnitSettings{})}});
  tur(nexus, 1), tur(nexus, 1);
  hung.deferred = true;
  auto c = make(cdb10(0x28, 0, 1), 512);
  c->lun = encode_lun(1);
  c = run(std::move(c));
  adopt({{0, unit}});
  bool first_unused = false, other_unused = false;
  device.when_unused(uuid(2), [&] { first_unused = true; });
  device.when_unused(uuid(3), [&] { other_unused = true; });
  EXPECT_TRUE(other_unused);
  EXPECT_FALSE(first_unused);
  hung.release_one();
  expect_good(*c);
  EXPECT_TRUE(first_unused);
}

TEST_F(ScsiAttention, MapsThatContradictThemselvesAreRefusedByName) {
  const auto twice = LunMap::make({{0, unit}, {1, unit}}, {});
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("vm1"), std::string::npos);
  RamDisk other(disk_info(2));
  EXPECT_FALSE(LunMap::make({{3, unit}, {3, std::make_shared<LogicalUnit>(other, UnitSettings{})}}, {}));
  EXPECT_FALSE(LunMap::make({{kMaxLuns, unit}}, {}));
}

TEST_F(ScsiAttention, NexusesOnTwoReactorsHearOfEachOthersEvents) {
  // Each thread is a reactor of its own: device, pool and nexus. Run under TSan.
  const auto reactor = [&](std::uint64_t id, int& attentions) {
    engine::BufferPool buffers(std::size_t{8} << 20);
    lockstep::test::EventClock time;
    TargetDevice own(buffers, time);
    own.adopt(*LunMap::make({{0, unit}}, {}), {});
    scsi::Nexus n;
    n.id = id;
    own.on_nexus_opened(n);
    for (int i = 0; i < 2000; ++i) {
      FakeCommand c;
      c.nexus = &n;
      if (i % 50 == 0) {
        std::ranges::copy(kSelect, c.cdb.begin());
        c.data_out = control_page(static_cast<std::uint8_t>(0x02 | (i % 100 ? 0x04 : 0)), 0);
        c.expected_out = static_cast<std::uint32_t>(c.data_out.size());
      }
      if (i % 333 == 0) own.task_management(n, scsi::TaskManagement::logical_unit_reset, 0);
      own.execute(c);
      ASSERT_EQ(c.completions, 1);
      if (c.status == scsi::Status::check_condition) {
        EXPECT_EQ(c.sense_data().key, scsi::SenseKey::unit_attention);
        ++attentions;
      }
    }
    own.on_nexus_closed(n);
  };
  int one = 0, two = 0;
  std::thread a([&] { reactor(11, one); });
  std::thread b([&] { reactor(12, two); });
  a.join();
  b.join();
  EXPECT_GE(one, 7);  // power on and its own six resets at least
  EXPECT_GE(two, 7);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
