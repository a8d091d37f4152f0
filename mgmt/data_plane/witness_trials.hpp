#pragma once
// Asks witnesses that are not in use: whether they could be, and to forget what they were told when they were.
#include <list>
#include <memory>
#include <vector>

#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/etcd_witness.hpp"

namespace lockstep::data_plane {

/// Owned by one reactor. Destroying it drops what is outstanding without calling back.
class WitnessTrials {
 public:
  static constexpr std::size_t kMaxAtOnce = 16;  ///< one more is told that too many are under way

  explicit WitnessTrials(engine::Reactor& reactor) : reactor_(reactor) {}
  /// `settings` has an endpoint. `done` runs once, perhaps from inside the call.
  void run(replication::EtcdSettings settings, engine::Callback<const replication::EtcdProbe&> done);
  /// Removes the records of these volumes; those that are not there count as removed. Refused where the cluster that
  /// answers is `keep`, or may be: its records are in use.
  void forget(replication::EtcdSettings settings, std::vector<engine::Uuid> volumes, std::uint64_t keep,
              engine::Callback<engine::Result<void>> done);

 private:
  using Trials = std::list<std::unique_ptr<replication::EtcdWitness>>;
  struct Forgetting;
  void forget_next(const std::shared_ptr<Forgetting>& order);

  engine::Reactor& reactor_;
  Trials trials_;
};

}  // namespace lockstep::data_plane
