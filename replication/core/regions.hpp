#pragma once
// Which regions are being written or were written lately: what the cleaner must leave alone. Holds only regions in use
// while a partner is kept equal, and only those in flight otherwise. Of those in use at most as many as it is told
// (the dirty bound limits them, but for a resync that takes hours): then it forgets all that are not in flight, and
// counts every region as written at that moment.
//
// A write of many regions is noted by chunks of regions, so that a range of gigabytes costs no more than a few hundred
// entries; its neighbours in the chunks at its ends count as written with it. One that is longer still, of a whole
// volume, counts as a write to all there is.
#include <cstdint>
#include <optional>

#include <boost/unordered/unordered_flat_map.hpp>

#include "engine/base/extent.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::replication {

/// Of a region, of a chunk of them, or of all.
struct RegionUse {
  unsigned writes = 0;  ///< under way
  engine::TimePoint touched;
};

class Regions {
 public:
  static constexpr std::uint64_t kChunk = 64;         ///< regions; a write of more is noted by chunks
  static constexpr std::uint64_t kMostChunks = 2048;  ///< of one write

  /// `most`: to remember, before all that rests is forgotten.
  Regions(std::uint32_t region_size, std::size_t most) : size_(region_size), most_(most), limit_(most) {}

  /// Remember when regions were written after the writes ended (a partner is kept equal), or forget them at once.
  void remember(bool yes);
  void begin_write(engine::Extent extent, engine::TimePoint now);
  void end_write(engine::Extent extent, engine::TimePoint now);
  /// Writes so far.
  [[nodiscard]] std::uint64_t begun() const { return begun_; }
  /// No write is under way there, and none began or ended at `since` or later.
  [[nodiscard]] bool quiet_since(std::uint64_t region, engine::TimePoint since) const;
  /// It is clean now. When its chunk was written, or all, that is forgotten too: the others of it, dirty still, are as
  /// quiet as this one, and at worst are cleaned before they are cold.
  void forget(std::uint64_t region);
  /// Regions and chunks.
  [[nodiscard]] std::size_t remembered() const { return uses_.size() + chunks_.size(); }

 private:
  using Use = RegionUse;
  using Uses = boost::unordered_flat_map<std::uint64_t, Use>;
  [[nodiscard]] bool is_wide(engine::Extent extent) const { return extent.length > size_ * kChunk; }
  [[nodiscard]] bool is_of_all(engine::Extent extent) const { return extent.length > size_ * kChunk * kMostChunks; }
  static void begin(Use& use, engine::TimePoint now);
  static void forget_resting(Uses& uses);
  void make_room(Uses& uses, engine::TimePoint now);
  static bool quiet(const Use& use, engine::TimePoint since) { return use.writes == 0 && use.touched < since; }
  static bool quiet_in(const Uses& uses, std::uint64_t key, engine::TimePoint since);
  static void forget_in(Uses& uses, std::uint64_t key);

  std::uint32_t size_;
  std::size_t most_;
  std::size_t limit_;  ///< … and more while more is in flight
  std::uint64_t begun_ = 0;
  bool remember_ = false;
  Uses uses_;    // by region
  Uses chunks_;  // by chunk
  std::optional<Use> all_;
  std::optional<engine::TimePoint> forgotten_at_;  ///< when what rested was
};

}  // namespace lockstep::replication
