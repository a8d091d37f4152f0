#include "replication/link/channel/channel_sender.hpp"

#include <algorithm>

namespace lockstep::replication {

using engine::Errc;

ChannelSender::ChannelSender(std::size_t window, Copies copies) : window_(window), copies_(copies), came_(window) {
  assert(window > 0);
  requests_.reserve(window);
}

RequestNumber ChannelSender::take_number() {
  assert(has_room());
  last_ = last_.next();
  requests_.push_back({last_, InHand{}});
  ++in_hand_;
  assert(requests_.size() <= window_);
  return last_;
}

std::vector<ChannelSender::Request>::iterator ChannelSender::find(RequestNumber number) {
  const auto at = std::ranges::lower_bound(requests_, number, {}, &Request::number);
  return at != requests_.end() && at->number == number ? at : requests_.end();
}

void ChannelSender::sent(RequestNumber number, PathSlot path) {
  const auto request = find(number);
  assert(request != requests_.end());
  if (std::holds_alternative<InHand>(request->state)) {
    --in_hand_;
    request->state = OnPaths{};
  } else {
    assert(copies_ == Copies::every_path);
  }
  auto& paths = std::get<OnPaths>(request->state).paths;
  assert(!paths.contains(path));
  paths.add(path);
}

void ChannelSender::copy_destroyed(RequestNumber number, PathSlot path) {
  const auto request = find(number);
  if (request == requests_.end()) {
    assert(copies_ == Copies::every_path && number <= last_);  // another copy was answered
    return;
  }
  auto& paths = std::get<OnPaths>(request->state).paths;
  assert(paths.contains(path));
  paths.remove(path);
  if (!paths.empty()) return;
  request->state = InHand{};
  ++in_hand_;
}

engine::Result<ChannelSender::Answer> ChannelSender::answered(RequestNumber number, PathSlot path,
                                                              AnswerNumber answer) {
  const auto request = find(number);
  if (request == requests_.end()) {
    assert(copies_ == Copies::every_path && number <= last_);
    return Answer::again;
  }
  assert(std::get<OnPaths>(request->state).paths.contains(path));
  if (auto wrong = what_is_wrong(answer)) return engine::fail(Errc::corrupt, std::move(*wrong));
  requests_.erase(request);
  note(answer);
  return Answer::first;
}

std::optional<std::string> ChannelSender::what_is_wrong(AnswerNumber answer) const {
  if (answer == AnswerNumber{}) return "The partner has forgotten a request that it has not answered.";
  // As many answers as requests: a higher number is of an answer to nothing. It also keeps came_ within its window.
  if (answer.value > last_.value) return "The partner numbered an answer higher than there are requests.";
  if (answer <= acknowledged_ || came_[answer.value % window_]) return "The partner used an answer's number twice.";
  return std::nullopt;
}

void ChannelSender::note(AnswerNumber answer) {
  assert(answer.value - acknowledged_.value <= window_);
  came_[answer.value % window_] = true;
  while (came_[acknowledged_.next().value % window_]) {
    acknowledged_ = acknowledged_.next();
    came_[acknowledged_.value % window_] = false;
  }
  assert(acknowledged_.value <= last_.value);
}

std::optional<RequestNumber> ChannelSender::in_hand(RequestNumber after) const {
  if (in_hand_ == 0) return std::nullopt;
  for (auto at = std::ranges::upper_bound(requests_, after, {}, &Request::number); at != requests_.end(); ++at) {
    if (std::holds_alternative<InHand>(at->state)) return at->number;
  }
  return std::nullopt;
}

}  // namespace lockstep::replication
