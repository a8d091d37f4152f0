// What a session sends: R2T, Data-In, status, and the control PDUs, each encoded when there is room for it, so that
// sequence numbers and the window are those of the moment.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/scsi/sense.hpp"
#include "iscsi_target/session/session.hpp"

namespace lockstep::iscsi_target {

using iscsi::Opcode;
using iscsi::OutPdu;
using iscsi::PduSender;
using iscsi::Serial;

namespace {

struct Residual {
  std::uint8_t flags = 0;
  std::uint32_t count = 0;
  std::uint32_t bidi_count = 0;
};

struct Difference {
  bool over = false, under = false;
  std::uint32_t count = 0;
};

Difference difference(std::uint64_t wanted, std::uint64_t expected) {
  if (wanted > expected)
    return {true, false, static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted - expected, UINT32_MAX))};
  return {false, wanted < expected, static_cast<std::uint32_t>(expected - wanted)};
}

// RFC 7143 11.4.5: what the command wanted to move against what the initiator expected.
Residual residual_of(const SessionCommand& command) {
  const std::uint64_t given = command.prefix_length + command.data.size();
  const auto in = difference(given > command.expected_in               ? std::max(command.wanted_in, given)
                             : command.wanted_in > command.expected_in ? command.wanted_in
                                                                       : given,
                             command.expected_in);
  const auto out = difference(command.wanted_out, command.expected_out);
  Residual residual;
  const Difference& main = command.writes ? out : command.reads || in.over ? in : out;
  residual.flags = main.over ? iscsi::kOverflow : main.under ? iscsi::kUnderflow : 0;
  residual.count = main.count;
  if (command.writes && command.reads) {
    residual.flags |= in.over ? iscsi::kBidiOverflow : in.under ? iscsi::kBidiUnderflow : 0;
    residual.bidi_count = in.count;
  }
  return residual;
}

void apply_breakage(SessionCommand& command) {
  command.status = command.broken_status;
  command.data = {};
  command.prefix_length = 0;
  command.wanted_in = command.wanted_out = 0;
  command.sense_length = 0;
  if (command.status != scsi::Status::check_condition) return;
  const scsi::Sense sense{.key = scsi::SenseKey::aborted_command,
                          .additional = {static_cast<std::uint8_t>(command.broken_sense >> 8),
                                         static_cast<std::uint8_t>(command.broken_sense)}};
  command.sense_length = scsi::build_sense(sense, scsi::SenseFormat::fixed, command.sense);
}

}  // namespace

void Session::make_ready(Ready& item) {
  if (std::exchange(item.is_ready, true)) return;
  item.next_ready = nullptr;
  (first_ready_ == nullptr ? first_ready_ : last_ready_->next_ready) = &item;
  last_ready_ = &item;
  link_.want_send();
}

void Session::encode(PduSender& queue) {
  run_deferred();
  while (first_ready_ != nullptr && !ended_ && !said_last_word_) {
    Ready& item = *first_ready_;
    if (queue.size() >= kMaxQueuedPdus) return;
    if (item.is_command && !encode_command(static_cast<SessionCommand&>(item), queue)) return;
    if (first_ready_ != &item) continue;  // the connection came to its end meanwhile
    first_ready_ = item.next_ready;
    item.is_ready = false;
    if (!item.is_command) {
      encode_control(static_cast<Control&>(item), queue);
    } else {
      auto& command = static_cast<SessionCommand&>(item);
      if (!command.status_encoded) finish_if_over(command);
    }
  }
}

// False when there was no room for all of it.
bool Session::encode_command(SessionCommand& command, PduSender& queue) {
  if (command.is_aborted) return true;
  if (!command.is_completed) return command.is_letting_go || transfers_.ask(command, queue);
  // What is coming in for it lands on it still; the segment's end puts it in the list again.
  if (command.expects_data() || command.is_arriving) return true;
  if (command.is_broken && command.data_sent == 0) apply_breakage(command);
  if (command.data_sent < command.data_in_total()) {
    const Transfers::Put put = transfers_.put(command, queue);
    if (put != Transfers::Put::data_only) return put == Transfers::Put::with_status;
  }
  if (queue.size() >= kMaxQueuedPdus) return false;
  encode_status(command, queue);
  return true;
}

void Session::encode_status_with_data(SessionCommand& command, iscsi::DataInHeader& header, OutPdu& last) {
  const Residual residual = residual_of(command);
  header.flags |= iscsi::kDataInStatus | residual.flags;
  header.status = static_cast<std::uint8_t>(command.status);
  header.residual = residual.count;
  status_leaves(command, last);
  stamp(header);
  ++stat_sn_;
  last.set_header(header);
}

void Session::encode_status(SessionCommand& command, PduSender& queue) {
  const Residual residual = residual_of(command);
  auto header = iscsi::make_header<iscsi::ScsiResponseHeader>(Opcode::scsi_response, iscsi::kFinal);
  header.flags |= residual.flags;
  header.response = static_cast<std::uint8_t>(iscsi::ScsiResponseCode::completed);
  header.status = static_cast<std::uint8_t>(command.status);
  header.task_tag = command.task_tag;
  header.residual = residual.count;
  header.bidi_residual = residual.bidi_count;
  header.exp_data_sn = command.data_sn + command.r2t_count;
  OutPdu& pdu = queue.make();
  status_leaves(command, pdu);
  stamp(header);
  ++stat_sn_;
  pdu.set_header(header);
  if (command.sense_length != 0) {
    std::array<std::byte, 2 + scsi::kMaxSense> segment;
    engine::ByteWriter out(segment);
    out.be16(static_cast<std::uint16_t>(command.sense_length));
    out.bytes(std::as_bytes(std::span(command.sense)).first(command.sense_length));
    pdu.copy_data(out.written());
  }
  transfers_.answering(command, pdu);
  queue.push(pdu);
}

// The command is answered: its window place and its tag are free, itself it stays until the last byte is gone.
void Session::status_leaves(SessionCommand& command, OutPdu& last) {
  leave_window(command);
  last.owner = &command;
  last.done = [](void* owner, bool) {
    auto& gone = *static_cast<SessionCommand*>(owner);
    gone.session->release(gone);
  };
}

// It stays, and counts, until its PDU is gone: what is encoded takes as much memory as what waits for that.
void Session::encode_control(Control& control, PduSender& queue) {
  auto header = iscsi::header_as<iscsi::NopInHeader>(control.header);  // the numbers stand at one place in all of them
  stamp(header);
  if (control.takes_stat_sn) ++stat_sn_;
  OutPdu& pdu = queue.make();
  pdu.set_header(header);
  pdu.set_data(control.data);
  pdu.owner = &control;
  pdu.done = [](void* owner, bool) {
    auto& gone = *static_cast<Control*>(owner);
    gone.session->forget(gone);
  };
  const bool closes = control.closes;
  queue.push(pdu);
  if (!closes) return;
  said_last_word_ = true;
  link_.close_gently("The initiator logged out.");
}

void Session::forget(Control& control) {
  --control_backlog_;
  control_bytes_ -= control.data.size();
  delete &control;
}

Session::Numbers Session::numbers() { return {stat_sn_.value(), exp_cmd_sn_.value(), window_end().value()}; }

template <class T>
void Session::stamp(T& header) {
  header.stat_sn = stat_sn_.value();
  header.exp_cmd_sn = exp_cmd_sn_.value();
  header.max_cmd_sn = window_end().value();
}

// What was once promised is never taken back. While memory is short the window narrows, so that initiators wait at
// their own side; never to nothing, since only an answer can open it again.
Serial Session::window_end() {
  const bool is_short = waiting_ != 0 || resources_.buffers.in_use() > resources_.buffers.capacity() / 8 * 7;
  const std::uint32_t depth = std::min(settings_.queue_depth, is_short ? kNarrowWindow : kMaxQueueDepth);
  const std::uint32_t room = depth > window_used_ ? depth - window_used_ : 0;
  const Serial end = exp_cmd_sn_ + std::min(room, transfers_.receive_credit()) - 1;
  if (end.after(max_cmd_sn_)) max_cmd_sn_ = end;
  return max_cmd_sn_;
}

}  // namespace lockstep::iscsi_target
