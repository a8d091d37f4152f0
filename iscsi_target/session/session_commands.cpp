// Commands and their data: from the SCSI Command PDU to the device server's complete().
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/iscsi/ahs.hpp"
#include "iscsi_target/session/session.hpp"

namespace lockstep::iscsi_target {

using engine::Errc;
using iscsi::RejectReason;
using iscsi::Serial;

namespace {

void copy_cdb(SessionCommand& command, const iscsi::ScsiCommandHeader& header, std::span<const std::byte> extended) {
  std::memcpy(command.cdb.data(), header.cdb.data(), header.cdb.size());
  if (extended.empty()) return;
  std::memcpy(command.cdb.data() + header.cdb.size(), extended.data(), extended.size());
  command.cdb_length = header.cdb.size() + extended.size();
}

}  // namespace

std::optional<RejectReason> Session::refuse_command(const iscsi::ScsiCommandHeader& header, bool ahs_good,
                                                    std::uint32_t data_length) const {
  if (setup_.device_server == nullptr) return RejectReason::command_not_supported;
  if (!ahs_good || header.task_tag == iscsi::kReservedTag) return RejectReason::invalid_pdu_field;
  if (slots_.find(header.task_tag) != nullptr) return RejectReason::task_in_progress;
  if (!data_fits_agreement(header, data_length)) return RejectReason::protocol_error;
  if ((header.opcode & iscsi::kImmediate) && immediate_used_ == kImmediateSlots) {
    return RejectReason::immediate_command_reject;
  }
  if (slots_.full()) return RejectReason::long_operation_reject;
  return std::nullopt;
}

bool Session::data_fits_agreement(const iscsi::ScsiCommandHeader& header, std::uint32_t data_length) const {
  const bool writes = header.flags & iscsi::kWrite;
  const bool more = writes && !(header.flags & iscsi::kFinal);
  if (data_length != 0) {
    if (!writes || !setup_.parameters.immediate_data) return false;
    if (data_length > std::min<std::uint32_t>(header.expected_length, setup_.parameters.first_burst)) return false;
  }
  return !more || !setup_.parameters.initial_r2t;
}

void Session::begin_command(const iscsi::Bhs& bytes, std::span<const std::byte> ahs, std::uint32_t data_length) {
  const auto header = iscsi::header_as<iscsi::ScsiCommandHeader>(bytes);
  const bool immediate = header.opcode & iscsi::kImmediate;
  const Serial cmd_sn(header.cmd_sn);
  const Turn turn = take_cmd_sn(iscsi::header_as<iscsi::AnyHeader>(bytes), cmd_sn);
  if (turn == Turn::never) return;
  const auto additional = iscsi::parse_ahs(ahs);
  if (const auto refusal = refuse_command(header, additional.has_value(), data_length)) {
    if (turn == Turn::later) skipped_.push_back(cmd_sn);
    return reject(*refusal, bytes);
  }

  SessionCommand& command = resources_.commands.get();
  ++alive_;
  ++(immediate ? immediate_used_ : window_used_);
  command.session = this;
  command.sequence = next_sequence_++;
  command.task_tag = header.task_tag;
  command.cmd_sn = cmd_sn;
  command.is_immediate = immediate;
  command.reads = header.flags & iscsi::kRead;
  command.writes = header.flags & iscsi::kWrite;
  copy_cdb(command, header, additional->extended_cdb);
  command.lun = header.lun;
  command.attribute = static_cast<scsi::TaskAttribute>(header.flags & iscsi::kAttributeMask);
  command.expected_out = command.writes ? header.expected_length.value() : 0;
  command.expected_in = command.writes ? additional->bidi_read_length.value_or(0) : header.expected_length.value();
  if (!command.reads) command.expected_in = 0;
  command.came_at = heard_at_;
  command.nexus = &nexus_;
  transfers_.begin(command, header.flags & iscsi::kFinal, data_length);
  slots_.insert(command);
  if (data_length != 0) incoming_ = Incoming::command_data;
  if (turn == Turn::later) {
    command.is_held = true;
    ++held_;
    return;
  }
  start(command);
  start_held();
}

void Session::start(SessionCommand& command) {
  const std::size_t bytes = resources_.data_buffers ? setup_.device_server->data_bytes(command) : 0;
  // Data that has come in a buffer of its own is taken as it is.
  const bool is_there = command.holds_message && command.received == command.expected_out && bytes <= command.received;
  if (bytes != 0 && !is_there) {
    command.claim.member = this;
    command.claim.owner = &command;
    command.data_buffer = resources_.data_buffers->take_or_wait(command.claim, bytes);
    if (command.claim.state != FairShare::Claim::State::granted) [[unlikely]]
      return put_off(command);
  }
  execute(command);
}

void Session::execute(SessionCommand& command) {
  command.is_executing = true;
  ++outstanding_;
  setup_.device_server->execute(command);
}

// Commands that came before their turn, now that the ones before them have come.
void Session::start_held() {
  for (bool found = held_ != 0; found;) {
    found = false;
    for (std::size_t i = 0; i < slots_.capacity() && held_ != 0 && !ended_; ++i) {
      SessionCommand* const command = slots_.at(i);
      if (command == nullptr || !command->is_held) continue;
      // Passed over when the numbers before it were all aborted unseen: its turn has come as well.
      if (command->cmd_sn.after(exp_cmd_sn_)) continue;
      if (command->cmd_sn == exp_cmd_sn_) {
        ++exp_cmd_sn_;
        while (std::erase(skipped_, exp_cmd_sn_) != 0) ++exp_cmd_sn_;
      }
      command->is_held = false;
      --held_;
      found = true;
      start(*command);
    }
  }
}

void Session::arrived_late(SessionCommand& command) {
  if (command.is_aborted) return finish_if_over(command);
  if (!command.expects_data()) make_ready(command);
}

Session::Waiting Session::oldest_waiting() const {
  Waiting oldest;
  for (std::size_t i = 0; i < slots_.capacity(); ++i) {
    const SessionCommand* const command = slots_.at(i);
    if (command == nullptr || command->is_aborted) continue;
    if (!command->expects_data() && !command->is_held && command->reads_under_way == 0) continue;
    if (oldest.sequence == 0 || command->sequence < oldest.sequence) oldest = {command->sequence, command->received};
  }
  return oldest;
}

void Session::break_command(SessionCommand& command, std::uint16_t additional_sense) {
  command.broken_sense = additional_sense;
  break_command(command, scsi::Status::check_condition);
}

void Session::break_command(SessionCommand& command, scsi::Status status) {
  command.is_broken = true;
  command.broken_status = status;
  command.expect_no_data();
  if (command.is_completed) return make_ready(command);
  if (command.pull_wanted && !command.is_deferred) end_pull(command, make_error_code(Errc::corrupt));
}

void Session::drop_stash(SessionCommand& command) {
  if (command.stash || command.holds_message) transfers_.forget(command);
}

void Session::pull_begun(SessionCommand& command) {
  if (ended_ || command.is_aborted) return defer(command, make_error_code(Errc::aborted));
  if (command.is_broken) return defer(command, make_error_code(Errc::corrupt));
  transfers_.get(command);
}

// The pull ends with an error as soon as nothing writes to its memory: with the error the device server gives it back.
void Session::end_pull(SessionCommand& command, std::error_code error) {
  if (ended_) return finish_pull(command, error);
  if (command.is_letting_go) return;
  command.pull_error = error;
  command.is_letting_go = transfers_.abandon(command);
  if (!command.is_letting_go) finish_pull(command, error);
}

void Session::let_go(SessionCommand& command) {
  assert(command.is_letting_go && command.pull_wanted);
  finish_pull(command, command.pull_error);
}

void Session::finish_pull(SessionCommand& command, std::error_code error) {
  command.pull_wanted = false;
  if (std::exchange(command.awaits_host, false)) --awaiting_host_;
  command.is_letting_go = false;
  auto done = std::exchange(command.pull_done, nullptr);
  done(error);
}

bool Session::was_heard_lately() const { return resources_.clock.now() - heard_at_ < kHeardLately; }

void Session::host_awaited() {
  ++awaiting_host_;
  ask_whether_it_is_there();
}

// pull() never calls back from inside: the answer waits until the end of the turn.
void Session::defer(SessionCommand& command, std::error_code error) {
  assert(!command.is_deferred);
  command.is_deferred = true;
  command.pull_error = error;
  command.next_deferred = nullptr;
  (first_deferred_ == nullptr ? first_deferred_ : last_deferred_->next_deferred) = &command;
  last_deferred_ = &command;
  link_.want_send();
}

void Session::run_deferred() {
  while (first_deferred_ != nullptr) {
    SessionCommand& command = *std::exchange(first_deferred_, first_deferred_->next_deferred);
    command.is_deferred = false;
    if (command.pull_wanted) {
      if (command.is_aborted && !command.pull_error) command.pull_error = make_error_code(Errc::aborted);
      if (command.is_broken && !command.pull_error) command.pull_error = make_error_code(Errc::corrupt);
      finish_pull(command, command.pull_error);
    } else {
      finish_if_over(command);
    }
  }
}

void Session::completed(SessionCommand& command) {
  --outstanding_;
  drop_stash(command);
  if (!command.buffer) give_back_memory(command);
  if (ended_) command.is_aborted = true;
  if (command.is_aborted) {
    finish_if_over(command);
  } else if (!command.expects_data() && !command.is_arriving) {
    make_ready(command);
  }
  if (!waiters_.empty()) check_waiters();
  if (ended_) check_drained();
}

// An aborted command goes as soon as nobody needs it any more.
void Session::finish_if_over(SessionCommand& command) {
  if (!command.is_aborted || command.is_executing || command.is_ready || command.is_deferred) return;
  assert(!command.is_waiting);
  if (command.is_arriving) return;
  leave_window(command);
  release(command);
}

void Session::leave_window(SessionCommand& command) {
  assert(!command.status_encoded);
  command.status_encoded = true;
  --(command.is_immediate ? immediate_used_ : window_used_);
  slots_.erase(command);
}

void Session::release(SessionCommand& command) {
  assert(command.status_encoded && !command.is_executing && !command.is_ready && !command.is_deferred);
  assert(!command.is_arriving);
  drop_stash(command);
  command.buffer.reset();
  give_back_memory(command);
  --alive_;
  resources_.commands.put(command);
}

}  // namespace lockstep::iscsi_target
