// What goes out: at the end of a turn, as far as the socket has room, then when it has again.
#include <algorithm>

#include "tests/support/rdma_between/end.hpp"

namespace lockstep::test::between {

void End::end_of_turn() {
  if (phase_ == Phase::closing || phase_ == Phase::lost) return;
  if (loss_) return lose(loss_);
  // Receives first: what is sent may tell the peer of them.
  std::ranges::move(staged_, std::back_inserter(receives_));
  staged_.clear();
  if (is_dialling_) dial();
  pump();
}

void End::pump() {
  while (socket_ && (send_control() || send_answer() || send_read() || send_request())) {
  }
}

bool End::transmit(const Header& header, Pieces bytes) {
  if (!socket_ || is_full_ || host_.cable.now() != Cable::good) return false;
  const Sent sent = send_packet(socket_->number(), header, bytes);
  if (sent == Sent::whole) return true;
  is_full_ = true;
  // That it was hung up is learnt behind what the peer sent before.
  if (sent == Sent::hung_up) return false;
  socket_->when_writable([this] {
    is_full_ = false;
    pump();
  });
  return false;
}

bool End::send_control() {
  const std::array<std::span<const std::byte>, 1> answer = {private_data_};
  if (owes_answer_) {
    owes_answer_ = !transmit({.kind = Kind::accept, .length = kReadsServed}, answer);
    return !owes_answer_;
  }
  if (owes_ready_) {
    owes_ready_ = !transmit({.kind = Kind::ready}, {});
    return !owes_ready_;
  }
  if (!owes_done_) return false;
  owes_done_ = !transmit({.kind = Kind::done, .sequence = heard_}, {});
  return !owes_done_;
}

void End::refuse(Kind kind, std::uint32_t sequence, Status status) {
  (void)send_control();
  (void)transmit({.kind = kind, .status = status, .sequence = sequence}, {});
}

bool End::send_answer() {
  if (answers_.empty() || is_full_) return false;
  Answer& answer = answers_.front();
  const auto all = window_of(answer.from, answer.bytes, rdma::Access::read);
  if (all.size() != answer.bytes) {
    refuse(Kind::failed_read, answer.sequence, Status::remote_access);
    lose(rdma::RdmaErrc::local_operation);
    return false;
  }
  const std::array<std::span<const std::byte>, 1> piece = {
      all.subspan(answer.moved, std::min<std::size_t>(answer.bytes - answer.moved, kPiece))};
  const Header header{.kind = Kind::data, .sequence = answer.sequence, .length = answer.bytes, .offset = answer.moved};
  if (!transmit(header, piece)) return false;
  answer.moved += static_cast<std::uint32_t>(piece[0].size());
  if (answer.moved == answer.bytes) answers_.pop_front();
  return true;
}

/// The next one that is granted, behind all that was posted before it.
bool End::send_read() {
  if (reads_.empty() || reading_.size() >= limits_.reads) return false;
  Request& read = reads_.front();
  if (!requests_.empty() && requests_.front().order < read.order) return false;
  const Header header{.kind = Kind::read,
                      .sequence = last_read_ + 1,
                      .key = read.remote.key,
                      .address = read.remote.address,
                      .length = read.bytes};
  if (!transmit(header, {})) return false;
  read.sequence = ++last_read_;
  reading_.push_back(std::move(read));
  reads_.pop_front();
  return true;
}

bool End::send_request() {
  if (requests_.empty()) return false;
  Request& request = requests_.front();
  if (request.work == rdma::Work::hide) return shut(request);
  if (request.sequence == 0) request.sequence = ++last_sent_;
  if (!send_piece(request)) return false;
  if (request.moved < request.bytes) return true;
  awaiting_.push_back(std::move(request));
  requests_.pop_front();
  return true;
}

bool End::send_piece(Request& request) {
  std::array<std::span<const std::byte>, rdma::kMaxPieces> parts{};
  std::size_t count = 0, skip = request.moved, left = kPiece;
  for (const auto piece : request.pieces) {
    const auto part = piece.subspan(std::min(skip, piece.size()));
    skip -= std::min(skip, piece.size());
    parts[count] = part.first(std::min(left, part.size()));
    left -= parts[count++].size();
  }
  const bool is_last = request.moved + (kPiece - left) == request.bytes;
  const bool is_send = request.work == rdma::Work::send;
  const Header header{.kind = is_send ? Kind::send : Kind::write,
                      .sequence = request.sequence,
                      .key = is_send ? (is_last ? request.invalidates : 0) : request.remote.key,
                      .address = request.remote.address,
                      .length = request.bytes,
                      .offset = request.moved};
  if (!transmit(header, parts)) return false;
  request.moved += static_cast<std::uint32_t>(kPiece - left);
  return true;
}

}  // namespace lockstep::test::between
