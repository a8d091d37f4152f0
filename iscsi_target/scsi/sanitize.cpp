// SANITIZE (SBC-4 5.30): the list is checked, the unit's state says that it runs, and the device does it.
#include <utility>

#include "engine/base/byte_order.hpp"
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/sanitizer.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

using Method = scsi::SanitizeState::Method;

constexpr std::uint8_t kImmediate = 0x80;  // of byte 1
constexpr std::uint8_t kUnrestrictedExit = 0x20;
constexpr std::uint8_t kExitFailureMode = 0x1F;
constexpr std::size_t kListHeader = 4;
constexpr std::uint8_t kInvert = 0x80;  // of the list's byte 0
constexpr std::uint8_t kPasses = 0x1F;

/// Claimed before the state says that it runs: whoever sees that first must not begin it in our place, for this command
/// is answered when it is over.
void start(Task& task, scsi::SanitizeState what) {
  task.claim = task.unit().claim_sanitizing();
  if (!task.claim) {
    return fail(task, {.key = scsi::SenseKey::not_ready,
                       .additional = scsi::asc::kSanitizeInProgress,
                       .progress = task.unit().sanitize_progress()});
  }
  what.unrestricted_exit = task.cdb(1) & kUnrestrictedExit;
  scsi::LuRequest request = task.unit().request(scsi::LuRequestKind::sanitize, task.nexus.key);
  request.sanitize = std::move(what);
  change_state(task, request, [](Task& t) {
    if (t.cdb(1) & kImmediate) {
      Sanitizer::start(t.device, *t.use, std::move(t.claim));
      return finish(t);
    }
    Sanitizer::start(t.device, *t.use, std::move(t.claim), &t);
  });
}

void start_overwrite(Task& task) {
  const auto list = task.buffer.span().first(task.length);
  const auto options = std::to_integer<std::uint8_t>(list[0]);
  const std::size_t pattern = engine::load_be<std::uint16_t>(&list[2]);
  scsi::SanitizeState what{.method = Method::overwrite, .passes = static_cast<std::uint8_t>(options & kPasses)};
  what.invert = options & kInvert;
  if (what.passes == 0 || pattern == 0 || pattern > task.unit().block_size() || pattern + kListHeader != list.size()) {
    return fail_cdb(task, 7);  // libiscsi's suite wants the CDB to be blamed, and so do SBC-3's words on the length
  }
  what.pattern.assign(list.begin() + kListHeader, list.end());
  start(task, std::move(what));
}

}  // namespace

void sanitize(Task& task) {
  const std::uint8_t action = task.cdb(1) & kServiceActionMask;
  if (action == static_cast<std::uint8_t>(Method::overwrite)) {
    if (task.length <= kListHeader || task.length > kListHeader + task.unit().block_size()) return fail_cdb(task, 7);
    if (!expect_data_out(task, task.length) || !take_buffer(task, scsi::kMaxLuRequest)) return;
    return pull(task, task.length, start_overwrite);
  }
  if (task.length != 0) return fail_cdb(task, 7);
  if (action == kExitFailureMode) {
    return change_state(task, task.unit().request(scsi::LuRequestKind::exit_failure_mode, task.nexus.key));
  }
  start(task, {.method = static_cast<Method>(action)});
}

}  // namespace lockstep::iscsi_target::handlers
