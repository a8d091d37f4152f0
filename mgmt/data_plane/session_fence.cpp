#include "mgmt/data_plane/session_fence.hpp"

namespace lockstep::data_plane {

void SessionFence::add_shard() {
  const unsigned shard = shards_++;
  if (under_way_) hands_.join(shard);
}

void SessionFence::begin() {
  if (std::exchange(under_way_, true)) return;
  for (unsigned shard = 0; shard < shards_; ++shard) hands_.join(shard);
}

void SessionFence::ready(unsigned shard, engine::Callback<> closed) {
  ready_[shard] = std::move(closed);
  if (ready_.size() == shards_) close();
}

/// A shard that has to close them again begins anew when it has heard that they are closed.
void SessionFence::close() {
  hands_.close([this] {
    under_way_ = false;
    for (auto& [shard, closed] : std::exchange(ready_, {})) closed();
  });
}

}  // namespace lockstep::data_plane
