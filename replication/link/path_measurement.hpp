#pragma once
// How fast one path of the link is, measured beside what it carries: at each size first one request after the other,
// then some at once. What is under way for it is at most 2 MiB, which delays a write by 2 ms at 10 Gb/s.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runtime/buffer_pool.hpp"
#include "replication/link/paths_link.hpp"

namespace lockstep::replication {

struct SizeMeasured {
  std::size_t bytes = 0;  ///< payload of a request
  std::uint64_t round_trips = 0;
  engine::Duration least{}, median{}, p99{};  ///< of round trips one after the other
  std::uint64_t bytes_a_second = 0;           ///< of some at once
};

struct PathMeasured {
  std::vector<SizeMeasured> sizes;
  bool whole = false;   ///< false: the path was lost on the way, or has not joined a link session
  bool copied = false;  ///< over RDMA: out of memory that no network card knows, so that a processor copied all of it
};

constexpr std::array<std::size_t, 4> kMeasuredSizes{64, 4096, 65536, kMaxLinkPayload};

/// On the reactor's thread. Destroying it gives the measurement up; `done` does not run then.
class PathMeasurement {
 public:
  static constexpr engine::Duration kEach = std::chrono::milliseconds(250);  ///< twice for each size

  /// `done` runs once, never from in here, after about two seconds. `memory`: what is sent lies in there,
  /// kMaxLinkPayload bytes; empty: in memory of its own.
  PathMeasurement(engine::Clock& clock, PathsLink& link, PathSlot path, engine::Callback<const PathMeasured&> done,
                  engine::Buffer memory = {});
  ~PathMeasurement();

 private:
  struct Run;
  std::shared_ptr<Run> run_;  ///< kept by what is under way
};

}  // namespace lockstep::replication
