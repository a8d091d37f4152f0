#include "replication/core/regions.hpp"

#include <algorithm>
#include <cassert>

namespace lockstep::replication {

void Regions::forget_resting(Uses& uses) {
  erase_if(uses, [](const auto& use) { return use.second.writes == 0; });
}

void Regions::remember(bool yes) {
  remember_ = yes;
  if (yes) return;
  for (Uses* uses : {&uses_, &chunks_}) {
    forget_resting(*uses);
    uses->rehash(0);
  }
  if (all_ && all_->writes == 0) all_.reset();
  forgotten_at_.reset();
}

/// Before a write is noted, so that no entry of its own is forgotten.
void Regions::make_room(Uses& uses, engine::TimePoint now) {
  if (uses.size() < limit_ || !remember_) return;
  forget_resting(uses);
  limit_ = std::max(most_, 2 * uses.size());
  forgotten_at_ = now;
}

void Regions::begin(Use& use, engine::TimePoint now) {
  ++use.writes;
  use.touched = now;
}

void Regions::begin_write(engine::Extent extent, engine::TimePoint now) {
  ++begun_;
  if (is_of_all(extent)) return begin(all_ ? *all_ : all_.emplace(), now);
  const bool wide = is_wide(extent);
  Uses& uses = wide ? chunks_ : uses_;
  const std::uint64_t unit = wide ? size_ * kChunk : size_;
  make_room(uses, now);
  for (std::uint64_t at = extent.offset / unit; at * unit < extent.end(); ++at) begin(uses[at], now);
}

void Regions::end_write(engine::Extent extent, engine::TimePoint now) {
  if (is_of_all(extent)) {
    assert(all_ && all_->writes > 0);
    all_->touched = now;
    if (--all_->writes == 0 && !remember_) all_.reset();
    return;
  }
  const bool wide = is_wide(extent);
  Uses& uses = wide ? chunks_ : uses_;
  const std::uint64_t unit = wide ? size_ * kChunk : size_;
  for (std::uint64_t at = extent.offset / unit; at * unit < extent.end(); ++at) {
    const auto found = uses.find(at);
    assert(found != uses.end() && found->second.writes > 0);
    found->second.touched = now;
    if (--found->second.writes == 0 && !remember_) uses.erase(found);
  }
}

bool Regions::quiet_in(const Uses& uses, std::uint64_t key, engine::TimePoint since) {
  const auto found = uses.find(key);
  return found == uses.end() || quiet(found->second, since);
}

bool Regions::quiet_since(std::uint64_t region, engine::TimePoint since) const {
  if (forgotten_at_ && *forgotten_at_ >= since) return false;
  return quiet_in(uses_, region, since) && quiet_in(chunks_, region / kChunk, since) && (!all_ || quiet(*all_, since));
}

void Regions::forget_in(Uses& uses, std::uint64_t key) {
  const auto found = uses.find(key);
  if (found != uses.end() && found->second.writes == 0) uses.erase(found);
}

void Regions::forget(std::uint64_t region) {
  forget_in(uses_, region);
  forget_in(chunks_, region / kChunk);
  if (all_ && all_->writes == 0) all_.reset();
}

}  // namespace lockstep::replication
