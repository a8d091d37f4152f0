#pragma once
// The sending end of one stream of numbered requests: gives numbers, knows by which paths each unanswered request went,
// and what may be sent again. No sockets, no clock, no memory of what the requests say: their owner keeps that until
// the answer.
//
// A copy of a request is what one path was given to carry. It ends with its answer, or when its path's own end (socket,
// queue pair) was destroyed: until then the path may still read and write the request's buffers, and the request is not
// given to another one. The receiver needs not be asked: it knows the number.
//
// Answers have numbers of their own, in the order in which the receiver gave them. acknowledged() is the number up to
// which all have come; each request tells it to the receiver, which keeps answers so long. Counted by answers and not
// by requests, one request whose disk hangs holds up no acknowledgement of those that came later and are answered.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/result.hpp"
#include "replication/link/channel/numbers.hpp"

namespace lockstep::replication {

enum class Copies : std::uint8_t {
  one,         ///< at a time
  every_path,  ///< the request's buffers are the channel's own, so that any number of paths may read them
};

class ChannelSender {
 public:
  /// At most `window` requests are unanswered, or answered and not acknowledged.
  ChannelSender(std::size_t window, Copies copies);

  [[nodiscard]] bool has_room() const { return last_.value - acknowledged_.value < window_; }
  /// The next request, on no path yet. Only while has_room().
  RequestNumber take_number();
  /// A copy is given to the path. With Copies::one the request is on no path.
  void sent(RequestNumber number, PathSlot path);
  /// The path's own end is destroyed, and the copy was not answered.
  void copy_destroyed(RequestNumber number, PathSlot path);
  enum class Answer : std::uint8_t {
    first,  ///< the request's owner is to have it
    again,  ///< of another copy; the owner has the first
  };
  /// The answer of a copy that is on that path. Errors (corrupt) are the partner's: the link session is to end.
  [[nodiscard]] engine::Result<Answer> answered(RequestNumber number, PathSlot path, AnswerNumber answer);

  [[nodiscard]] AnswerNumber acknowledged() const { return acknowledged_; }
  [[nodiscard]] RequestNumber last_number() const { return last_; }
  [[nodiscard]] std::size_t unanswered() const { return requests_.size(); }
  /// The lowest that is on no path, after `after`: they are sent in this order.
  [[nodiscard]] std::optional<RequestNumber> in_hand(RequestNumber after = {}) const;

 private:
  struct InHand {};  ///< new, or every path that had it is destroyed
  struct OnPaths {
    PathSet paths;  ///< not empty
  };
  struct Request {
    RequestNumber number;
    std::variant<InHand, OnPaths> state;
  };
  [[nodiscard]] std::vector<Request>::iterator find(RequestNumber number);
  [[nodiscard]] std::optional<std::string> what_is_wrong(AnswerNumber answer) const;
  void note(AnswerNumber answer);

  std::size_t window_;
  Copies copies_;
  RequestNumber last_;
  AnswerNumber acknowledged_;
  std::vector<Request> requests_;  ///< unanswered, by number
  std::size_t in_hand_ = 0;        ///< of them
  std::vector<bool> came_;         ///< answers above acknowledged_, by number modulo window_
};

}  // namespace lockstep::replication
