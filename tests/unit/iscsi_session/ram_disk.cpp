#include "tests/unit/iscsi_session/ram_disk.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/byte_order.hpp"

namespace lockstep::test {

using engine::load_be;
using engine::store_be;

void RamDisk::execute(scsi::Command& command) {
  ++storage_.executed;
  new (command.server_state.data()) State{this, {}, 0, 0};
  const bool io = command.cdb[0] == 0x28 || command.cdb[0] == 0x88;
  if (io && storage_.hold) {
    held_.push_back(&command);
    ++storage_.held;
    return;
  }
  start(command);
}

void RamDisk::release_held() {
  for (scsi::Command* command : std::exchange(held_, {})) {
    --storage_.held;
    start(*command);
  }
  for (scsi::Command* command : std::exchange(held_writes_, {})) {
    --storage_.held;
    land(*command, {});
  }
}

void RamDisk::start(scsi::Command& command) {
  const std::uint8_t* cdb = command.cdb.data();
  if (command.lun != 0 && cdb[0] != 0xA0 && cdb[0] != 0x12) return fail(command, 5, 0x25);
  const std::uint64_t blocks = storage_.data.size() / kBlock;
  switch (cdb[0]) {
    case 0x00:
      return finish(command);
    case 0x12: {
      if (cdb[1] & 1) return fail(command, 5, 0x24);
      std::vector<std::uint8_t> inquiry(36, ' ');
      std::fill_n(inquiry.begin(), 8, std::uint8_t{0});
      inquiry[2] = 6, inquiry[3] = 2, inquiry[4] = 31, inquiry[7] = 2;
      std::memcpy(inquiry.data() + 8, "LOCKSTEPRAM DISK", 16);
      return reply(command, inquiry, load_be<std::uint16_t>(cdb + 3));
    }
    case 0x25: {
      std::vector<std::uint8_t> capacity(8);
      store_be<std::uint32_t>(capacity.data(), static_cast<std::uint32_t>(blocks - 1));
      store_be<std::uint32_t>(capacity.data() + 4, kBlock);
      return reply(command, capacity, 8);
    }
    case 0x9E: {
      std::vector<std::uint8_t> capacity(32);
      store_be<std::uint64_t>(capacity.data(), blocks - 1);
      store_be<std::uint32_t>(capacity.data() + 8, kBlock);
      return reply(command, capacity, load_be<std::uint32_t>(cdb + 10));
    }
    case 0xA0: {
      std::vector<std::uint8_t> luns(16);
      luns[3] = 8;
      return reply(command, luns, load_be<std::uint32_t>(cdb + 6));
    }
    case 0x28:
      return read(command, load_be<std::uint32_t>(cdb + 2), load_be<std::uint16_t>(cdb + 7));
    case 0x88:
      return read(command, load_be<std::uint64_t>(cdb + 2), load_be<std::uint32_t>(cdb + 10));
    case 0x2A:
      return write(command, load_be<std::uint32_t>(cdb + 2), load_be<std::uint16_t>(cdb + 7), false);
    case kLateWrite10:
      return write(command, load_be<std::uint32_t>(cdb + 2), load_be<std::uint16_t>(cdb + 7), true);
    case 0x8A:
      return write(command, load_be<std::uint64_t>(cdb + 2), load_be<std::uint32_t>(cdb + 10), false);
    default:
      return fail(command, 5, 0x20);
  }
}

void RamDisk::read(scsi::Command& command, std::uint64_t lba, std::uint32_t blocks) {
  const std::uint64_t all = storage_.data.size() / kBlock;
  if (lba > all || blocks > all - lba) return fail(command, 5, 0x21);
  const std::size_t length = std::size_t{blocks} * kBlock;
  command.wanted_in = length;
  if (length == 0) return finish(command);
  engine::Buffer buffer = scsi::take_buffer(command, length, pool_);
  if (!buffer) {
    command.status = scsi::Status::busy;
    return finish(command);
  }
  {
    const std::lock_guard lock(storage_.mutex);
    std::memcpy(buffer.data(), storage_.data.data() + lba * kBlock, length);
  }
  const auto data = buffer.span();
  finish(command, data, std::move(buffer));
}

void RamDisk::write(scsi::Command& command, std::uint64_t lba, std::uint32_t blocks, bool late) {
  const std::uint64_t all = storage_.data.size() / kBlock;
  if (lba > all || blocks > all - lba) return fail(command, 5, 0x21);
  State& state = state_of(command);
  state.offset = lba * kBlock;
  state.length = std::min<std::size_t>(std::size_t{blocks} * kBlock, command.expected_out);
  command.wanted_out = std::size_t{blocks} * kBlock;
  if (state.length == 0) return finish(command);
  state.buffer = scsi::take_buffer(command, state.length, pool_);
  if (!state.buffer) {
    command.status = scsi::Status::busy;
    return finish(command);
  }
  if (!late) return pull(command);
  reactor_.call_after(std::chrono::milliseconds(20), [&command] { pull(command); });
}

void RamDisk::pull(scsi::Command& command) {
  State& state = state_of(command);
  command.pull(state.buffer.span(), [&command](std::error_code error) { written(command, error); });
}

void RamDisk::written(scsi::Command& command, std::error_code error) {
  RamDisk& disk = *state_of(command).disk;
  if (error || !disk.storage_.hold_writes) return land(command, error);
  disk.held_writes_.push_back(&command);
  ++disk.storage_.held;
}

void RamDisk::land(scsi::Command& command, std::error_code error) {
  State& state = state_of(command);
  if (!error) {
    const std::lock_guard lock(state.disk->storage_.mutex);
    std::memcpy(state.disk->storage_.data.data() + state.offset, state.buffer.data(), state.length);
  }
  finish(command);
}

void RamDisk::fail(scsi::Command& command, std::uint8_t key, std::uint8_t asc, std::uint8_t ascq) {
  command.status = scsi::Status::check_condition;
  command.sense.fill(0);
  command.sense[0] = 0x70, command.sense[2] = key, command.sense[7] = 10;
  command.sense[12] = asc, command.sense[13] = ascq;
  command.sense_length = 18;
  finish(command);
}

void RamDisk::reply(scsi::Command& command, const std::vector<std::uint8_t>& bytes, std::size_t allocation) {
  const std::size_t length = std::min(bytes.size(), allocation);
  command.wanted_in = length;
  finish(command, std::as_bytes(std::span(bytes)).first(length));
}

void RamDisk::finish(scsi::Command& command, std::span<const std::byte> data, engine::Buffer buffer) {
  State& state = state_of(command);
  ++state.disk->storage_.completed;
  state.~State();
  command.complete(data, std::move(buffer));
}

}  // namespace lockstep::test
