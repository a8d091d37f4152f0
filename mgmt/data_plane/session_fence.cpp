#include "mgmt/data_plane/session_fence.hpp"

namespace lockstep::data_plane {

void SessionFence::add_shard() {
  const unsigned shard = shards_++;
  if (phase_ == Phase::gathering) hands_.join(shard);
}

void SessionFence::begin() {
  again_ |= phase_ == Phase::closing;
  if (phase_ != Phase::idle) return;
  phase_ = Phase::gathering;
  for (unsigned shard = 0; shard < shards_; ++shard) hands_.join(shard);
  close_if_ready();
}

void SessionFence::ready(unsigned shard, engine::Callback<> closed) {
  ready_[shard] = std::move(closed);
  close_if_ready();
}

void SessionFence::close_if_ready() {
  if (phase_ != Phase::gathering || ready_.size() != shards_) return;
  phase_ = Phase::closing;
  hands_.close([this, round = std::exchange(ready_, {})]() mutable { closed(std::move(round)); });
}

/// A shard that hears of it may have to close them again, and be ready for that in here. Nobody is asked to take part
/// before every shard has heard: until then it takes part in what is over.
void SessionFence::closed(Ready round) {
  for (auto& [shard, told] : round) told();
  phase_ = Phase::idle;
  if (std::exchange(again_, false)) begin();
}

}  // namespace lockstep::data_plane
