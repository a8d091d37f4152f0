// Commands that change reservations, persistent (SPC-4 6.16) and SPC-2's. What they mean is in engine/scsi; here they
// become steps of the unit's state.
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

void send_reserve_out(Task& task) {
  scsi::LuRequest request = task.unit().request(scsi::LuRequestKind::reserve_out, task.nexus.key);
  request.service_action = task.cdb(1) & kServiceActionMask;
  request.scope_and_type = task.cdb(2);
  request.target_ports =
      static_cast<std::uint16_t>(task.unit().paired() ? 0b110 : 1u << task.unit().settings().port_group);
  request.may_persist = task.unit().info().persistent_state;
  const auto list = task.buffer.span().first(task.length);
  request.parameters.assign(list.begin(), list.end());
  change_state(task, request);
}

}  // namespace

void reserve(Task& task) { hold_for_nexus(task, scsi::LuRequestKind::reserve); }
void release(Task& task) { change_state(task, task.unit().request(scsi::LuRequestKind::release, task.nexus.key)); }

void persistent_reserve_out(Task& task) {
  if (task.length > scsi::kMaxLuParameters) {
    return fail(task, {.key = scsi::SenseKey::illegal_request, .additional = scsi::asc::kParameterListLengthError});
  }
  if (!expect_data_out(task, task.length)) return;
  if (task.length == 0) return send_reserve_out(task);
  if (!take_buffer(task, scsi::kMaxLuRequest)) return;
  pull(task, task.length, send_reserve_out);
}

}  // namespace lockstep::iscsi_target::handlers
