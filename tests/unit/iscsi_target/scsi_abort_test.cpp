// Commands that are several operations of the disk, aborted between two of them: their initiator may have gone on
// through the other node, so that whatever still began here could land on what it has written there since.
#include "scsi_harness.hpp"

namespace lockstep::iscsi_target::test {
namespace {

struct Chain {
  const char* name;
  Bytes cdb;
  Bytes data;
  std::size_t operations;
  bool is_long = false;
};

/// Three ranges that do not touch.
Bytes unmap_list() {
  Bytes list(8 + 3 * 16);
  engine::store_be<std::uint16_t>(&list[0], static_cast<std::uint16_t>(list.size() - 2));
  engine::store_be<std::uint16_t>(&list[2], static_cast<std::uint16_t>(list.size() - 8));
  for (std::size_t i = 0; i < 3; ++i) {
    engine::store_be<std::uint64_t>(&list[8 + 16 * i], 100 * i);
    engine::store_be<std::uint32_t>(&list[16 + 16 * i], 8);
  }
  return list;
}

std::vector<Chain> chains() {
  const Bytes list = unmap_list();
  return {
      {"UNMAP", {0x42, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(list.size()), 0}, list, 3, true},
      {"ORWRITE", cdb16(0x8B, 0, 1536), Bytes(std::size_t{768} << 10, 0x55), 4, true},
      {"WRITE AND VERIFY", cdb10(0x2E, 0, 1, 0x02), Bytes(512, 0x55), 2},
      {"START STOP UNIT that ejects", {0x1B, 0, 0, 0, 0x02}, {}, 2},
  };
}

class ScsiAbort : public ScsiTest {
 protected:
  ScsiAbort()
      : ScsiTest([] {
          auto info = disk_info();
          info.removable = true;
          return info;
        }()) {
    disk.deferred = true;
  }
  ~ScsiAbort() override { disk.deferred = false; }  // the end of the nexus is a step of the unit's state
  /// Begun, and as far as its `operations`th operation, which is with the disk.
  std::unique_ptr<FakeCommand> begin(const Chain& chain, std::size_t operations, engine::TimePoint came = {}) {
    disk.log.clear();
    auto c = make(chain.cdb, 0, chain.data);
    c->came_at = came;
    c = run(std::move(c));
    for (std::size_t i = 1; i < operations; ++i) disk.release_one();
    EXPECT_EQ(disk.log.size(), operations);
    return c;
  }
  void end() {
    while (disk.held()) disk.release_one();
  }
};

/// Its initiator knows of no abort, and is to send it again: QEMU's takes TASK ABORTED for the last word.
TEST_F(ScsiAbort, AWriteThatIsGivenUpForAnotherAndOfWhichTheDiskCannotTellFindsTheUnitBusy) {
  disk.cannot_cancel = true;
  const auto c = run(make(cdb10(0x2A, 0, 1), 0, Bytes(512)));
  device.abort(*c);
  disk.fail_with = engine::Errc::unknown_outcome;
  disk.release_one();
  EXPECT_EQ(c->status, scsi::Status::busy);
}

TEST_F(ScsiAbort, NothingMoreIsBegunOfACommandThatWasAborted) {
  for (const Chain& chain : chains()) {
    for (std::size_t begun = 1; begun < chain.operations; ++begun) {
      SCOPED_TRACE(chain.name + std::string(", during operation ") + std::to_string(begun));
      const auto c = begin(chain, begun);
      c->is_aborted = true;
      disk.release_one();
      EXPECT_EQ(disk.log.size(), begun);
      EXPECT_EQ(c->completions, 1);
      end();
      EXPECT_EQ(c->completions, 1);
    }
    SCOPED_TRACE(chain.name);
    const auto whole = begin(chain, chain.operations);
    end();
    expect_good(*whole);
    EXPECT_EQ(disk.log.size(), chain.operations);
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(ScsiAbort, ALongCommandWhoseHostIsSilentGoesOnWhenThatIsHeard) {
  for (const Chain& chain : chains()) {
    if (!chain.is_long) continue;
    for (const bool is_heard : {true, false}) {
      SCOPED_TRACE(chain.name);
      const auto c = begin(chain, 1);
      c->is_host_silent = true;
      disk.release_one();
      EXPECT_EQ(disk.log.size(), 1u);
      ASSERT_TRUE(c->awaits_host());
      c->host_heard(is_heard ? std::error_code() : make_error_code(engine::Errc::aborted));
      EXPECT_EQ(c->completions, is_heard ? 0 : 1);
      end();
      EXPECT_EQ(c->completions, 1);
      EXPECT_EQ(disk.log.size(), is_heard ? chain.operations : 1);
    }
  }
}

TEST_F(ScsiAbort, TheDiskIsToldHowOldACommandIs) {
  auto c = make(cdb10(0x2A, 0, 1), 0, Bytes(512));
  c->age = {std::chrono::seconds(5)};
  c = run(std::move(c));
  ASSERT_EQ(disk.log.size(), 1u);
  EXPECT_EQ(disk.log[0].came_since, engine::TimePoint{std::chrono::seconds(5)});
  end();
}

TEST_F(ScsiAbort, TheDiskIsToldWhenTheCommandCameThatARequestIsOf) {
  for (const Chain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    const auto c = begin(chain, 1, engine::TimePoint{std::chrono::seconds(5)});
    end();
    expect_good(*c);
    ASSERT_EQ(disk.log.size(), chain.operations);
    for (const auto& each : disk.log) EXPECT_EQ(each.command_came, engine::TimePoint{std::chrono::seconds(5)});
  }
}

/// As the session aborts a command: nothing will be sent for it.
void abort(TargetDevice& device, FakeCommand& c) {
  c.is_aborted = true;
  device.abort(c);
}

TEST_F(ScsiAbort, TheDiskIsToldToCancelWhatItHasOfTheCommand) {
  for (const Chain& chain : chains()) {
    for (std::size_t begun = 1; begun <= chain.operations; ++begun) {
      SCOPED_TRACE(chain.name + std::string(", during operation ") + std::to_string(begun));
      disk.cancelled.clear();
      const auto c = begin(chain, begun);
      abort(device, *c);
      EXPECT_EQ(disk.cancelled, std::vector{disk.log.back().opcode});
      EXPECT_EQ(c->completions, 1);
      EXPECT_EQ(disk.held(), 0u);
    }
  }
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST_F(ScsiAbort, WhatTheDiskCannotCancelIsWaitedForAndIsTheLast) {
  disk.cannot_cancel = true;
  for (const Chain& chain : chains()) {
    SCOPED_TRACE(chain.name);
    const auto c = begin(chain, 1);
    abort(device, *c);
    EXPECT_EQ(c->completions, 0);
    end();
    EXPECT_EQ(c->completions, 1);
    EXPECT_EQ(disk.log.size(), 1u);
  }
}

TEST_F(ScsiAbort, ACommandThatWaitsForItsDataHasNothingToCancel) {
  auto c = make(cdb10(0x2A, 0, 1), 0, Bytes(512));
  c->defers_pull = true;
  c = run(std::move(c));
  abort(device, *c);
  EXPECT_TRUE(disk.cancelled.empty());
  c->release_pull();
  EXPECT_EQ(c->completions, 1);
  EXPECT_TRUE(disk.log.empty());
}

/// A command that a reset of another initiator ends is answered.
TEST_F(ScsiAbort, ACommandGivenUpToAResetEndsWithTaskAbortedUnlessItWentThrough) {
  const Chain whole{"COMPARE AND WRITE", {0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}, Bytes(1024), 1};
  const auto undone = begin(whole, 1);
  device.abort(*undone);
  EXPECT_EQ(undone->completions, 1);
  EXPECT_EQ(undone->status, scsi::Status::task_aborted);

  disk.cannot_cancel = true;
  const auto done = begin(whole, 1);
  device.abort(*done);
  end();
  expect_good(*done);

  const auto cut = begin(chains().front(), 1);
  device.abort(*cut);
  end();
  EXPECT_EQ(cut->completions, 1);
  EXPECT_EQ(cut->status, scsi::Status::task_aborted);
  EXPECT_EQ(disk.log.size(), 1u);
}

TEST_F(ScsiAbort, ACommandThatTheDiskDroppedByItselfIsNoTaskThatWasAborted) {
  disk.fail_with = engine::Errc::aborted;
  const auto c = begin({"WRITE", cdb10(0x2A, 0, 1), Bytes(512), 1}, 1);
  end();
  EXPECT_EQ(c->status, scsi::Status::busy);
}

/// A RESERVE that was cancelled may be stored on a node all the same, and be put in force when its session is gone.
TEST_F(ScsiAbort, AReserveThatWasCancelledIsReleasedWithItsSession) {
  scsi::Nexus second;
  disk.deferred = false;
  open(second, 2, "iqn.1994-05.com.example:two");
  disk.deferred = true;
  auto reserve = make({0x16});
  reserve->nexus = &second;
  reserve = run(std::move(reserve));
  abort(device, *reserve);
  EXPECT_EQ(reserve->completions, 1);
  disk.log.clear();
  close(second);
  ASSERT_EQ(disk.log.size(), 1u) << "the loss of the nexus";
  EXPECT_EQ(disk.log[0].opcode, engine::DiskOpcode::change_state);
  end();
}

/// A sanitize operation goes on whatever becomes of its command, which waits for no piece: on a node that is cut off,
/// one may last for as long as the partner and the witness are away.
TEST_F(ScsiAbort, WhatSanitizesIsNotCancelledAndItsCommandEndsAtOnce) {
  auto c = run(make({0x48, 0x02, 0, 0, 0, 0, 0, 0, 0, 0}));  // BLOCK ERASE
  disk.release_one();
  ASSERT_EQ(disk.held(), 1u);
  abort(device, *c);
  EXPECT_EQ(c->completions, 1);
  EXPECT_EQ(c->status, scsi::Status::task_aborted);
  EXPECT_TRUE(disk.cancelled.empty());
  end();
  EXPECT_EQ(c->completions, 1);
  EXPECT_EQ(unit->state()->sanitize.phase, scsi::SanitizeState::Phase::none);
}

}  // namespace
}  // namespace lockstep::iscsi_target::test
