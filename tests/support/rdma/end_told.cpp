// What the user of a connection is told, in any order that the seam allows.
#include <algorithm>

#include "tests/support/rdma/end.hpp"

namespace lockstep::test::fabric {

void End::start_telling() {
  if (telling_ || user_ == nullptr || events().empty()) return;
  telling_ = true;
  host_->timers.after(network_.draw(network_.delays.told), [this] { tell_some(); });
}

void End::tell_some() {
  telling_ = false;
  for (auto left = 1 + network_.dice.below(4); left > 0 && user_ != nullptr; --left) {
    const auto possible = events();
    if (possible.empty()) return;
    tell(possible[network_.dice.below(possible.size())]);
  }
  start_telling();
}

std::vector<End::Event> End::events() const {
  std::vector<Event> possible;
  if (lost_ && !lost_told_) possible.push_back(Event::lost);
  if (!established_told_) {
    if (stands_ && !lost_told_) possible.push_back(Event::established);
    return possible;
  }
  for (const Event event : {Event::message, Event::read, Event::receive}) {
    if (next_told(event) != nullptr) possible.push_back(event);
  }
  return possible;
}

bool End::may_be_told(const Posted& posted) const {
  if (posted.is_done && !posted.error) return lost_ || host_->timers.now() >= posted.told_from;
  // Of those with an error the cause comes first.
  if (cause_ != nullptr) return &posted == cause_;
  return posted.is_done || (lost_ && flushes_ > 0);
}

/// Of a send or a write that is done: it wakes nobody who does not wait for it.
void End::may_be_late(Posted& posted) {
  if (posted.is_awaited || posted.id == 0 || host_ == nullptr || network_.dice.one_in(2)) return;
  const auto later = network_.draw(network_.delays.unawaited);
  posted.told_from = host_->timers.now() + later;
  host_->timers.after(later, [this] { start_telling(); });
}

void End::hurry(const Posted* before) {
  for (const auto& posted : sends_) {
    if (posted.get() == before) return;
    posted->is_awaited = true;
    posted->told_from = {};
  }
}

Posted* End::next_message_told() const {
  const auto found = std::ranges::find_if(
      sends_, [](const auto& posted) { return posted->work != rdma::Work::read && posted->id != 0; });
  return found == sends_.end() ? nullptr : found->get();
}

/// It is over when all that was posted before it is, and has been told.
Posted* End::next_read_told() const {
  for (const auto& posted : sends_) {
    if (posted->work == rdma::Work::read) return posted.get();
    if (posted->id != 0 || !may_be_told(*posted)) return nullptr;
  }
  return nullptr;
}

Posted* End::next_told(Event event) const {
  Posted* next = nullptr;
  if (event == Event::message) next = next_message_told();
  if (event == Event::read) next = next_read_told();
  if (event == Event::receive && !receives_.empty()) next = receives_.front().get();
  return next != nullptr && may_be_told(*next) ? next : nullptr;
}

void End::tell(Event event) {
  if (event == Event::established) {
    established_told_ = true;
    user_->on_established(private_data_);
  } else if (event == Event::lost) {
    lost_told_ = true;
    user_->on_lost(lost_);
  } else {
    tell_completion(event == Event::receive ? receives_ : sends_, next_told(event));
  }
}

/// With those that were posted before it and are not told.
std::unique_ptr<Posted> End::take(Works& queue, const Posted* posted) {
  std::unique_ptr<Posted> taken;
  for (auto at = queue.begin(); taken == nullptr;) {
    const bool is_it = at->get() == posted;
    const bool is_covered =
        posted->work != rdma::Work::read && (*at)->work != rdma::Work::read && (*at)->id == 0 && !is_it;
    if (is_covered) look_at(**at);
    if (is_it) taken = std::move(*at);
    at = is_it || is_covered ? queue.erase(at) : at + 1;
  }
  return taken;
}

void End::tell_completion(Works& queue, Posted* posted) {
  const bool is_cause = posted == cause_;
  const auto taken = take(queue, posted);
  if (is_cause) cause_ = nullptr;
  hand_back(*taken);
  rdma::Completion completion;
  completion.work = taken->work;
  completion.id = taken->id;
  completion.error = taken->error;
  if (!taken->is_done) {
    completion.error = std::make_error_code(FakeStatus::flushed);
    if (flushes_ != SIZE_MAX) --flushes_;
  } else if (!taken->error && taken->work == rdma::Work::receive) {
    completion.bytes = static_cast<std::uint32_t>(taken->bytes);
    completion.invalidated = taken->invalidated;
    if (taken->invalidated) window_is_free(*taken->invalidated);
  } else if (!taken->error && taken->work == rdma::Work::hide) {
    window_is_free(taken->key);
  }
  user_->on_completion(completion);
}

/// Its memory is the poster's from here on.
void End::hand_back(Posted& posted) {
  look_at(posted);
  if (posted.is_done && !posted.error && posted.target.size() != 0) posted.target.write(0, posted.data);
}

}  // namespace lockstep::test::fabric
