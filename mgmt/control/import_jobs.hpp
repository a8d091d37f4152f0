#pragma once
// The steps of an import: a logical unit of any iSCSI array becomes a new, mirrored volume.
//
//   probe -> name -> make -> [replica_here -> replica_there -> publish -> sync] -> copy -> open -> done
//
// The part in brackets, and everything that takes back, is a volume's own (volume_jobs.hpp). While it is filled the
// volume lets nobody in but this node, which writes through its own portal, so that everything is mirrored as it comes.
// How far the copy is durable is kept in the job's row; a restart of either side goes on from there. The credentials
// for the source are in the row, too, as long as the job is not finished, and nowhere else; the
// partner is not told them.
#include <map>
#include <memory>

#include "mgmt/control/lun_copier.hpp"
#include "mgmt/control/volume_jobs.hpp"

namespace lockstep::mgmt {

struct ImportWish;
constexpr const char* kImportKind = "volume.import";

/// A new import's Job::parameters.
[[nodiscard]] std::string import_parameters(const ImportWish& wish);

class ImportJobs {
 public:
  ImportJobs(NodeCore& core, VolumeJobs& volumes);
  ~ImportJobs();
  void teach(JobRunner& runner);

 private:
  struct Probe;
  struct Work;
  StepResult step(Job& job);
  [[nodiscard]] bool is_in_service(const Job& job) const;
  StepResult probe(Job& job);
  StepResult take_shape(Job& job, const LunShape& shape);
  StepResult make(Job& job);
  StepResult copy(Job& job);
  StepResult open(Job& job);
  StepResult go_on_copying(Job& job, Work& work, const Volume& volume);

  NodeCore& core_;
  VolumeJobs& volumes_;
  std::map<Uuid, std::unique_ptr<Work>> work_;  // the runner's thread only
};

}  // namespace lockstep::mgmt
