#pragma once
// ConfigurationWitness on a real node: what is known is a row of the node's settings, and lockstepd asks the witness.
#include "mgmt/control/configuration_witness.hpp"
#include "mgmt/control/data_plane.hpp"
#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

class NodeWitnessSurroundings final : public WitnessSurroundings {
 public:
  /// Both outlive this.
  NodeWitnessSurroundings(NodeCore& core, DataPlane& data_plane) : core_(core), data_plane_(data_plane) {}

  std::optional<engine::NodeSide> side() override { return core_.side(); }
  ConfigurationKnowledge known(const engine::Uuid& pair) override;
  void keep(const engine::Uuid& pair, const ConfigurationKnowledge& known) override;
  Outcome<replication::WitnessView> read(const Arbiter& witness) override;
  Swapped swap(const Arbiter& witness, const replication::WitnessView& seen,
               const replication::WitnessRecord& record) override;
  std::chrono::steady_clock::time_point now() override { return std::chrono::steady_clock::now(); }
  void tell(const std::string& kind, Severity severity, const std::string& message) override;
  bool is_at_work_alone() override;

 private:
  NodeCore& core_;
  DataPlane& data_plane_;
};

}  // namespace lockstep::mgmt
