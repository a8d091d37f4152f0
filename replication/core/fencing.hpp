#pragma once
// The arbiter `fence`: a command that powers the partner's machine off. A node that sees it succeed knows that no
// process there is in any epoch with it any more, and that the next one is in none before the two have met.
//
// One a node, for all of its volumes. A success counts for a volume whose epoch this process was in when the command
// began, and until the partner is heard of again: docs/developer/fence.md has the argument.
//
// Callers: GoingAlone asks, with each tick for as long as it wants to know; PairNode tells of the partner.
#include <optional>
#include <string>

#include "engine/seams/clock.hpp"

namespace lockstep::replication {

/// How a command ended.
struct FenceEnd {
  std::string problem;  ///< empty: the machine was off at some moment since it began; else why that is not known
  std::optional<engine::TimePoint> began{};  ///< nothing: when it was ordered
};

/// This machine's command, with its time limit. Real: mgmt/data_plane/fence_slot.hpp.
class Fence {
 public:
  virtual ~Fence() = default;
  /// There is one.
  [[nodiscard]] virtual bool configured() const = 0;
  /// Powers the partner's machine off, by a command that began at `since` or later. It may be off though the command
  /// failed. `done` runs once at the most, never from inside the call.
  virtual void power_off(engine::TimePoint since, engine::Callback<const FenceEnd&> done) = 0;
  /// What is under way is ended where that can still be done. Its `done` never runs.
  virtual void stop() = 0;
};

class Fencing {
 public:
  /// After a failure.
  static constexpr engine::Duration kAgainAfter = std::chrono::seconds(2);

  /// `patience`: a command that nobody has asked for within that time, or twice as long, is stopped. Several of a
  /// node's ticks.
  Fencing(engine::Clock& clock, Fence& fence, engine::Duration patience);
  ~Fencing();
  Fencing(const Fencing&) = delete;
  Fencing& operator=(const Fencing&) = delete;

  /// The partner's machine was powered off by a command that began at `since` or later. If not, one is run as soon as
  /// may be.
  [[nodiscard]] bool is_off(engine::TimePoint since);
  /// From the next look on.
  void set_patience(engine::Duration patience) { patience_ = patience; }
  /// The partner talks to this node: it is not to be powered off, and what was found out before counts no more.
  void on_contact();

  [[nodiscard]] bool configured() const { return fence_.configured(); }
  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  void begin(engine::TimePoint since);
  void end(const FenceEnd& how);
  void stop();
  void watch();

  engine::Clock& clock_;
  Fence& fence_;
  engine::Duration patience_;
  bool running_ = false;
  bool wanted_ = false;  ///< since the last look
  std::uint64_t run_ = 0;
  engine::TimePoint again_at_;
  engine::TimePoint ordered_;
  engine::TimePoint heard_at_;                  ///< of the partner: what began before counts no more
  std::optional<engine::TimePoint> off_since_;  ///< when the command began that succeeded
  engine::TimerId timer_{};
  std::string reason_;
};

}  // namespace lockstep::replication
