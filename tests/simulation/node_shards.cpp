#include "tests/simulation/node_shards.hpp"

#include <utility>

namespace lockstep::simulation {

using engine::Callback;
using engine::IoResult;
using engine::Uuid;
using replication::PairNode;

namespace {
constexpr std::size_t kPoolBytes = std::size_t{64} << 20;

std::unique_ptr<replication::Fencing> fencing_for(const Machine& machine, const ShardParts& parts) {
  if (parts.fence == nullptr) return nullptr;
  return std::make_unique<replication::Fencing>(parts.clock, *parts.fence,
                                                engine::Duration(machine.scenario.heartbeat));
}
}  // namespace

// --- One mirror ------------------------------------------------------------------------------------------------------

NodePaths::Paths MirrorShard::paths_of(const Machine& machine, unsigned shard) {
  const std::size_t each = machine.paths.size() / machine.threads.size();
  return NodePaths::Paths(machine.paths).subspan(shard * each, each);
}

MirrorShard::MirrorShard(Machine& machine, const replication::NodeSettings& settings, const ShardParts& parts)
    : machine_(machine), clock_(parts.clock), pool_(kPoolBytes), fencing_(fencing_for(machine, parts)) {
  const NodePaths::Paths paths = paths_of(machine, parts.number);
  if (paths.size() > 1 || machine.scenario.several_paths) {
    paths_ = std::make_unique<NodePaths>(machine, clock_, paths, settings.process);
  }
  replication::Link& link = paths_ ? static_cast<replication::Link&>(paths_->out()) : *paths.front();
  node_ = std::make_unique<PairNode>(settings,
                                     replication::NodeSeams{clock_, machine.random, pool_, link, parts.witness,
                                                            &parts.left_records, fencing_.get(), parts.others},
                                     parts.observer);
  if (paths_) paths_->start(*node_);
}

MirrorShard::~MirrorShard() {
  if (paths_) paths_->out().stop();
  node_.reset();
  paths_.reset();
  fencing_.reset();
  if (pool_.in_use() != 0) {
    machine_.verdict.fail("a process that ended left " + std::to_string(pool_.in_use()) + " bytes of buffers in use");
  }
}

// --- What several share ----------------------------------------------------------------------------------------------

class SharedByShards::Witness final : public data_plane::SharedWitness {
 public:
  explicit Witness(const Machine& machine) : machine_(machine) {}
  [[nodiscard]] std::uint64_t uses() const override { return machine_.witness_uses; }
  void read(const Uuid& volume, Callback<IoResult<replication::WitnessView>> done) override {
    machine_.witness->read(volume, std::move(done));
  }
  void swap(const Uuid& volume, const replication::WitnessView& seen, const replication::WitnessRecord& record,
            Callback<IoResult<replication::SwapOutcome>> done) override {
    machine_.witness->swap(volume, seen, record, std::move(done));
  }
  void remove(const Uuid& volume, Callback<std::error_code> done) override {
    machine_.witness->remove(volume, std::move(done));
  }

 private:
  const Machine& machine_;
};

/// As one shard sees it.
struct SharedByShards::Seams {
  Seams(const data_plane::Hop& hop, unsigned shard, SharedByShards& all, replication::LeftRecords& kept,
        const std::function<void(unsigned)>& changed, const SetBack& set_back)
      : witness(hop, *all.witness_),
        left_records(hop, kept),
        others(shard, all.volumes_),
        observer(
            hop, shard, [changed, shard] { changed(shard); }, set_back, all.sessions_) {
    if (all.orders_) fence.emplace(hop, shard, *all.machine_.fence, *all.orders_);
  }

  data_plane::ShardWitness witness;
  std::optional<data_plane::ShardFence> fence;
  data_plane::ShardLeftRecords left_records;
  data_plane::OtherShards others;
  data_plane::ShardObserver observer;
};

SharedByShards::SharedByShards(Machine& machine, replication::LeftRecords& left_records,
                               std::function<void(unsigned)> fence, std::function<void(unsigned)> changed,
                               const SetBack& set_back)
    : machine_(machine),
      witness_(std::make_unique<Witness>(machine)),
      sessions_({.join = std::move(fence), .close = [this](Callback<> closed) { close_sessions(std::move(closed)); }}) {
  if (machine.fence != nullptr) orders_ = std::make_unique<data_plane::FenceOrders>(machine.clock, *machine.fence);
  SimRandom random(machine.random.next());
  for (const MachineThread& thread : machine.threads) {
    threads_.push_back(
        std::make_unique<SimThread>(machine.scheduler, random.split(), thread.owner, machine.scenario.latest_wake));
    stalls_.push_back(std::make_unique<data_plane::WorkerStalls>(thread.clock));
  }
  for (unsigned shard = 0; shard < threads_.size(); ++shard) {
    const data_plane::Hop hop{thread(0), thread(shard)};
    seams_.push_back(std::make_shared<Seams>(hop, shard, *this, left_records, changed, set_back));
    sessions_.add_shard();
  }
}

void SharedByShards::close() {
  for (const auto& thread : threads_) thread->close();
}

ShardParts SharedByShards::parts_of(unsigned shard) {
  Seams& seams = *seams_[shard];
  return {.number = shard,
          .clock = machine_.threads[shard].clock,
          .witness = machine_.witness == nullptr ? nullptr : &seams.witness,
          .fence = seams.fence ? &*seams.fence : nullptr,
          .left_records = seams.left_records,
          .others = &seams.others,
          .observer = seams.observer};
}

/// Each thread closes those that it has; what they had posted before is ahead of what is posted from it afterwards.
void SharedByShards::close_sessions(Callback<> closed) {
  struct Round {
    std::size_t left;
    Callback<> closed;
  };
  auto round = std::make_shared<Round>(threads_.size(), std::move(closed));
  for (unsigned number = 0; number < threads_.size(); ++number) {
    thread(number).post([this, number] { machine_.outlet.closed_on(number); });
  }
  for (const auto& each : threads_) {
    each->post([this, round] {
      if (--round->left == 0) thread(0).post([round] { round->closed(); });
    });
  }
}

void SharedByShards::use_fence(bool on) {
  if (!on && orders_) orders_->end_all();
}

}  // namespace lockstep::simulation
