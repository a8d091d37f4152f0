#pragma once
// What the shards of a node share, as one of them sees it from its own reactor: each call hops to the home reactor, and
// its answer back. An answer is later than it would be there, and never from inside the call.
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "engine/seams/executor.hpp"
#include "mgmt/data_plane/fence_orders.hpp"
#include "mgmt/data_plane/session_fence.hpp"
#include "mgmt/data_plane/shared_witness.hpp"
#include "replication/core/left_records.hpp"
#include "replication/core/pair_node.hpp"

namespace lockstep::data_plane {

/// A reactor's work for another one.
struct Hop {
  engine::Executor& home;
  engine::Executor& shard;

  /// At home, in order: at once where the two are one.
  void to_home(engine::Callback<> work) const {
    if (&home == &shard) return work();
    home.post(std::move(work));
  }
  /// A callback for the home reactor that runs `done` on the shard's.
  template <class... Args>
  [[nodiscard]] engine::Callback<Args...> back(engine::Callback<Args...> done) const {
    return [&there = shard, done = std::move(done)](Args... args) mutable {
      there.post([done = std::move(done), ... kept = std::decay_t<Args>(std::forward<Args>(args))]() mutable {
        done(std::move(kept)...);
      });
    };
  }
};

/// What is swapped was read in the same turn: where another witness took the place of the one that was read meanwhile,
/// nothing is written.
class ShardWitness final : public replication::Witness {
 public:
  ShardWitness(Hop hop, SharedWitness& shared) : hop_(hop), shared_(shared) {}
  void read(const engine::Uuid& volume, engine::Callback<engine::IoResult<replication::WitnessView>> done) override;
  void swap(const engine::Uuid& volume, const replication::WitnessView& seen, const replication::WitnessRecord& record,
            engine::Callback<engine::IoResult<replication::SwapOutcome>> done) override;
  void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) override;

 private:
  template <class Answer>
  [[nodiscard]] engine::Callback<Answer, std::uint64_t> take(engine::Callback<Answer> done);

  Hop hop_;
  SharedWitness& shared_;
  std::uint64_t read_of_ = 0;  ///< the shard's: which use of the slot the last answer came from
};

class ShardFence final : public replication::Fence {
 public:
  /// `shared`, whose orders these are, is asked from this shard's reactor for nothing but whether it is configured.
  ShardFence(Hop hop, unsigned shard, const replication::Fence& shared, FenceOrders& orders)
      : hop_(hop), shard_(shard), shared_(shared), orders_(orders) {}
  [[nodiscard]] bool configured() const override { return shared_.configured(); }
  void power_off(engine::TimePoint since, engine::Callback<const replication::FenceEnd&> done) override;
  void stop() override;

 private:
  Hop hop_;
  unsigned shard_;
  const replication::Fence& shared_;
  FenceOrders& orders_;
};

/// `shared` may be called on any thread, and calls back at home.
class ShardLeftRecords final : public replication::LeftRecords {
 public:
  ShardLeftRecords(Hop hop, replication::LeftRecords& shared) : hop_(hop), shared_(shared) {}
  void keep(const engine::Uuid& volume, const engine::EpochRecord& record, engine::IoCallback done) override;
  [[nodiscard]] engine::IoResult<std::optional<engine::EpochRecord>> kept(const engine::Uuid& volume) const override;
  void forget(const engine::Uuid& volume) override;

 private:
  Hop hop_;
  replication::LeftRecords& shared_;
};

/// Which shard each volume is attached to, or is about to be. Any thread.
class VolumeShards {
 public:
  void put(const engine::Uuid& volume, unsigned shard);
  void remove(const engine::Uuid& volume);
  [[nodiscard]] std::optional<unsigned> shard_of(const engine::Uuid& volume) const;

 private:
  mutable std::mutex mutex_;
  std::map<engine::Uuid, unsigned> shards_;
};

class OtherShards final : public replication::OtherPairNodes {
 public:
  OtherShards(unsigned shard, const VolumeShards& all) : shard_(shard), all_(all) {}
  [[nodiscard]] bool have(const engine::Uuid& volume) const override {
    return all_.shard_of(volume).value_or(shard_) != shard_;
  }

 private:
  unsigned shard_;
  const VolumeShards& all_;
};

/// What a shard tells of its volumes and of the sessions that it shares with the others.
class ShardObserver final : public replication::NodeObserver {
 public:
  /// Both functions run on any thread.
  ShardObserver(Hop hop, unsigned shard, std::function<void()> volume_changed,
                std::function<void(const std::string&)> set_back, SessionFence& sessions)
      : hop_(hop),
        shard_(shard),
        volume_changed_(std::move(volume_changed)),
        set_back_(std::move(set_back)),
        sessions_(sessions) {}
  void on_volume_changed(const engine::Uuid& volume) override;
  void on_fencing() override;
  void on_fenced(engine::Callback<> closed) override;
  void on_set_back(const std::string& why) override;

 private:
  Hop hop_;
  unsigned shard_;
  std::function<void()> volume_changed_;
  std::function<void(const std::string&)> set_back_;
  SessionFence& sessions_;
};

}  // namespace lockstep::data_plane
