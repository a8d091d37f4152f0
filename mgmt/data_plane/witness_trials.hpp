#pragma once
// Asks witnesses that are not in use, to find out whether they could be.
#include <list>
#include <memory>

#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/etcd_witness.hpp"

namespace lockstep::mgmt {

/// Owned by one reactor. Destroying it drops what is outstanding without calling back.
class WitnessTrials {
 public:
  static constexpr std::size_t kMaxAtOnce = 16;  ///< one more is told that too many are under way

  explicit WitnessTrials(engine::Reactor& reactor) : reactor_(reactor) {}
  /// `settings` has an endpoint. `done` runs once, perhaps from inside the call.
  void run(replication::EtcdSettings settings, engine::Callback<const replication::EtcdProbe&> done);

 private:
  struct Trial {
    std::unique_ptr<replication::EtcdWitness> witness;
    engine::Callback<const replication::EtcdProbe&> done;
  };
  engine::Reactor& reactor_;
  std::list<Trial> trials_;
};

}  // namespace lockstep::mgmt
