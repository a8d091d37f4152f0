#pragma once
// The steps of volume jobs. Making a volume:
//
//   replica_here -> replica_there -> publish -> sync -> done
//   a failure before publish -> undo -> detach -> remove_there -> remove_here -> forget -> failed
//
// Once it is published hosts may write to it, and no job takes it back: only an operator deletes it. A volume that is
// being imported is let in to by nobody else, so that its job may.
//
// Deleting one is the second line, from detach, and ends in done. Every step may be taken again: what was done already
// is found done. Steps that need the partner wait for it; making a volume gives up after
// LocalSettings::create_patience.
//
// A node that goes on alone (is_alone()) leaves the steps out that are the partner's: that one makes its copy, grows it
// or removes it when it is back (returned_partner.hpp).
//
// Growing one: room_here -> room_there -> publish -> serve -> done. Until it is published, failing changes nothing that
// anybody sees; from then on the nodes take the new size by themselves, whatever becomes of the job.
#include <functional>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/replica_agent.hpp"

namespace lockstep::mgmt {

/// What the steps know of both lockstepds: the newest reports.
struct PairReports {
  NodeReport here;
  NodeReport there;
  bool partner_reachable = false;
};

class VolumeJobs {
 public:
  /// `unserved` refuses when the node beside that of this side is known to serve the volume.
  VolumeJobs(NodeCore& core, ReplicaAgent& agent, std::function<PairReports()> reports, std::function<void()> poke,
             std::function<Outcome<void>(const Volume&, NodeSide)> unserved = {});
  /// Of the pair, in which a volume can be made now.
  [[nodiscard]] std::vector<std::int64_t> shards() const;
  void teach(JobRunner& runner);

  /// Also of an import (import_jobs.hpp), up to and from its own steps.
  StepResult step(Job& job);

 private:
  StepResult begin(Job& job, const Volume* volume);
  StepResult act(Job& job);
  std::optional<StepResult> put_in_service(Job& job, const Volume& volume, NodeSide side);
  StepResult grow(Job& job);  // volume_grow.cpp
  StepResult replica_here(Job& job, const Volume& volume);
  StepResult replica_there(Job& job, const Volume& volume);
  StepResult publish(Job& job, const Volume& volume);
  StepResult sync(Job& job, const Volume& volume);
  StepResult undo(Job& job);
  StepResult detach(Job& job);
  StepResult remove_there(Job& job, const Volume& volume);
  StepResult remove_here(Job& job, const Volume& volume);
  StepResult forget(Job& job);
  [[nodiscard]] bool out_of_patience(std::int64_t since_ms, const Volume& volume) const;

  NodeCore& core_;
  ReplicaAgent& agent_;
  std::function<PairReports()> reports_;
  std::function<void()> poke_;
  std::function<Outcome<void>(const Volume&, NodeSide)> unserved_;
};

/// Everything made so far goes again, and the job fails for this reason.
StepResult begin_undo(Job& job, Refusal reason);

}  // namespace lockstep::mgmt
