#pragma once
// How fast resyncs may go beside what initiators ask for.
//
// ResyncGovernor, one a volume: latencies of the initiators' operations in, a rate out. It widens while they take about
// as long as they did when it was narrow, and narrows when they take longer. It never goes below a floor, so that a
// resync ends however busy the volume is, nor above a ceiling.
//
// ResyncPace, one a node: floor and ceiling are the operator's for all volumes together. RateLimit: a rate in, moments
// out. None of them knows a clock; rates are bytes a second.
#include <array>
#include <cstdint>

#include "engine/seams/clock.hpp"

namespace lockstep::replication {

struct ResyncLimits {
  std::uint64_t floor = 0;    ///< 0: as slow as kSlowest
  std::uint64_t ceiling = 0;  ///< 0: none
};

class ResyncGovernor {
 public:
  static constexpr engine::Duration kInterval = std::chrono::milliseconds(100);  ///< between two looks
  static constexpr std::uint64_t kSlowest = std::uint64_t{256} << 10;            ///< where there is no floor
  static constexpr std::uint64_t kFastest = std::uint64_t{1} << 37;              ///< no limit any more
  static constexpr unsigned kFewest = 4;  ///< operations in an interval; less of them say nothing
  /// So much longer than usual an operation may take, and no less than half as long again as usual.
  static constexpr engine::Duration kSlack = std::chrono::microseconds(300);

  enum class Kind : std::uint8_t { read, write };

  /// A resync begins; nothing is known of what is usual.
  void begin(engine::TimePoint now);
  /// An initiator's operation ended that took so long.
  void note(Kind kind, engine::Duration took);
  /// So much was begun to be copied.
  void spend(std::uint64_t bytes) { spent_ += bytes; }
  /// The rate from now on; looks at what was noted where an interval is over.
  [[nodiscard]] std::uint64_t rate(engine::TimePoint now, const ResyncLimits& limits);

 private:
  struct Latency {
    engine::Duration sum{0};
    unsigned count = 0;
    engine::Duration usual{0};  ///< while the resync is narrow; 0: not known yet
    /// Of the interval that ends: too long. At the floor it becomes the usual one, by and by.
    [[nodiscard]] bool look(bool at_floor);
  };
  void look(engine::TimePoint now, const ResyncLimits& limits);

  std::array<Latency, 2> latencies_;
  engine::TimePoint looked_;
  std::uint64_t rate_ = 0;   ///< begins narrow: that is when it is seen what is usual
  std::uint64_t spent_ = 0;  ///< in this interval
};

/// Something may begin while nothing is owed. What it takes is owed then, and earned back at the rate. What is taken
/// without asking is owed, too, up to a second's worth: else much of it would keep all others waiting for minutes.
class RateLimit {
 public:
  static constexpr engine::Duration kBurst = std::chrono::milliseconds(20);  ///< that may be saved up

  [[nodiscard]] bool may_begin(engine::TimePoint now, std::uint64_t rate);
  void take(std::uint64_t bytes);
  /// Until may_begin(), at that rate.
  [[nodiscard]] engine::Duration wait(std::uint64_t rate) const;

 private:
  std::int64_t owed_ = 0;     ///< bytes; negative: saved
  std::int64_t largest_ = 0;  ///< taken at once
  engine::TimePoint since_;
};

/// Of all of a node's resyncs.
class ResyncPace {
 public:
  void begin() { ++active_; }
  void end() { --active_; }
  /// One volume's part of the floor, and the ceiling of all.
  [[nodiscard]] ResyncLimits share(std::uint64_t floor, std::uint64_t ceiling) const;
  [[nodiscard]] RateLimit& ceiling() { return ceiling_; }

 private:
  unsigned active_ = 0;
  RateLimit ceiling_;
};

}  // namespace lockstep::replication
