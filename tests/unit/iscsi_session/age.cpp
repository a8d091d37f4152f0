// How old a command counts that could not begin at once: its host may have given it up meanwhile, and gone on
// elsewhere.
#include "tests/unit/iscsi_session/core_session.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using namespace std::chrono_literals;

constexpr std::uint32_t kBytes = 4096;

/// Brings the data of writes in and notes their age.
class AgeDevice final : public PlainDevice {
 public:
  explicit AgeDevice(engine::BufferPool& pool) : pool_(pool) {}
  void execute(scsi::Command& command) override {
    command.wanted_out = command.expected_out;
    buffer_ = scsi::take_buffer(command, command.expected_out, pool_);
    command.pull(buffer_.span(), [this, &command](std::error_code error) {
      if (!error) came_since.push_back(command.came_since());
      came_at.push_back(command.came_at);
      buffer_.reset();
      command.complete();
    });
  }
  std::vector<engine::TimePoint> came_since, came_at;

 private:
  engine::BufferPool& pool_;
  engine::Buffer buffer_;
};

/// Does each command in steps; the test says when one is over.
class SteppingDevice final : public PlainDevice {
 public:
  void execute(scsi::Command& command) override { at_work = &command; }
  void abort(scsi::Command&) override { ADD_FAILURE() << "it is not at work on anything"; }
  void step_over() {
    engine::IoCallback heard = [this](std::error_code error) { error ? finish() : void(++steps); };
    if (at_work->await_host(heard)) ++steps;
  }
  void finish() { std::exchange(at_work, nullptr)->complete(); }

  scsi::Command* at_work = nullptr;
  int steps = 0;
};

class CommandAge : public CoreSession {
 protected:
  CommandAge() {
    clock.advance(100s);
    resources.data_buffers = std::make_unique<iscsi_target::DataBuffers>(clock, pool);
    connect(device);
    Offers offers;
    offers.initial_r2t = false;
    log_in(offers);
  }
  ~CommandAge() override {
    taken.clear();
    end();
  }
  /// All of its data comes along.
  void send_write() { feed(write(kBytes, std::vector<std::byte>(kBytes))); }
  /// The same, and there is memory for what comes, but not for the command.
  void send_write_that_waits() {
    while (auto buffer = pool.allocate(kBytes)) taken.push_back(std::move(buffer));
    const auto bytes = write(kBytes, std::vector<std::byte>(kBytes));
    feed(std::span(bytes).first(kBhsSize));
    taken.pop_back();
    feed(std::span(bytes).subspan(kBhsSize));
  }
  void give_memory_back() {
    taken.clear();
    clock.advance(iscsi_target::DataBuffers::kLook);
    (void)gathered();
  }
  /// How often the target asks whether it is there, and is told.
  unsigned answer_pings() {
    unsigned asked = 0;
    for (const Bhs& header : answers()) {
      if (opcode_of(header_as<AnyHeader>(header).opcode) != Opcode::nop_in) continue;
      ++asked;
      auto nop = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
      nop.opcode |= kImmediate;
      nop.task_tag = kReservedTag;
      nop.transfer_tag = header_as<NopInHeader>(header).transfer_tag;
      nop.cmd_sn = cmd_sn.value();
      feed(pdu(bytes_of(nop)));
    }
    return asked;
  }

  std::vector<engine::Buffer> taken;
  AgeDevice device{pool};
};

TEST_F(CommandAge, WhatBeginsAtOnceHasNone) {
  send_write();
  (void)gathered();
  EXPECT_EQ(device.came_since, std::vector{engine::TimePoint{}});
}

TEST_F(CommandAge, AWriteThatWaitedForMemoryIsAsOldAsTheLastWordOfItsHost) {
  send_write_that_waits();
  const engine::TimePoint then = clock.now();
  unsigned asked = 0;
  for (int i = 0; i < 20; ++i) {
    clock.advance(iscsi_target::DataBuffers::kLook);
    for (const Bhs& header : answers()) asked += opcode_of(header_as<AnyHeader>(header).opcode) == Opcode::nop_in;
  }
  give_memory_back();
  EXPECT_EQ(device.came_since, std::vector{then});
  EXPECT_EQ(asked, 1u) << "once, until something comes";
}

TEST_F(CommandAge, AHostThatIsThereIsHeardAllTheTime) {
  send_write_that_waits();
  unsigned asked = 0;
  for (int i = 0; i < 20; ++i) {
    clock.advance(iscsi_target::DataBuffers::kLook);
    asked += answer_pings();
  }
  EXPECT_EQ(asked, 20u);
  const engine::TimePoint then = clock.now();
  give_memory_back();
  EXPECT_EQ(device.came_since, std::vector{then});
}

/// Not when it begins, nor when its host was last heard: a reset that came in between has ended it.
TEST_F(CommandAge, ItIsKnownWhenACommandCameThatWaited) {
  send_write_that_waits();
  const engine::TimePoint then = clock.now();
  for (int i = 0; i < 20; ++i) {
    clock.advance(iscsi_target::DataBuffers::kLook);
    (void)answer_pings();
  }
  give_memory_back();
  EXPECT_EQ(device.came_at, std::vector{then});
}

/// A command that takes many steps, and whose initiator has nothing to say meanwhile.
class LongCommand : public CoreSession {
 protected:
  LongCommand() {
    clock.advance(100s);
    connect(device);
    log_in({});
    feed(read(0));
    clock.advance(2s);
  }
  ~LongCommand() override {
    if (device.at_work) device.finish();
    end();
  }
  std::vector<std::byte> word() {
    auto nop = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
    nop.opcode |= kImmediate;
    nop.task_tag = kReservedTag;
    nop.cmd_sn = cmd_sn.value();
    return pdu(bytes_of(nop));
  }

  SteppingDevice device;
};

TEST_F(LongCommand, GoesOnWhenItsHostIsHeard) {
  device.step_over();
  EXPECT_EQ(device.steps, 0);
  expect_answers({Opcode::nop_in});
  feed(word());
  EXPECT_EQ(device.steps, 0) << "something else may have come with it";
  expect_answers({});
  EXPECT_EQ(device.steps, 1);
  device.step_over();
  EXPECT_EQ(device.steps, 2) << "it was heard a moment ago";
  clock.advance(1s);
  device.step_over();
  expect_answers({Opcode::nop_in});
  feed(word());
  expect_answers({});
  EXPECT_EQ(device.steps, 3);
}

TEST_F(LongCommand, IsEndedByAnAbortThatIsThereWhenItsHostIsHeard) {
  device.step_over();
  expect_answers({Opcode::nop_in});
  manage(scsi::TaskManagement::abort_task, tag);
  expect_answers({Opcode::task_management_response});
  EXPECT_EQ(device.at_work, nullptr);
  EXPECT_EQ(device.steps, 0);
}

TEST_F(LongCommand, IsEndedByAnotherSessionsReset) {
  device.step_over();
  bool quiesced = false;
  connection->quiesce({}, [&] { quiesced = true; });
  EXPECT_TRUE(quiesced);
  EXPECT_EQ(device.at_work, nullptr);
  expect_answers({Opcode::nop_in, Opcode::scsi_response});
}

/// Its host was heard in the same turn, and the reset came before the answer was told.
TEST_F(LongCommand, IsEndedByAnotherSessionsResetBeforeItGoesOn) {
  device.step_over();
  expect_answers({Opcode::nop_in});
  feed(word());
  bool quiesced = false;
  connection->quiesce({}, [&] { quiesced = true; });
  EXPECT_FALSE(quiesced);
  expect_answers({Opcode::scsi_response});
  EXPECT_TRUE(quiesced);
  EXPECT_EQ(device.at_work, nullptr);
  EXPECT_EQ(device.steps, 0);
}

TEST_F(LongCommand, EndsWithItsSession) {
  device.step_over();
  connection->reset("The test ends it.");
  EXPECT_EQ(device.at_work, nullptr);
  EXPECT_EQ(host->closed_count, 1);
  EXPECT_EQ(device.steps, 0);
}

}  // namespace
}  // namespace lockstep::test
