#pragma once
// Paths of different kinds under one manager, and the time that passes for them.
#include <array>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "replication/link/channel/path_manager.hpp"

namespace lockstep::replication {

using namespace std::chrono_literals;

inline constexpr PathSlot kFast{0}, kSlow{1}, kTwin{2};
inline const PathRank kRdma = rank_of(PathTransport::rdma, 25'000, 0), kTcp = rank_of(PathTransport::tcp, 10'000, 0);

class Paths : public testing::Test {
 protected:
  void make(std::vector<PathRank> ranks) { manager.emplace(PathTimes{}, ranks); }
  void come_up(PathSlot path) {
    join(path);
    manager->carried(path);
  }
  /// Without anything large that came through.
  void join(PathSlot path) {
    manager->connected(path, now);
    manager->joined(path, now);
  }
  void fault(PathSlot path) {
    manager->failed(path, now);
    manager->destroyed(path, now);
  }
  /// Time passes; those in `speaking` are heard all the time. What was ordered meanwhile.
  PathOrders pass(engine::Duration time, PathSet speaking) {
    PathOrders all;
    for (const auto until = now + time; now < until;) {
      now = now + 25ms;
      for (std::uint8_t p = 0; p < manager->count(); ++p) {
        if (speaking.contains(PathSlot{p})) manager->heard(PathSlot{p}, now);
      }
      const PathOrders orders = manager->tick(now);
      for (std::uint8_t p = 0; p < manager->count(); ++p) {
        if (orders.probe.contains(PathSlot{p})) all.probe.add(PathSlot{p});
        if (orders.end.contains(PathSlot{p})) all.end.add(PathSlot{p});
        if (orders.prove.contains(PathSlot{p})) all.prove.add(PathSlot{p});
      }
      all.session_over |= orders.session_over;
    }
    return all;
  }
  static PathSet set(std::initializer_list<PathSlot> slots) {
    PathSet all;
    for (const PathSlot s : slots) all.add(s);
    return all;
  }
  [[nodiscard]] std::optional<PathSlot> best() const { return manager->best(load, now); }

  engine::TimePoint now{10s};
  std::optional<PathManager> manager;
  std::array<std::uint64_t, kMaxPaths> load{};
};

}  // namespace lockstep::replication
