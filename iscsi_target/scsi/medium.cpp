// The medium: started, stopped, ejected, loaded, kept in. Only a removable one leaves.
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

constexpr std::uint8_t kPowerCondition = 0xF0;  // of START STOP UNIT's byte 4
constexpr std::uint8_t kNoFlush = 0x04;
constexpr std::uint8_t kLoadEject = 0x02;
constexpr std::uint8_t kStart = 0x01;

void eject(Task& task) {
  if (!may_go_on(task)) return;
  change_state(task, task.unit().request(scsi::LuRequestKind::eject, task.nexus.key));
}

}  // namespace

/// There are no power conditions, and no stopped state is kept: one initiator's STOP must not take a shared volume away
/// from the others. What STOP must do to the data, it does: the cache is flushed.
void start_stop_unit(Task& task) {
  const std::uint8_t options = task.cdb(4);
  if (options & kPowerCondition) return finish(task);  // SBC-3 5.25: START and LOEJ are ignored then
  const bool moves = (options & kLoadEject) && task.unit().info().removable;
  if (options & kStart) {
    if (!moves) return finish(task);
    return change_state(task, task.unit().request(scsi::LuRequestKind::load, task.nexus.key));
  }
  const Step then = moves ? eject : Step([](Task& t) { finish(t); });
  if (options & kNoFlush) return then(task);
  submit(task, engine::DiskOpcode::flush, {}, {}, then);
}

void prevent_allow_medium_removal(Task& task) {
  if (!task.unit().info().removable) return finish(task);
  if (task.cdb(4) & 0x01) return hold_for_nexus(task, scsi::LuRequestKind::prevent);
  change_state(task, task.unit().request(scsi::LuRequestKind::allow, task.nexus.key));
}

}  // namespace lockstep::iscsi_target::handlers
