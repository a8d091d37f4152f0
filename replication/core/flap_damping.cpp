#include "replication/core/flap_damping.hpp"

#include <algorithm>
#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Duration;
using engine::TimePoint;

namespace {
/// For a lease that is long: losses can't come more often than once in each, and contact that has not outlived one says
/// nothing.
constexpr int kWithinLeases = 8, kFirstWaitLeases = 2;
}  // namespace

Duration FlapDamping::within() const { return std::max(kWithin, kWithinLeases * settings_.lease); }

void FlapDamping::watch_own_clock(TimePoint now) {
  const auto before = std::exchange(looked_at_, now);
  if (before && now - *before > settings_.lease / 2) stood_still_at_ = now;
}

FlapDamping::State FlapDamping::after(Steady steady, const Loss& loss) const {
  std::erase_if(steady.recent, [&](const Loss& old) { return loss.at - old.at > within(); });
  steady.recent.push_back(loss);
  if (steady.recent.size() < kLosses) return steady;
  mark<"flapping.damped">();
  const auto own = std::ranges::count(steady.recent, true, &Loss::stood_still);
  return Damped{std::max(kFirstWait, kFirstWaitLeases * settings_.lease), loss.at, own > long{kLosses} / 2};
}

void FlapDamping::lost(TimePoint now, bool matters, bool stood_still) {
  watch_own_clock(now);
  held_since_.reset();
  if (lost_at_ && now - *lost_at_ < settings_.lease / 2) return;
  const bool lately = stood_still_at_ && now - *stood_still_at_ < settings_.lease;
  const Loss loss{now, stood_still || lately};
  if (auto* steady = std::get_if<Steady>(&state_)) {
    if (!matters) return;
    state_ = after(std::move(*steady), loss);
  } else if (auto* damped = std::get_if<Damped>(&state_)) {
    damped->since = now;
  } else {
    mark<"flapping.relapsed">();
    const Duration wait = 2 * std::get<Probation>(state_).wait;
    state_ = Damped{std::min(wait, std::max(kLongestWait, kFirstWaitLeases * settings_.lease)), now, loss.stood_still};
  }
  lost_at_ = now;
}

bool FlapDamping::has_held(const Damped& damped, TimePoint now) const {
  if (!held_since_) return false;
  return now - std::max({*held_since_, damped.since, stood_still_at_.value_or(TimePoint{})}) >= damped.wait;
}

bool FlapDamping::tick(TimePoint now, bool in_contact) {
  watch_own_clock(now);
  if (!in_contact) held_since_.reset();
  if (in_contact && !held_since_) held_since_ = now;
  if (const auto* damped = std::get_if<Damped>(&state_); damped && has_held(*damped, now)) {
    mark<"flapping.contact_has_held">();
    state_ = Probation{damped->wait, now};
    return true;
  }
  const auto* probation = std::get_if<Probation>(&state_);
  if (probation && now - probation->since >= kForgivenAfter) state_ = Steady{};
  return false;
}

void FlapDamping::forget() {
  state_ = Steady{};
  lost_at_.reset();
}

bool FlapDamping::stood_still() const {
  const auto* damped = std::get_if<Damped>(&state_);
  return damped && damped->stood_still;
}

std::string FlapDamping::wait() const {
  const Duration wait = std::get<Damped>(state_).wait;
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(wait).count()) + " s.";
}

std::string FlapDamping::why_partner_waits() const {
  return "The contact with the partner broke again and again within a short time. Its replica joins when contact has "
         "held for " +
         wait();
}

std::string FlapDamping::why_this_waits() const {
  return "This node stood still again and again within a short time, and the partner goes on alone. This replica joins "
         "when the node has gone on without a pause for " +
         wait();
}

}  // namespace lockstep::replication
