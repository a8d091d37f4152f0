#include "replication/link/rdma_payloads.hpp"

#include <cassert>
#include <utility>

#include "engine/base/copy_bytes.hpp"

namespace lockstep::replication {
namespace {

constexpr std::uint32_t kWindowsAhead = 16;  // of those heartbeats that are under way at once

bool is_read(const LinkTask& task) { return task.payload_out.size() > kEagerPayload; }
bool is_written(const LinkTask& task) { return task.payload_in.size() > kPayloadInAnswer; }

// A window needs memory that may be written to, whatever it is opened for.
std::span<std::byte> to_expose(std::span<const std::byte> memory) {
  return {const_cast<std::byte*>(memory.data()), memory.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace

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
  if (open_ + windows > most || (windows != 0 && !task.goes_ahead && !transport_.has_room())) return false;
  const bool has_copies =
      copy_for(task.payload_out, task.copy_out) && (!is_written(task) || copy_for(task.payload_in, task.copy_in));
  if (!has_copies) transport_.retry_soon();
  return has_copies;
}

rdma::Remote RdmaPayloads::open(std::span<std::byte> memory, rdma::Access access, std::optional<std::uint32_t>& key) {
  const rdma::Remote remote = transport_.expose(memory, access);
  assert(!key);
  key = remote.key;
  ++open_;
  return remote;
}

void RdmaPayloads::give(LinkTask& task, iscsi::OutPdu& command) {
  std::span<const std::byte> out = task.payload_out;
  if (task.copy_out) {
    engine::copy_bytes(out, task.copy_out.span());
    transport_.figures().copied.bounce += out.size();
    out = task.copy_out.span();
  }
  iser::Tagged tagged;
  if (is_read(task)) {
    tagged.write = open(to_expose(out), rdma::Access::read, task.key_out);
  } else {
    command.set_data(out);
  }
  const auto in = task.copy_in ? task.copy_in.span() : task.payload_in;
  if (is_written(task)) tagged.read = open(in, rdma::Access::write, task.key_in);
  iser::write_header(tagged, command.lead.emplace());
}

bool RdmaPayloads::take_answer(LinkTask& task, std::span<const std::byte> beside) {
  const std::size_t size = task.answer.payload;
  if (size > task.payload_in.size() || beside.size() != (is_written(task) ? 0 : size)) return false;
  if (task.copy_in) transport_.figures().copied.bounce += size;
  if (task.copy_in) engine::copy_bytes(task.copy_in.span().first(size), task.payload_in);
  engine::copy_bytes(beside, task.payload_in);
  const auto header = std::span(task.prefix).subspan(kAnswerFixed, task.answer.header);
  return task.answer.crc == answer_seal_of(header, task.payload_in.first(size));
}

void RdmaPayloads::note_shut(std::optional<std::uint32_t>& key) {
  --open_;
  key.reset();
}

// Of two keys the answer shuts one; and the partner may leave it to us.
bool RdmaPayloads::shut(LinkTask& task) {
  const auto by_answer = std::exchange(invalidated_, std::nullopt);
  for (auto* key : {&task.key_out, &task.key_in}) {
    if (!*key) continue;
    if (by_answer && **key == *by_answer) {
      note_shut(*key);
    } else {
      transport_.hide(**key, &task);
    }
  }
  return !task.key_out && !task.key_in;
}

// They end in the order in which they were begun.
void RdmaPayloads::on_hidden(void* owner) {
  LinkTask& task = *static_cast<LinkTask*>(owner);
  note_shut(task.key_out ? task.key_out : task.key_in);
  if (!task.key_out && !task.key_in) user_.on_shut(task);
}

}  // namespace lockstep::replication
