// Sanitizing as initiators do it: CDBs in, statuses and data out.
#include "scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

constexpr engine::Duration kAMoment = std::chrono::milliseconds(200);

class ScsiSanitize : public ScsiTest {
 protected:
  explicit ScsiSanitize(engine::DiskInfo info = disk_info()) : ScsiTest(std::move(info)) {}
  /// The first thing that is asked of the disk, once the unit is being sanitized, fails.
  void sanitize_and_fail(std::uint8_t options_and_action) {
    disk.deferred = true;
    auto c = make({0x48, options_and_action});
    device.execute(*c);
    disk.release_one();  // the state
    disk.release_one();  // the look
    disk.fail_with = engine::Errc::io_error;
    disk.deferred = false;
    while (disk.held()) disk.release_one();
    expect_sense(*c, scsi::SenseKey::medium_error, scsi::asc::kSanitizeCommandFailed);
  }
  /// All is erased, and the disk holds the state's next step.
  std::unique_ptr<FakeCommand> sanitize_until_its_end_is_told() {
    disk.deferred = true;
    auto c = make({0x48, 0x02});
    device.execute(*c);
    disk.release_one();  // the state
    disk.release_one();  // the look
    disk.release_one();  // the unit is a single piece
    return c;
  }
};

TEST_F(ScsiSanitize, EraseLeavesZerosAndTheMediumIsShutMeanwhile) {
  out(cdb10(0x2A, 0, 8), pattern(4096));
  disk.deferred = true;
  auto c = make({0x48, 0x02});
  device.execute(*c);
  disk.release_one();  // the state
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  const auto sense = scsi::parse_sense(in({0x03, 0, 0, 0, 0xFF})->data_in);
  EXPECT_EQ(sense->additional, scsi::asc::kSanitizeInProgress);
  EXPECT_TRUE(sense->progress);
  expect_good(*in({0x25}, 8));  // SBC-4 4.11.2: the capacity is told meanwhile
  expect_good(*in({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32}, 32));
  EXPECT_EQ(c->completions, 0);
  while (disk.held()) disk.release_one();
  expect_good(*c);
  disk.deferred = false;
  EXPECT_EQ(in(cdb10(0x28, 0, 8), 4096)->data_in, Bytes(4096));
}

/// The unit's state is seen on all reactors before the command's own is told that it is in force.
TEST_F(ScsiSanitize, IsAnsweredWhenItIsOverWhoeverHearsFirstThatItRuns) {
  TargetDevice elsewhere(pool, clock);
  elsewhere.adopt(*LunMap::make({{0, unit}}, {}), {});
  scsi::Nexus third;
  third.id = 3;
  third.initiator_name = "iqn.1994-05.com.example:three";
  elsewhere.on_nexus_opened(third);
  const auto ask_elsewhere = [&] {
    auto c = make({0x00});
    c->nexus = &third;
    elsewhere.execute(*c);
    return c;
  };
  ask_elsewhere();  // takes its power-on attention
  disk.deferred = true;
  auto c = make({0x48, 0x02});
  device.execute(*c);
  disk.before_answer = [&] {
    expect_sense(*ask_elsewhere(), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  };
  disk.release_one();  // the state
  EXPECT_EQ(c->completions, 0);
  EXPECT_EQ(disk.held(), 1u) << "one of them erases";
  while (disk.held()) disk.release_one();
  expect_good(*c);
  disk.deferred = false;
  expect_good(*ask_elsewhere());
  elsewhere.on_nexus_closed(third);
}

TEST_F(ScsiSanitize, IsNotBegunAgainWhileTheStateIsToldOfItsEnd) {
  auto c = sanitize_until_its_end_is_told();
  ASSERT_EQ(disk.log.back().opcode, engine::DiskOpcode::change_state);
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  disk.release_one();
  expect_good(*c);
  EXPECT_EQ(disk.held(), 0u) << "what erased now would take what is written from now on";
  while (disk.held()) disk.release_one();
  disk.deferred = false;
}

TEST_F(ScsiSanitize, IsAnsweredThoughItsVolumeGoesWhileTheStateIsToldOfItsEnd) {
  auto c = sanitize_until_its_end_is_told();
  bool drained = false;
  device.adopt(*LunMap::make({}, {}), [&] { drained = true; });
  EXPECT_FALSE(drained);
  disk.release_one();
  expect_good(*c);
  EXPECT_TRUE(drained);
}

TEST_F(ScsiSanitize, ThatIsAtItsEndHoldsNoCommandThatIsGivenUp) {
  auto c = sanitize_until_its_end_is_told();
  ASSERT_EQ(disk.log.back().opcode, engine::DiskOpcode::change_state);
  device.abort(*c);
  EXPECT_EQ(c->completions, 1);
  disk.release_one();
  EXPECT_EQ(c->completions, 1);
  EXPECT_EQ(unit->state()->sanitize.phase, scsi::SanitizeState::Phase::none);
  disk.deferred = false;
}

/// A piece may last as long as the partner of a node that is cut off is away; the volume need not.
TEST_F(ScsiSanitize, ThatAVolumeIsTakenFromIsCancelled) {
  disk.deferred = true;
  const auto c = run(make({0x48, 0x82}));  // immediate
  disk.release_one();                      // the state
  expect_good(*c);
  disk.release_one();  // the look
  ASSERT_EQ(disk.held(), 1u);
  bool drained = false;
  device.adopt(*LunMap::make({}, {}), [&] { drained = true; });
  EXPECT_EQ(disk.cancelled, std::vector{engine::DiskOpcode::unmap});
  EXPECT_TRUE(drained);
  EXPECT_EQ(unit->state()->sanitize.phase, scsi::SanitizeState::Phase::running) << "whoever has it next takes it up";
  disk.deferred = false;
}

TEST_F(ScsiSanitize, ThatAVolumeIsTakenFromEndsWithAPieceThatHasBegun) {
  disk.deferred = disk.cannot_cancel = true;
  const auto c = run(make({0x48, 0x82}));  // immediate
  disk.release_one();                      // the state
  bool drained = false;
  device.adopt(*LunMap::make({}, {}), [&] { drained = true; });
  EXPECT_FALSE(drained);
  disk.release_one();  // the look
  EXPECT_TRUE(drained);
  EXPECT_EQ(disk.held(), 0u);
  disk.deferred = false;
}

TEST_F(ScsiSanitize, ThatAVolumeIsTakenFromBetweenTwoPiecesEndsAtOnce) {
  disk.deferred = true;
  const auto c = run(make({0x48, 0x82}));  // immediate
  disk.release_one();                      // the state
  disk.fail_with = engine::Errc::resource_exhausted;
  disk.release_one();  // the look
  bool drained = false;
  device.adopt(*LunMap::make({}, {}), [&] { drained = true; });
  EXPECT_TRUE(drained);
  clock.run_for(kAMoment);
  EXPECT_EQ(disk.held(), 0u);
  disk.deferred = false;
}

/// By a reset, a transition, or a stall of this node.
TEST_F(ScsiSanitize, ThatIsInterruptedIsTakenUpAgainAndHasNotFailed) {
  for (const auto how :
       {engine::Errc::aborted, engine::Errc::not_serving, engine::Errc::unknown_outcome, engine::Errc::stale}) {
    SCOPED_TRACE(make_error_code(how).message());
    disk.deferred = true;
    auto c = make({0x48, 0x02});
    device.execute(*c);
    disk.release_one();  // the state
    disk.release_one();  // the look
    disk.fail_with = how;
    disk.release_one();
    expect_sense(*c, scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
    EXPECT_EQ(disk.held(), 0u);
    disk.deferred = false;
    expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
    expect_good(*in({0x00}));
  }
}

/// The unit is a single piece, and has two passes.
TEST_F(ScsiSanitize, ThatIsToldBusyTriesTheSamePieceAgain) {
  disk.deferred = true;
  auto c = make({0x48, 0x01, 0, 0, 0, 0, 0, 0, 6}, 0, {2, 0, 0, 2, 0x5A, 0xA5});
  device.execute(*c);
  disk.release_one();  // the state
  disk.release_one();  // the look
  disk.release_one();  // the first pass
  disk.fail_with = engine::Errc::resource_exhausted;
  disk.release_one();
  EXPECT_EQ(disk.held(), 0u);
  EXPECT_EQ(c->completions, 0);
  clock.run_for(kAMoment);
  ASSERT_EQ(disk.held(), 1u);
  EXPECT_EQ(disk.log.back().opcode, engine::DiskOpcode::check_access) << "the other node may have finished it";
  while (disk.held()) disk.release_one();
  expect_good(*c);
  EXPECT_EQ(std::ranges::count(disk.log, engine::DiskOpcode::write_same, &RamDisk::Seen::opcode), 3);
  disk.deferred = false;
}

TEST_F(ScsiSanitize, ThatFindsNoMemoryGoesOnWhenThereIsSome) {
  disk.deferred = true;
  auto c = make({0x48, 0x01, 0, 0, 0, 0, 0, 0, 6}, 0, {1, 0, 0, 2, 0x5A, 0xA5});
  device.execute(*c);
  std::vector<engine::Buffer> taken;
  while (auto buffer = pool.allocate(512)) taken.push_back(std::move(buffer));
  disk.release_one();  // the state
  disk.release_one();  // the look
  EXPECT_EQ(disk.held(), 0u);
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  clock.run_for(kAMoment);
  while (disk.held()) disk.release_one();
  EXPECT_EQ(c->completions, 0);
  taken.clear();
  clock.run_for(kAMoment);
  while (disk.held()) disk.release_one();
  expect_good(*c);
  disk.deferred = false;
}

/// A node that was away takes part again, and a command comes before it has heard of it.
TEST_F(ScsiSanitize, ThatTheOtherNodeHasFinishedIsNotTakenUpAgain) {
  disk.deferred = true;
  auto c = make({0x48, 0x02});
  device.execute(*c);
  disk.release_one();  // the state
  disk.fail_with = engine::Errc::not_serving;
  disk.release_one();  // the look
  ASSERT_TRUE(c->completions == 1 && disk.held() == 0u);
  auto command = make({0x12, 0, 0, 0, 96}, 96);
  device.execute(*command);
  ASSERT_EQ(disk.held(), 1u) << "it asks whether its state is the one in force";
  auto bytes = unit->request(scsi::LuRequestKind::sanitize_finished, {}).encode();
  bytes.resize(std::max(bytes.size(), scsi::kLuAnswerSize));
  engine::DiskRequest told;
  told.opcode = engine::DiskOpcode::change_state;
  told.data = bytes;
  told.done = [](engine::DiskRequest& over) { EXPECT_FALSE(over.status); };
  disk.deferred = false;
  disk.submit(told);
  const std::size_t before = disk.log.size();
  disk.release_one();
  EXPECT_EQ(disk.log.size(), before) << "what hosts have written since is theirs";
  EXPECT_EQ(disk.held(), 0u);
  expect_good(*in({0x00}));
}

TEST_F(ScsiSanitize, ThatIsRefusedLeavesTheUnitToTheNext) {
  disk.fail_with = engine::Errc::io_error;
  EXPECT_EQ(in({0x48, 0x02})->status, scsi::Status::check_condition);
  expect_good(*in({0x48, 0x02}));
  expect_good(*in({0x00}));
}

struct EncryptedUnit : ScsiSanitize {
  EncryptedUnit() : ScsiSanitize(encrypted_disk_info()) {}
};

/// SBC-4 5.30.3: only where there is a key to be lost.
TEST_F(ScsiSanitize, CryptographicEraseIsKnownToEncryptedUnitsOnly) {
  const std::initializer_list<std::uint8_t> is_it_there = {0xA3, 0x0C, 0x03, 0x48, 0, 0x03, 0, 0, 0, 64};
  EXPECT_EQ(in(is_it_there, 64)->data_in[1] & 7, 1);
  expect_sense(*in({0x48, 0x03}), scsi::SenseKey::illegal_request, scsi::asc::kInvalidFieldInCdb);
  EXPECT_TRUE(disk.log.empty());
}

TEST_F(EncryptedUnit, CryptographicEraseTakesTheKeyFirstAndLeavesZeros) {
  const std::initializer_list<std::uint8_t> is_it_there = {0xA3, 0x0C, 0x03, 0x48, 0, 0x03, 0, 0, 0, 64};
  EXPECT_EQ(in(is_it_there, 64)->data_in[1] & 7, 3);
  out(cdb10(0x2A, 0, 8), pattern(4096));
  disk.log.clear();
  disk.deferred = true;
  auto c = make({0x48, 0x03});
  device.execute(*c);
  disk.release_one();  // the state
  expect_sense(*in({0x00}), scsi::SenseKey::not_ready, scsi::asc::kSanitizeInProgress);
  disk.release_one();  // the look
  disk.release_one();
  EXPECT_EQ(disk.bytes()[0], std::byte{0xEE});
  EXPECT_EQ(c->completions, 0);
  while (disk.held()) disk.release_one();
  expect_good(*c);
  disk.deferred = false;
  EXPECT_EQ(in(cdb10(0x28, 0, 8), 4096)->data_in, Bytes(4096));
}

TEST_F(EncryptedUnit, AKeyThatCouldNotBeReplacedIsAFailedSanitize) {
  sanitize_and_fail(0x23);
  expect_good(*in({0x48, 0x1F}));
}

TEST_F(ScsiSanitize, OverwriteRepeatsThePatternInEveryBlock) {
  const Bytes list{0x01, 0, 0, 2, 0x5A, 0xA5};
  expect_good(*out({0x48, 0x81, 0, 0, 0, 0, 0, 0, 6}, list));
  const Bytes data = in(cdb10(0x28, 77, 1), 512)->data_in;
  EXPECT_EQ(data[0], 0x5A);
  EXPECT_EQ(data[1], 0xA5);
  EXPECT_EQ(data[510], 0x5A);
}

/// SBC-4 5.30.2.2: with INVERT the first of an even number of passes writes the inversion.
TEST_F(ScsiSanitize, TheLastOfInvertedPassesWritesThePatternItself) {
  for (const std::uint8_t passes : {1, 2, 3}) {
    disk.deferred = true;
    auto c =
        make({0x48, 0x01, 0, 0, 0, 0, 0, 0, 6}, 0, {static_cast<std::uint8_t>(0x80 | passes), 0, 0, 2, 0x5A, 0xA5});
    device.execute(*c);
    disk.release_one();  // the state
    disk.release_one();  // the look
    for (int pass = 1; pass <= passes; ++pass) {
      SCOPED_TRACE(std::to_string(pass) + " of " + std::to_string(passes));
      disk.release_one();  // the unit is a single piece
      const bool inverted = (passes - pass) % 2 != 0;
      EXPECT_EQ(disk.bytes()[0], std::byte(inverted ? 0xA5 : 0x5A));
      EXPECT_EQ(disk.bytes()[1], std::byte(inverted ? 0x5A : 0xA5));
    }
    while (disk.held()) disk.release_one();
    expect_good(*c);
    disk.deferred = false;
  }
}

TEST_F(ScsiSanitize, BadListsAndAFailureAreReportedAndTheFailureMayBeLeft) {
  for (const Bytes& list : {Bytes{0, 0, 0, 1, 1}, Bytes{1, 0, 0, 0, 1}, Bytes{1, 0, 0, 2, 1}}) {
    expect_sense(*out({0x48, 0x01, 0, 0, 0, 0, 0, 0, 5}, list), scsi::SenseKey::illegal_request,
                 scsi::asc::kInvalidFieldInCdb);
  }
  sanitize_and_fail(0x22);
  expect_sense(*in({0x00}), scsi::SenseKey::medium_error, scsi::asc::kSanitizeCommandFailed);
  expect_good(*in({0x48, 0x1F}));
  expect_good(*in({0x00}));
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
