#pragma once
// Management of one node, wired together: what the REST resources call.
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "mgmt/control/address_jobs.hpp"
#include "mgmt/control/address_trial.hpp"
#include "mgmt/control/configuration_witness_node.hpp"
#include "mgmt/control/data_plane.hpp"
#include "mgmt/control/import_jobs.hpp"
#include "mgmt/control/initiator_service.hpp"
#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/lapse_watch.hpp"
#include "mgmt/control/lease_jobs.hpp"
#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/link_certificate.hpp"
#include "mgmt/control/link_jobs.hpp"
#include "mgmt/control/link_tls_jobs.hpp"
#include "mgmt/control/node_core.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/pair_recovery.hpp"
#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/partner_watch.hpp"
#include "mgmt/control/reconciler.hpp"
#include "mgmt/control/replace_jobs.hpp"
#include "mgmt/control/replica_agent.hpp"
#include "mgmt/control/returned_partner.hpp"
#include "mgmt/control/token_service.hpp"
#include "mgmt/control/volume_jobs.hpp"
#include "mgmt/control/volume_service.hpp"
#include "mgmt/control/witness_jobs.hpp"

namespace lockstep::mgmt {

class Controller {
 public:
  [[nodiscard]] static engine::Result<std::unique_ptr<Controller>> open(LocalSettings settings);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  void start();  ///< the loops; the partner and lockstepd are looked for from now on
  void stop();

  /// `end` ends the process at once: its machine was set back with its memory. For start-up only.
  void end_with(std::function<void()> end) { partner_.end_with(std::move(end)); }

  [[nodiscard]] NodeCore& core() { return *core_; }
  [[nodiscard]] TokenService& tokens() { return tokens_; }
  [[nodiscard]] PairService& pair() { return pair_; }
  [[nodiscard]] ReplaceJobs& replacing() { return replace_jobs_; }
  [[nodiscard]] WitnessJobs& witness() { return witness_jobs_; }
  [[nodiscard]] LinkJobs& link() { return link_jobs_; }
  [[nodiscard]] LinkTlsJobs& link_tls() { return link_tls_jobs_; }
  [[nodiscard]] AddressJobs& addresses() { return address_jobs_; }
  [[nodiscard]] const AddressAgent& address_agent() const { return address_agent_; }
  /// Who listens for this node's management, told of all addresses beside its file's about once a second; gives what
  /// can't be listened at. For start-up only; so is what the file says and is not in force.
  using Listen = std::function<AddressProblems(const std::vector<std::string>&)>;
  using Differences = std::function<std::vector<FileDifference>(const Node& in_force)>;
  void use_listener(Listen listen, Differences differences);
  [[nodiscard]] LeaseJobs& lease() { return lease_jobs_; }
  [[nodiscard]] LeaveJobs& leaving() { return leave_jobs_; }
  [[nodiscard]] DataPlane& data_plane() { return data_plane_; }
  [[nodiscard]] VolumeService& volumes() { return volumes_; }
  [[nodiscard]] InitiatorService& initiators() { return initiators_; }
  [[nodiscard]] ReplicaAgent& replicas() { return agent_; }
  [[nodiscard]] PairRecovery& recovery() { return recovery_; }
  [[nodiscard]] NodeReport report() const;
  /// What the node that asks is to this one. `fingerprint` is of its certificate, `nodes` as in kNodesHeader.
  /// Refusal not_current: it is in no pair, and the disk with its copy of a configuration does not answer.
  [[nodiscard]] Outcome<NodeStanding> standing_of(const std::string& nodes, const std::string& fingerprint,
                                                  const Uuid& pair) const;
  [[nodiscard]] bool is_partner(const std::string& nodes, const std::string& fingerprint) const;
  /// A request that only the partner may send was refused: told in an event where it comes from a replaced machine.
  /// Gives the sentence for it.
  std::string tell_of_stranger(const std::string& nodes, const std::string& fingerprint);
  /// Everything there is to say of the pair at this moment.
  [[nodiscard]] PairView view() const;
  /// Hastens both loops: something changed that they would find out by themselves a little later.
  void poke();
  [[nodiscard]] JobRunner& jobs() { return runner_; }

 private:
  explicit Controller(std::unique_ptr<NodeCore> core);
  void on_data_plane_event(const std::string& params);
  [[nodiscard]] std::optional<WantedState> wanted() const;
  [[nodiscard]] DatabaseTime database_time() const;
  [[nodiscard]] Unpaired unpaired() const;
  [[nodiscard]] std::vector<Uuid> volumes_at_work() const;
  [[nodiscard]] PairReports reports() const;
  [[nodiscard]] Outcome<void> ready_for_a_volume() const;
  [[nodiscard]] Outcome<void> whole(const Volume& volume) const;
  [[nodiscard]] Outcome<void> unserved_beside(const Volume& volume, NodeSide side) const;

  void see_to_addresses();

  Listen listen_;
  Differences differences_;
  mutable std::mutex addresses_mutex_;  ///< guards the next two
  AddressProblems not_listened_;
  std::vector<FileDifference> file_differences_;
  /// This node is the only member, and serves it. Asks lockstepd.
  [[nodiscard]] Outcome<void> lone(const Volume& volume);

  std::mutex told_mutex_;
  std::map<Uuid, std::chrono::steady_clock::time_point> told_;  ///< of which replaced machines, and when
  const std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();

  std::unique_ptr<NodeCore> core_;
  DataPlaneSocket data_plane_;
  Reconciler reconciler_;
  NodeWitnessSurroundings surroundings_;
  ConfigurationWitness arbiter_;
  PartnerWatch partner_;
  ReplicaAgent agent_;
  JobRunner runner_;
  VolumeJobs volume_jobs_;
  ImportJobs import_jobs_;
  ReplaceJobs replace_jobs_;
  WitnessJobs witness_jobs_;
  LinkJobs link_jobs_;
  LinkTlsJobs link_tls_jobs_;
  mutable LinkCertificate link_certificate_{core_->identity};
  AddressAgent address_agent_;
  AddressJobs address_jobs_;
  LeaseJobs lease_jobs_;
  TokenService tokens_;
  PairService pair_;
  LeaveJobs leave_jobs_;
  PairRecovery recovery_;
  VolumeService volumes_;
  ReturnedPartner returned_;
  InitiatorService initiators_;
  LapseWatch lapses_;
};

}  // namespace lockstep::mgmt
