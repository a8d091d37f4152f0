#pragma once
// What the requests in a link session's window take in bytes: of the partner's reserve while they are unanswered, and
// of both sides' memory with their answers, which the partner keeps until all answers before them have come as well.
#include <array>
#include <cstddef>

#include "replication/link/channel/channel_frames.hpp"

namespace lockstep::replication {

struct RequestBytes {
  std::size_t out = 0;  ///< of the payload's block in the reserve
  std::size_t in = 0;   ///< of the answer's payload
};

class WindowBytes {
 public:
  explicit WindowBytes(std::size_t most) : most_(most) {}

  [[nodiscard]] bool has_room(RequestBytes next) const { return out_ + next.out <= most_ && in_ + next.in <= most_; }
  void sent(RequestBytes request) {
    out_ += request.out;
    in_ += request.in;
  }
  /// For the first time. `acknowledged`: all answers up to there have come.
  void answered(RequestBytes request, AnswerNumber answer, AnswerNumber acknowledged) {
    out_ -= request.out;
    kept_[answer.value % kNumberedWindow] = request.in;
    while (freed_ < acknowledged) {
      freed_ = freed_.next();
      in_ -= kept_[freed_.value % kNumberedWindow];
    }
  }

 private:
  std::size_t most_;
  std::size_t out_ = 0, in_ = 0;
  std::array<std::size_t, kNumberedWindow> kept_{};  ///< by answers that have come and are not acknowledged
  AnswerNumber freed_;                               ///< what came up to here counts no more
};

}  // namespace lockstep::replication
