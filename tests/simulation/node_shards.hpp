#pragma once
// The mirrors of a simulated node. One alone has the seams of its machine themselves; of several, each is on a thread
// of its own, and what they share they reach as in lockstepd (mgmt/data_plane/shard_seams.hpp).
#include <functional>
#include <memory>
#include <vector>

#include "engine/runtime/buffer_pool.hpp"
#include "mgmt/data_plane/shard_seams.hpp"
#include "mgmt/data_plane/worker_stalls.hpp"
#include "tests/simulation/node_paths.hpp"
#include "tests/simulation/program.hpp"
#include "tests/simulation/sim_thread.hpp"

namespace lockstep::simulation {

/// What one mirror uses of its node.
struct ShardParts {
  unsigned number;
  engine::Clock& clock;
  replication::Witness* witness;
  replication::Fence* fence;
  replication::LeftRecords& left_records;
  const replication::OtherPairNodes* others;
  replication::NodeObserver& observer;
};

class MirrorShard {
 public:
  MirrorShard(Machine& machine, const replication::NodeSettings& settings, const ShardParts& parts);
  ~MirrorShard();
  MirrorShard(const MirrorShard&) = delete;
  MirrorShard& operator=(const MirrorShard&) = delete;

  [[nodiscard]] replication::PairNode& node() { return *node_; }
  [[nodiscard]] engine::Clock& clock() { return clock_; }
  [[nodiscard]] replication::LinkEvents& path_events(std::size_t path) {
    return paths_ ? paths_->events_of(path) : static_cast<replication::LinkEvents&>(*node_);
  }
  void change_path(std::size_t path) {
    if (paths_) paths_->change(path);
  }

 private:
  static NodePaths::Paths paths_of(const Machine& machine, unsigned shard);

  Machine& machine_;
  engine::Clock& clock_;
  engine::BufferPool pool_;
  std::unique_ptr<replication::Fencing> fencing_;
  std::unique_ptr<NodePaths> paths_;  ///< none: the mirror has the one path's sessions themselves
  std::unique_ptr<replication::PairNode> node_;
};

/// What several share. As in lockstepd: mgmt/data_plane/pair.cpp, and Node::close_sessions() for the sessions.
class SharedByShards {
 public:
  using SetBack = std::function<void(const std::string&)>;
  /// `fence(shard)` is PairNode::fence(), where it lives; `changed(shard)`: something of its volumes has; `set_back`:
  /// the process was.
  SharedByShards(Machine& machine, replication::LeftRecords& left_records, std::function<void(unsigned)> fence,
                 std::function<void(unsigned)> changed, const SetBack& set_back);
  /// Nothing that was posted runs any more.
  void close();

  [[nodiscard]] SimThread& thread(unsigned number) { return *threads_[number]; }
  [[nodiscard]] data_plane::WorkerStalls& stalls(unsigned thread) { return *stalls_[thread]; }
  [[nodiscard]] data_plane::VolumeShards& volumes() { return volumes_; }
  [[nodiscard]] ShardParts parts_of(unsigned shard);
  void use_fence(bool on);

 private:
  /// The node's witness, with how often it became another one.
  class Witness;
  struct Seams;
  void close_sessions(engine::Callback<> closed);

  Machine& machine_;
  std::vector<std::unique_ptr<SimThread>> threads_;
  std::vector<std::unique_ptr<data_plane::WorkerStalls>> stalls_;
  std::unique_ptr<data_plane::SharedWitness> witness_;
  std::unique_ptr<data_plane::FenceOrders> orders_;
  data_plane::SessionFence sessions_;
  data_plane::VolumeShards volumes_;
  std::vector<std::shared_ptr<Seams>> seams_;
};

}  // namespace lockstep::simulation
