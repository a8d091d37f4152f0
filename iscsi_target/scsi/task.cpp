#include "iscsi_target/scsi/task.hpp"

#include <algorithm>
#include <cassert>
#include <memory>

namespace lockstep::iscsi_target {
namespace {

using scsi::SenseKey;
using scsi::Status;

void complete(Task& task, std::span<const std::byte> data = {}) {
  scsi::Command& command = task.command;
  TargetDevice& device = task.device;
  UnitUse* use = task.use;
  engine::Buffer buffer = std::move(task.buffer);
  --task.nexus.in_flight;
  if (use) --use->in_flight;
  std::destroy_at(&task);
  command.complete(data, std::move(buffer));
  if (use) device.finished(use);
}

void complete_without_buffer(Task& task) {
  task.buffer.reset();
  complete(task);
}

scsi::Sense plain(SenseKey key, scsi::AdditionalSense additional) { return {.key = key, .additional = additional}; }

scsi::Sense with_field(scsi::AdditionalSense additional, scsi::FieldPointer field) {
  return {.key = SenseKey::illegal_request, .additional = additional, .field = field};
}

bool is_read(const engine::DiskRequest& request) {
  return request.opcode == engine::DiskOpcode::read || request.opcode == engine::DiskOpcode::verify ||
         request.opcode == engine::DiskOpcode::find_run;
}

/// BUSY, when the nexus that has reserved is gone and its reservation soon will be.
void fail_conflict(Task& task) {
  const auto state = task.unit().state();
  const bool ends = state->reserved_by && task.unit().losses().has(*state->reserved_by);
  finish(task, ends ? Status::busy : Status::reservation_conflict);
}

/// Whatever came of it, the initiator may send it once more.
bool may_come_again(engine::DiskOpcode opcode) {
  return opcode != engine::DiskOpcode::compare_and_write && opcode != engine::DiskOpcode::change_state &&
         opcode != engine::DiskOpcode::renew_key;
}

void fail_disk(Task& task) {
  const engine::DiskRequest& request = task.request;
  if (request.status.category() != engine::error_category()) {
    return fail(task, is_read(request) ? plain(SenseKey::medium_error, scsi::asc::kUnrecoveredReadError)
                                       : plain(SenseKey::medium_error, scsi::asc::kWriteError));
  }
  switch (static_cast<engine::Errc>(request.status.value())) {
    case engine::Errc::not_serving: {
      // The disk may have changed its state between the check and now, and back again: never "accessible" here.
      const auto state = task.unit().access_state();
      return fail_not_accessible(
          task, state == engine::AccessState::transitioning ? state : engine::AccessState::unavailable);
    }
    case engine::Errc::io_error:
    case engine::Errc::corrupt:
      return fail(task, is_read(request) ? plain(SenseKey::medium_error, scsi::asc::kUnrecoveredReadError)
                                         : plain(SenseKey::medium_error, scsi::asc::kWriteError));
    case engine::Errc::no_space:
      return fail(task, plain(SenseKey::data_protect, scsi::asc::kSpaceAllocationFailedWriteProtect));
    case engine::Errc::miscompare:
      return fail(task, {.key = SenseKey::miscompare,
                         .additional = scsi::asc::kMiscompareDuringVerifyOperation,
                         .information = task.verified + request.miscompare_offset});
    case engine::Errc::out_of_range:
      return fail(task, plain(SenseKey::illegal_request, scsi::asc::kLogicalBlockAddressOutOfRange));
    case engine::Errc::resource_exhausted:
      return fail_out_of_buffers(task);
    case engine::Errc::timed_out:
      return fail(task, plain(SenseKey::aborted_command, scsi::asc::kCommandTimeoutDuringProcessing));
    case engine::Errc::reservation_conflict:
      return fail_conflict(task);
    case engine::Errc::write_protected:
      return fail(task, plain(SenseKey::data_protect, scsi::asc::kLogicalUnitSoftwareWriteProtected));
    case engine::Errc::not_ready:
      return fail(task, medium_sense(task.unit()));
    case engine::Errc::aborted:
      if (task.given_up) return finish(task, Status::task_aborted);
      [[fallthrough]];
    case engine::Errc::stale:
    case engine::Errc::unknown_outcome:
      // The disk dropped it by itself, or can't tell, be it given up for another nexus's reset. QEMU's initiator
      // repeats what finds the unit busy, and takes an aborted command for the disk's last word; others repeat that one
      // a few times only.
      if (may_come_again(request.opcode)) return finish(task, Status::busy);
      [[fallthrough]];
    default:
      return fail(task, plain(SenseKey::aborted_command, scsi::asc::kInternalTargetFailure));
  }
}

/// Whatever the error says, the change may be stored, and be put in force later.
void note_unanswered_change(Task& task) {
  const auto unit = std::ranges::find(task.nexus.units, task.use, &NexusUnit::use);
  if (unit != task.nexus.units.end()) unit->may_hold = true;
}

void on_disk_done(engine::DiskRequest& request) {
  Task& task = *static_cast<Task*>(request.owner);
  task.disk = nullptr;
  if (request.status) [[unlikely]] {
    if (request.opcode == engine::DiskOpcode::change_state) note_unanswered_change(task);
    if (!task.ignores_miscompare || request.status != engine::Errc::miscompare) return fail_disk(task);
  }
  task.step(task);
}

}  // namespace

void finish(Task& task, Status status) {
  task.command.status = status;
  complete_without_buffer(task);
}

void finish_with_data(Task& task, std::span<const std::byte> bytes, std::size_t allocation_length) {
  scsi::Command& command = task.command;
  const auto data = bytes.first(std::min(bytes.size(), allocation_length));
  command.status = Status::good;
  command.wanted_in = data.size();
  task.buffer.reset();
  complete(task, data.first(std::min<std::size_t>(data.size(), command.expected_in)));
}

void finish_with_buffer(Task& task, std::size_t bytes) {
  task.command.status = Status::good;
  complete(task, task.buffer.span().first(std::min<std::size_t>(bytes, task.command.expected_in)));
}

void fail(Task& task, const scsi::Sense& sense) {
  scsi::Command& command = task.command;
  const auto format = task.use ? task.unit().sense_format() : scsi::SenseFormat::fixed;
  command.status = Status::check_condition;
  command.sense_length = scsi::build_sense(sense, format, command.sense);
  command.wanted_in = 0;
  complete_without_buffer(task);
}

void fail_cdb(Task& task, std::uint16_t byte, std::int8_t bit) {
  fail(task, with_field(scsi::asc::kInvalidFieldInCdb, {.in_cdb = true, .byte = byte, .bit = bit}));
}

void fail_parameter(Task& task, std::uint16_t byte, std::int8_t bit) {
  fail(task, with_field(scsi::asc::kInvalidFieldInParameterList, {.in_cdb = false, .byte = byte, .bit = bit}));
}

scsi::Sense not_accessible(engine::AccessState state) {
  return plain(SenseKey::not_ready, state == engine::AccessState::transitioning
                                        ? scsi::asc::kLogicalUnitNotAccessibleAsymmetricAccessStateTransition
                                        : scsi::asc::kLogicalUnitNotAccessibleTargetPortInUnavailableState);
}

void fail_not_accessible(Task& task, engine::AccessState state) { fail(task, not_accessible(state)); }

void fail_out_of_buffers(Task& task) {
  task.command.wanted_in = 0;
  finish(task, task.nexus.in_flight > 1 ? Status::task_set_full : Status::busy);
}

bool expect_data_out(Task& task, std::uint64_t bytes) {
  task.command.wanted_out = bytes;
  if (task.command.expected_out == bytes) return true;
  fail(task, plain(SenseKey::illegal_request, scsi::asc::kInvalidFieldInCommandInformationUnit));
  return false;
}

bool take_buffer(Task& task, std::size_t bytes) {
  task.buffer = scsi::take_buffer(task.command, bytes, task.device.buffers());
  if (task.buffer) return true;
  fail_out_of_buffers(task);
  return false;
}

void fetch(Task& task, std::size_t bytes, Step then) {
  task.buffer = task.command.take(bytes);
  if (task.buffer) [[unlikely]]
    return then(task);
  if (take_buffer(task, bytes)) pull(task, bytes, then);
}

void pull(Task& task, std::size_t bytes, Step then) {
  assert(bytes <= task.buffer.size() && bytes <= task.command.expected_out);
  task.step = then;
  task.command.pull(task.buffer.span().first(bytes), [&task](std::error_code error) {
    // A dead command is owed its complete(), though nothing will be sent.
    if (error || is_given_up(task)) return finish(task, Status::task_aborted);
    task.step(task);
  });
}

bool is_given_up(const Task& task) { return task.given_up || task.command.aborted(); }

bool may_go_on(Task& task) {
  if (!is_given_up(task)) return true;
  finish(task, Status::task_aborted);
  return false;
}

bool may_go_on(Task& task, Step again) {
  if (!may_go_on(task)) return false;
  engine::IoCallback heard = [&task, again](std::error_code error) {
    if (error || is_given_up(task)) return finish(task, Status::task_aborted);
    again(task);
  };
  return task.command.await_host(heard);
}

void submit(Task& task, engine::DiskOpcode opcode, engine::Extent extent, std::span<std::byte> data, Step then) {
  task.step = then;
  engine::DiskRequest& request = task.request;
  request.opcode = opcode;
  request.extent = extent;
  request.data = data;
  request.nexus = task.nexus.nexus->id;
  request.port = &task.nexus.key;
  // A step of the unit's state says itself whom a reservation stops.
  request.access = opcode == engine::DiskOpcode::change_state ? scsi::AccessClass::unrestricted
                                                              : task.entry->access_of(task.command.cdb.data());
  request.came_since = task.command.came_since();
  request.command_came = task.command.came_at;
  request.status.clear();
  request.miscompare_offset = 0;
  request.owner = &task;
  request.done = on_disk_done;
  send(task, task.unit().disk());
}

void send(Task& task, engine::Disk& disk) {
  task.disk = &disk;
  disk.submit(task.request);
}

void change_state(Task& task, const scsi::LuRequest& request, Step then) {
  task.after_change = then;
  const auto bytes = request.encode();
  if (task.buffer.size() < bytes.size() && !take_buffer(task, scsi::kMaxLuRequest)) return;
  std::ranges::copy(bytes, task.buffer.data());
  submit(task, engine::DiskOpcode::change_state, {}, task.buffer.span(), [](Task& t) {
    const auto answer = scsi::LuAnswer::decode(t.buffer.span().first(t.request.transferred));
    if (!answer) return fail(t, plain(SenseKey::hardware_error, scsi::asc::kInternalTargetFailure));
    if (answer->status == Status::check_condition) return fail(t, answer->sense);
    if (answer->status == Status::good && t.after_change) return t.after_change(t);
    finish(t, answer->status);
  });
}

void hold_for_nexus(Task& task, scsi::LuRequestKind kind) {
  if (task.unit().losses().has(task.nexus.key)) [[unlikely]]
    return finish(task, Status::busy);
  change_state(task, task.unit().request(kind, task.nexus.key));
}

scsi::Sense medium_sense(const LogicalUnit& unit) {
  const auto state = unit.state();
  if (state->ejected) return plain(SenseKey::not_ready, scsi::asc::kMediumNotPresentTrayOpen);
  switch (state->sanitize.phase) {
    case scsi::SanitizeState::Phase::running:
      return {.key = SenseKey::not_ready,
              .additional = scsi::asc::kSanitizeInProgress,
              .progress = unit.sanitize_progress()};
    case scsi::SanitizeState::Phase::failed:
      return plain(SenseKey::medium_error, scsi::asc::kSanitizeCommandFailed);
    case scsi::SanitizeState::Phase::none:
      break;
  }
  return {};
}

}  // namespace lockstep::iscsi_target
