#include "iscsi_target/session/session.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "iscsi_target/session/send_targets.hpp"

namespace lockstep::iscsi_target {

using iscsi::header_as;
using iscsi::kReservedTag;
using iscsi::Opcode;
using iscsi::RejectReason;
using iscsi::Serial;

Session::Session(SessionSetup setup, const SessionSettings& settings, SessionResources& resources,
                 const TargetDirectory& directory, SessionLink& link, Transfers& transfers)
    : setup_(std::move(setup)),
      settings_(settings),
      resources_(resources),
      directory_(directory),
      link_(link),
      transfers_(transfers),
      slots_(std::min(settings.queue_depth, kMaxQueueDepth) + kImmediateSlots),
      stat_sn_(setup_.stat_sn),
      exp_cmd_sn_(setup_.exp_cmd_sn),
      max_cmd_sn_(setup_.exp_cmd_sn + (setup_.window - 1)) {
  nexus_.id = setup_.nexus_id;
  nexus_.initiator_name = setup_.who.initiator_name;
  nexus_.isid = setup_.who.isid;
  nexus_.target_name = setup_.who.target_name;
  if (setup_.target) nexus_.target_portal_group = setup_.target->portal_group;
  heard();
  transfers_.start(*this);
  if (setup_.device_server == nullptr) return;
  setup_.device_server->on_nexus_opened(nexus_);
  if (resources_.data_buffers) resources_.data_buffers->join(*this, setup_.who.initiator_name, setup_.address);
}

Session::~Session() {
  assert(ended_ && outstanding_ == 0 && alive_ == 0);
  if (setup_.device_server == nullptr) return;
  if (resources_.data_buffers) resources_.data_buffers->leave(*this);
  setup_.device_server->on_nexus_closed(nexus_);
}

void Session::on_header(const iscsi::Bhs& header, std::span<const std::byte> ahs, std::uint32_t data_length) {
  incoming_ = Incoming::discard;
  if (logging_out_) return;  // nothing follows a logout request
  const auto any = header_as<iscsi::AnyHeader>(header);
  switch (iscsi::opcode_of(any.opcode)) {
    case Opcode::scsi_command:
      return begin_command(header, ahs, data_length);
    case Opcode::scsi_data_out:
      if (transfers_.data_out(header_as<iscsi::DataOutHeader>(header), data_length)) incoming_ = Incoming::command_data;
      return;
    case Opcode::nop_out:
    case Opcode::text_request:
    case Opcode::logout_request:
    case Opcode::task_management_request:
      return begin_control(header, data_length);
    case Opcode::snack_request:
      return reject(RejectReason::snack_reject, header);
    case Opcode::login_request:
      reject(RejectReason::protocol_error, header);
      return link_.close_gently("The initiator sent a login request in a session that had begun.");
    default:
      return reject(RejectReason::command_not_supported, header);
  }
}

std::span<std::byte> Session::data_place(std::uint32_t offset) {
  if (incoming_ == Incoming::command_data) return transfers_.data_place(offset);
  if (incoming_ != Incoming::control || offset >= control_data_.size()) return {};
  return std::span(control_data_).subspan(offset);
}

void Session::on_pdu() {
  const Incoming was = std::exchange(incoming_, Incoming::nothing);
  if (was == Incoming::control) return run_control();
  if (was == Incoming::command_data) transfers_.data_ended();
}

Session::Turn Session::take_cmd_sn(const iscsi::AnyHeader& header, Serial cmd_sn) {
  if (header.opcode & iscsi::kImmediate) return Turn::now;
  if (cmd_sn.before(exp_cmd_sn_) || cmd_sn.after(max_cmd_sn_)) return Turn::never;
  if (std::find(skipped_.begin(), skipped_.end(), cmd_sn) != skipped_.end()) return Turn::never;
  if (held_ != 0 && is_held(cmd_sn)) return Turn::never;  // RFC 7143 4.2.2.1: duplicates are ignored silently
  if (cmd_sn != exp_cmd_sn_) return Turn::later;
  ++exp_cmd_sn_;
  while (std::erase(skipped_, exp_cmd_sn_) != 0) ++exp_cmd_sn_;
  return Turn::now;
}

bool Session::is_held(Serial cmd_sn) const {
  for (std::size_t i = 0; i < slots_.capacity(); ++i) {
    const SessionCommand* const command = slots_.at(i);
    if (command != nullptr && command->is_held && command->cmd_sn == cmd_sn) return true;
  }
  return false;
}

void Session::begin_control(const iscsi::Bhs& header, std::uint32_t data_length) {
  const auto nop = header_as<iscsi::NopOutHeader>(header);  // CmdSN stands at the same place in all of these
  switch (take_cmd_sn(header_as<iscsi::AnyHeader>(header), Serial(nop.cmd_sn))) {
    case Turn::never:
      return;
    case Turn::later:
      reject(RejectReason::protocol_error, header);
      return link_.close_gently("The initiator left out a command number.");
    case Turn::now:
      break;
  }
  std::size_t keep = 0;
  if (iscsi::opcode_of(nop.opcode) == Opcode::nop_out) {
    keep = std::min<std::size_t>(data_length, setup_.parameters.max_send);
  } else if (iscsi::opcode_of(nop.opcode) == Opcode::text_request) {
    keep = data_length;
  }
  incoming_ = Incoming::control;
  control_header_ = header;
  control_data_.resize(keep);
}

void Session::run_control() {
  switch (iscsi::opcode_of(header_as<iscsi::AnyHeader>(control_header_).opcode)) {
    case Opcode::nop_out:
      nop_out(header_as<iscsi::NopOutHeader>(control_header_));
      break;
    case Opcode::text_request:
      text_request(header_as<iscsi::TextRequestHeader>(control_header_));
      break;
    case Opcode::logout_request:
      logout_request(header_as<iscsi::LogoutRequestHeader>(control_header_));
      break;
    default:
      task_management(header_as<iscsi::TaskManagementRequestHeader>(control_header_));
      break;
  }
  control_data_ = {};
  start_held();
}

void Session::nop_out(const iscsi::NopOutHeader& header) {
  if (header.task_tag == kReservedTag) return;  // an answer to our ping: that it came is enough
  auto reply = iscsi::make_header<iscsi::NopInHeader>(Opcode::nop_in, iscsi::kFinal);
  reply.lun = header.lun;
  reply.task_tag = header.task_tag;
  reply.transfer_tag = kReservedTag;
  add_control(bytes_of(reply), control_data_);
}

void Session::ping() {
  auto header = iscsi::make_header<iscsi::NopInHeader>(Opcode::nop_in, iscsi::kFinal);
  header.task_tag = kReservedTag;
  header.transfer_tag = next_ping_++ & 0x7FFFFFFF;
  add_control(bytes_of(header)).takes_stat_sn = false;
}

// What waits for a word of the initiator goes on when all that has come is told: that may end it.
void Session::heard() {
  heard_at_ = resources_.clock.now();
  if (awaiting_host_ == 0) [[likely]]
    return;
  for (std::size_t i = 0; i < slots_.capacity(); ++i) {
    SessionCommand* const command = slots_.at(i);
    if (command != nullptr && command->awaits_host && !command->is_deferred) defer(*command, {});
  }
}

// A command that waits here is as old as the last word of its initiator, which may be gone without one.
void Session::ask_whether_it_is_there() {
  if (asked_at_ > heard_at_) return;
  asked_at_ = resources_.clock.now();
  ping();
}

void Session::request_logout(std::uint16_t seconds) {
  auto header = iscsi::make_header<iscsi::AsyncMessageHeader>(Opcode::async_message, iscsi::kFinal);
  header.task_tag = kReservedTag;
  header.event = static_cast<std::uint8_t>(iscsi::AsyncEvent::logout_request);
  header.parameter3 = seconds;
  add_control(bytes_of(header));
}

void Session::reject(RejectReason reason, const iscsi::Bhs& bad) {
  auto header = iscsi::make_header<iscsi::RejectHeader>(Opcode::reject, iscsi::kFinal);
  header.reason = static_cast<std::uint8_t>(reason);
  header.task_tag = kReservedTag;
  add_control(bytes_of(header), bad);
}

Session::Control& Session::add_control(const iscsi::Bhs& header, std::span<const std::byte> data) {
  auto* const control = new Control;  // not on the data path; bounded by kMaxControlBacklog
  control->session = this;
  control->header = header;
  control->data.assign(data.begin(), data.end());
  ++control_backlog_;
  control_bytes_ += data.size();
  make_ready(*control);
  if (control_backlog_ == kMaxControlBacklog) {
    link_.close_gently("The initiator sends requests without taking our answers.");
  }
  return *control;
}

void Session::text_request(const iscsi::TextRequestHeader& header) {
  const std::uint32_t tag = header.transfer_tag;
  if (tag == kReservedTag) {
    text_in_.clear();
    text_out_.start({});
    text_tag_ = kReservedTag;
  } else if (tag != text_tag_) {
    return reject(RejectReason::invalid_pdu_field, control_header_);
  }
  if (tag != kReservedTag && !text_out_.finished() && control_data_.empty()) return send_text_piece(header);
  if (!text_in_.append(control_data_)) return reject(RejectReason::protocol_error, control_header_);
  if (header.flags & iscsi::kContinue) return send_text_piece(header);
  const std::string whole = text_in_.take();
  const auto pairs = iscsi::parse_text(whole);
  if (!pairs) return reject(RejectReason::protocol_error, control_header_);
  const TextContext context{directory_, setup_.who, setup_.target.get(), link_.local_address()};
  text_out_.start(answer_text(*pairs, context, setup_.parameters));
  send_text_piece(header);
}

void Session::send_text_piece(const iscsi::TextRequestHeader& header) {
  const auto piece = text_out_.next(setup_.parameters.max_send);
  const bool last = !piece.more && (header.flags & iscsi::kFinal) && !(header.flags & iscsi::kContinue);
  auto reply = iscsi::make_header<iscsi::TextResponseHeader>(Opcode::text_response);
  reply.flags = last ? iscsi::kFinal : piece.more ? iscsi::kContinue : 0;
  reply.lun = header.lun;
  reply.task_tag = header.task_tag;
  text_tag_ = last ? kReservedTag : 1;
  reply.transfer_tag = text_tag_;
  add_control(bytes_of(reply), std::as_bytes(std::span(piece.text)));
}

void Session::logout_request(const iscsi::LogoutRequestHeader& header) {
  const auto reason = static_cast<iscsi::LogoutReason>(header.reason & 0x7F);
  const std::uint32_t tag = header.task_tag;
  if (reason > iscsi::LogoutReason::remove_connection) return reject(RejectReason::invalid_pdu_field, control_header_);
  if (reason == iscsi::LogoutReason::remove_connection) {
    return answer_logout(tag, iscsi::LogoutResult::recovery_not_supported);
  }
  if (reason == iscsi::LogoutReason::close_connection && header.cid != setup_.who.cid) {
    return answer_logout(tag, iscsi::LogoutResult::cid_not_found);
  }
  log_out(tag);
}

// RFC 7143 11.14.1: the session's commands are ended. The initiator may write to the same blocks by another session as
// soon as it is told, so that it is told when none of this one's commands can take effect any more.
void Session::log_out(std::uint32_t task_tag) {
  logging_out_ = true;
  abort_commands({});
  wait_for({}, [this, task_tag] { answer_logout(task_tag, iscsi::LogoutResult::closed); });
}

void Session::answer_logout(std::uint32_t task_tag, iscsi::LogoutResult result) {
  if (ended_) return;
  auto reply = iscsi::make_header<iscsi::LogoutResponseHeader>(Opcode::logout_response, iscsi::kFinal);
  reply.response = static_cast<std::uint8_t>(result);
  reply.task_tag = task_tag;
  reply.time2wait = static_cast<std::uint16_t>(setup_.parameters.time2wait);
  reply.time2retain = 0;
  add_control(bytes_of(reply)).closes = result == iscsi::LogoutResult::closed;
}

}  // namespace lockstep::iscsi_target
