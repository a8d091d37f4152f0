#include "mgmt/control/volume_edits.hpp"

namespace lockstep::mgmt {

void make_on_one_node(Volume& volume, NodeSide here) {
  volume.copy(engine::other(here)) = {.number = 1, .folder = "", .retired = true, .unmade = true};
}

bool forget_volume(Configuration& configuration, const Uuid& id, NodeSide here, bool alone) {
  Volume* volume = configuration.volume(id);
  if (!volume) return false;
  if (alone && configuration.nodes.size() > 1 && !volume->copy(engine::other(here)).unmade) {
    volume->copy(here).retired = volume->copy(here).unmade = true;
    return true;
  }
  std::erase_if(configuration.volumes, [&](const Volume& one) { return one.id == id; });
  return false;
}

Owed owed_on(const Volume& volume, NodeSide side) {
  if (volume.lifecycle == Lifecycle::deleting) return Owed::removal;
  return volume.copy(side).unmade && volume.lifecycle == Lifecycle::ready ? Owed::copy : Owed::nothing;
}

}  // namespace lockstep::mgmt
