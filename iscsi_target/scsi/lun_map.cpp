#include "iscsi_target/scsi/lun_map.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace lockstep::iscsi_target {

engine::Result<std::shared_ptr<const LunMap>> LunMap::make(std::vector<LunEntry> entries,
                                                           std::shared_ptr<const AccessView> access) {
  std::ranges::sort(entries, {}, &LunEntry::lun);
  std::set<const LogicalUnit*> seen;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const LunEntry& entry = entries[i];
    const std::string name = "volume " + *entry.unit->name();
    if (entry.lun >= kMaxLuns) {
      return engine::fail(engine::Errc::out_of_range, name + ": LUN " + std::to_string(entry.lun) +
                                                          " is too high; choose one below " + std::to_string(kMaxLuns));
    }
    if (i > 0 && entries[i - 1].lun == entry.lun) {
      return engine::fail(engine::Errc::refused, name + ": LUN " + std::to_string(entry.lun) + " is taken by volume " +
                                                     *entries[i - 1].unit->name() +
                                                     "; give each volume a LUN of its own");
    }
    if (!seen.insert(entry.unit.get()).second) {
      return engine::fail(engine::Errc::refused, name + " stands at two LUNs; a volume has one");
    }
  }
  auto map = std::make_shared<LunMap>();
  map->entries_ = std::move(entries);
  map->access_ = std::move(access);
  return std::shared_ptr<const LunMap>(std::move(map));
}

std::optional<std::uint16_t> decode_lun(std::uint64_t lun) {
  if (lun & 0x0000'FFFF'FFFF'FFFF) return std::nullopt;
  const auto first = static_cast<std::uint16_t>(lun >> 48);
  switch (first >> 14) {
    case 0:
      return first <= 0xFF ? std::optional<std::uint16_t>(first) : std::nullopt;  // bus 0 only
    case 1:
      return static_cast<std::uint16_t>(first & 0x3FFF);
    default:
      return std::nullopt;
  }
}

std::uint64_t encode_lun(std::uint16_t lun) {
  return std::uint64_t{lun <= 0xFF ? lun : static_cast<std::uint16_t>(0x4000 | lun)} << 48;
}

}  // namespace lockstep::iscsi_target
