#pragma once
// The logical unit of a volume that this node is to serve and has not attached: its disk is not there yet, or does not
// answer.
//
// Hosts find it at its LUN under its own name, behind a port that is unavailable (NOT READY, 04h/0Ch): a path that is
// down. "No such unit" is for good: with that on all its paths ESXi ends what runs on the device, and a host that looks
// for units just then would not have this path at all.
#include <memory>

#include "engine/disk.hpp"
#include "iscsi_target/scsi/logical_unit.hpp"

namespace lockstep::data_plane {

/// It has a disk of its own, which does nothing. Any thread.
[[nodiscard]] std::shared_ptr<iscsi_target::LogicalUnit> absent_unit(engine::DiskInfo info,
                                                                     iscsi_target::UnitSettings settings);

}  // namespace lockstep::data_plane
