#include "iscsi_target/session/iser_transfers.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/copy_bytes.hpp"
#include "iscsi_target/session/session.hpp"
#include "iscsi_target/session/session_command.hpp"

namespace lockstep::iscsi_target {

using engine::Buffer;
using iser::Fault;
using rdma::Remote;

namespace {

constexpr std::size_t kMostWithStatus = 4096;  // bytes of data in an answer's own PDU

// All that is sent for it beside its prefix.
void use_buffer(SessionCommand& command, Buffer buffer) {
  command.prefix_length = command.data_prefix.size();
  command.data = buffer.span();
  command.buffer = std::move(buffer);
}

}  // namespace

void IserTransfers::start(Session& session) {
  session_ = &session;
  transport_.begin_session(*this, session.setup().device_server != nullptr);
}

// ---- Data that comes ----

void IserTransfers::begin(SessionCommand& command, bool, std::uint32_t data_length) {
  command.tagged = transport_.tagged();
  if (data_length == 0) return;
  command.stash = transport_.take_data();
  command.holds_message = true;
  command.received = data_length;
  session_->data_came(data_length);
}

bool IserTransfers::data_out(const iscsi::DataOutHeader&, std::uint32_t) {
  transport_.fail(Fault::unexpected_data);
  return false;
}

Buffer IserTransfers::take(SessionCommand& command, std::size_t bytes) {
  // What was brought for a command that needs more than its data is there to be used.
  if (!command.stash || command.data_buffer || bytes != command.expected_out || command.received != bytes) return {};
  ++transport_.figures().eager;
  return std::move(command.stash);
}

void IserTransfers::forget(SessionCommand& command) {
  command.stash.reset();
  if (std::exchange(command.holds_message, false)) transport_.give_data_back();
}

void IserTransfers::get(SessionCommand& command) {
  command.r2t_asked = static_cast<std::uint32_t>(std::min<std::size_t>(command.received, command.into.size()));
  if (command.stash) {
    engine::copy_bytes(command.stash.span().first(command.r2t_asked), command.into);
    transport_.figures().copied.immediate_prefix += command.r2t_asked;
    forget(command);
  }
  if (command.r2t_asked == command.into.size()) return session_->defer(command, {});
  if (!command.tagged.write) return transport_.fail(Fault::no_place);
  session_->make_ready(command);
}

// The address stands for what does not come with the command (as Linux has it), unless the initiator has said that it
// is that of all.
bool IserTransfers::ask(SessionCommand& command, iscsi::PduSender&) {
  if (!command.pull_wanted || command.is_deferred || !command.tagged.write) return true;
  const auto into = place_of(command);
  if (into.empty()) return false;
  const std::size_t skipped = session_->parameters().tagged_is_advanced ? command.received : 0;
  while (command.r2t_asked < command.into.size()) {
    const std::size_t bytes = std::min(command.into.size() - command.r2t_asked, transport_.max_message());
    const Remote from{command.tagged.write->address + command.r2t_asked - skipped, command.tagged.write->key};
    if (!transport_.read(into.subspan(command.r2t_asked, bytes), from, &command)) return false;
    command.r2t_asked += static_cast<std::uint32_t>(bytes);
    ++command.reads_under_way;
  }
  return true;
}

// Memory where no network card may write gets what was read by way of a buffer. Empty: there is none now.
std::span<std::byte> IserTransfers::place_of(SessionCommand& command) {
  if (transport_.is_registered(command.into)) [[likely]]
    return command.into;
  if (!command.buffer) command.buffer = transport_.pool().allocate(command.into.size());
  if (!command.buffer) transport_.retry_soon();
  return command.buffer.span();
}

void IserTransfers::on_read(void* owner) {
  SessionCommand& command = *static_cast<SessionCommand*>(owner);
  if (--command.reads_under_way != 0) return;
  if (command.is_letting_go) return session_->let_go(command);
  if (command.r2t_asked < command.into.size()) return;  // more is asked for in its turn
  if (!take_what_was_read(command)) return transport_.fail(Fault::damaged);
  session_->data_came(static_cast<std::uint32_t>(command.into.size()));
  session_->finish_pull(command, {});
}

bool IserTransfers::take_what_was_read(SessionCommand& command) {
  const auto into = command.into.subspan(std::min<std::size_t>(command.received, command.into.size()));
  const auto came = command.buffer ? std::as_const(command).buffer.span().last(into.size()) : into;
  if (transport_.is_protected_rdma()) {
    if (!transport_.open_payload(command.tagged.seal, came, into)) return false;
  } else if (command.buffer) {
    engine::copy_bytes(came, into);
    transport_.figures().copied.bounce += into.size();
  }
  command.buffer.reset();
  return true;
}

bool IserTransfers::abandon(SessionCommand& command) { return command.reads_under_way != 0; }

void IserTransfers::on_window_open() { session_->ping(); }

// ---- Data that leaves ----

std::span<const std::byte> IserTransfers::small_data(const SessionCommand& command) {
  return std::span(command.copied).first(command.prefix_length).subspan(command.data_prefix.size());
}

// Small data without a buffer lies where no network card may read it, and so does whatever the device server gives out
// of memory of its own. A prefix is not of it: it goes with the status.
bool IserTransfers::put_in_arena(SessionCommand& command) {
  const auto small = small_data(command);
  if (small.empty() && transport_.is_registered(command.data)) return true;
  Buffer bounce = transport_.pool().allocate(small.size() + command.data.size());
  if (!bounce) return false;
  engine::copy_bytes(small, bounce.span());
  engine::copy_bytes(command.data, bounce.span().subspan(small.size()));
  auto& copied = transport_.figures().copied;
  (command.is_control ? copied.control : copied.bounce) += bounce.size();
  use_buffer(command, std::move(bounce));
  return true;
}

// The initiator is told by the status what it is opened by.
bool IserTransfers::seal(SessionCommand& command) {
  if (command.is_sealed) return true;
  const auto small = small_data(command);
  Buffer sealed = transport_.make_copy(small.size() + command.data.size(), command.is_immediate);
  if (!sealed) return false;
  command.tagged.seal = transport_.seal_payload(small, command.data, sealed.span());
  command.is_sealed = true;
  use_buffer(command, std::move(sealed));
  return true;
}

// All of a short answer for which the initiator named no memory goes with the status.
bool IserTransfers::goes_with_status(const SessionCommand& command) {
  return !command.data_prefix.empty() && !command.tagged.read && command.data_in_total() <= kMostWithStatus;
}

Transfers::Put IserTransfers::put(SessionCommand& command, iscsi::PduSender&) {
  const std::uint32_t total = command.data_in_total();
  if (goes_with_status(command) || total == command.data_prefix.size()) {
    command.data_sent = total;
    return Put::data_only;
  }
  if (!command.tagged.read) {
    transport_.fail(Fault::no_place);
    return Put::no_room;
  }
  if (command.data_sent == 0 && !(transport_.is_protected_rdma() ? seal(command) : put_in_arena(command))) {
    transport_.retry_soon();
    return Put::no_room;
  }
  const auto prefix = static_cast<std::uint32_t>(command.prefix_length);
  command.data_sent = std::max(command.data_sent, prefix);
  while (command.data_sent < total) {
    const std::size_t bytes = std::min<std::size_t>(total - command.data_sent, transport_.max_message());
    const Remote to{command.tagged.read->address + command.data_sent - prefix, command.tagged.read->key};
    if (!transport_.write(command.data.subspan(command.data_sent - prefix, bytes), to)) return Put::no_room;
    command.data_sent += static_cast<std::uint32_t>(bytes);
  }
  return Put::data_only;
}

// A prefix, and data that goes with it, is the Response Data of RFC 7143 11.4.7: two bytes of sense length come first.
void IserTransfers::add_response_data(SessionCommand& command, iscsi::OutPdu& status) {
  if (command.data_prefix.empty() || command.sense_length != 0) return;
  command.copied.insert(command.copied.begin(), 2, std::byte{0});
  const bool has_data = goes_with_status(command);
  if (has_data && !transport_.is_protected_rdma()) {
    auto& copied = transport_.figures().copied;  // since the prefix lies in no arena
    (command.is_control ? copied.control : copied.bounce) += command.data.size();
  }
  status.set_data(command.copied, has_data ? command.data : std::span<const std::byte>{});
}

// Linux's initiator ends the connection over a key that is not the task's, or over one that it did not expect.
void IserTransfers::answering(SessionCommand& command, iscsi::OutPdu& status) {
  add_response_data(command, status);
  if (command.is_sealed) iser::write_protection(command.tagged.seal, status.protection.emplace());
  if (!transport_.invalidates()) return;
  const auto& used = command.tagged.read ? command.tagged.read : command.tagged.write;
  if (used) status.invalidates = used->key;
}

}  // namespace lockstep::iscsi_target
