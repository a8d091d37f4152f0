// Commands that say something about the unit's readiness.
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {

void test_unit_ready(Task& task) { finish(task); }

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
      sense.key = scsi::SenseKey::unit_attention;
      sense.additional = additional_sense(*attention);
    } else if (access != engine::AccessState::active_optimized) {
      sense = not_accessible(access);
    }
  }
  const auto format = task.cdb(1) & 0x01 ? scsi::SenseFormat::descriptor : scsi::SenseFormat::fixed;
  std::array<std::uint8_t, scsi::kMaxBuiltSense> bytes;
  const std::size_t size = scsi::build_sense(sense, format, bytes);
  finish_with_data(task, std::as_bytes(std::span(bytes).first(size)), task.length);
}

/// There are no power conditions, and no stopped state is kept: one initiator's STOP must not take a shared volume away
/// from the others. What STOP must do to the data, it does: the cache is flushed.
void start_stop_unit(Task& task) {
  if (task.cdb(4) & 0x01) return finish(task);
  submit(task, engine::DiskOpcode::flush, {}, {}, [](Task& t) { finish(t); });
}

/// The medium is not removable: preventing and allowing make no difference.
void prevent_allow_medium_removal(Task& task) { finish(task); }

}  // namespace lockstep::iscsi_target::handlers
