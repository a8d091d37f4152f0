#include "tests/support/rdma_between/end.hpp"

#include <algorithm>
#include <cassert>

namespace lockstep::test::between {

constexpr std::uint32_t kMostInline = 220;

using rdma::RdmaErrc;

End::End(Host& host, rdma::Domain domain, const rdma::Wanted& wanted, Names names, rdma::QueuePairUser& user)
    : host_(host),
      domain_(domain),
      most_windows_(wanted.windows),
      limits_{.sends = wanted.sends,
              .receives = wanted.receives,
              .reads = wanted.reads,
              .max_inline = std::min(wanted.max_inline, kMostInline),
              .max_message = kMaxMessage,
              .invalidates = true},
      names_(std::move(names)),
      user_(&user) {
  host_.cable.plug(*this);
}

End::~End() { assert(phase_ == Phase::closing && !socket_ && "it is destroyed after close() has called back"); }

void End::fault(std::string_view sentence) {
  host_.process.fault("the connection " + names_.local + " to " + names_.peer + ": " + std::string(sentence));
}

void End::misused(std::string_view sentence) {
  fault(sentence);
  lose_later(make_error_code(RdmaErrc::local_operation));
}

void End::lose_later(std::error_code why) {
  if (!loss_) loss_ = why;
  host_.reactor.at_end_of_turn(*this);
}

bool End::may_post(rdma::Work work) {
  if (phase_ == Phase::closing) {
    host_.process.fault("something was posted after close()");
    return false;
  }
  if (phase_ == Phase::lost || loss_) return false;
  if (work == rdma::Work::receive) {
    if (staged_.size() + receives_.size() < limits_.receives) return true;
    misused("more receives were posted than were granted");
    return false;
  }
  if (phase_ == Phase::connecting) {
    misused("something was posted before on_established()");
  } else if (posted_ >= limits_.sends) {
    misused("more was posted than was granted");
  }
  return !loss_;
}

bool End::is_in_arena(std::span<const std::byte> memory) {
  if (memory.empty() || host_.process.arenas.has(memory)) return true;
  lose_later(make_error_code(RdmaErrc::not_registered));
  return false;
}

void End::receive(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t id) {
  if (!may_post(rdma::Work::receive) || !is_in_arena(first) || !is_in_arena(second)) return;
  staged_.push_back({first, second, id});
  host_.reactor.at_end_of_turn(*this);
}

void End::post(Request request) {
  request.order = ++last_order_;
  ++posted_;
  (request.work == rdma::Work::read ? reads_ : requests_).push_back(std::move(request));
  host_.reactor.at_end_of_turn(*this);
}

void End::send(const rdma::Send& send) {
  if (!may_post(rdma::Work::send)) return;
  if (send.pieces.size() > rdma::kMaxPieces) return misused("a send has too many pieces");
  Request request{.work = rdma::Work::send, .id = send.id, .invalidates = send.invalidates.value_or(0)};
  for (const auto piece : send.pieces) request.bytes += static_cast<std::uint32_t>(piece.size());
  if (request.bytes <= limits_.max_inline) {
    for (const auto piece : send.pieces) request.copy.insert(request.copy.end(), piece.begin(), piece.end());
    request.pieces[0] = request.copy;
  } else {
    if (send.id == 0) return misused("nobody will be told when the memory of a send is free");
    if (!std::ranges::all_of(send.pieces, [this](auto piece) { return is_in_arena(piece); })) return;
    std::ranges::copy(send.pieces, request.pieces.begin());
  }
  post(std::move(request));
}

void End::write(std::span<const std::byte> from, const rdma::Remote& to, std::uint64_t id) {
  if (!may_post(rdma::Work::write) || !is_in_arena(from)) return;
  if (from.size() > limits_.max_message) return misused("a write is longer than the longest message");
  Request request{.work = rdma::Work::write, .id = id, .remote = to, .bytes = static_cast<std::uint32_t>(from.size())};
  request.pieces[0] = from;
  post(std::move(request));
}

void End::read(std::span<std::byte> into, const rdma::Remote& from, std::uint64_t id) {
  if (!may_post(rdma::Work::read) || !is_in_arena(into)) return;
  if (into.size() > limits_.max_message) return misused("a read is longer than the longest message");
  if (limits_.reads == 0) return lose_later(make_error_code(RdmaErrc::no_reads));
  post({.work = rdma::Work::read,
        .id = id,
        .into = into,
        .remote = from,
        .bytes = static_cast<std::uint32_t>(into.size())});
}

void End::close(engine::Callback<> closed) {
  assert(phase_ != Phase::closing);
  phase_ = Phase::closing;
  user_ = nullptr;
  socket_.reset();
  host_.cable.unplug(*this);
  host_.reactor.cancel(std::exchange(patience_, engine::TimerId::none));
  host_.reactor.cancel(std::exchange(retry_, engine::TimerId::none));
  for (auto* const queue : {&requests_, &awaiting_, &reads_, &reading_}) queue->clear();
  staged_.clear();
  receives_.clear();
  windows_.clear();
  answers_.clear();
  host_.reactor.post(std::move(closed));
}

}  // namespace lockstep::test::between
