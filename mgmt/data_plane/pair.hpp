#pragma once
// This node's half of the pair: its shards (pair_shard.hpp), each on a worker's reactor, and what these share: the
// witness and the fence. Lives on the home worker's reactor, where all of this is called and calls back.
//
// A volume lives in one shard, the same on both nodes. Shard k listens and calls at the link's ports plus k, and is
// carried out by worker k modulo their number: the nodes need not have as many cores as one another.
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mgmt/data_plane/fence_orders.hpp"
#include "mgmt/data_plane/fence_slot.hpp"
#include "mgmt/data_plane/pair_shard.hpp"
#include "mgmt/data_plane/shard_seams.hpp"
#include "mgmt/data_plane/witness_slot.hpp"

namespace lockstep::data_plane {

/// What this machine says of it.
struct PairOptions {
  bool confirms_reads = false;
  bool kernel_tls = true;
  std::string fence_socket;
  std::uint64_t reserve = 0;     ///< bytes of buffers for the partner's data, of each shard
  rdma::Fabric* rdma = nullptr;  ///< null: there is none,
  std::string why_no_rdma{};     ///< … and this is why
};

class PairUser {
 public:
  /// The state of some volume, or what is served of it. Any thread.
  virtual void on_volume_changed() = 0;
  /// Every initiator session is to be closed; `closed` when none of them brings anything to any volume any more.
  virtual void close_sessions(engine::Callback<> closed) = 0;
  /// This process was set back with its machine's memory, and is to end (replication::NodeObserver). Any thread.
  virtual void on_set_back(const std::string& why) = 0;

 protected:
  ~PairUser() = default;
};

class Pair {
 public:
  /// What keeps it from listening where it is told to: the address, and a sentence.
  using AddressProblems = PairShard::AddressProblems;

  Pair(Workers& workers, PairIdentity identity, const SettingsSpec& settings, PairOptions options,
       replication::LeftRecords& left_records, PairUser& user, EventSink& events);
  /// While no thread runs the reactors.
  ~Pair();

  /// As many as there are workers, and those that the volumes live in. Those that are there stay.
  void make_shards(unsigned at_least, engine::Callback<> done);
  /// Before each volume that is there from the first moment, and each whose disk was slow: it may be attached a while
  /// later.
  void note_attaching();
  /// After they were attached.
  void start(engine::Callback<> done);
  [[nodiscard]] bool started() const { return started_; }
  struct PartnerPlan {
    std::optional<PartnerSpec> partner;
    std::vector<SocketAddress> portals;  ///< no shard but the first takes one of these addresses
    std::set<unsigned> used;             ///< shards that have volumes, or are about to: others miss no address
  };
  /// Listens for the partner and connects to it; no partner ends both (PairShard::set_partner()).
  void set_partner(const PartnerPlan& plan, engine::Callback<AddressProblems> done);
  [[nodiscard]] bool listens_at(const SocketAddress& address) const;
  /// Of every shard that has volumes, with its port.
  void try_way(const LinkTry& way, engine::Callback<const std::string&> done);
  /// Of the first shard's link.
  void measure_path(const LinkTest& which, engine::Callback<engine::Result<replication::PathMeasured>> done);

  /// In use, from now on, in shards of which `used` have volumes: the rates are of all together.
  void use(const SettingsSpec& settings, std::size_t used);

  /// Runs `work(shard, answer)` where the shard lives, and `then` here with what it answers, once.
  template <class T>
  void ask(unsigned shard, engine::Callback<PairShard&, engine::Callback<T>> work, engine::Callback<T> then) {
    PairShard& it = at(shard);
    engine::Reactor& there = it.worker().reactor;
    if (&there == &home()) return work(it, std::move(then));
    there.post([this, &it, work = std::move(work), then = std::move(then)]() mutable {
      work(it, [this, then = std::move(then)](T answer) mutable {
        home().post([answer = std::move(answer), then = std::move(then)]() mutable { then(std::move(answer)); });
      });
    });
  }
  /// Runs `work(shard)` where the shard lives.
  void tell(unsigned shard, engine::Callback<PairShard&> work);
  /// `work(shard, done)` in every shard, and then `then` here.
  using OnEach = std::function<void(PairShard&, engine::Callback<>)>;
  void on_each(OnEach work, engine::Callback<> then);
  void tell_each(std::function<void(PairShard&)> work);
  /// Of each shard what `look(shard)` finds where it lives; here, in the order of their numbers.
  void gather(std::function<ShardReport(PairShard&)> look, engine::Callback<std::vector<ShardReport>> then);

  /// Which volume is attached where: told before it is, and when it is detached.
  [[nodiscard]] VolumeShards& volumes() { return volumes_; }
  [[nodiscard]] bool closes_sessions() const { return !sessions_.is_idle(); }
  [[nodiscard]] std::size_t worker_of(unsigned shard) const { return shard % workers_.size(); }
  [[nodiscard]] WitnessSlot& witness() { return witness_; }
  /// A sentence about its line; empty where that is fast, or not known.
  [[nodiscard]] std::string slow_witness() const;
  /// The same of one that answers whoever has no password.
  [[nodiscard]] std::string open_witness() const;
  [[nodiscard]] const FenceSlot& fence() const { return fence_; }
  void use_fence(bool on);
  [[nodiscard]] const PairIdentity& identity() const { return identity_; }

  /// Ends both ways of the link; the mirrors were shut down before.
  void stop(engine::Callback<> done);

 private:
  struct Shard;
  [[nodiscard]] PairShard& at(unsigned shard);
  [[nodiscard]] engine::Reactor& home() const { return workers_.front()->reactor; }
  void make_shard(unsigned number, engine::Callback<> done);
  void make_next(unsigned count, engine::Callback<> done);
  void try_way_of(unsigned shard, const LinkTry& way, engine::Callback<const std::string&> done);
  void connect(const PartnerPlan& plan, engine::Callback<AddressProblems> done);
  [[nodiscard]] static std::optional<PartnerSpec> partner_of(unsigned shard, const PartnerPlan& plan);
  void watch_workers();
  void ask_connected(engine::Callback<bool> done);
  void tell_people(const std::string& kind, const std::string& message);

  Workers& workers_;
  PairIdentity identity_;
  SettingsSpec settings_;  ///< the rates are those of one shard
  PairOptions options_;
  replication::LeftRecords& left_records_;
  PairUser& user_;
  EventSink& events_;
  WitnessSlot witness_;
  FenceSlot fence_;
  FenceOrders orders_;
  SessionFence sessions_;
  VolumeShards volumes_;
  std::optional<PartnerSpec> partner_;
  std::vector<std::unique_ptr<Shard>> shards_;
  bool started_ = false;
};

}  // namespace lockstep::data_plane
