#include "replication/core/regions.hpp"

#include <cassert>

namespace lockstep::replication {

void Regions::remember(bool yes) {
  remember_ = yes;
  if (yes) return;
  const auto is_over = [](const auto& use) { return use.second.writes == 0; };
  erase_if(uses_, is_over);
  erase_if(chunks_, is_over);
}

void Regions::begin_write(engine::Extent extent, engine::TimePoint now) {
  ++begun_;
  const bool wide = is_wide(extent);
  Uses& uses = wide ? chunks_ : uses_;
  const std::uint64_t unit = wide ? size_ * kChunk : size_;
  for (std::uint64_t at = extent.offset / unit; at * unit < extent.end(); ++at) {
    Use& use = uses[at];
    ++use.writes;
    use.touched = now;
  }
}

void Regions::end_write(engine::Extent extent, engine::TimePoint now) {
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
  return found == uses.end() || (found->second.writes == 0 && found->second.touched < since);
}

bool Regions::quiet_since(std::uint64_t region, engine::TimePoint since) const {
  return quiet_in(uses_, region, since) && quiet_in(chunks_, region / kChunk, since);
}

void Regions::forget_in(Uses& uses, std::uint64_t key) {
  const auto found = uses.find(key);
  if (found != uses.end() && found->second.writes == 0) uses.erase(found);
}

void Regions::forget(std::uint64_t region) {
  forget_in(uses_, region);
  forget_in(chunks_, region / kChunk);
}

}  // namespace lockstep::replication
