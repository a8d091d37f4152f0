// WRITE BUFFER and READ BUFFER (SPC-4 6.49, 6.18): data out and in again, for tests of what lies between. Their modes
// are rows of the command table; those that would bring microcode have none.
#include <algorithm>
#include <array>

#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

constexpr CdbField kBufferId{2, 1};
constexpr CdbField kOffset{3, 3};
constexpr std::size_t kSize = TestBuffers::kSize;

std::uint64_t field(const Task& task, CdbField where) { return read_field(task.command.cdb.data(), where); }

/// Buffer 0 is the only one.
bool check_place(Task& task) {
  if (field(task, kBufferId) != 0) {
    fail_cdb(task, kBufferId.offset);
  } else if (field(task, kOffset) > kSize) {
    fail_cdb(task, kOffset.offset);
  } else {
    return true;
  }
  return false;
}

/// Null: the unit went out of the nexus's view since the command began.
NexusUnit* nexus_unit(Task& task) {
  NexusUnit* const there = task.nexus.find(*decode_lun(task.command.lun));
  return there && there->use == task.use ? there : nullptr;
}

void store_data(Task& task) {
  task.unit().test_buffers().write_data(field(task, kOffset), task.buffer.span());
  finish(task);
}

void store_echo(Task& task) {
  task.unit().test_buffers().write_echo(task.nexus.nexus->id, task.buffer.span());
  if (NexusUnit* const there = nexus_unit(task)) there->has_echo = true;
  finish(task);
}

/// `room`: bytes that the buffer has for them.
void take_in(Task& task, std::size_t room, Step then) {
  if (task.length > room) return fail_cdb(task, task.entry->bytes.offset);
  if (!expect_data_out(task, task.length)) return;
  if (task.length == 0) return then(task);
  fetch(task, task.length, then);
}

void describe(Task& task, std::uint8_t first_byte, std::size_t size) {
  Reply reply;
  reply.be32(std::uint32_t{first_byte} << 24 | static_cast<std::uint32_t>(size));
  finish_with_data(task, reply.done(), task.length);
}

}  // namespace

void write_buffer_data(Task& task) {
  if (check_place(task)) take_in(task, kSize - field(task, kOffset), store_data);
}

void write_buffer_echo(Task& task) { take_in(task, kSize, store_echo); }

void read_buffer_data(Task& task) {
  if (!check_place(task)) return;
  std::array<std::byte, kSize> bytes;
  const std::size_t offset = field(task, kOffset);
  const auto wanted = std::span(bytes).first(std::min(task.length, kSize - offset));
  task.unit().test_buffers().read_data(offset, wanted);
  finish_with_data(task, wanted, task.length);
}

/// Any offset will do. A buffer that there is not has no size.
void read_buffer_descriptor(Task& task) { describe(task, 0x00, field(task, kBufferId) == 0 ? kSize : 0); }

void read_buffer_echo(Task& task) {
  if (const NexusUnit* const there = nexus_unit(task); !there || !there->has_echo) {
    return fail(task, {.key = scsi::SenseKey::illegal_request, .additional = scsi::asc::kCommandSequenceError});
  }
  std::array<std::byte, kSize> bytes;
  const auto size = task.unit().test_buffers().read_echo(task.nexus.nexus->id, bytes);
  if (!size) {
    return fail(task, {.key = scsi::SenseKey::aborted_command, .additional = scsi::asc::kEchoBufferOverwritten});
  }
  finish_with_data(task, std::span(bytes).first(*size), task.length);
}

void read_buffer_echo_descriptor(Task& task) {
  constexpr std::uint8_t kTellsOverwritten = 0x01;  // EBOS
  describe(task, kTellsOverwritten, kSize);
}

}  // namespace lockstep::iscsi_target::handlers
