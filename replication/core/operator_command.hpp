#pragma once
// What an operator asked of a volume's membership and waits for: one command at a time.
#include <cstdint>
#include <utility>

#include "engine/base/result.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::replication {

class OperatorCommand {
 public:
  using Done = engine::Callback<engine::Result<void>>;
  enum class Kind : std::uint8_t { leave, force_solo, give_up };

  [[nodiscard]] bool waits() const { return static_cast<bool>(done_); }
  [[nodiscard]] bool waits_for(Kind kind) const { return waits() && kind_ == kind; }
  [[nodiscard]] bool is_overdue(engine::TimePoint now) const { return waits() && now >= until_; }
  /// None waits.
  void begin(Kind kind, Done done, engine::TimePoint until) {
    done_ = std::move(done);
    kind_ = kind;
    until_ = until;
  }
  void wait_until(engine::TimePoint until) { until_ = until; }
  /// Tells who waits, if anybody does; that one may begin another command at once.
  void finish(engine::Result<void> result) {
    if (auto done = std::exchange(done_, nullptr)) done(std::move(result));
  }

 private:
  Done done_;
  Kind kind_ = Kind::leave;
  engine::TimePoint until_;
};

}  // namespace lockstep::replication
