#pragma once
// Carries out on this node what is ordered for its replica of a volume, by either node's jobs.
#include "mgmt/control/data_plane.hpp"
#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

class ReplicaAgent {
 public:
  ReplicaAgent(NodeCore& core, DataPlane& data_plane) : core_(core), data_plane_(data_plane) {}
  Outcome<void> carry_out(const ReplicaOrder& order);
  /// What this node's lockstepd says at this moment, rather than when it was asked last.
  Outcome<NodeReport> look();

 private:
  NodeCore& core_;
  DataPlane& data_plane_;
};

}  // namespace lockstep::mgmt
