#pragma once
// Which regions are being written or were written lately: what the cleaner must leave alone. Holds only regions in use
// while a partner is kept equal (the dirty bound limits them), and only those in flight otherwise.
#include <cstdint>
#include <unordered_map>

#include "engine/base/extent.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::replication {

class Regions {
 public:
  explicit Regions(std::uint32_t region_size) : size_(region_size) {}

  /// Remember when regions were written after the writes ended (a partner is kept equal), or forget them at once.
  void remember(bool yes);
  void begin_write(engine::Extent extent, engine::TimePoint now);
  void end_write(engine::Extent extent, engine::TimePoint now);
  /// No write is under way there, and none began or ended at `since` or later.
  [[nodiscard]] bool quiet_since(std::uint64_t region, engine::TimePoint since) const;
  void forget(std::uint64_t region);

 private:
  struct Use {
    unsigned writes = 0;
    engine::TimePoint touched;
  };
  std::uint32_t size_;
  bool remember_ = false;
  std::unordered_map<std::uint64_t, Use> uses_;
};

}  // namespace lockstep::replication
