#include "replication/core/left_epoch.hpp"

namespace lockstep::replication {

std::optional<engine::EpochRecord> LeftEpoch::record() const {
  if (!records_) return std::nullopt;
  return records_->kept(store_.info.id).value_or(std::nullopt);  // what can't be read was not attached
}

bool LeftEpoch::is_ahead() const {
  const auto left = record();
  return left && left->id != standing_.epoch().id && left->descends_from(standing_.epoch());
}

void LeftEpoch::forget_if_recorded() {
  const auto left = record();
  if (left && standing_.epoch().descends_from(*left)) records_->forget(store_.info.id);
}

void LeftEpoch::keep(const engine::EpochRecord& next, engine::IoCallback done) {
  records_->keep(store_.info.id, next, counted(owed_, std::move(done)));
}

}  // namespace lockstep::replication
