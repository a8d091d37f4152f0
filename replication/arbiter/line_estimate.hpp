#pragma once
// What a line to the witness takes, from what the last answers took, and from silence. Pure. Durations are of one
// request on a connection that is open already: a round trip, and what etcd does meanwhile.
#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/seams/clock.hpp"

namespace lockstep::replication {

class LineEstimate {
 public:
  /// A near etcd whose disk is busy takes as long.
  static constexpr engine::Duration kLeastPatience = std::chrono::milliseconds(500);
  static constexpr engine::Duration kMostPatience = std::chrono::seconds(15);
  /// A line is slow from the one on, and not slow any more below the other.
  static constexpr engine::Duration kSlowFrom = std::chrono::milliseconds(500);
  static constexpr engine::Duration kFastBelow = std::chrono::milliseconds(250);
  static constexpr engine::Duration kLongestLine = std::chrono::seconds(5);  ///< there and back

  void on_answer(engine::Duration took, engine::TimePoint now);
  /// A request got no answer in limit().
  void on_silence();

  /// The median of the last answers; 0: there was none.
  [[nodiscard]] engine::Duration round_trip() const;
  /// What the fastest answer of the last minutes took; 0: there was none.
  [[nodiscard]] engine::Duration fastest() const;
  [[nodiscard]] bool is_slow() const { return slow_; }
  /// No answer came fast for minutes, and most took about as long as the fastest: it is the line that takes so long,
  /// and not a witness that has much to do, to which nothing may be sent twice at once for that. One that had much to
  /// do from the first answer on shows by answers that take ever longer, and longer than any line.
  [[nodiscard]] bool is_far() const;
  [[nodiscard]] bool is_known() const { return answers_ > 0; }
  /// A try that has no answer yet gets another one beside it after this.
  [[nodiscard]] engine::Duration patience() const;
  /// Nobody waits longer for a request, with all its tries.
  [[nodiscard]] engine::Duration limit() const;

 private:
  static constexpr std::size_t kKept = 16;
  static constexpr engine::Duration kNever = std::chrono::hours(1);
  static constexpr engine::Duration kWindow = std::chrono::minutes(3);
  [[nodiscard]] engine::Duration most() const;

  std::array<engine::Duration, kKept> took_{};
  std::size_t answers_ = 0;  ///< ever
  unsigned silences_ = 0;    ///< one after the other
  bool slow_ = false;
  engine::Duration least_ = kNever, least_before_ = kNever;  ///< of this window of time, and the one before
  engine::TimePoint window_;                                 ///< its begin
};

}  // namespace lockstep::replication
