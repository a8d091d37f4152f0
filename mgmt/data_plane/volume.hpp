#pragma once
// A volume that this node serves: its stores, its disk, its logical unit.
#include <memory>
#include <string>
#include <vector>

#include "engine/disk.hpp"
#include "iscsi_target/scsi/logical_unit.hpp"
#include "mgmt/data_plane/hop_disk.hpp"
#include "mgmt/data_plane/replica.hpp"
#include "mgmt/data_plane/worker.hpp"
#include "replication/core/pair_node.hpp"

namespace lockstep::data_plane {

struct Volume {
  VolumeSpec spec;
  std::size_t home = 0;                    ///< index of the worker it lives on
  ReplicaStores stores;                    ///< destroyed on that worker's reactor
  std::uint64_t room = 0;                  ///< bytes of volume, when it was attached; of one that is mirrored
  std::unique_ptr<engine::Disk> own_disk;  ///< of a volume that is not mirrored
  std::unique_ptr<HopDisk> disk;           ///< null while it can't be served
  std::shared_ptr<iscsi_target::LogicalUnit> unit;
  replication::MirrorState state = replication::MirrorState::starting;  ///< as last logged
  engine::TimePoint state_since{};
  // As last told in events.
  replication::MirrorState told_state = replication::MirrorState::starting;
  bool resyncing = false;
  bool full = false;
  bool refuses_writes = false;
  bool low_space = false;
  std::vector<std::string> findings{};  ///< on its disk's space, as last looked at: sentences for health
  bool tells_space = false;             ///< the unit's state is being told
};

/// True when `to` needs the volume to be detached and attached again; else only what may change in use differs.
[[nodiscard]] bool needs_reattach(const VolumeSpec& from, const VolumeSpec& to);
[[nodiscard]] engine::DiskInfo disk_info(const VolumeSpec& spec);

/// Opens the stores of a volume that is not mirrored and makes its disk, on `worker`'s reactor, where `files` is called
/// and calls back; `done` runs on `home`. An error leaves nothing open.
void open_unmirrored(Worker& worker, engine::Reactor& home, FileWorker files, const VolumeSpec& spec,
                     engine::NodeSide side, const NodeKeyFile& keys,
                     engine::Callback<engine::Result<std::pair<ReplicaStores, std::unique_ptr<engine::Disk>>>> done);

using ReplicaOpener = std::function<void(engine::IoUring& ring, const ReplicaPlace& place, const engine::Uuid& volume,
                                         engine::NodeSide side, engine::Callback<engine::Result<OpenedReplica>> done)>;

/// Destroyed on the reactor of the worker that it was opened on.
struct MirroredReplica {
  OpenedReplica replica;
  std::string room_problem;  ///< what keeps it from having as much room as the volume has bytes; a sentence, or empty
};

struct ReplicaOwner {
  engine::Uuid pair;
  engine::NodeSide side;
  const NodeKeyFile& keys;  ///< outlives the call
};

/// The same of one that is mirrored, without its disk: ready to be attached.
void open_mirrored(Worker& worker, engine::Reactor& home, FileWorker files, ReplicaOpener open, const VolumeSpec& spec,
                   const ReplicaOwner& owner, engine::Callback<engine::Result<MirroredReplica>> done);

}  // namespace lockstep::data_plane
