#pragma once
// A logical unit of memory that takes its time: READ(10), WRITE(10), and INQUIRY, whose data lies in no buffer.
#include <cstring>
#include <vector>

#include "tests/unit/iscsi_session/core_session.hpp"

namespace lockstep::test {

class MemoryDevice final : public PlainDevice {
 public:
  MemoryDevice(engine::Clock& clock, engine::BufferPool& pool, SeededRandom& random, std::size_t bytes)
      : storage(bytes), clock_(clock), pool_(pool), random_(random) {}

  void execute(scsi::Command& command) override {
    const std::uint8_t opcode = command.cdb[0];
    if (opcode == 0x2A) return write(command);
    if (opcode == 0x28) return read(command);
    command.wanted_in = 36;
    const std::vector<std::byte> inquiry(36, std::byte{0x49});
    if (opcode == 0x12)
      return command.complete(std::span(inquiry).first(std::min<std::size_t>(36, command.expected_in)));
    command.wanted_in = 0;
    command.status = scsi::Status::check_condition;
    command.sense_length = 96;
    command.complete();
  }
  void abort(scsi::Command&) override {}

  std::vector<std::byte> storage;
  std::size_t taken = 0, pulled = 0, failed = 0;  // writes
  bool holds = false;                             // writes are not ended any more
  std::vector<scsi::Command*> held;

 private:
  struct State {
    MemoryDevice* device;
    engine::Buffer buffer;
  };
  static State& state_of(scsi::Command& command) { return *reinterpret_cast<State*>(command.server_state.data()); }
  std::span<std::byte> place(scsi::Command& command) {
    const auto lba = engine::load_be<std::uint32_t>(&command.cdb[2]);
    const auto blocks = engine::load_be<std::uint16_t>(&command.cdb[7]);
    return std::span(storage).subspan(std::size_t{lba} * 512, std::size_t{blocks} * 512);
  }
  void later(engine::Callback<> work) {
    clock_.call_after(std::chrono::microseconds(random_.below(200)), std::move(work));
  }

  void write(scsi::Command& command) {
    const std::size_t bytes = place(command).size();
    command.wanted_out = bytes;
    State& state = *new (command.server_state.data()) State{this, command.take(bytes)};
    if (state.buffer) {
      ++taken;
      return arrived(command);
    }
    state.buffer = scsi::take_buffer(command, bytes, pool_);
    if (!state.buffer) return finish(command, scsi::Status::busy);
    ++pulled;
    command.pull(state.buffer.span().first(bytes), [this, &command](std::error_code error) {
      failed += error ? 1 : 0;
      error ? finish(command, scsi::Status::task_aborted) : arrived(command);
    });
  }
  void arrived(scsi::Command& command) {
    if (holds) return held.push_back(&command);
    later([this, &command] {
      std::memcpy(place(command).data(), state_of(command).buffer.data(), place(command).size());
      finish(command, scsi::Status::good);
    });
  }
  void read(scsi::Command& command) {
    const std::size_t bytes = place(command).size();
    command.wanted_in = bytes;
    new (command.server_state.data()) State{this, scsi::take_buffer(command, bytes, pool_)};
    if (!state_of(command).buffer) return finish(command, scsi::Status::busy);
    later([this, &command, bytes] {
      engine::Buffer buffer = std::move(state_of(command).buffer);
      std::memcpy(buffer.data(), place(command).data(), bytes);
      const auto data = buffer.span().first(bytes);
      command.complete(data, std::move(buffer));
    });
  }

 public:
  void finish(scsi::Command& command, scsi::Status status) {
    state_of(command).buffer.reset();
    command.status = status;
    command.complete();
  }

 private:
  engine::Clock& clock_;
  engine::BufferPool& pool_;
  SeededRandom& random_;
};

}  // namespace lockstep::test
