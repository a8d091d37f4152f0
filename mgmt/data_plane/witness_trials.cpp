#include "mgmt/data_plane/witness_trials.hpp"

#include <utility>

namespace lockstep::mgmt {

void WitnessTrials::run(replication::EtcdSettings settings, engine::Callback<const replication::EtcdProbe&> done) {
  if (trials_.size() >= kMaxAtOnce) return done({false, false, "Too many witnesses are being tried already."});
  auto witness = std::make_unique<replication::EtcdWitness>(reactor_, std::move(settings));
  const auto trial = trials_.emplace(trials_.end(), std::move(witness), std::move(done));
  trial->witness->probe([this, trial](const replication::EtcdProbe& found) {
    auto tell = std::move(trial->done);
    trials_.erase(trial);
    tell(found);
  });
}

}  // namespace lockstep::mgmt
