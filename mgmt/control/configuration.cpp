#include "mgmt/control/configuration.hpp"

#include <algorithm>

namespace lockstep::mgmt {

const Node* Configuration::node(NodeSide side) const {
  const auto found = std::ranges::find(nodes, side, &Node::side);
  return found == nodes.end() ? nullptr : &*found;
}

const Volume* Configuration::volume(const Uuid& id) const {
  const auto found = std::ranges::find(volumes, id, &Volume::id);
  return found == volumes.end() ? nullptr : &*found;
}

Volume* Configuration::volume(const Uuid& id) {
  const auto found = std::ranges::find(volumes, id, &Volume::id);
  return found == volumes.end() ? nullptr : &*found;
}

unsigned Configuration::highest_shard() const {
  std::int64_t highest = 0;
  for (const Volume& volume : volumes) highest = std::max(highest, volume.shard);
  return static_cast<unsigned>(highest);
}

const Initiator* Configuration::initiator(std::string_view iqn) const {
  const auto found = std::ranges::find(initiators, iqn, &Initiator::iqn);
  return found == initiators.end() ? nullptr : &*found;
}

void Configuration::sort() {
  std::ranges::sort(nodes, {}, &Node::side);
  std::ranges::sort(volumes, {}, &Volume::name);
  std::ranges::sort(initiators, {}, &Initiator::iqn);
  std::ranges::sort(tokens, {}, &Token::name);
  for (auto& volume : volumes) std::ranges::sort(volume.access);
}

const char* name_of(LinkProtection protection) {
  switch (protection) {
    case LinkProtection::off:
      return "off";
    case LinkProtection::accepted:
      return "accepted";
    case LinkProtection::used:
      return "used";
    case LinkProtection::required:
      break;
  }
  return "required";
}

}  // namespace lockstep::mgmt
