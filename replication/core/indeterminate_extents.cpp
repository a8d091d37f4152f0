#include "replication/core/indeterminate_extents.hpp"

#include <algorithm>

namespace lockstep::replication {

using engine::Extent;

void IndeterminateExtents::add(Extent extent) {
  const auto covers = [&](const Extent& e) { return e.offset <= extent.offset && extent.end() <= e.end(); };
  if (extent.empty() || std::ranges::any_of(extents_, covers)) return;
  if (extents_.size() < kMost) return extents_.push_back(extent);
  Extent& last = extents_.back();
  const std::uint64_t begin = std::min(last.offset, extent.offset), end = std::max(last.end(), extent.end());
  last = {begin, end - begin};
}

void IndeterminateExtents::settle(Extent extent) {
  const std::size_t count = extents_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Extent e = extents_[i];
    if (!e.overlaps(extent)) continue;
    const bool splits = e.offset < extent.offset && extent.end() < e.end();
    if (splits && extents_.size() >= kMost) continue;  // as beyond the bound of add(): more is doubted, never less
    // What sticks out before and behind stays.
    extents_[i].length = e.offset < extent.offset ? extent.offset - e.offset : 0;
    if (extent.end() < e.end()) extents_.push_back({extent.end(), e.end() - extent.end()});
  }
  std::erase_if(extents_, [](const Extent& e) { return e.empty(); });
}

bool IndeterminateExtents::overlap(Extent extent) const {
  return std::ranges::any_of(extents_, [&](const Extent& e) { return e.overlaps(extent); });
}

std::vector<Extent> IndeterminateExtents::within(Extent extent) const {
  std::vector<Extent> parts;
  for (const Extent e : extents_) {
    if (!e.overlaps(extent)) continue;
    const std::uint64_t from = std::max(e.offset, extent.offset), to = std::min(e.end(), extent.end());
    parts.push_back({from, to - from});
  }
  std::ranges::sort(parts, {}, &Extent::offset);
  return parts;
}

}  // namespace lockstep::replication
