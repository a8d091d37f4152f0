#include "iscsi_target/session/session_command.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "iscsi_target/session/session.hpp"

namespace lockstep::iscsi_target {
namespace {

constexpr std::size_t kKeepCopied = 512;  // bytes of capacity a free command keeps

}  // namespace

void SessionCommand::pull(std::span<std::byte> where, engine::IoCallback done) {
  assert(!pulled && is_executing && where.size() <= expected_out);
  pulled = true;
  into = where;
  pull_done = std::move(done);
  pull_wanted = true;
  session->pull_begun(*this);
}

engine::Buffer SessionCommand::take(std::size_t bytes) {
  if (!stash) [[likely]]
    return {};
  return take_stash(bytes);
}

[[gnu::noinline]] engine::Buffer SessionCommand::take_stash(std::size_t bytes) {
  assert(!pulled && is_executing);
  if (is_aborted || is_broken) return {};  // pull() says so
  engine::Buffer taken = session->transfers_.take(*this, bytes);
  pulled = static_cast<bool>(taken);
  return taken;
}

engine::TimePoint SessionCommand::came_since() const { return has_waited ? session->heard_at() : engine::TimePoint{}; }

bool SessionCommand::await_host(engine::IoCallback& done) {
  assert(is_executing && !pull_wanted);
  if (session->was_heard_lately()) return true;
  pull_done = std::move(done);
  into = {};
  pull_wanted = awaits_host = true;
  session->host_awaited();
  return false;
}

void SessionCommand::complete(std::span<const std::byte> data_in, engine::Buffer held) {
  assert(is_executing && !is_completed);
  const std::size_t prefix = data_prefix.size();
  assert(prefix <= scsi::kMaxDataPrefix);
  const bool copies = !held && !data_released;
  if (prefix != 0 || (copies && !data_in.empty())) {
    copied.resize(prefix + (copies ? data_in.size() : 0));
    std::copy(data_prefix.begin(), data_prefix.end(), copied.begin());
    if (copies) std::copy(data_in.begin(), data_in.end(), copied.begin() + static_cast<std::ptrdiff_t>(prefix));
  }
  prefix_length = copies ? copied.size() : prefix;
  data = copies ? std::span<const std::byte>{} : data_in;
  buffer = std::move(held);
  data_buffer.reset();
  is_executing = false;
  is_completed = true;
  pull_wanted = false;
  session->completed(*this);
}

void SessionCommand::reset() {
  if (data_released) std::exchange(data_released, nullptr)();
  data_prefix = {};
  buffer.reset();
  data_buffer.reset();
  stash.reset();
  if (copied.capacity() > kKeepCopied) copied = {};
  copied.clear();
  pull_done = nullptr;
  pull_error = {};
  cdb_length = 16;
  status = scsi::Status::good;
  sense_length = 0;
  wanted_out = wanted_in = 0;
  is_control = false;
  is_ready = is_held = is_waiting = has_waited = is_executing = is_completed = is_aborted = is_given_up = is_broken =
      status_encoded = is_letting_go = is_sealed = false;
  unsolicited_open = pull_wanted = pulled = awaits_host = is_deferred = stash_missing = false;
  received = next_data_sn = r2t_outstanding = r2t_asked = sequence_end = r2t_count = stalled_looks = 0;
  tagged = {};
  holds_message = false;
  reads_under_way = 0;
  into = {};
  data = {};
  prefix_length = 0;
  data_sent = data_sn = 0;
}

SessionCommandPool::~SessionCommandPool() {
  assert(in_use_ == 0);
  for (SessionCommand* command : free_) delete command;
}

SessionCommand& SessionCommandPool::get() {
  ++in_use_;
  if (free_.empty()) {
    auto* const fresh = new SessionCommand;
    fresh->is_command = true;
    return *fresh;
  }
  SessionCommand& command = *free_.back();
  free_.pop_back();
  return command;
}

void SessionCommandPool::put(SessionCommand& command) {
  command.reset();
  assert(in_use_ > 0);
  --in_use_;
  free_.push_back(&command);
}

}  // namespace lockstep::iscsi_target
