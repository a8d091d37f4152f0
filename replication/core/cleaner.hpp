#pragma once
// Clears dirty bits lazily, on both nodes, from the node that orders: of regions that are equal and cold.
//
// A bit is cleared only after a flush of both stores that began after the region's last write and last comparison, and
// a new generation of both, and only if nothing wrote there since and no flush of this store's ever failed. The order
// to clear goes out before anything that is written later, and orders arrive in order; the clearing here begins in the
// same turn.
#include <vector>

#include "replication/core/core_state.hpp"

namespace lockstep::replication {

class Cleaner : Shared {
 public:
  static constexpr std::size_t kBatch = 2048;  ///< regions

  explicit Cleaner(Core& core) : Shared(core), core_(core) {}

  /// The two are no longer kept equal: a batch under way clears nothing.
  void cancel();
  void tick();

 private:
  [[nodiscard]] bool may_clear() const;
  void gather();
  void on_flushed(std::uint64_t run, bool ok);
  void clear();

  Core& core_;
  std::uint64_t run_ = 0;
  bool busy_ = false;
  unsigned flushes_ = 0;
  bool flushed_well_ = true;
  engine::TimePoint began_;
  std::uint64_t cursor_ = 0;
  std::vector<std::uint64_t> batch_;
};

}  // namespace lockstep::replication
