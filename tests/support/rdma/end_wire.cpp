// What of a connection's work moves when. The order is that of the InfiniBand Architecture's volume 1, 10.8.3.3: sends
// and writes of one connection are carried out in the order of their posts; a read comes after what was posted before
// it, and may be passed by sends and writes that were posted later.
#include <algorithm>

#include "tests/support/rdma/end.hpp"

namespace lockstep::test::fabric {

End* End::peer() const {
  return connection_.caller.get() == this ? connection_.answerer.get() : connection_.caller.get();
}

void End::start_wire() {
  if (stepping_ || is_deaf() || sends_.empty()) return;
  stepping_ = true;
  network_.after(network_.delays.wire, [this] { step(); });
}

void End::step() {
  stepping_ = false;
  End* const to = peer();
  if (is_deaf()) return;
  Posted* const message = next_message();
  if (message != nullptr && message->work == rdma::Work::hide) {  // which needs no peer
    move_window(*message);
    return start_wire();
  }
  if (to == nullptr || to->is_deaf() || network_.is_silent(connection_)) return;
  Posted* const read = next_read();
  if (message == nullptr && read == nullptr) return;
  if (message != nullptr && (read == nullptr || network_.dice.one_in(2))) {
    move_message(*message);
  } else {
    move_read(*read, *to);
  }
  start_wire();
}

Posted* End::next_message() const {
  const auto found = std::ranges::find_if(
      sends_, [](const auto& posted) { return posted->work != rdma::Work::read && !posted->is_done; });
  return found == sends_.end() ? nullptr : found->get();
}

/// The oldest that is under way. Others are asked for, as many as were granted.
Posted* End::next_read() {
  Posted* oldest = nullptr;
  std::uint32_t under_way = 0;
  for (const auto& posted : sends_) {
    if (posted->is_done) continue;
    if (posted->work != rdma::Work::read || (!posted->is_under_way && under_way == limits.reads)) break;
    posted->is_under_way = true;
    ++under_way;
    if (oldest == nullptr) oldest = posted.get();
  }
  network_.counts.most_reads = std::max(network_.counts.most_reads, under_way);
  return oldest;
}

void End::move_message(Posted& message) {
  if (message.fails) return fail(message, message.fails);
  if (message.work == rdma::Work::send) {
    move_send(message, *peer());
  } else {
    move_write(message, *peer());
  }
}

/// How much of it moves now.
std::size_t End::piece(const Posted& posted) {
  const std::size_t left = posted.bytes - posted.data.size();
  return left < 2 || network_.dice.one_in(2) ? left : 1 + network_.dice.below(left);
}

/// The oldest that is posted and not filled.
Posted* End::take_receive() {
  const auto found = std::ranges::find_if(receives_, [](const auto& posted) { return !posted->is_done; });
  return found == receives_.end() ? nullptr : found->get();
}

void End::move_send(Posted& message, End& to) {
  Posted* const into = to.take_receive();
  if (into == nullptr) {
    if (to.is_closing()) return;  // it owes none any more; news of that are on the way
    ++network_.counts.no_receive;
    return fail(message, std::make_error_code(FakeStatus::no_receive));
  }
  if (into->fails || message.bytes > into->target.size()) {
    const auto why = into->fails ? into->fails : std::make_error_code(FakeStatus::length);
    fail(message, std::make_error_code(into->fails ? FakeStatus::remote_operation : FakeStatus::remote_request));
    return to.fail(*into, why);
  }
  const std::size_t from = message.data.size(), bytes = piece(message);
  message.source.read(from, bytes, message.data);
  to.look_at(*into);
  if (network_.dice.one_in(2)) into->target.write(from, std::span(message.data).subspan(from));
  if (message.data.size() < message.bytes) return;
  if (network_.watcher) network_.watcher(message.data);
  if (network_.takes_damage(rdma::Work::send, message.bytes)) message.data.back() ^= std::byte{1};
  send_came(message, *into, to);
}

void End::send_came(Posted& message, Posted& into, End& to) {
  look_at(message);
  if (message.invalidates) {
    const auto key = *message.invalidates;
    if (to.machine.grant_to_peer_of(to, key) == nullptr) {
      if (to.hidden_.contains(key)) to.fault("a key was hidden, and then invalidated by the peer");
      // The device of the peer or its user may be the first to object: the send is carried out, or fails.
      message.is_done = network_.dice.one_in(2);
      if (!message.is_done) return fail(message, std::make_error_code(FakeStatus::remote_access));
      to.lose(std::make_error_code(std::errc::protocol_error));
      return to.peer_hears(std::make_error_code(std::errc::connection_reset));
    }
    to.machine.grants.erase(key);
    ++network_.counts.invalidations;
    into.invalidated = key;
  }
  message.is_done = into.is_done = true;
  may_be_late(message);
  into.bytes = message.bytes;
  into.data = std::move(message.data);
  ++network_.counts.sends;
  to.start_telling();
  start_telling();
}

namespace {

/// Empty: the key, the range or the right is wrong.
std::span<std::byte> place_of(const Posted& posted, const End& to) {
  const Grant* const grant = to.machine.grant_to_peer_of(to, posted.remote.key);
  if (grant == nullptr) return {};
  const bool is_allowed = posted.work == rdma::Work::read ? grant->readable : grant->writable;
  const auto begin = reinterpret_cast<std::uintptr_t>(grant->memory.data());
  if (!is_allowed || posted.remote.address < begin) return {};
  const std::uint64_t offset = posted.remote.address - begin;
  if (offset > grant->memory.size() || posted.bytes > grant->memory.size() - offset) return {};
  return grant->memory.subspan(offset, posted.bytes);
}

}  // namespace

void End::move_write(Posted& write, End& to) {
  const auto place = place_of(write, to);
  if (place.size() != write.bytes) return fail(write, std::make_error_code(FakeStatus::remote_access));
  const std::size_t from = write.data.size(), bytes = piece(write);
  write.source.read(from, bytes, write.data);
  std::ranges::copy(std::span(write.data).subspan(from), place.begin() + static_cast<std::ptrdiff_t>(from));
  if (write.data.size() < write.bytes) return;
  if (network_.watcher) network_.watcher(write.data);
  if (network_.takes_damage(rdma::Work::write, write.bytes)) place.back() ^= std::byte{1};
  look_at(write);
  write.is_done = true;
  may_be_late(write);
  write.data.clear();
  ++network_.counts.writes;
  start_telling();
}

void End::move_read(Posted& read, End& to) {
  if (read.fails) return fail(read, read.fails);
  const auto place = place_of(read, to);
  if (place.size() != read.bytes) return fail(read, std::make_error_code(FakeStatus::remote_access));
  const std::size_t from = read.data.size();
  const auto part = place.subspan(from, piece(read));
  read.data.insert(read.data.end(), part.begin(), part.end());
  look_at(read);
  if (network_.dice.one_in(2)) read.target.write(from, part);
  if (read.data.size() < read.bytes) return;
  if (network_.watcher) network_.watcher(read.data);
  if (network_.takes_damage(rdma::Work::read, read.bytes)) {
    read.data.back() ^= std::byte{1};
    read.target.write(0, read.data);
  }
  read.is_done = true;
  hurry(&read);  // a read is waited for, and told behind what was posted before it
  ++network_.counts.reads;
  start_telling();
}

/// Both sides lose the connection by it; its is the first completion with an error.
void End::fail(Posted& posted, std::error_code why) {
  posted.is_done = true;
  posted.error = why;
  const bool is_told = posted.id != 0 || posted.work == rdma::Work::read || posted.work == rdma::Work::receive;
  lose(why, is_told ? &posted : nullptr);
  peer_hears(std::make_error_code(std::errc::connection_reset));
}

}  // namespace lockstep::test::fabric
