#pragma once
// What this node's store holds of writes that it failed: the old bytes, the new ones or both, and none of them need
// survive a power cut. Nothing of it may be shown, to an initiator or to the partner, before it was written back.
#include <cstddef>
#include <vector>

#include "engine/base/extent.hpp"

namespace lockstep::replication {

class IndeterminateExtents {
 public:
  static constexpr std::size_t kMost = 256;  ///< extents; more are joined, which takes in what lies between them too

  void add(engine::Extent extent);
  /// What is there now is on stable storage, or counts as any other write.
  void settle(engine::Extent extent);
  [[nodiscard]] bool overlap(engine::Extent extent) const;
  /// What of `extent` is, in order.
  [[nodiscard]] std::vector<engine::Extent> within(engine::Extent extent) const;
  [[nodiscard]] bool none() const { return extents_.empty(); }

 private:
  std::vector<engine::Extent> extents_;  // may overlap
};

}  // namespace lockstep::replication
