#include "mgmt/data_plane/witness_trials.hpp"

#include <utility>

namespace lockstep::data_plane {
namespace {

using engine::Errc;
constexpr const char* kTooMany = "Too many witnesses are being tried already.";

}  // namespace

void WitnessTrials::run(replication::EtcdSettings settings, engine::Callback<const replication::EtcdProbe&> done) {
  if (trials_.size() >= kMaxAtOnce) return done({false, false, kTooMany});
  const auto trial =
      trials_.emplace(trials_.end(), std::make_unique<replication::EtcdWitness>(reactor_, std::move(settings)));
  (*trial)->try_write([this, trial, done = std::move(done)](const replication::EtcdProbe& found) mutable {
    auto tell = std::move(done);
    trials_.erase(trial);
    tell(found);
  });
}

struct WitnessTrials::Forgetting {
  Trials::iterator trial;
  std::vector<engine::Uuid> volumes;  ///< still to be removed
  engine::Callback<engine::Result<void>> done;
};

void WitnessTrials::forget(replication::EtcdSettings settings, std::vector<engine::Uuid> volumes, std::uint64_t keep,
                           engine::Callback<engine::Result<void>> done) {
  if (trials_.size() >= kMaxAtOnce) return done(engine::fail(Errc::resource_exhausted, kTooMany));
  const auto trial =
      trials_.emplace(trials_.end(), std::make_unique<replication::EtcdWitness>(reactor_, std::move(settings)));
  const auto order = std::make_shared<Forgetting>(Forgetting{trial, std::move(volumes), std::move(done)});
  (*trial)->probe([this, order, keep](const replication::EtcdProbe& found) {
    if (found.answers && found.cluster != 0 && found.cluster != keep) return forget_next(order);
    trials_.erase(order->trial);
    order->done(engine::fail(Errc::refused,
                             found.answers ? "What answers there may be the witness that is in use." : found.problem));
  });
}

void WitnessTrials::forget_next(const std::shared_ptr<Forgetting>& order) {
  if (order->volumes.empty()) {
    trials_.erase(order->trial);
    return order->done({});
  }
  const engine::Uuid volume = order->volumes.back();
  order->volumes.pop_back();
  (*order->trial)->remove(volume, [this, order](std::error_code error) {
    if (!error) return forget_next(order);
    const std::string why = (*order->trial)->last_problem();
    trials_.erase(order->trial);
    order->done(engine::fail(Errc::io_error, why.empty() ? error.message() : why));
  });
}

}  // namespace lockstep::data_plane
