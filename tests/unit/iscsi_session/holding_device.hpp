#pragma once
// A device server that holds what it was given until it is told otherwise, with a session in front of it.
#include <algorithm>
#include <utility>
#include <vector>

#include "tests/unit/iscsi_session/core_session.hpp"

namespace lockstep::test {

/// Pulls the data of writes and holds them then, until they are given up or told to end.
class HoldingDevice final : public PlainDevice {
 public:
  explicit HoldingDevice(engine::BufferPool& pool) : pool_(pool) {}
  void on_nexus_closed(scsi::Nexus&) override { EXPECT_TRUE(held.empty()); }
  void execute(scsi::Command& command) override {
    ++executed;
    std::erase(told_, &command);
    command.wanted_out = command.expected_out;
    buffer_ = pool_.allocate(4096);
    command.pull(buffer_.span().first(command.expected_out), [this, &command](std::error_code error) {
      if (error) return command.complete();
      held.push_back(&command);
    });
  }
  void abort(scsi::Command& command) override {
    ++given_up;
    EXPECT_EQ(std::ranges::count(held, &command), 1) << "not at work on it";
    EXPECT_EQ(std::ranges::count(told_, &command), 0) << "told twice";
    told_.push_back(&command);
    if (!ends_at_once) return;
    std::erase(held, &command);
    command.status = scsi::Status::task_aborted;
    command.complete();
  }
  void manage(scsi::Nexus&, scsi::TaskManagement, std::uint64_t, engine::Callback<scsi::Managed> done) override {
    if (!holds_resets) return done(scsi::Managed::complete);
    resets.push_back(std::move(done));
  }
  void release_one() {
    scsi::Command& command = *held.back();
    held.pop_back();
    command.complete();
  }
  void release_all() {
    for (scsi::Command* command : std::exchange(held, {})) command->complete();
  }

  std::vector<scsi::Command*> held;
  std::vector<engine::Callback<scsi::Managed>> resets;
  bool ends_at_once = true, holds_resets = false;
  int executed = 0, given_up = 0;

 private:
  engine::BufferPool& pool_;
  engine::Buffer buffer_;
  std::vector<scsi::Command*> told_;
};

class HoldingSession : public CoreSession {
 protected:
  HoldingSession() {
    connect(device);
    log_in({});
  }
  ~HoldingSession() override {
    connection->reset("The test is over.");
    device.release_all();
    connection.reset();
  }
  /// A write whose data is in, so that the device server is at work on it.
  std::uint32_t begin_write() {
    feed(write(512, std::vector<std::byte>(512)));
    (void)answers();
    return tag;
  }

  HoldingDevice device{pool};
};

}  // namespace lockstep::test
