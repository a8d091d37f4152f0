#include "replication/core/cleaning_pace.hpp"

#include <algorithm>
#include <chrono>

namespace lockstep::replication {

void CleaningPace::look(engine::TimePoint now, std::uint64_t dirty) {
  const engine::Duration passed = std::max<engine::Duration>(now - looked_at_, std::chrono::milliseconds(1));
  const double batches_in_it = static_cast<double>((kEvery + took_).count()) / static_cast<double>(passed.count());
  const std::uint64_t fresh = dirty - std::min(dirty, dirty_);
  coming_ = static_cast<std::uint64_t>(static_cast<double>(fresh) * batches_in_it);
  dirty_ = dirty;
  looked_at_ = now;
}

/// Up to half of the bound is kept free for what comes, and a little always: after a batch more is marked than before.
/// No more than half, for what is written again soon would be marked each time.
std::uint64_t CleaningPace::too_many() const {
  const std::uint64_t most = bound_ - bound_ / 16 - std::min(coming_, bound_ / 2);
  return dirty_ - std::min(dirty_, most);
}

bool CleaningPace::is_due(engine::TimePoint now) const {
  if (now - began_ > kEvery) return true;
  const bool comes_fast = coming_ >= bound_ / 4;
  return too_many() > 0 && (comes_fast || now - began_for_too_many_ > kEvery);
}

void CleaningPace::begin(engine::TimePoint now) {
  began_ = now;
  if (too_many() > 0) began_for_too_many_ = now;
}

void CleaningPace::end(engine::TimePoint began, engine::TimePoint now, std::uint64_t cleared) {
  took_ = now - began;
  dirty_ -= std::min(dirty_, cleared);
}

}  // namespace lockstep::replication
