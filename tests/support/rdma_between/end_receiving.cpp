// What comes in: all of it is checked, whoever sent it.
#include <algorithm>
#include <cstring>

#include "tests/support/rdma_between/end.hpp"

namespace lockstep::test::between {

using rdma::RdmaErrc;

namespace {

constexpr int kPacketsATurn = 64;

RdmaErrc reason_of(Status status) {
  switch (status) {
    case Status::no_receive:
      return RdmaErrc::no_receive;
    case Status::remote_access:
      return RdmaErrc::remote_access;
    case Status::remote_invalid:
      return RdmaErrc::remote_invalid;
  }
  return RdmaErrc::other_status;
}

void copy_into(std::span<std::byte> memory, std::size_t at, std::span<const std::byte> bytes) {
  if (at < memory.size())
    std::ranges::copy(bytes.first(std::min(bytes.size(), memory.size() - at)),
                      memory.begin() + static_cast<std::ptrdiff_t>(at));
}

}  // namespace

void End::wait_for_packets() {
  if (is_reading_) return;
  is_reading_ = true;
  socket_->when_readable([this] {
    is_reading_ = false;
    read_packets();
  });
}

void End::read_packets() {
  // While it is silent they lie in the socket.
  for (int n = 0; n < kPacketsATurn && socket_ && host_.cable.now() == Cable::good; ++n) {
    const auto packet = receive_packet(socket_->number(), host_.room);
    if (!packet) {
      const bool is_refused =
          is_calling_ && phase_ == Phase::connecting && packet.error() == std::errc::connection_reset;
      return lose(is_refused ? std::make_error_code(std::errc::connection_refused) : packet.error());
    }
    if (!*packet) break;
    if (!handle(**packet)) return lose(std::make_error_code(std::errc::protocol_error));
  }
  if (!socket_) return;
  host_.reactor.at_end_of_turn(*this);
  if (host_.cable.now() == Cable::good) wait_for_packets();
}

/// False: no provider sends that.
bool End::handle(const Packet& packet) {
  if (phase_ == Phase::connecting) return answered(packet);
  switch (packet.header.kind) {
    case Kind::send:
      return take_send(packet);
    case Kind::write:
      return take_write(packet);
    case Kind::read:
      return take_read(packet);
    case Kind::data:
      return take_data(packet);
    case Kind::done:
      return take_done(packet.header);
    case Kind::failed_send:
    case Kind::failed_read:
      return take_failure(packet.header);
    default:
      return false;
  }
}

/// Of the send or write that is coming, or the first of the next.
bool End::is_next_piece(const Packet& packet) {
  const Header& header = packet.header;
  if (header.offset == 0 && incoming_.got == 0) incoming_ = {header.kind, header.length, 0};
  const std::size_t left = incoming_.length - incoming_.got;
  return header.sequence == heard_ + 1 && header.kind == incoming_.kind && header.length == incoming_.length &&
         header.length <= kMaxMessage && header.offset == incoming_.got &&
         packet.bytes.size() == std::min<std::size_t>(left, kPiece);
}

bool End::take_send(const Packet& packet) {
  const Header& header = packet.header;
  if (!is_next_piece(packet)) return false;
  if (header.offset == 0 && !begin_receive(header)) return true;
  const Receive& into = receives_.front();
  copy_into(into.first, header.offset, packet.bytes);
  const std::size_t in_first =
      std::min(packet.bytes.size(), into.first.size() - std::min<std::size_t>(into.first.size(), header.offset));
  copy_into(into.second, header.offset + in_first - into.first.size(), packet.bytes.subspan(in_first));
  incoming_.got += static_cast<std::uint32_t>(packet.bytes.size());
  if (incoming_.got == header.length) received(header);
  return true;
}

bool End::begin_receive(const Header& header) {
  if (receives_.empty()) {
    fault("a message found no receive");
    refuse(Kind::failed_send, header.sequence, Status::no_receive);
    lose(std::make_error_code(std::errc::connection_reset));
    return false;
  }
  const Receive& into = receives_.front();
  if (header.length <= into.first.size() + into.second.size()) return true;
  refuse(Kind::failed_send, header.sequence, Status::remote_invalid);
  const auto id = into.id;
  receives_.pop_front();
  tell({.work = rdma::Work::receive, .id = id, .error = RdmaErrc::length});
  lose(RdmaErrc::length);
  return false;
}

void End::received(const Header& header) {
  rdma::Completion told{.work = rdma::Work::receive, .id = receives_.front().id, .bytes = header.length};
  if (header.key != 0) {
    if (windows_.erase(header.key) == 0) {
      if (hidden_.contains(header.key)) fault("a key was hidden, and then invalidated by the peer");
      refuse(Kind::failed_send, header.sequence, Status::remote_access);
      return lose(RdmaErrc::local_operation);
    }
    told.invalidated = header.key;
    --exposed_;
  }
  receives_.pop_front();
  heard_ = header.sequence;
  incoming_ = {};
  owes_done_ = true;
  tell(told);
}

bool End::take_write(const Packet& packet) {
  const Header& header = packet.header;
  if (!is_next_piece(packet)) return false;
  const auto all = window_of({header.address, header.key}, header.length, rdma::Access::write);
  if (all.size() != header.length) {
    refuse(Kind::failed_send, header.sequence, Status::remote_access);
    lose(RdmaErrc::local_operation);
    return true;
  }
  copy_into(all, header.offset, packet.bytes);
  incoming_.got += static_cast<std::uint32_t>(packet.bytes.size());
  if (incoming_.got < header.length) return true;
  heard_ = header.sequence;
  incoming_ = {};
  owes_done_ = true;
  return true;
}

bool End::take_read(const Packet& packet) {
  const Header& header = packet.header;
  if (header.sequence != reads_heard_ + 1 || answers_.size() >= kReadsServed || header.length > kMaxMessage)
    return false;
  ++reads_heard_;
  answers_.push_back({header.sequence, {header.address, header.key}, header.length});
  return true;
}

bool End::take_data(const Packet& packet) {
  if (reading_.empty()) return false;
  Request& read = reading_.front();
  const Header& header = packet.header;
  if (header.sequence != read.sequence || header.offset != read.moved || header.length != read.bytes ||
      packet.bytes.size() != std::min<std::size_t>(read.bytes - read.moved, kPiece)) {
    return false;
  }
  copy_into(read.into, header.offset, packet.bytes);
  read.moved += static_cast<std::uint32_t>(packet.bytes.size());
  if (read.moved < read.bytes) return true;
  const auto id = read.id;
  reading_.pop_front();
  --posted_;
  tell({.work = rdma::Work::read, .id = id});
  return true;
}

bool End::take_done(const Header& header) {
  if (header.sequence <= last_done_ || header.sequence > last_sent_) return false;
  // Not before all of it has left.
  if (!requests_.empty() && requests_.front().sequence != 0 && header.sequence >= requests_.front().sequence) {
    return false;
  }
  last_done_ = header.sequence;
  settle();
  return true;
}

/// Tells of what is over, in the order of the posts.
void End::settle() {
  while (phase_ == Phase::up && !awaiting_.empty() && awaiting_.front().sequence <= last_done_) {
    const rdma::Completion told{.work = awaiting_.front().work, .id = awaiting_.front().id};
    awaiting_.pop_front();
    if (told.id == 0) {
      ++unsignalled_;
      continue;
    }
    posted_ -= 1 + std::exchange(unsignalled_, 0);
    if (told.work == rdma::Work::hide) --exposed_;
    tell(told);
  }
}

bool End::take_failure(const Header& header) {
  const bool is_read = header.kind == Kind::failed_read;
  settle();
  if (phase_ != Phase::up) return true;
  auto& queue = is_read ? reading_ : (awaiting_.empty() ? requests_ : awaiting_);
  if (queue.empty() || queue.front().sequence == 0 || queue.front().sequence != header.sequence) return false;
  const rdma::Completion told{.work = queue.front().work, .id = queue.front().id, .error = reason_of(header.status)};
  queue.pop_front();
  if (told.id != 0) tell(told);
  lose(told.error);
  return true;
}

void End::tell(const rdma::Completion& completion) {
  if (user_ != nullptr) user_->on_completion(completion);
}

}  // namespace lockstep::test::between
