#pragma once
// Volumes: what is asked for, checked and made a revision and a job.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

constexpr std::size_t kMaxVolumes = 1024;
constexpr std::size_t kMaxAccess = 256;  ///< initiators of one volume

struct VolumeWish {
  std::string name;
  std::int64_t size = 0;
  std::int64_t block_size = 512;
  bool thin = true;
  std::vector<std::string> access;
};

struct VolumeActionWish {
  ReplicaOrder::Kind kind = ReplicaOrder::Kind::leave;
  NodeSide side = NodeSide::a;
  bool accept_inconsistent = false;
  std::string confirm;
};

class VolumeService {
 public:
  /// `ready` refuses when a volume can't be made now, because a lockstepd that would have to do so does not answer.
  VolumeService(NodeCore& core, JobRunner& jobs, std::function<Outcome<void>()> ready)
      : core_(core), jobs_(jobs), ready_(std::move(ready)) {}
  [[nodiscard]] Outcome<Job> create(const VolumeWish& wish);
  [[nodiscard]] Outcome<void> change_access(const Uuid& id, std::vector<std::string> access);
  [[nodiscard]] Outcome<Job> remove(const Uuid& id, const std::optional<std::string>& confirm);
  /// Not a change of the configuration: works with the partner away.
  [[nodiscard]] Outcome<Job> act(const Uuid& id, const VolumeActionWish& wish);

 private:
  NodeCore& core_;
  JobRunner& jobs_;
  std::function<Outcome<void>()> ready_;
};

/// What a volume's new description has against it, in this configuration.
[[nodiscard]] std::vector<FieldProblem> problems_of(const VolumeWish& wish, const Configuration& configuration);

}  // namespace lockstep::mgmt
