#pragma once
// One command while the device server works on it. Lives in Command::server_state; handlers end it with one of the
// functions below, each of which completes the command and destroys the task: nothing of it may be touched afterwards.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/disk.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/command.hpp"
#include "engine/scsi/sense.hpp"
#include "iscsi_target/scsi/command_table.hpp"
#include "iscsi_target/scsi/target_device.hpp"

namespace lockstep::iscsi_target {

using Step = void (*)(Task&);

/// Bytes of memory for a command that goes through its blocks piece by piece.
constexpr std::size_t kPiece = std::size_t{1} << 20;

struct Task {
  scsi::Command& command;
  TargetDevice& device;
  NexusState& nexus;
  UnitUse* use = nullptr;  ///< null: no unit at this LUN; only for handlers of entries marked kWithoutUnit
  const CommandEntry* entry = nullptr;
  std::uint64_t lba = 0;  ///< checked against the capacity, with `blocks`
  std::uint64_t blocks = 0;
  std::size_t length = 0;  ///< allocation length or parameter list length
  engine::Buffer buffer{};
  engine::DiskRequest request{};
  engine::Disk* disk = nullptr;     ///< that has `request`; null: none has
  Step step = nullptr;              ///< what follows the pull or the disk request under way
  Step after_change = nullptr;      ///< what follows a change of the unit's state that was answered with GOOD
  std::uint32_t cursor = 0;         ///< for the handler
  std::uint32_t count = 0;          ///< for the handler
  engine::Extent left{};            ///< for the handler
  std::uint64_t verified = 0;       ///< bytes of the command that requests before this one compared
  SanitizeClaim claim{};            ///< of SANITIZE, until the unit's state says so and it is begun
  bool well_known = false;          ///< addressed to the REPORT LUNS well known logical unit
  bool ignores_miscompare = false;  ///< the disk's answer is asked for, but not what it found
  bool given_up = false;            ///< TargetDevice::abort() was called

  [[nodiscard]] LogicalUnit& unit() const { return *use->unit; }
  [[nodiscard]] std::uint8_t cdb(std::size_t i) const { return command.cdb[i]; }
  [[nodiscard]] engine::Extent extent() const { return {lba << unit().block_shift(), blocks << unit().block_shift()}; }
};
static_assert(sizeof(Task) <= sizeof(scsi::Command::server_state));
static_assert(alignof(Task) <= 16);

// The ways to end a task.
void finish(Task& task, scsi::Status status = scsi::Status::good);
inline void finish_good(Task& task) { finish(task); }  ///< as a step
/// `bytes` (at most 4 KiB), cut to `allocation_length`, which the residual count is based on.
void finish_with_data(Task& task, std::span<const std::byte> bytes, std::size_t allocation_length);
/// The first `bytes` of task.buffer, as far as the initiator takes them.
void finish_with_buffer(Task& task, std::size_t bytes);
void fail(Task& task, const scsi::Sense& sense);
/// INVALID FIELD IN CDB with a pointer to the field's most significant bit.
void fail_cdb(Task& task, std::uint16_t byte, std::int8_t bit = 7);
/// INVALID FIELD IN PARAMETER LIST.
void fail_parameter(Task& task, std::uint16_t byte, std::int8_t bit = 7);
void fail_not_accessible(Task& task, engine::AccessState state);
/// BUSY, or TASK SET FULL when other commands of this nexus will free what is missing.
void fail_out_of_buffers(Task& task);

/// The initiator must be about to send exactly `bytes`; otherwise the task is failed with INVALID FIELD IN COMMAND
/// INFORMATION UNIT, nothing is transferred, and false is returned.
[[nodiscard]] bool expect_data_out(Task& task, std::uint64_t bytes);
/// Takes a buffer of `bytes`, or fails the task and returns false.
[[nodiscard]] bool take_buffer(Task& task, std::size_t bytes);
/// Has the write data, which is `bytes` long, in task.buffer, then takes the step, perhaps inside; or fails the task.
void fetch(Task& task, std::size_t bytes, Step then);
/// Brings in the first `bytes` of the write data, to task.buffer, which may have room for more; then takes the step.
void pull(Task& task, std::size_t bytes, Step then);
/// Nothing more of the command is to begin: it was aborted, or a reset ends it.
[[nodiscard]] bool is_given_up(const Task& task);
/// Asked before every disk operation of a task but its first. False: the command was given up meanwhile, and the task
/// has been ended. Its initiator may have gone on through the other node: what began now could land on what it has
/// written there since.
[[nodiscard]] bool may_go_on(Task& task);
/// The same of a command that takes many steps and has all of its data. False, too, when its initiator has been silent:
/// the step `again` follows when it is heard.
[[nodiscard]] bool may_go_on(Task& task, Step again);
/// Has `disk` carry out task.request, as it stands; until its `done` the disk is told when the command is given up.
void send(Task& task, engine::Disk& disk);
/// Has the unit's disk do it, then takes the step; a failure ends the task.
void submit(Task& task, engine::DiskOpcode opcode, engine::Extent extent, std::span<std::byte> data, Step then);
/// Has the disk carry out a step of the unit's state, which replaces what is in task.buffer; its answer ends the task,
/// unless it is GOOD and something follows.
void change_state(Task& task, const scsi::LuRequest& request, Step then = nullptr);
/// The same for what ends with the nexus. BUSY, while an earlier one of the same names owes its loss: made later, that
/// would end this, too.
void hold_for_nexus(Task& task, scsi::LuRequestKind kind);
/// Why there is nothing to read or write: no medium, sanitizing. NO SENSE when there is.
[[nodiscard]] scsi::Sense medium_sense(const LogicalUnit& unit);

[[nodiscard]] scsi::Sense not_accessible(engine::AccessState state);

}  // namespace lockstep::iscsi_target
