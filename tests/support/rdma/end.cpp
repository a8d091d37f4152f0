#include "tests/support/rdma/end.hpp"

#include <algorithm>
#include <array>

namespace lockstep::test::fabric {
namespace {

std::unique_ptr<Posted> make(rdma::Work work, std::uint64_t id, std::size_t bytes) {
  auto posted = std::make_unique<Posted>();
  posted->work = work;
  posted->id = id;
  posted->bytes = bytes;
  return posted;
}

std::string_view name_of(const Posted& posted) {
  if (posted.opens()) return "expose";
  constexpr std::array<std::string_view, 5> kNames = {"send", "receive", "read", "write", "hide"};
  return kNames[static_cast<std::size_t>(posted.work)];
}

}  // namespace

void End::fault(std::string_view sentence, const Posted* posted) {
  std::string text = "connection " + std::to_string(connection_.id);
  text += connection_.caller.get() == this ? ", caller" : ", answerer";
  if (posted != nullptr) text += ", " + std::string(name_of(*posted)) + " " + std::to_string(posted->id);
  network_.fault(text + ": " + std::string(sentence));
}

bool End::may_post(const Posted& posted) {
  if (is_closing_) {
    if (!is_closed_ || host_ != nullptr) fault("it was posted after close()", &posted);
    return false;
  }
  if (posted.work != rdma::Work::receive && !established_told_) {
    fault("it was posted before on_established()", &posted);
    return false;
  }
  const bool is_full =
      posted.work == rdma::Work::receive ? receives_.size() >= limits.receives : sends_.size() >= limits.sends;
  if (is_full) fault("it is one more than was granted", &posted);
  if (posted.work != rdma::Work::receive && posted.bytes > limits.max_message) {
    fault("it is longer than the device's longest message", &posted);
  }
  return !is_full;
}

bool End::is_in_arenas(Posted& posted, std::span<const std::span<const std::byte>> pieces) {
  if (std::ranges::all_of(pieces, [&](auto piece) { return piece.empty() || machine.has(piece); })) return true;
  fault("its memory is in no arena", &posted);
  posted.fails = std::make_error_code(FakeStatus::protection);
  return false;
}

void End::receive(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t id) {
  auto posted = make(rdma::Work::receive, id, 0);
  if (!may_post(*posted)) return;
  const std::array<std::span<const std::byte>, 2> pieces = {first, second};
  if (is_in_arenas(*posted, pieces)) posted->target = Target(first, second, network_.dice.word());
  post(std::move(posted));
}

void End::send(const rdma::Send& send) {
  std::size_t bytes = 0;
  for (const auto piece : send.pieces) bytes += piece.size();
  auto posted = make(rdma::Work::send, send.id, bytes);
  if (!may_post(*posted)) return;
  const bool is_inline = bytes <= limits.max_inline;
  if (send.pieces.size() > rdma::kMaxPieces) fault("it has too many pieces", posted.get());
  if (send.id == 0 && !is_inline) fault("nobody will be told when its memory is free", posted.get());
  if (send.invalidates && !limits.invalidates) fault("it invalidates, which the device can't", posted.get());
  posted->invalidates = send.invalidates;
  if (is_inline || is_in_arenas(*posted, send.pieces)) posted->source = Source(send.pieces, is_inline);
  post(std::move(posted));
}

void End::write(std::span<const std::byte> from, const rdma::Remote& to, std::uint64_t id) {
  auto posted = make(rdma::Work::write, id, from.size());
  if (!may_post(*posted)) return;
  posted->remote = to;
  const std::array pieces = {from};
  if (is_in_arenas(*posted, pieces)) posted->source = Source(pieces, false);
  post(std::move(posted));
}

void End::read(std::span<std::byte> into, const rdma::Remote& from, std::uint64_t id) {
  auto posted = make(rdma::Work::read, id, into.size());
  if (!may_post(*posted)) return;
  posted->remote = from;
  if (limits.reads == 0) fault("no reads were granted", posted.get());
  const std::array<std::span<const std::byte>, 1> pieces = {into};
  if (is_in_arenas(*posted, pieces)) posted->target = Target(into, {}, network_.dice.word());
  post(std::move(posted));
}

void End::await_sends() {
  hurry(nullptr);
  start_telling();
}

void End::post(std::unique_ptr<Posted> posted) {
  posted->is_refused = machine.fails_now();
  if (!posted->opens()) {
    if (const auto failure = machine.take_failure(posted->work)) posted->fails = failure;
  }
  const bool is_refused = posted->is_refused;
  auto& queue = posted->work == rdma::Work::receive ? receives_ : sends_;
  queue.push_back(std::move(posted));
  if (is_refused) {
    lose(std::make_error_code(std::errc::not_enough_memory));
    peer_hears(std::make_error_code(std::errc::connection_reset));
  }
  start_wire();
  start_telling();
}

void End::close(engine::Callback<> closed) {
  if (is_closing_) {
    if (!is_closed_ || host_ != nullptr) fault("close() was called twice");
    return;
  }
  is_closing_ = true;
  user_ = nullptr;
  if (network_.dice.one_in(2)) is_halted_ = true;
  peer_hears(std::make_error_code(std::errc::connection_reset));
  write_late(2);
  host_->timers.after(network_.draw(network_.delays.closing), [this, done = std::move(closed)]() mutable {
    finish();
    done();
  });
}

void End::dropped() {
  if (is_closed_) return;
  fault("the queue pair was destroyed before close() had called back");
  abandon();
}

void End::abandon() {
  if (is_closed_) return;
  user_ = nullptr;
  host_ = nullptr;
  is_closing_ = is_closed_ = true;
  shut_windows();
  sends_.clear();
  receives_.clear();
  peer_hears(std::make_error_code(std::errc::connection_reset));
}

void End::stand(std::vector<std::byte> private_data) {
  if (is_closing_ || lost_ || is_gone_) return;
  stands_ = true;
  private_data_ = std::move(private_data);
  start_telling();
}

void End::lose(std::error_code why, Posted* cause) {
  if (lost_ || is_closed_) return;
  lost_ = why;
  cause_ = cause;
  const std::size_t posted = sends_.size() + receives_.size();
  if (!is_gone_) {
    const std::array<std::size_t, 3> choices = {0, network_.dice.below(posted + 1), SIZE_MAX};
    flushes_ = choices[network_.dice.below(choices.size())];
  }
  if (cause == nullptr) {
    lose_acknowledgements(sends_);
    lose_acknowledgements(receives_);
  }
  write_late(2);
  start_telling();
}

/// What was carried out is not always known to have been.
void End::lose_acknowledgements(Works& queue) {
  const std::size_t known = network_.dice.below(queue.size() + 1);
  for (std::size_t at = known; at < queue.size(); ++at) {
    queue[at]->is_done = false;
    queue[at]->data.clear();
  }
}

void End::device_removed() {
  if (is_closed_ || is_gone_) return;
  is_gone_ = is_halted_ = true;
  network_.after(network_.delays.calls, [this] { lose(std::make_error_code(FakeStatus::fatal)); });
}

void End::nobody_answered() {
  if (!stands_ && !is_closing_) lose(std::make_error_code(FakeStatus::unanswered));
}

void End::peer_hears(std::error_code why) {
  if (is_gone_) return;
  network_.carry(connection_, [this, why] {
    End* to = peer();
    if (to != nullptr && !to->is_gone_) to->lose(why);
  });
}

void End::look_at(Posted& posted) {
  const bool was_changed = posted.source.was_changed() || posted.target.was_changed();
  if (!was_changed || posted.is_reported) return;
  posted.is_reported = true;
  fault(posted.source.was_changed() ? "its bytes were changed before it was over"
                                    : "its memory was written by another before it was over",
        &posted);
}

void End::look() {
  for (const auto& posted : sends_) look_at(*posted);
  for (const auto& posted : receives_) look_at(*posted);
}

void End::spoil_all() {
  look();
  for (auto* const queue : {&sends_, &receives_}) {
    for (const auto& posted : *queue) posted->target.spoil(network_.dice);
  }
  spoil_windows();
}

/// Memory that is posted stays the device's although the connection is lost.
void End::write_late(int times) {
  network_.after(network_.delays.closing, [this, times] {
    if (is_closed_) return;
    spoil_all();
    ++network_.counts.late_writes;
    if (times > 1) write_late(times - 1);
  });
}

void End::finish() {
  if (is_closed_) return;
  spoil_all();
  is_closed_ = true;
  shut_windows();
  sends_.clear();
  receives_.clear();
}

}  // namespace lockstep::test::fabric
