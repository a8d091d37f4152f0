#pragma once
// Volumes: what is asked for, checked and made a revision and a job.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/import_source.hpp"
#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

constexpr std::size_t kMaxVolumes = 511;           ///< each has a LUN that both nodes can serve
constexpr std::size_t kMaxAccess = 256;            ///< initiators of one volume
constexpr std::size_t kMaxAccessInAll = 32 << 10;  ///< of all volumes: each entry is sent with every change

/// A volume as it is asked for: what says which one it is (id, serial, LUN, life cycle, time) is not there yet.
using VolumeWish = Volume;

/// What may change of a volume that is there; what is not set stays.
struct VolumeChange {
  std::optional<std::string> name;                 ///< hosts go by id and serial, and see nothing of it
  std::optional<bool> any_initiator;               ///< true empties the list
  std::optional<std::vector<std::string>> access;  ///< ends any_initiator
  std::optional<bool> read_only;
  std::optional<bool> write_cache;
};

struct VolumeActionWish {
  ReplicaOrder::Kind kind = ReplicaOrder::Kind::leave;
  NodeSide side = NodeSide::a;
  bool accept_inconsistent = false;
  bool despite_partner = false;  ///< force_solo, although the other node is known to serve
  std::string confirm;
};

struct ImportWish {
  ImportSource source;
  std::string initiator;  ///< the name that this node takes; empty: its own
  VolumeWish volume;      ///< size and blocks are the source's; only `physical_block` may be chosen
};

class VolumeService {
 public:
  /// `ready` refuses when a volume can't be made now, because a lockstepd that would have to do so does not answer.
  /// `whole` refuses when not every node serves the volume in sync now; with `partner_away` where one can't be asked.
  /// `lone` refuses when this node is not the volume's only member, that serves it; a sentence why. `unserved` refuses
  /// when the node beside that of this side serves it. `shards` are those in which one can be made now.
  VolumeService(NodeCore& core, JobRunner& jobs, std::function<Outcome<void>()> ready,
                std::function<Outcome<void>(const Volume&)> whole = {},
                std::function<Outcome<void>(const Volume&)> lone = {},
                std::function<Outcome<void>(const Volume&, NodeSide)> unserved = {},
                std::function<std::vector<std::int64_t>()> shards = {})
      : core_(core),
        jobs_(jobs),
        ready_(std::move(ready)),
        whole_(std::move(whole)),
        lone_(std::move(lone)),
        unserved_(std::move(unserved)),
        shards_(std::move(shards)) {}
  /// With the partner away, too, where the arbiter lets this node go on: the partner makes its copy when it is back.
  [[nodiscard]] Outcome<Job> create(const VolumeWish& wish);
  [[nodiscard]] Outcome<void> change(const Uuid& id, const VolumeChange& change);
  /// Larger, in use; never smaller.
  [[nodiscard]] Outcome<Job> grow(const Uuid& id, std::int64_t size);
  [[nodiscard]] Outcome<Job> remove(const Uuid& id, const std::optional<std::string>& confirm);
  /// A job that looks at the source first (import_jobs.hpp).
  [[nodiscard]] Outcome<Job> import(const ImportWish& wish);
  /// Not a change of the configuration: works with the partner away.
  [[nodiscard]] Outcome<Job> act(const Uuid& id, const VolumeActionWish& wish);

 private:
  [[nodiscard]] Outcome<void> can_be_made() const;
  [[nodiscard]] Outcome<void> check_lone(const Volume& volume, const std::string& what, const Refusal& otherwise);
  [[nodiscard]] Outcome<void> check_deletable_alone(const Configuration& configuration, const Volume& volume);

  NodeCore& core_;
  JobRunner& jobs_;
  std::function<Outcome<void>()> ready_;
  std::function<Outcome<void>(const Volume&)> whole_;
  std::function<Outcome<void>(const Volume&)> lone_;
  std::function<Outcome<void>(const Volume&, NodeSide)> unserved_;
  std::function<std::vector<std::int64_t>()> shards_;
};

/// What to say behind the sentence that it is made: how a host gets in, when none may yet; begins with a space.
[[nodiscard]] std::string closed_hint(const Volume& volume);
/// The volume that is wished for, in one of these shards, as it can be added to this configuration.
[[nodiscard]] Outcome<Volume> describe_new(const VolumeWish& wish, const Configuration& configuration, const Uuid& id,
                                           const std::vector<std::int64_t>& shards);
/// Takes in what describe_new() gave.
[[nodiscard]] Outcome<void> add_new(Volume volume, Configuration& configuration);
/// What a volume's new description has against it, in this configuration.
[[nodiscard]] std::vector<FieldProblem> problems_of(const VolumeWish& wish, const Configuration& configuration);

}  // namespace lockstep::mgmt
