// What initiators see: the map of LUNs, in which a unit that is unavailable stands in for each volume that is wanted
// and not attached.
#include <set>

#include "mgmt/data_plane/absent_unit.hpp"
#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_error;
using mgmt::log_info;

using engine::Uuid;
using iscsi_target::LogicalUnit;

/// Of a volume that is about to be detached.
void Node::note_size(const Volume& volume) {
  if (volume.unit) shown_sizes_[volume.spec.id] = volume.unit->blocks() * volume.unit->block_size();
}

/// One that stands in already stays the same unit, for a new one is news to hosts. Its size is that which the volume
/// had when it was detached, or else that which was wanted first: what is wanted since may not be served yet.
Node::Absent Node::stand_in(const VolumeSpec& spec) {
  const auto settings = unit_settings(spec);
  const auto before = absent_.find(spec.id);
  if (before != absent_.end() && !needs_reattach(before->second.spec, spec)) {
    const auto& unit = before->second.unit;
    if (unit->settings().target_name == settings.target_name) {
      unit->set_name(spec.name);
      unit->set_paired(settings.paired);
      unit->set_use(spec.read_only, spec.write_cache);
      return {spec, unit};
    }
  }
  engine::DiskInfo info = disk_info(spec);
  info.size = shown_sizes_.try_emplace(spec.id, spec.size).first->second;
  log_info("Volume " + spec.name + ": not attached; hosts see it as unavailable on this node.");
  return {spec, absent_unit(std::move(info), settings)};
}

/// Gives the units of volumes that others stood in for, with another size.
std::vector<std::shared_ptr<LogicalUnit>> Node::find_absent() {
  std::map<Uuid, Absent> absent;
  std::map<Uuid, std::uint64_t> sizes;
  std::vector<std::shared_ptr<LogicalUnit>> resized;
  for (const VolumeSpec& spec : state_->volumes) {
    const auto attached = volumes_.find(spec.id);
    if (attached == volumes_.end()) {
      absent.emplace(spec.id, stand_in(spec));
      sizes.insert(shown_sizes_.extract(spec.id));
      continue;
    }
    const auto before = absent_.find(spec.id);
    const auto& unit = attached->second->unit;
    if (before != absent_.end() && before->second.unit->blocks() != unit->blocks()) resized.push_back(unit);
  }
  absent_ = std::move(absent);
  shown_sizes_ = std::move(sizes);
  return resized;
}

/// `adopted` runs when no reactor starts anything under the map before.
void Node::publish_map(engine::Callback<> adopted) {
  std::vector<iscsi_target::LunEntry> entries;
  std::set<std::uint32_t> luns;
  const auto add = [&](const VolumeSpec& spec, const std::shared_ptr<LogicalUnit>& unit) {
    if (unit && spec.lun < iscsi_target::kMaxLuns && luns.insert(spec.lun).second)
      entries.push_back({static_cast<std::uint16_t>(spec.lun), unit});
  };
  for (const auto& [id, volume] : volumes_) add(volume->spec, volume->unit);
  for (const auto& [id, absent] : absent_) {
    if (!volumes_.contains(id)) add(absent.spec, absent.unit);
  }
  auto map = iscsi_target::LunMap::make(std::move(entries), access_);
  if (!map) {
    log_error("The LUN map can't be made: " + map.error().message);
    return adopted();
  }
  on_every_worker(
      workers_,
      [map = *map](Worker& worker, engine::Callback<> done) {
        worker.device.adopt(map, {});
        done();
      },
      std::move(adopted));
}

}  // namespace lockstep::data_plane
