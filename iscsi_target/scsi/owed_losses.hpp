#pragma once
// What the end of a nexus owes to a unit: RESERVE and PREVENT go with it (scsi::LuRequestKind::nexus_lost), but the
// disk may be unable to carry that out just then. It is owed until it is in force. A session of the same names that is
// there before that inherits nothing: what it would hold itself waits, since the loss would take that, too.
//
// However many come, none is forgotten: what exceeds the bound becomes a reset of the unit, which releases what any
// nexus holds, and which all are told of.
//
// Kept at the unit and not on a reactor, since an initiator port that comes back may come to any of them. Any thread;
// that nothing is owed is said without a wait.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/scsi/lu_state.hpp"

namespace lockstep::iscsi_target {

class OwedLosses {
 public:
  /// One by one. No more than kMaxPreventions + 1 nexuses hold anything at once; others may, as far as they were told.
  static constexpr std::size_t kMost = 1024;

  struct Loss {
    std::uint64_t number = 0;
    scsi::LuRequest request{};
  };

  /// What is returned is on its way to the disk from now on: this, or the reset that stands for it; answered() follows.
  [[nodiscard]] Loss begin(scsi::LuRequest request);
  /// False: it is due once more.
  void answered(std::uint64_t number, bool settled);

  /// take_due() would give something.
  [[nodiscard]] bool are_due() const { return due_.load(std::memory_order_relaxed); }
  /// The oldest, `most` of them. They are on their way from now on; answered() follows for each.
  [[nodiscard]] std::vector<Loss> take_due(std::size_t most);
  /// The nexus is gone, and what it held soon will be.
  [[nodiscard]] bool has(const scsi::NexusKey& nexus) const;

 private:
  struct Owed : Loss {
    bool is_due = false;
  };
  Loss begin_reset(scsi::LuRequest request);
  void note();

  mutable std::atomic_flag busy_;
  std::vector<Owed> owed_;  // oldest first
  std::uint64_t last_ = 0;
  std::atomic<bool> any_{false}, due_{false};
};

}  // namespace lockstep::iscsi_target
