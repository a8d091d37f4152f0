#include "iscsi_target/session/stream_transfers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "iscsi_target/session/session.hpp"

namespace lockstep::iscsi_target {

using engine::Buffer;
using iscsi::Opcode;
using iscsi::OutPdu;
using iscsi::RejectReason;

namespace {

constexpr std::uint16_t kIncorrectAmountOfData = 0x0C0D;  // RFC 7143 11.4.7.2
constexpr std::uint16_t kUnexpectedUnsolicitedData = 0x0C0C;

void set_data_piece(OutPdu& pdu, const SessionCommand& command, std::size_t offset, std::size_t length) {
  const std::span<const std::byte> prefix(command.copied.data(), command.prefix_length);
  if (offset >= prefix.size()) return pdu.set_data(command.data.subspan(offset - prefix.size(), length));
  const auto first = prefix.subspan(offset, std::min(length, prefix.size() - offset));
  pdu.set_data(first, command.data.first(length - first.size()));
}

}  // namespace

// ---- Data that comes ----

void StreamTransfers::begin(SessionCommand& command, bool is_final, std::uint32_t data_length) {
  if (!command.writes) return;
  // Nothing more may come when the immediate data is all there may be, whatever the F bit says.
  command.unsolicited_open = !is_final && data_length < unsolicited_end(command);
  if (data_length == 0) return;
  current_is_data_out_ = false;
  arrive(command, data_length);
}

bool StreamTransfers::data_out(const iscsi::DataOutHeader& header, std::uint32_t data_length) {
  const bool solicited = header.transfer_tag != iscsi::kReservedTag;
  SessionCommand* const command =
      solicited ? session_->find(header.transfer_tag, header.task_tag) : session_->find(header.task_tag);
  // Data of a task that was aborted, or has failed already, may still be on its way.
  if (command == nullptr || command->is_aborted || command->is_broken) return false;
  const bool expected = solicited ? command->r2t_outstanding != 0 : command->unsolicited_open;
  if (!expected) return session_->break_command(*command, kUnexpectedUnsolicitedData), false;
  if (solicited && header.lun != command->lun) {  // RFC 7143 11.7.4: reserved without a transfer tag
    session_->reject(RejectReason::protocol_error, bytes_of(header));
    return session_->break_command(*command, kIncorrectAmountOfData), false;
  }
  if (!follows(*command, header, data_length)) {
    return session_->break_command(*command, kIncorrectAmountOfData), false;
  }
  current_is_data_out_ = true;
  current_final_ = header.flags & iscsi::kFinal;
  arrive(*command, data_length);
  return true;
}

void StreamTransfers::arrive(SessionCommand& command, std::uint32_t data_length) {
  command.is_arriving = true;
  current_ = &command;
  current_base_ = command.received;
  current_length_ = data_length;
}

// The last of a sequence says so; unsolicited data may end earlier.
bool StreamTransfers::follows(const SessionCommand& command, const iscsi::DataOutHeader& header,
                              std::uint32_t data_length) const {
  const bool solicited = command.r2t_outstanding != 0;
  const std::uint32_t end = solicited ? command.sequence_end : unsolicited_end(command);
  if (header.data_sn != command.next_data_sn || header.buffer_offset != command.received) return false;
  if (command.received > end || data_length > end - command.received) return false;
  const bool last = header.flags & iscsi::kFinal;
  const bool complete = command.received + data_length == end;
  return last == complete || (last && !solicited);
}

std::uint32_t StreamTransfers::unsolicited_end(const SessionCommand& command) const {
  return std::min(command.expected_out, session_->parameters().first_burst);
}

std::span<std::byte> StreamTransfers::data_place(std::uint32_t offset) {
  if (current_ == nullptr) return {};
  SessionCommand& command = *current_;
  const std::uint32_t at = current_base_ + offset;
  if (command.stash_missing) return {};
  if (command.pull_wanted) return at < command.into.size() ? command.into.subspan(at) : std::span<std::byte>{};
  if (command.pulled || command.is_completed || command.is_aborted || command.is_broken) return {};
  return stash_place(command, at);
}

void StreamTransfers::data_ended() {
  if (current_ == nullptr) return;
  SessionCommand& command = *std::exchange(current_, nullptr);
  command.is_arriving = false;
  command.received += current_length_;
  session_->data_came(current_length_);
  if (current_is_data_out_) {
    ++command.next_data_sn;
    if (command.r2t_outstanding != 0) {
      if (current_final_) {
        --command.r2t_outstanding;
        command.next_data_sn = 0;
        command.sequence_end = std::min(command.sequence_end + session_->parameters().max_burst, command.r2t_asked);
      }
    } else if (current_final_) {
      command.unsolicited_open = false;
      command.next_data_sn = 0;
    }
  }
  if (command.is_aborted || command.is_completed) return session_->arrived_late(command);
  progress(command);
}

// ---- The stash ----

std::span<std::byte> StreamTransfers::stash_place(SessionCommand& command, std::uint32_t offset) {
  if (!command.stash) {
    const std::size_t size = unsolicited_end(command);
    if (stashed_ + size <= session_->settings().max_stash) command.stash = take_stash(command, size);
    if (!command.stash) {
      command.stash_missing = true;
      return {};
    }
    stashed_ += size;
  }
  return offset < command.stash.size() ? command.stash.span().subspan(offset) : std::span<std::byte>{};
}

Buffer StreamTransfers::take_stash(SessionCommand& command, std::size_t size) {
  SessionResources& resources = session_->resources();
  if (!resources.data_buffers) return resources.buffers.allocate(size);
  return resources.data_buffers->take_stash(session_->stash_claim_of(command), size);
}

void StreamTransfers::forget(SessionCommand& command) {
  if (!command.stash) return;
  stashed_ -= command.stash.size();
  command.stash.reset();
  give_stash_back(command);
}

void StreamTransfers::give_stash_back(SessionCommand& command) {
  SessionResources& resources = session_->resources();
  if (resources.data_buffers) resources.data_buffers->give_back(command.stash_claim);
}

Buffer StreamTransfers::take(SessionCommand& command, std::size_t bytes) {
  if (!command.stash || command.is_arriving || command.expects_data()) return {};
  if (bytes != command.expected_out || command.received != bytes || bytes > command.stash.size()) return {};
  if (session_->resources().data_buffers) {
    // The stash takes the place of the memory that was brought for the data, which goes back in the stash's: that keeps
    // the account right as long as both are blocks of one size.
    if (!command.data_buffer || command.claim.bytes != command.stash_claim.bytes) return {};
    command.data_buffer.reset();
  }
  stashed_ -= command.stash.size();
  Buffer taken = std::move(command.stash);
  give_stash_back(command);
  return taken;
}

// ---- Data that is wanted ----

void StreamTransfers::get(SessionCommand& command) {
  if (command.stash) {
    // What has not come yet of the segment under way is copied as it is and overwritten in place.
    const std::size_t have = command.received + (current_ == &command ? current_length_ : 0);
    const std::size_t n = std::min({have, command.into.size(), command.stash.size()});
    if (n != 0) std::memcpy(command.into.data(), command.stash.data(), n);
    forget(command);
  }
  if (command.received >= command.into.size() && !command.stash_missing) return session_->defer(command, {});
  progress(command);
}

// Called when more data is there, or wanted.
void StreamTransfers::progress(SessionCommand& command) {
  if (!command.pull_wanted || command.is_deferred) return;
  if (command.stash_missing) {
    if (command.unsolicited_open || command.is_arriving) return;
    // From the start: an initiator has a write's data until it has the status.
    command.stash_missing = false;
    command.received = 0;
  }
  if (command.received >= command.into.size()) return session_->finish_pull(command, {});
  if (command.unsolicited_open || command.is_arriving) return;
  if (command.r2t_asked == 0) command.r2t_asked = command.received;
  session_->make_ready(command);
}

bool StreamTransfers::ask(SessionCommand& command, iscsi::PduSender& queue) {
  const auto size = static_cast<std::uint32_t>(command.into.size());
  const iscsi::Parameters& agreed = session_->parameters();
  while (command.pull_wanted && command.r2t_asked < size && command.r2t_outstanding < agreed.max_outstanding_r2t) {
    if (queue.size() >= kMaxQueuedPdus) return false;
    auto header = iscsi::make_header<iscsi::R2tHeader>(Opcode::r2t, iscsi::kFinal);
    header.lun = command.lun;
    header.task_tag = command.task_tag;
    header.transfer_tag = command.transfer_tag;
    const Session::Numbers numbers = session_->numbers();
    header.stat_sn = numbers.stat_sn;
    header.exp_cmd_sn = numbers.exp_cmd_sn;
    header.max_cmd_sn = numbers.max_cmd_sn;
    header.r2t_sn = command.r2t_count++;
    header.buffer_offset = command.r2t_asked;
    const std::uint32_t length = std::min(agreed.max_burst, size - command.r2t_asked);
    header.desired_length = length;
    command.r2t_asked += length;
    if (command.r2t_outstanding++ == 0) command.sequence_end = command.r2t_asked;
    OutPdu& pdu = queue.make();
    pdu.set_header(header);
    queue.push(pdu);
  }
  return true;
}

bool StreamTransfers::abandon(SessionCommand&) { return false; }

// ---- Data that leaves ----

Transfers::Put StreamTransfers::put(SessionCommand& command, iscsi::PduSender& queue) {
  const std::uint32_t total = command.data_in_total();
  const std::uint32_t burst = session_->parameters().max_burst;
  const bool collapses = command.sense_length == 0 && command.status == scsi::Status::good;
  while (command.data_sent < total) {
    if (queue.size() >= kMaxQueuedPdus) return Put::no_room;
    const std::uint32_t at = command.data_sent;
    const std::uint32_t sequence_left = burst - at % burst;
    const std::uint32_t length = std::min({total - at, sequence_left, session_->parameters().max_send});
    const bool last = at + length == total;
    auto header = iscsi::make_header<iscsi::DataInHeader>(Opcode::scsi_data_in);
    if (last || length == sequence_left) header.flags = iscsi::kFinal;
    header.lun = command.lun;
    header.task_tag = command.task_tag;
    header.transfer_tag = iscsi::kReservedTag;
    header.data_sn = command.data_sn++;
    header.buffer_offset = at;
    OutPdu& pdu = queue.make();
    set_data_piece(pdu, command, at, length);
    command.data_sent += length;
    if (last && collapses) {
      session_->encode_status_with_data(command, header, pdu);
      queue.push(pdu);
      return Put::with_status;
    }
    const Session::Numbers numbers = session_->numbers();
    header.exp_cmd_sn = numbers.exp_cmd_sn;
    header.max_cmd_sn = numbers.max_cmd_sn;
    pdu.set_header(header);
    queue.push(pdu);
  }
  return Put::data_only;
}

// ---- The end ----

void StreamTransfers::end() {
  if (SessionCommand* const command = std::exchange(current_, nullptr)) command->is_arriving = false;
}

}  // namespace lockstep::iscsi_target
