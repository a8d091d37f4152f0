#include "mgmt/data_plane/shard_seams.hpp"

#include <utility>

namespace lockstep::data_plane {

using engine::IoResult;
using engine::Uuid;
using replication::SwapOutcome;
using replication::WitnessRecord;
using replication::WitnessView;

/// For the home reactor: runs `done` on the shard's, where it may swap what it is given.
template <class Answer>
engine::Callback<Answer, std::uint64_t> ShardWitness::take(engine::Callback<Answer> done) {
  using Taken = engine::Callback<Answer, std::uint64_t>;
  return hop_.back(Taken([this, done = std::move(done)](Answer answer, std::uint64_t use) mutable {
    read_of_ = use;
    done(std::move(answer));
  }));
}

void ShardWitness::read(const Uuid& volume, engine::Callback<IoResult<WitnessView>> done) {
  hop_.home.post([this, volume, taken = take(std::move(done))]() mutable {
    shared_.read(volume, [use = shared_.uses(), taken = std::move(taken)](IoResult<WitnessView> view) mutable {
      taken(std::move(view), use);
    });
  });
}

void ShardWitness::swap(const Uuid& volume, const WitnessView& seen, const WitnessRecord& record,
                        engine::Callback<IoResult<SwapOutcome>> done) {
  hop_.home.post([this, was = read_of_, volume, seen, record, taken = take(std::move(done))]() mutable {
    const std::uint64_t use = shared_.uses();
    if (was != use) return taken(std::unexpected(make_error_code(engine::Errc::io_error)), use);
    shared_.swap(volume, seen, record, [use, taken = std::move(taken)](IoResult<SwapOutcome> outcome) mutable {
      taken(std::move(outcome), use);
    });
  });
}

void ShardWitness::remove(const Uuid& volume, engine::Callback<std::error_code> done) {
  hop_.home.post(
      [this, volume, done = hop_.back(std::move(done))]() mutable { shared_.remove(volume, std::move(done)); });
}

void ShardFence::power_off(engine::TimePoint since, engine::Callback<const replication::FenceEnd&> done) {
  hop_.home.post([this, since, done = hop_.back(std::move(done))]() mutable {
    orders_.power_off(shard_, since, std::move(done));
  });
}

void ShardFence::stop() {
  hop_.home.post([this] { orders_.stop(shard_); });
}

void ShardLeftRecords::keep(const Uuid& volume, const engine::EpochRecord& record, engine::IoCallback done) {
  shared_.keep(volume, record, hop_.back(std::move(done)));
}

IoResult<std::optional<engine::EpochRecord>> ShardLeftRecords::kept(const Uuid& volume) const {
  return shared_.kept(volume);
}

void ShardLeftRecords::forget(const Uuid& volume) { shared_.forget(volume); }

void VolumeShards::put(const Uuid& volume, unsigned shard) {
  const std::lock_guard lock(mutex_);
  shards_[volume] = shard;
}

void VolumeShards::remove(const Uuid& volume) {
  const std::lock_guard lock(mutex_);
  shards_.erase(volume);
}

std::optional<unsigned> VolumeShards::shard_of(const Uuid& volume) const {
  const std::lock_guard lock(mutex_);
  const auto found = shards_.find(volume);
  return found == shards_.end() ? std::nullopt : std::optional(found->second);
}

void ShardObserver::on_volume_changed(const Uuid&) { volume_changed_(); }

/// From here: what another thread does first may be an answer.
void ShardObserver::on_set_back(const std::string& why) { set_back_(why); }

void ShardObserver::on_fencing() {
  hop_.to_home([this] { sessions_.begin(); });
}

void ShardObserver::on_fenced(engine::Callback<> closed) {
  auto answer = &hop_.home == &hop_.shard ? std::move(closed) : hop_.back(std::move(closed));
  hop_.to_home([this, answer = std::move(answer)]() mutable { sessions_.ready(shard_, std::move(answer)); });
}

}  // namespace lockstep::data_plane
