#pragma once
// Management of one node, wired together: what the REST resources call.
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "mgmt/control/data_plane.hpp"
#include "mgmt/control/import_jobs.hpp"
#include "mgmt/control/initiator_service.hpp"
#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/node_core.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/partner_watch.hpp"
#include "mgmt/control/reconciler.hpp"
#include "mgmt/control/replace_jobs.hpp"
#include "mgmt/control/replica_agent.hpp"
#include "mgmt/control/token_service.hpp"
#include "mgmt/control/volume_jobs.hpp"
#include "mgmt/control/volume_service.hpp"

namespace lockstep::mgmt {

class Controller {
 public:
  [[nodiscard]] static engine::Result<std::unique_ptr<Controller>> open(LocalSettings settings);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  void start();  ///< the loops; the partner and lockstepd are looked for from now on
  void stop();

  [[nodiscard]] NodeCore& core() { return *core_; }
  [[nodiscard]] TokenService& tokens() { return tokens_; }
  [[nodiscard]] PairService& pair() { return pair_; }
  [[nodiscard]] ReplaceJobs& replacing() { return replace_jobs_; }
  [[nodiscard]] VolumeService& volumes() { return volumes_; }
  [[nodiscard]] InitiatorService& initiators() { return initiators_; }
  [[nodiscard]] ReplicaAgent& replicas() { return agent_; }
  [[nodiscard]] NodeReport report() const { return reconciler_.report(); }
  /// Everything there is to say of the pair at this moment.
  [[nodiscard]] PairView view() const;
  /// Hastens both loops: something changed that they would find out by themselves a little later.
  void poke();

 private:
  explicit Controller(std::unique_ptr<NodeCore> core);
  void on_data_plane_event(const std::string& params);
  [[nodiscard]] std::optional<WantedState> wanted() const;
  [[nodiscard]] PairReports reports() const;
  [[nodiscard]] Outcome<void> ready_for_a_volume() const;
  [[nodiscard]] Outcome<void> whole(const Volume& volume) const;

  std::unique_ptr<NodeCore> core_;
  DataPlaneSocket data_plane_;
  Reconciler reconciler_;
  PartnerWatch partner_;
  ReplicaAgent agent_;
  JobRunner runner_;
  VolumeJobs volume_jobs_;
  ImportJobs import_jobs_;
  ReplaceJobs replace_jobs_;
  TokenService tokens_;
  PairService pair_;
  VolumeService volumes_;
  InitiatorService initiators_;
};

}  // namespace lockstep::mgmt
