// The soft threshold of thinly provisioned units: what pages say of it, who is told, and when (SBC-3 4.7.3.7).
#include "iscsi_target/scsi/space_threshold.hpp"
#include "tests/unit/iscsi_target/scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSize = 1000 * kMiB;

engine::DiskInfo small() {
  auto info = disk_info();
  info.size = 4 * kMiB;
  return info;
}

engine::DiskInfo full() {
  auto info = disk_info();
  info.thin = false;
  return info;
}

class ScsiThreshold : public ScsiTest {
 protected:
  explicit ScsiThreshold(engine::DiskInfo info = small()) : ScsiTest(std::move(info)) {
    open(second, 2, "iqn.1994-05.com.example:two");
    unit->set_capacity(kSize);
    for (auto* n : {&nexus, &second}) {
      while (run({0x00}, *n)->status != scsi::Status::good) {
      }
    }
  }
  ~ScsiThreshold() override { close(second); }

  Bytes page(std::uint8_t control) {
    return in({0x1A, 0x08, static_cast<std::uint8_t>(control | 0x1C), 2, 0xFF})->data_in;
  }
  std::unique_ptr<FakeCommand> select(Bytes list) {
    return out({0x15, 0x10, 0, 0, static_cast<std::uint8_t>(list.size()), 0}, list);
  }
  /// A list of the page with the descriptor's first byte as given.
  Bytes list(std::uint8_t enabled) {
    Bytes bytes = page(0);
    bytes[0] = 0;
    bytes[4 + 16] = enabled;
    return bytes;
  }
  void space(scsi::LuRequestKind kind, std::uint16_t port) {
    bool done = false;
    EXPECT_TRUE(device.send(*unit, {.kind = kind, .port = port}, [&] { done = true; }));
    EXPECT_TRUE(done);
  }
  void expect_told(scsi::Nexus& n) {
    const auto c = run({0x00}, n);
    expect_sense(*c, scsi::SenseKey::unit_attention, scsi::asc::kThinProvisioningSoftThresholdReached);
    EXPECT_EQ(c->sense_data().information, 16u) << "the descriptor in the mode page";
  }
  void expect_quiet() {
    for (auto* n : {&nexus, &second}) expect_good(*run({0x00}, *n));
  }

  scsi::Nexus second;
};

class ScsiNoThreshold : public ScsiThreshold {
 protected:
  ScsiNoThreshold() : ScsiThreshold(full()) {}
};

/// Each is checked before the other one is in force, as it is where the other node orders.
TEST_F(ScsiThreshold, ModeSelectLeavesThePagesAsTheyAreThatItsListDoesNotName) {
  const Bytes control = in({0x1A, 0x08, 0x0A, 0, 0xFF})->data_in;
  const auto protecting = [&](std::uint8_t swp) {
    Bytes bytes = control;
    bytes[0] = 0;
    bytes[4 + 4] = swp;
    return bytes;
  };
  disk.deferred = true;
  const auto protects = select(protecting(0x08)), disables = select(list(0));
  while (disk.held()) disk.release_one();
  expect_good(*protects);
  expect_good(*disables);
  EXPECT_TRUE(unit->mode().software_write_protect);
  EXPECT_TRUE(unit->mode().threshold_off);

  const auto enables = select(list(0x80)), permits = select(protecting(0));
  while (disk.held()) disk.release_one();
  expect_good(*enables);
  expect_good(*permits);
  EXPECT_EQ(unit->mode(), ModeState{});
}

TEST_F(ScsiThreshold, TheModePageHasOneSoftDecreasingThresholdOfATenthOfTheVolume) {
  const Bytes golden{0x5C, 0x02, 0, 0x14, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,  // header, SITUA, reserved
                     0x80, 0x01, 0, 0,    0, 0, 0, 100};                        // ENABLED; available; sets of 1 MiB
  Bytes changeable{0x5C, 0x02, 0, 0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0};
  for (const auto& [control, expected] : {std::pair{0x00, golden}, {0x40, changeable}, {0x80, golden}}) {
    const Bytes all = page(static_cast<std::uint8_t>(control));
    EXPECT_EQ(Bytes(all.begin() + 4, all.end()), expected) << control;
  }
  expect_sense(*in({0x1A, 0, 0xDC, 2, 0xFF}), scsi::SenseKey::illegal_request,
               scsi::asc::kSavingParametersNotSupported);
  EXPECT_EQ(in({0x1A, 0x08, 0x01, 0, 0xFF})->data_in[4 + 7], 0x80) << "LBPERE";
  EXPECT_EQ(in({0x1A, 0x08, 0x41, 0, 0xFF})->data_in[4 + 7], 0x00) << "… can't be put off";
}

TEST_F(ScsiThreshold, AllSubpagesOfAPageComeWithIt) {
  const Bytes both = in({0x1A, 0x08, 0x1C, 0xFF, 0xFF})->data_in;
  const Bytes exceptions = in({0x1A, 0x08, 0x1C, 0x00, 0xFF})->data_in, provisioning = page(0);
  Bytes joined(exceptions.begin() + 4, exceptions.end());
  joined.insert(joined.end(), provisioning.begin() + 4, provisioning.end());
  EXPECT_EQ(Bytes(both.begin() + 4, both.end()), joined);
}

TEST_F(ScsiThreshold, TheVpdPageHasTheExponentOfTheThresholdSet) {
  EXPECT_EQ(in({0x12, 0x01, 0xB2, 0, 0xFF})->data_in, (Bytes{0, 0xB2, 0, 4, 11, 0xE4, 0x02, 0}));
  EXPECT_EQ(threshold_exponent(12), 8) << "of blocks of 4 KiB";
}

TEST_F(ScsiNoThreshold, AFullVolumeHasNeitherPageNorExponentNorReporting) {
  expect_field(*in({0x1A, 0x08, 0x1C, 2, 0xFF}), scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = 3, .bit = 7});
  EXPECT_EQ(in({0x1A, 0x08, 0x3F, 0xFF, 0xFF})->data_in, in({0x1A, 0x08, 0x3F, 0, 0xFF})->data_in);
  EXPECT_EQ(in({0x1A, 0x08, 0x01, 0, 0xFF})->data_in[4 + 7], 0);
  EXPECT_EQ(in({0x12, 0x01, 0xB2, 0, 0xFF})->data_in, (Bytes{0, 0xB2, 0, 4, 0, 0, 0, 0}));
  Bytes bytes(4 + 24);
  bytes[4] = 0x5C, bytes[5] = 0x02, bytes[7] = 0x14;
  expect_field(*select(bytes), scsi::asc::kInvalidFieldInParameterList, {.in_cdb = false, .byte = 4, .bit = 5});
}

TEST_F(ScsiThreshold, ModeSelectDisablesItAndEnablesItAgainAndTellsTheOthers) {
  expect_good(*select(list(0x00)));
  EXPECT_EQ(page(0)[4 + 16], 0x00);
  EXPECT_EQ(page(0x80)[4 + 16], 0x80) << "default";
  expect_sense(*run({0x00}, second), scsi::SenseKey::unit_attention, scsi::asc::kModeParametersChanged);
  space(scsi::LuRequestKind::space_low, 1);
  expect_quiet();
  expect_good(*select(list(0x80)));
  expect_told(nexus);
}

TEST_F(ScsiThreshold, ModeSelectChangesTwoPagesAtOnceAndKeepsWhatItDoesNotName) {
  Bytes both = list(0x00);
  both.insert(both.end(), {0x0A, 0x0A, 0x06, 0x10, 0, 0x40, 0, 0, 0, 0, 0, 0});
  expect_good(*select(both));
  EXPECT_EQ(unit->mode(), (ModeState{.descriptor_sense = true, .threshold_off = true}));
  expect_good(*select({0, 0, 0, 0, 0x0A, 0x0A, 0x02, 0x10, 0, 0x40, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(unit->mode(), ModeState{.threshold_off = true});
}

TEST_F(ScsiThreshold, ModeSelectPointsAtWhatCannotBeChanged) {
  struct Wrong {
    std::size_t byte;  ///< of the list, whose page begins at 4
    std::uint8_t value;
    std::uint16_t pointer;
    std::int8_t bit;
  };
  for (const Wrong& wrong : {Wrong{5, 0x00, 4, 5},      // not a subpage
                             Wrong{5, 0x03, 4, 5},      // another subpage
                             Wrong{7, 0x13, 6, 7},      // its length
                             Wrong{8, 0x01, 8, 0},      // SITUA
                             Wrong{9, 0x80, 9, 7},      // reserved
                             Wrong{20, 0x81, 20, 0},    // THRESHOLD ARMING: increasing
                             Wrong{20, 0x88, 20, 3},    // THRESHOLD TYPE
                             Wrong{21, 0x02, 21, 1},    // THRESHOLD RESOURCE: used
                             Wrong{27, 101, 27, 0}}) {  // THRESHOLD COUNT
    SCOPED_TRACE(wrong.byte);
    Bytes bytes = list(0x80);
    bytes[wrong.byte] = wrong.value;
    expect_field(*select(bytes), scsi::asc::kInvalidFieldInParameterList,
                 {.in_cdb = false, .byte = wrong.pointer, .bit = wrong.bit});
  }
  for (const std::size_t size : {5u, 6u, 7u, 8u, 27u}) {
    Bytes bytes = list(0x80);
    bytes.resize(size);
    expect_sense(*select(bytes), scsi::SenseKey::illegal_request, scsi::asc::kParameterListLengthError);
  }
  EXPECT_EQ(unit->mode(), ModeState{});
}

TEST_F(ScsiThreshold, EachNexusIsToldOnceAndAgainWhenTheSpaceWasThereInBetween) {
  space(scsi::LuRequestKind::space_low, 2);
  for (auto* n : {&nexus, &second}) expect_told(*n);
  expect_quiet();
  space(scsi::LuRequestKind::space_low, 1);
  expect_quiet();
  space(scsi::LuRequestKind::space_enough, 1);
  space(scsi::LuRequestKind::space_enough, 2);
  expect_quiet();
  space(scsi::LuRequestKind::space_low, 1);
  for (auto* n : {&nexus, &second}) expect_told(*n);
}

TEST_F(ScsiThreshold, RequestSenseShowsItWithItsDescriptor) {
  space(scsi::LuRequestKind::space_low, 1);
  const auto sense = scsi::parse_sense(in({0x03, 1, 0, 0, 0xFF})->data_in);
  EXPECT_EQ(sense->additional, scsi::asc::kThinProvisioningSoftThresholdReached);
  EXPECT_EQ(sense->information, 16u);
  expect_good(*run({0x00}, nexus));
}

TEST_F(ScsiThreshold, AVolumeThatGrowsHasAHigherThresholdAndSaysSo) {
  unit->set_capacity(2 * kSize);
  expect_sense(*run({0x00}, nexus), scsi::SenseKey::unit_attention, scsi::asc::kModeParametersChanged);
  expect_sense(*run({0x00}, nexus), scsi::SenseKey::unit_attention, scsi::asc::kCapacityDataHasChanged);
  EXPECT_EQ(page(0)[4 + 23], 200);
}

TEST_F(ScsiThreshold, AUnitThatIsInNoMapIsNotSentAnything) {
  const LogicalUnit other(disk, UnitSettings{});
  EXPECT_FALSE(device.send(other, {.kind = scsi::LuRequestKind::space_low, .port = 1}, [] { FAIL(); }));
}

TEST(SpaceThreshold, IsReachedAtATenthAndLeftAnEighthAbove) {
  EXPECT_FALSE(is_low_space(100 * kMiB + 1, 0, kSize, false));
  EXPECT_TRUE(is_low_space(100 * kMiB, 0, kSize, false));
  EXPECT_TRUE(is_low_space(112 * kMiB, 0, kSize, true));
  EXPECT_FALSE(is_low_space(113 * kMiB, 0, kSize, true));
}

TEST(SpaceThreshold, IsNotReachedByWhatTheVolumeCannotNeedAnyMore) {
  EXPECT_TRUE(is_low_space(50 * kMiB, kSize - 51 * kMiB, kSize, false));
  EXPECT_FALSE(is_low_space(50 * kMiB, kSize - 50 * kMiB, kSize, true));
  EXPECT_FALSE(is_low_space(0, kSize + 4096, kSize, true));
}

TEST(SpaceThreshold, IsOneSetAtLeastAndFitsItsField) {
  EXPECT_EQ(threshold_count(4096), 1u);
  EXPECT_EQ(threshold_count(~std::uint64_t{0}), 0xFFFFFFFFu);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
