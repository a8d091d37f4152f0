#include "replication/link/channel/channel_receiver.hpp"

#include <algorithm>

namespace lockstep::replication {

using engine::Errc;

ChannelReceiver::ChannelReceiver(std::size_t window) : window_(window) {
  assert(window > 0);
  requests_.reserve(window);
}

std::vector<ChannelReceiver::Request>::iterator ChannelReceiver::find(RequestNumber number) {
  const auto at = std::ranges::lower_bound(requests_, number, {}, &Request::number);
  return at != requests_.end() && at->number == number ? at : requests_.end();
}

engine::Result<void> ChannelReceiver::acknowledge(AnswerNumber upto) {
  if (upto > given_) return engine::fail(Errc::corrupt, "The partner acknowledged an answer that was not given.");
  while (acknowledged_ < upto) {
    acknowledged_ = acknowledged_.next();
    const auto request = find(kept_.front());
    kept_.pop_front();
    assert(request != requests_.end() && std::get<Kept>(request->state).answer == acknowledged_);
    freed_.push_back(request->handle);
    requests_.erase(request);
  }
  assert(kept_.size() == given_.value - acknowledged_.value);
  return {};
}

engine::Result<ChannelReceiver::Arrival> ChannelReceiver::arrived(RequestNumber number, AnswerNumber acknowledged,
                                                                  RequestHandle handle) {
  if (number == RequestNumber{}) return engine::fail(Errc::corrupt, "The partner sent a request without a number.");
  if (number.value > acknowledged.value && number.value - acknowledged.value > window_) {
    return engine::fail(Errc::corrupt, "The partner has more requests under way than were agreed on.");
  }
  if (auto told = acknowledge(acknowledged); !told) return std::unexpected(told.error());
  if (const auto known = find(number); known != requests_.end()) return another_copy(*known);
  if (number <= delivered_) return Stale{};
  // Acknowledged answers are of requests that were delivered: each of those here is among the last `window`.
  assert(requests_.size() < window_);
  requests_.insert(std::ranges::lower_bound(requests_, number, {}, &Request::number), {number, handle, Waiting{}});
  return NewRequest{};
}

ChannelReceiver::Arrival ChannelReceiver::another_copy(const Request& request) const {
  if (const auto* kept = std::get_if<Kept>(&request.state)) return Answered{request.handle, kept->answer};
  return UnderWay{request.handle};
}

std::optional<RequestHandle> ChannelReceiver::next_to_deliver() {
  const auto request = find(delivered_.next());
  if (request == requests_.end()) return std::nullopt;
  assert(std::holds_alternative<Waiting>(request->state));
  request->state = Delivered{};
  delivered_ = request->number;
  return request->handle;
}

void ChannelReceiver::forget_waiting(RequestNumber number) {
  const auto request = find(number);
  assert(request != requests_.end() && std::holds_alternative<Waiting>(request->state));
  requests_.erase(request);
}

AnswerNumber ChannelReceiver::answered(RequestNumber number) {
  const auto request = find(number);
  assert(request != requests_.end() && std::holds_alternative<Delivered>(request->state));
  given_ = given_.next();
  request->state = Kept{given_};
  kept_.push_back(number);
  assert(given_.value <= delivered_.value);
  return given_;
}

std::optional<RequestHandle> ChannelReceiver::next_released() {
  if (freed_.empty()) return std::nullopt;
  const RequestHandle handle = freed_.front();
  freed_.pop_front();
  return handle;
}

std::vector<RequestHandle> ChannelReceiver::handles() const {
  std::vector<RequestHandle> all;
  for (const Request& request : requests_) all.push_back(request.handle);
  return all;
}

}  // namespace lockstep::replication
