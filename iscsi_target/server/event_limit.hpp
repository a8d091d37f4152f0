#pragma once
// How often strangers may make us speak: refused logins and discovery sessions cost their initiators nothing, and each
// is an event that is logged and told.
#include <cstdint>
#include <optional>
#include <utility>

#include "engine/seams/clock.hpp"

namespace lockstep::iscsi_target {

/// Not thread-safe.
class EventLimit {
 public:
  static constexpr unsigned kMost = 20;                                ///< events
  static constexpr engine::Duration kWhile = std::chrono::seconds(1);  ///< in this time
  explicit EventLimit(unsigned most = kMost, engine::Duration within = kWhile) : most_(most), within_(within) {}

  /// Nothing: not to be told. Otherwise how many were not told since the last that was.
  [[nodiscard]] std::optional<std::uint64_t> pass(engine::TimePoint now) {
    if (!begun_ || now - *begun_ >= within_) {
      begun_ = now;
      told_ = 0;
    }
    if (told_ == most_) {
      ++untold_;
      return std::nullopt;
    }
    ++told_;
    return std::exchange(untold_, 0);
  }

 private:
  unsigned most_;
  engine::Duration within_;
  std::optional<engine::TimePoint> begun_;
  unsigned told_ = 0;
  std::uint64_t untold_ = 0;
};

}  // namespace lockstep::iscsi_target
