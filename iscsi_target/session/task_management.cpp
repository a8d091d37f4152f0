// Task management (RFC 7143 11.5) and the end of a session: both abort commands and wait until the device server has
// let go of them.
#include <algorithm>
#include <cassert>
#include <utility>

#include "iscsi_target/session/session.hpp"

namespace lockstep::iscsi_target {

using engine::Errc;
using iscsi::Serial;
using iscsi::TaskManagementResult;

namespace {

TaskManagementResult result_of(scsi::Managed what) {
  switch (what) {
    case scsi::Managed::complete:
      return TaskManagementResult::complete;
    case scsi::Managed::no_such_unit:
      return TaskManagementResult::lun_does_not_exist;
    case scsi::Managed::failed:
      break;
  }
  return TaskManagementResult::rejected;
}

}  // namespace

void Session::task_management(const iscsi::TaskManagementRequestHeader& header) {
  if (setup_.device_server == nullptr) return answer_management(header.task_tag, TaskManagementResult::not_supported);
  constexpr std::uint8_t kTaskReassign = 8;
  const std::uint8_t function = header.function & 0x7F;
  if (function == kTaskReassign) {
    return answer_management(header.task_tag, TaskManagementResult::reassignment_not_supported);
  }
  switch (static_cast<scsi::TaskManagement>(function)) {
    case scsi::TaskManagement::abort_task:
      return abort_task(header);
    case scsi::TaskManagement::abort_task_set:
    case scsi::TaskManagement::clear_task_set:
    case scsi::TaskManagement::logical_unit_reset:
    case scsi::TaskManagement::target_warm_reset:
    case scsi::TaskManagement::target_cold_reset:
      return manage_scope(header, static_cast<scsi::TaskManagement>(function));
    case scsi::TaskManagement::clear_aca:
      break;  // there is never one
  }
  answer_management(header.task_tag, TaskManagementResult::not_supported);
}

void Session::abort_task(const iscsi::TaskManagementRequestHeader& header) {
  const std::uint32_t tag = header.task_tag;
  SessionCommand* const command = slots_.find(header.referenced_tag);
  if (command != nullptr && (!command->is_completed || command->expects_data()) && command->lun == header.lun) {
    const std::uint64_t sequence = command->sequence;
    abort(*command);
    return await_abort(sequence, tag);
  }
  // RFC 7143 11.5.5: a command that has not come counts as come and aborted.
  const Serial referenced(header.ref_cmd_sn);
  const bool to_come =
      !referenced.before(exp_cmd_sn_) && !referenced.after(max_cmd_sn_) && referenced.before(Serial(header.cmd_sn));
  if (command == nullptr && to_come && skipped_.size() < kMaxTaskManagement) {
    if (std::find(skipped_.begin(), skipped_.end(), referenced) == skipped_.end()) skipped_.push_back(referenced);
    while (std::erase(skipped_, exp_cmd_sn_) != 0) ++exp_cmd_sn_;
    return answer_management(tag, TaskManagementResult::complete);
  }
  answer_management(tag, TaskManagementResult::task_does_not_exist);
}

// A host may abort all the commands that it has (ESXi does, each by itself), and no more than these are waited for. One
// that is aborted again is answered with the first time.
void Session::await_abort(std::uint64_t sequence, std::uint32_t tag) {
  const TaskScope scope{.units = std::nullopt, .sequence = sequence};
  auto done = [this, tag] { answer_management(tag, TaskManagementResult::complete); };
  const auto first =
      std::ranges::find_if(waiters_, [&](const Waiter& waiter) { return waiter.is_own && waiter.scope == scope; });
  if (first == waiters_.end()) return wait_for(scope, std::move(done));
  if (first->done.size() >= kMaxTaskManagement) return answer_management(tag, TaskManagementResult::rejected);
  first->done.push_back(std::move(done));
}

// RFC 7143 11.5.1 has a target reset reach every initiator's tasks, and a cold one end every session. Here it reaches
// what its initiator reaches: the logical units that it may access, as if each were reset by itself (SAM-5 7.6), and
// its own sessions. What hosts have on other units is none of its business.
void Session::manage_scope(const iscsi::TaskManagementRequestHeader& header, scsi::TaskManagement function) {
  using scsi::TaskManagement;
  const bool whole_target =
      function == TaskManagement::target_warm_reset || function == TaskManagement::target_cold_reset;
  const auto unit = setup_.device_server->unit_at(nexus_, header.lun);
  if (!whole_target && !unit) return answer_management(header.task_tag, TaskManagementResult::lun_does_not_exist);
  if (resets_ >= kMaxTaskManagement) return answer_management(header.task_tag, TaskManagementResult::rejected);
  TaskScope ours, others;
  others.units = whole_target ? setup_.device_server->units(nexus_) : std::vector{*unit};
  if (!whole_target) ours = others;
  ++resets_;
  const auto finish = [this, function, tag = header.task_tag.value(), lun = header.lun.value()] {
    if (ended_) return;
    auto done = [this, function, tag, life = std::weak_ptr<const char>(life_)](scsi::Managed result) {
      if (life.expired() || ended_) return;
      --resets_;
      answer_management(tag, result_of(result));
      if (function == TaskManagement::target_cold_reset) link_.reset_target();
    };
    setup_.device_server->manage(nexus_, function, lun, std::move(done));
  };
  abort_commands(ours);
  if (function == TaskManagement::abort_task_set) return wait_for(ours, finish);
  // The other sessions' first, then ours: each calls back when it has finished.
  const bool waits = link_.quiesce_others(others, [this, ours, finish, life = std::weak_ptr<const char>(life_)] {
    if (!life.expired()) wait_for(ours, finish);
  });
  if (waits) return;
  --resets_;
  answer_management(header.task_tag, TaskManagementResult::rejected);
}

bool Session::covers(const TaskScope& scope, const SessionCommand& command) const {
  if (scope.sequence && *scope.sequence != command.sequence) return false;
  if (!scope.units) return true;
  const auto unit = setup_.device_server->unit_at(nexus_, command.lun);
  return unit && std::ranges::find(*scope.units, *unit) != scope.units->end();
}

void Session::abort_commands(const TaskScope& scope) {
  for (std::size_t i = 0; i < slots_.capacity(); ++i) {
    SessionCommand* const command = slots_.at(i);
    if (command == nullptr || !covers(scope, *command)) continue;
    if (command->is_completed && !command->expects_data()) continue;  // its answer is on the way
    abort(*command);
  }
}

void Session::abort(SessionCommand& command) {
  if (std::exchange(command.is_aborted, true)) return;
  if (std::exchange(command.is_held, false)) {
    --held_;
    if (!command.cmd_sn.before(exp_cmd_sn_)) skipped_.push_back(command.cmd_sn);
  }
  if (command.is_waiting) stop_waiting(command);
  command.expect_no_data();
  if (command.pull_wanted && !command.is_deferred) return end_pull(command, make_error_code(Errc::aborted));
  if (command.is_executing) return give_up(command);
  finish_if_over(command);
}

// Tells the device server, which may complete the command at once. A pull that is under way ends with an error instead.
void Session::give_up(SessionCommand& command) {
  if (!command.is_executing || command.pull_wanted || std::exchange(command.is_given_up, true)) return;
  setup_.device_server->abort(command);
}

void Session::quiesce(const TaskScope& scope, engine::Callback<> done) {
  for (std::size_t i = 0; i < slots_.capacity(); ++i) {
    SessionCommand* const command = slots_.at(i);
    if (command == nullptr || !covers(scope, *command)) continue;
    if (command->is_waiting) {
      fail_unexecuted(*command, scsi::Status::task_aborted);
      continue;
    }
    if (!command->pull_wanted) {
      give_up(*command);
      continue;
    }
    command->is_broken = true;  // a pull that is deferred ends with an error, too
    command->broken_status = scsi::Status::task_aborted;
    command->expect_no_data();
    if (!command->is_deferred) end_pull(*command, make_error_code(Errc::aborted));
  }
  wait_for_another(scope, std::move(done));
}

void Session::answer_management(std::uint32_t task_tag, TaskManagementResult result) {
  if (ended_) return;
  auto header =
      iscsi::make_header<iscsi::TaskManagementResponseHeader>(iscsi::Opcode::task_management_response, iscsi::kFinal);
  header.response = static_cast<std::uint8_t>(result);
  header.task_tag = task_tag;
  add_control(bytes_of(header));
}

// Calls back when every command in `scope` that was there when it was called is completed.
void Session::wait_for(const TaskScope& scope, engine::Callback<> done) {
  waiters_.emplace_back(next_sequence_, scope).done.push_back(std::move(done));
  check_waiters();
}

// Others may ask for as much as they like, and each completed command looks at all that wait. So those that wait for
// the same are two at most: one, and all that came after it, which goes on taking more until that one is over.
void Session::wait_for_another(const TaskScope& scope, engine::Callback<> done) {
  const auto is_alike = [&](const Waiter& waiter) { return !waiter.is_own && waiter.scope == scope; };
  if (std::ranges::count_if(waiters_, is_alike) < 2) {
    waiters_.emplace_back(next_sequence_, scope, false).done.push_back(std::move(done));
  } else {
    Waiter& last = *std::ranges::find_if(waiters_.rbegin(), waiters_.rend(), is_alike);
    last.before = next_sequence_;
    last.done.push_back(std::move(done));
  }
  check_waiters();
}

bool Session::is_over(const Waiter& waiter) const {
  for (std::size_t i = 0; i < slots_.capacity(); ++i) {
    const SessionCommand* const command = slots_.at(i);
    if (command != nullptr && command->is_executing && command->sequence < waiter.before &&
        covers(waiter.scope, *command)) {
      return false;
    }
  }
  return true;
}

void Session::check_waiters() {
  for (std::size_t i = 0; i < waiters_.size();) {
    if (!is_over(waiters_[i])) {
      ++i;
      continue;
    }
    auto done = std::move(waiters_[i].done);
    waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(i));
    for (auto& each : done) each();
    i = 0;  // what they did may have changed anything
  }
}

void Session::end() {
  if (std::exchange(ended_, true)) return;
  transfers_.end();
  incoming_ = Incoming::discard;
  while (first_ready_ != nullptr) {
    Ready& item = *std::exchange(first_ready_, first_ready_->next_ready);
    item.is_ready = false;
    if (!item.is_command) forget(static_cast<Control&>(item));
  }
  while (first_deferred_ != nullptr) {
    std::exchange(first_deferred_, first_deferred_->next_deferred)->is_deferred = false;
  }
  for (std::size_t i = 0; i < slots_.capacity(); ++i) {
    SessionCommand* const command = slots_.at(i);
    if (command == nullptr) continue;
    if (command->is_aborted) {
      if (command->pull_wanted) {
        finish_pull(*command, make_error_code(Errc::aborted));
      } else {
        finish_if_over(*command);
      }
    } else {
      abort(*command);
    }
  }
  check_waiters();
  check_drained();
}

void Session::check_drained() {
  if (!ended_ || outstanding_ != 0 || std::exchange(told_drained_, true)) return;
  link_.drained();
}

}  // namespace lockstep::iscsi_target
