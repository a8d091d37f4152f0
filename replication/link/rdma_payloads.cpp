#include "replication/link/rdma_payloads.hpp"

#include <algorithm>
#include <cassert>

#include "engine/base/copy_bytes.hpp"
#include "replication/core/messages.hpp"
#include "replication/link/channel/channel_frames.hpp"

namespace lockstep::replication {
namespace {

constexpr std::uint32_t kWindowsAhead = 16;  // of those heartbeats that are under way at once

bool is_read(const LinkTask& task) { return task.payload_out.size() > kEagerPayload; }
bool is_written(const LinkTask& task) { return task.payload_in.size() > kPayloadInAnswer; }

bool moves_blocks(const LinkTask& task) {
  const auto header = std::span<const std::byte>(task.header).first(task.header_size);
  const bool framed = is_channel_frame(header) && header.size() >= kRequestFrame;
  return replication::moves_blocks(framed ? header.subspan(kRequestFrame) : header);
}

// A window needs memory that may be written to, whatever it is opened for.
std::span<std::byte> to_expose(std::span<const std::byte> memory) {
  return {const_cast<std::byte*>(memory.data()), memory.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace

RdmaPayloads::RdmaPayloads(iser::Transport& transport, User& user)
    : transport_(transport), user_(user), hiding_(kLinkCallerShape.windows) {
  open_.reserve(kLinkCallerShape.windows);
}

// The network card can move nothing in memory that it does not know.
bool RdmaPayloads::copy_for(std::span<const std::byte> memory, engine::Buffer& copy) {
  if (copy || memory.empty() || transport_.is_registered(memory)) return true;
  copy = transport_.pool().allocate(memory.size());
  return static_cast<bool>(copy);
}

bool RdmaPayloads::prepare(LinkTask& task) {
  const auto windows = static_cast<std::uint32_t>(is_read(task)) + static_cast<std::uint32_t>(is_written(task));
  // What goes ahead waits for nothing that others have taken.
  const std::uint32_t most = kLinkCallerShape.windows - (task.goes_ahead ? 0 : kWindowsAhead);
  if (open_.size() + hiding_.size() + windows > most || (windows != 0 && !transport_.has_room(task.goes_ahead)))
    return false;
  const bool has_copies =
      copy_for(task.payload_out, task.copy_out) && (!is_written(task) || copy_for(task.payload_in, task.copy_in));
  if (!has_copies) transport_.retry_soon();
  return has_copies;
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

void RdmaPayloads::give(LinkTask& task, iscsi::OutPdu& command) {
  std::span<const std::byte> out = task.payload_out;
  if (task.copy_out) {
    engine::copy_bytes(out, task.copy_out.span());
    count_copy(task, out.size());
    out = task.copy_out.span();
  }
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
  if (task.copy_in) {
    engine::copy_bytes(task.copy_in.span().first(size), task.payload_in);
    count_copy(task, size);
  }
  engine::copy_bytes(beside, task.payload_in);
  const auto header = std::span(task.prefix).subspan(kAnswerFixed, task.answer.header);
  return task.answer.crc == answer_seal_of(header, task.payload_in.first(size), task.seal);
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
