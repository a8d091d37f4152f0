#pragma once
// Contact that is lost and made again, again and again. Each time hosts wait, and most lose their sessions: two nodes
// that agree at once whenever they can would never serve, though one of them, and its disk, is sound. So after the
// third loss within a minute one of the two goes on alone, by agreement, and the other one joins when contact has held
// for a while; for twice as long after each further loss, as a path of the link does.
//
//   Steady ──third loss within a minute──▶ Damped ──contact has held for a while──▶ Probation ──five minutes──▶ Steady
//                                            ▲                                          │
//                                            └────────────────── a loss ────────────────┘
//
// Whose fault it is each node sees by its own clock: one that stood still is not the one to go on.
//
// Pure: events and the time come in. It is this process's alone, and of this process of the partner's: a restart, of
// either, is no flapping.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/seams/clock.hpp"
#include "replication/core/node_settings.hpp"

namespace lockstep::replication {

class FlapDamping {
 public:
  static constexpr std::size_t kLosses = 3;
  static constexpr engine::Duration kWithin = std::chrono::minutes(1);
  static constexpr engine::Duration kFirstWait = std::chrono::seconds(3);
  static constexpr engine::Duration kLongestWait = std::chrono::seconds(60);
  static constexpr engine::Duration kForgivenAfter = std::chrono::minutes(5);

  explicit FlapDamping(const NodeSettings& settings) : settings_(settings) {}

  /// Contact was lost. `matters`: to hosts, since both served until then, or were to agree again, or one was brought up
  /// to date. `stood_still`: this node did, just now. Several calls within half a lease are of one loss.
  void lost(engine::TimePoint now, bool matters, bool stood_still);
  /// True: from now on the partner may join.
  [[nodiscard]] bool tick(engine::TimePoint now, bool in_contact);
  /// The partner is another process.
  void forget();

  /// One of the two is to go on alone, and the other one waits.
  [[nodiscard]] bool damped() const { return std::holds_alternative<Damped>(state_); }
  /// … which is this node, if the partner can go on.
  [[nodiscard]] bool stood_still() const;
  /// Damped: why the other replica does not join, or this one, which stood still.
  [[nodiscard]] std::string why_partner_waits() const;
  [[nodiscard]] std::string why_this_waits() const;

 private:
  struct Loss {
    engine::TimePoint at;
    bool stood_still = false;
  };
  struct Steady {
    std::vector<Loss> recent;
  };
  struct Damped {
    engine::Duration wait;
    engine::TimePoint since;  ///< of the last loss
    bool stood_still = false;
  };
  struct Probation {
    engine::Duration wait;  ///< that it was damped for
    engine::TimePoint since;
  };
  using State = std::variant<Steady, Damped, Probation>;

  void watch_own_clock(engine::TimePoint now);
  [[nodiscard]] engine::Duration within() const;
  [[nodiscard]] State after(Steady steady, const Loss& loss) const;
  [[nodiscard]] std::string wait() const;
  [[nodiscard]] bool has_held(const Damped& damped, engine::TimePoint now) const;

  const NodeSettings& settings_;
  State state_;
  std::optional<engine::TimePoint> lost_at_, looked_at_;
  std::optional<engine::TimePoint> held_since_;      ///< contact
  std::optional<engine::TimePoint> stood_still_at_;  ///< this node, for longer than half a lease, until then
};

}  // namespace lockstep::replication
