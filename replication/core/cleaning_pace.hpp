#pragma once
// How many regions are dirty too many, and when to clean next: by the pace at which writes make more of them, so that
// what comes before a batch is over does not pass the bound. Nobody who writes is held up: the bound is passed by what
// is written while a store needs longer for a flush than it takes to write half of the bound.
//
// Counts regions. Callers: the cleaner, with each tick.
#include <cstdint>

#include "engine/seams/clock.hpp"

namespace lockstep::replication {

class CleaningPace {
 public:
  static constexpr engine::Duration kEvery = std::chrono::milliseconds(200);  ///< a batch, unless more is needed

  explicit CleaningPace(std::uint64_t bound) : bound_(bound) {}

  /// So many are dirty now. With each tick, a few times in kEvery.
  void look(engine::TimePoint now, std::uint64_t dirty);
  [[nodiscard]] bool is_due(engine::TimePoint now) const;
  /// A batch is looked for.
  void begin(engine::TimePoint now);
  /// It was flushed since `began`, and has cleared so many.
  void end(engine::TimePoint began, engine::TimePoint now, std::uint64_t cleared);
  /// So many are to be cleaned, cold or not.
  [[nodiscard]] std::uint64_t too_many() const;

 private:
  std::uint64_t bound_;
  std::uint64_t dirty_ = 0;
  std::uint64_t coming_ = 0;  ///< before a batch is over that begins when the next one is due
  engine::Duration took_{0};  ///< the last batch
  engine::TimePoint looked_at_, began_;
  engine::TimePoint began_for_too_many_;
};

}  // namespace lockstep::replication
