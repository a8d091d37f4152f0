#pragma once
// Files that look like a node's replicas, with metadata that is whole: as lockstepd lays them out, but for the blocks.
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "engine/metadata/aligned_block.hpp"
#include "engine/metadata/layout.hpp"
#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::test {

struct ReplicaOnDisk {
  engine::VolumeIdentity identity;
  engine::EpochRecord epoch;
  std::int64_t copy = 1;

  /// Of side A and a volume that both nodes serve; the serial is the id's, as for volumes that management makes.
  static ReplicaOnDisk of(const engine::Uuid& pair, const std::string& name) {
    ReplicaOnDisk r;
    r.identity.pair = pair;
    r.identity.volume = mgmt::random_uuid();
    r.identity.name = name;
    r.identity.serial = r.identity.volume.to_string();
    std::erase(r.identity.serial, '-');
    r.identity.size = r.epoch.size = 1 << 20;
    r.epoch.number = 4;
    r.epoch.id = mgmt::random_uuid();
    r.epoch.members = engine::MemberSet::both();
    return r;
  }
  ReplicaOnDisk& owned_by(engine::NodeSide side) {
    identity.owner = side;
    return *this;
  }
  ReplicaOnDisk& in_force_for(engine::MemberSet members) {
    epoch.members = members;
    epoch.sequencer = members.contains(engine::NodeSide::a) ? engine::NodeSide::a : engine::NodeSide::b;
    return *this;
  }
  ReplicaOnDisk& copy_number(std::int64_t number) {
    copy = number;
    return *this;
  }
  [[nodiscard]] mgmt::ReplicaFiles files(const std::filesystem::path& folder) const {
    return mgmt::replica_files(folder, identity.volume, mgmt::Copy{copy, "", false});
  }
  void write(const std::filesystem::path& folder) const {
    engine::layout::Blocks head(4);
    const engine::layout::Key key{identity.pair, identity.volume, mgmt::random_uuid(), identity.owner};
    for (std::size_t slot = 0; slot < 2; ++slot) {
      engine::layout::seal_superblock(head[slot], identity, key, slot, 1);
      engine::layout::seal_record(head[2 + slot], {epoch, {}}, key, slot, 7);
    }
    std::filesystem::create_directories(folder);
    std::ofstream metadata(files(folder).metadata, std::ios::binary);
    metadata.write(reinterpret_cast<const char*>(head.all().data()), static_cast<std::streamsize>(head.all().size()));
    std::ofstream(files(folder).data).close();
    std::filesystem::resize_file(files(folder).data, identity.size);
  }
};

}  // namespace lockstep::test
