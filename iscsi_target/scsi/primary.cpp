// Commands that say something about the unit's readiness.
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {

/// In a transition it is ready or not when the disk knows: what is read and written waits for as long.
void test_unit_ready(Task& task) {
  if (!task.use || task.unit().access_state() == engine::AccessState::active_optimized) return finish(task);
  submit(task, engine::DiskOpcode::check_access, {}, {}, finish_good);
}

/// SPC-4 6.39: what is pending is given as parameter data, with status GOOD.
void request_sense(Task& task) {
  scsi::Sense sense;
  if (!task.use && !task.well_known) {
    sense.key = scsi::SenseKey::illegal_request;
    sense.additional = scsi::asc::kLogicalUnitNotSupported;
  } else if (task.use) {
    auto& attentions = task.nexus.find(*decode_lun(task.command.lun))->attentions;
    const auto access = task.unit().access_state();
    if (const auto attention = attentions.take()) {
      sense = sense_of(*attention);
    } else if (access != engine::AccessState::active_optimized) {
      sense = not_accessible(access);
    } else {
      sense = medium_sense(task.unit());
    }
  }
  const auto format = task.cdb(1) & 0x01 ? scsi::SenseFormat::descriptor : scsi::SenseFormat::fixed;
  std::array<std::uint8_t, scsi::kMaxBuiltSense> bytes;
  const std::size_t size = scsi::build_sense(sense, format, bytes);
  finish_with_data(task, std::as_bytes(std::span(bytes).first(size)), task.length);
}

/// There are no defects to tell of: an empty list in the format that was asked for (SBC-3 5.18).
void read_defect_data(Task& task) {
  const bool twelve = task.entry->cdb_length == 12;
  Reply reply;
  reply.u8(0);
  reply.u8(twelve ? task.cdb(1) : task.cdb(2));
  reply.zeros(twelve ? 6 : 2);
  finish_with_data(task, reply.done(), task.length);
}

}  // namespace lockstep::iscsi_target::handlers
