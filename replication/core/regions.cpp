#include "replication/core/regions.hpp"

#include <cassert>

namespace lockstep::replication {

void Regions::remember(bool yes) {
  remember_ = yes;
  if (!yes) std::erase_if(uses_, [](const auto& use) { return use.second.writes == 0; });
}

void Regions::begin_write(engine::Extent extent, engine::TimePoint now) {
  for (std::uint64_t r = extent.offset / size_; r * size_ < extent.end(); ++r) {
    Use& use = uses_[r];
    ++use.writes;
    use.touched = now;
  }
}

void Regions::end_write(engine::Extent extent, engine::TimePoint now) {
  for (std::uint64_t r = extent.offset / size_; r * size_ < extent.end(); ++r) {
    const auto found = uses_.find(r);
    assert(found != uses_.end() && found->second.writes > 0);
    found->second.touched = now;
    if (--found->second.writes == 0 && !remember_) uses_.erase(found);
  }
}

bool Regions::quiet_since(std::uint64_t region, engine::TimePoint since) const {
  const auto found = uses_.find(region);
  return found == uses_.end() || (found->second.writes == 0 && found->second.touched < since);
}

void Regions::forget(std::uint64_t region) {
  const auto found = uses_.find(region);
  if (found != uses_.end() && found->second.writes == 0) uses_.erase(found);
}

}  // namespace lockstep::replication
