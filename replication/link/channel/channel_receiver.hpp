#pragma once
// The receiving end of one stream of numbered requests: delivers them in the order of their numbers, each once, by
// whatever path they come; numbers the answers, and keeps them until the sender has told that it has them. No sockets,
// no clock. What a request says and how it is answered is its owner's, who gives each a handle.
//
// The receiver knows no paths. A copy that comes by a second path is told from the first by the number alone; the
// sender sends it only after the first path's end over there was destroyed, so that the answer goes with whatever
// copies there are, and what a dead path was given is lost.
#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "engine/base/result.hpp"
#include "replication/link/channel/numbers.hpp"

namespace lockstep::replication {

enum class RequestHandle : std::uint32_t {};

class ChannelReceiver {
 public:
  /// The sender's window: of requests that are here and not acknowledged.
  explicit ChannelReceiver(std::size_t window);

  struct NewRequest {};
  /// Waits for its turn or for its answer: the copy is to be answered with it.
  struct UnderWay {
    RequestHandle first;
  };
  /// The same answer again.
  struct Answered {
    RequestHandle first;
    AnswerNumber answer;
  };
  /// The sender has the answer: nobody waits for this copy.
  struct Stale {};
  using Arrival = std::variant<NewRequest, UnderWay, Answered, Stale>;

  /// Before arrived(), and whenever the sender tells it. Answers up to there need not be kept: next_released(). Errors
  /// (corrupt) are the partner's: the link session is to end.
  [[nodiscard]] engine::Result<void> acknowledge(AnswerNumber upto);
  /// A whole request has come, payload and all. `acknowledged` is what this copy tells; `handle` counts when it is new.
  /// Errors as above.
  [[nodiscard]] engine::Result<Arrival> arrived(RequestNumber number, AnswerNumber acknowledged, RequestHandle handle);
  /// The next in order, if it has come. To be asked until there is none.
  [[nodiscard]] std::optional<RequestHandle> next_to_deliver();
  /// Something waits for a lower number, which has not come.
  [[nodiscard]] bool has_gap() const { return !requests_.empty() && requests_.back().number > delivered_; }
  [[nodiscard]] RequestNumber delivered() const { return delivered_; }
  /// Of a request that waits for its turn, whose only copy is lost with its path: as if it had not come. Its sender
  /// sends it again, since it is not answered.
  void forget_waiting(RequestNumber number);
  /// Of a request that was delivered and not answered. Its answer is kept from now on.
  AnswerNumber answered(RequestNumber number);
  /// A request whose answer needs not be kept any more. To be asked until there is none.
  [[nodiscard]] std::optional<RequestHandle> next_released();

  /// All that is here: waits for its turn, is delivered, or is answered and kept. At most the window.
  [[nodiscard]] std::size_t size() const { return requests_.size(); }
  [[nodiscard]] std::vector<RequestHandle> handles() const;

 private:
  struct Waiting {};  ///< for those with lower numbers
  struct Delivered {};
  struct Kept {
    AnswerNumber answer;
  };
  struct Request {
    RequestNumber number;
    RequestHandle handle;
    std::variant<Waiting, Delivered, Kept> state;
  };
  [[nodiscard]] std::vector<Request>::iterator find(RequestNumber number);
  [[nodiscard]] Arrival another_copy(const Request& request) const;

  std::size_t window_;
  RequestNumber delivered_;  ///< all up to here
  AnswerNumber given_, acknowledged_;
  std::vector<Request> requests_;    ///< by number
  std::deque<RequestNumber> kept_;   ///< whose answers are acknowledged_ + 1 to given_
  std::deque<RequestHandle> freed_;  ///< for next_released()
};

}  // namespace lockstep::replication
