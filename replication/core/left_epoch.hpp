#pragma once
// What this node keeps of an epoch that it left and could not record in the replica's metadata (left_records.hpp).
//
// Guarantees: it is forgotten only when the metadata has that epoch, or one that follows it. Callers: membership.
#include <optional>

#include "replication/core/local_store.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class LeftEpoch {
 public:
  LeftEpoch(LeftRecords* records, const Standing& standing, const LocalStore& store)
      : records_(records), standing_(standing), store_(store) {}

  [[nodiscard]] std::optional<engine::EpochRecord> record() const;
  /// This replica left an epoch, and its metadata does not know.
  [[nodiscard]] bool is_ahead() const;
  void forget_if_recorded();
  [[nodiscard]] bool can_keep() const { return records_ != nullptr; }
  /// Requires can_keep().
  void keep(const engine::EpochRecord& next, engine::IoCallback done);
  /// Nothing is being kept.
  [[nodiscard]] bool idle() const { return owed_ == 0; }

 private:
  LeftRecords* records_;
  const Standing& standing_;
  const LocalStore& store_;
  unsigned owed_ = 0;
};

}  // namespace lockstep::replication
