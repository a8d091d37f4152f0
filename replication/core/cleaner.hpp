#pragma once
// Clears dirty bits lazily, on both nodes, from the node that orders: of regions that are equal and cold.
//
// A bit is cleared only after a flush of both stores that began after the region's last write and last comparison, and
// a new generation of both, and only if nothing wrote there since and no flush of this store's ever failed. The order
// to clear goes out before anything that is written later, and orders arrive in order; the clearing here begins in the
// same turn.
//
// Callers: membership, with each tick.
#include <optional>
#include <span>
#include <vector>

#include "replication/core/cleaning_pace.hpp"
#include "replication/core/cleaning_walk.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/regions.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class Cleaner {
 public:
  static constexpr std::size_t kBatch = 2048;  ///< regions that are cold; as many as are seen, where too many are dirty
  static constexpr std::size_t kMostInAMessage = 8192;

  Cleaner(const NodeSettings& settings, const engine::Clock& clock, const Standing& standing, LocalStore& store,
          Outbound& outbound, Regions& regions, const Resync& resync, Generations& generations)
      : settings_(settings),
        clock_(clock),
        standing_(standing),
        store_(store),
        outbound_(outbound),
        regions_(regions),
        resync_(resync),
        generations_(generations),
        pace_(settings.dirty_bound / store.region_size()) {}

  void tick();

 private:
  [[nodiscard]] bool may_clear() const;
  [[nodiscard]] bool busy() const { return busy_in_ == resync_.run(); }
  [[nodiscard]] bool may_be_cleaned(std::uint64_t region, engine::TimePoint quiet_since) const;
  void gather();
  void send_clear(std::span<const std::uint64_t> regions);
  void on_flushed(std::uint64_t run, bool ok);
  void clear();

  const NodeSettings& settings_;
  const engine::Clock& clock_;
  const Standing& standing_;
  LocalStore& store_;
  Outbound& outbound_;
  Regions& regions_;
  const Resync& resync_;
  Generations& generations_;
  CleaningPace pace_;
  /// The resync's run that a batch is under way in: where the two are no longer kept equal, it clears nothing.
  std::optional<std::uint64_t> busy_in_;
  unsigned flushes_ = 0;
  bool flushed_well_ = true;
  engine::TimePoint began_;
  CleaningWalk walk_;
  std::vector<std::uint64_t> batch_;
};

}  // namespace lockstep::replication
