#include "replication/link/rdma_payloads.hpp"

#include <algorithm>
#include <cassert>

#include "engine/base/copy_bytes.hpp"
#include "replication/core/messages.hpp"
#include "replication/link/channel/channel_frames.hpp"

namespace lockstep::replication {
namespace {

constexpr std::uint32_t kWindowsAhead = 16;  // of those heartbeats that are under way at once

bool moves_blocks(const LinkTask& task) {
  return replication::moves_blocks(header_behind_frame(std::span(task.header).first(task.header_size)));
}

// A window needs memory that may be written to, whatever it is opened for.
std::span<std::byte> to_expose(std::span<const std::byte> memory) {
  return {const_cast<std::byte*>(memory.data()), memory.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace

RdmaPayloads::RdmaPayloads(iser::PayloadTransport& transport, User& user, PayloadSizes sizes)
    : transport_(transport), user_(user), sizes_(sizes), hiding_(kLinkCallerShape.windows) {
  open_.reserve(kLinkCallerShape.windows);
}

// The network card can move nothing in memory that it does not know, and what is encrypted is not what the task has.
// What goes with a message is encrypted with that.
bool RdmaPayloads::copy_out(LinkTask& task) {
  const bool is_sealed = transport_.is_protected_rdma();
  const bool lies_right = is_sealed ? !is_read(task) : transport_.is_registered(task.payload_out);
  if (task.copy_out || task.payload_out.empty() || lies_right) return true;
  task.copy_out = transport_.make_copy(task.payload_out.size(), task.goes_ahead);
  return static_cast<bool>(task.copy_out);
}

bool RdmaPayloads::copy_in(LinkTask& task) {
  if (task.copy_in || !is_written(task) || transport_.is_registered(task.payload_in)) return true;
  task.copy_in = transport_.make_copy(task.payload_in.size(), task.goes_ahead);
  return static_cast<bool>(task.copy_in);
}

bool RdmaPayloads::reaches_partner() const { return transport_.is_established(); }

bool RdmaPayloads::prepare(LinkTask& task) {
  const auto windows = static_cast<std::uint32_t>(is_read(task)) + static_cast<std::uint32_t>(is_written(task));
  // What goes ahead waits for nothing that others have taken.
  const std::uint32_t most = kLinkCallerShape.windows - (task.goes_ahead ? 0 : kWindowsAhead);
  if (open_.size() + hiding_.size() + windows > most || (windows != 0 && !transport_.has_room(task.goes_ahead)))
    return false;
  return copy_out(task) && copy_in(task);
}

rdma::Remote RdmaPayloads::open(LinkTask& task, std::span<std::byte> memory, rdma::Access access) {
  const rdma::Remote remote = transport_.expose(memory, access);
  open_.push_back({remote.key, &task});
  ++task.windows;
  return remote;
}

void RdmaPayloads::count_copy(const LinkTask& task, std::size_t bytes) {
  auto& copied = transport_.figures().copied;
  (moves_blocks(task) ? copied.bounce : copied.control) += bytes;
}

// The transport took it for control, since it knows no blocks.
void RdmaPayloads::count_handed_over(const LinkTask& task, std::size_t bytes) {
  if (!moves_blocks(task)) return;
  auto& copied = transport_.figures().copied;
  copied.control -= bytes;
  copied.bounce += bytes;
}

std::span<const std::byte> RdmaPayloads::outgoing(LinkTask& task, iscsi::OutPdu& command) {
  const bool goes_with_it = transport_.is_protected_rdma() && !is_read(task);
  if (!task.copy_out || goes_with_it) return task.payload_out;
  const auto copy = task.copy_out.span();
  if (transport_.is_protected_rdma()) {
    iser::write_protection(transport_.seal_payload(task.payload_out, {}, copy), command.protection.emplace());
  } else {
    engine::copy_bytes(task.payload_out, copy);
    count_copy(task, copy.size());
  }
  return copy;
}

void RdmaPayloads::give(LinkTask& task, iscsi::OutPdu& command) {
  const auto out = outgoing(task, command);
  iser::Tagged tagged;
  if (is_read(task)) {
    tagged.write = open(task, to_expose(out), rdma::Access::read);
  } else {
    command.set_data(out);
  }
  const auto in = task.copy_in ? task.copy_in.span() : task.payload_in;
  if (is_written(task)) tagged.read = open(task, in, rdma::Access::write);
  iser::write_header(tagged, command.lead.emplace());
}

bool RdmaPayloads::take_answer(LinkTask& task, std::span<const std::byte> beside) {
  const std::size_t size = task.answer.payload;
  if (size > task.payload_in.size() || beside.size() != (is_written(task) ? 0 : size)) return false;
  engine::copy_bytes(beside, task.payload_in);
  count_handed_over(task, beside.size());
  count_copy(task, beside.size());
  task.seal_in = transport_.tagged().seal;
  return true;
}

RdmaPayloads::Came RdmaPayloads::finish(LinkTask& task) {
  const std::size_t size = task.answer.payload;
  const auto in = task.payload_in.first(size);
  const auto came = task.copy_in ? task.copy_in.span().first(size) : in;
  if (is_written(task) && size != 0 && transport_.is_protected_rdma()) {
    if (!transport_.open_payload(task.seal_in, came, in)) return Came::changed;
  } else if (task.copy_in) {
    engine::copy_bytes(came, in);
    count_copy(task, size);
  }
  const auto header = std::span(task.prefix).subspan(kAnswerFixed, task.answer.header);
  return task.answer.crc == answer_seal_of(header, in, task.seal) ? Came::whole : Came::damaged;
}

void RdmaPayloads::note_shut(const Window& window) {
  assert(window.task->windows != 0);
  --window.task->windows;
}

// Of a key that nobody knows: the network card would not have taken it.
void RdmaPayloads::on_invalidated(std::uint32_t key) {
  const auto found = std::ranges::find(open_, key, &Window::key);
  if (found == open_.end()) return;
  note_shut(*found);
  *found = open_.back();
  open_.pop_back();
}

// Of two windows an answer shuts one, and the partner may leave it to us. A key that the network card has forgotten is
// not hidden: that would be the end of the connection, and of some kernels.
bool RdmaPayloads::shut(LinkTask& task) {
  for (auto found = open_.begin(); (found = std::ranges::find(open_, &task, &Window::task)) != open_.end();) {
    transport_.hide(found->key, &task);
    hiding_.push_back(*found);
    *found = open_.back();
    open_.pop_back();
  }
  return task.windows == 0;
}

void RdmaPayloads::on_hidden(void* owner) {
  const Window window = hiding_.front();
  hiding_.pop_front();
  assert(window.task == owner);
  note_shut(window);
  if (window.task->windows == 0) user_.on_shut(*window.task);
}

}  // namespace lockstep::replication
