// Volumes out. Each is let go by itself: no initiator sees it any more, its commands end, the mirror closes it, its
// stores are closed where they live. A disk that hangs keeps its own volume from that for as long as it hangs, and
// nothing else: after a while all goes on without it, and it is let go when the disk has returned what it was given.
#include <algorithm>

#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_error;
using mgmt::log_info;

using engine::Uuid;

void Node::detach(std::vector<Uuid> volumes, engine::Callback<> done) {
  if (volumes.empty()) return done();
  for (const Uuid& id : volumes) {
    log_info("Volume " + volumes_.at(id)->spec.name + ": detached.");
    note_size(*volumes_.at(id));
    leaving_.emplace(id, std::move(volumes_.extract(id).mapped()));
  }
  awaited_ = std::move(volumes);
  detached_ = std::move(done);
  detach_timer_ = home().call_after(options_.detach_patience, [this] {
    awaited_.clear();
    await_detached();
  });
  publish_map([this, going = awaited_] {
    for (const Uuid& id : going) let_go(leaving_.at(id));
  });
}

void Node::await_detached() {
  const bool waits = std::ranges::any_of(awaited_, [this](const Uuid& id) { return leaving_.contains(id); });
  if (waits || !detached_) return;
  home().cancel(std::exchange(detach_timer_, {}));
  std::exchange(detached_, nullptr)();
}

void Node::let_go(const std::shared_ptr<Volume>& volume) {
  const Uuid id = volume->spec.id;
  on_every_worker(
      workers_, [id](Worker& worker, engine::Callback<> unused) { worker.device.when_unused(id, std::move(unused)); },
      [this, id, volume] {
        if (stopping_) return;  // the mirror is told to end by others: its stores may be in use
        if (!volume->spec.mirrored || !volume->disk) return close_stores(volume);
        pair_->ask<bool>(
            volume->spec.shard,
            [id](PairShard& shard, engine::Callback<bool> detached) {
              shard.node().detach(id, [detached = std::move(detached)]() mutable { detached(true); });
            },
            [this, volume](bool) {
              pair_->volumes().remove(volume->spec.id);
              close_stores(volume);
            });
      });
}

void Node::close_stores(const std::shared_ptr<Volume>& volume) {
  workers_[volume->home]->reactor.post([this, volume] {
    volume->unit.reset();
    volume->disk.reset();
    volume->own_disk.reset();
    if (volume->stores.data && volume->stores.data->refuses_writes()) {
      log_error("Volume " + volume->spec.name + ": a flush of its copy failed (" + volume->spec.data +
                "): what hosts had written and not flushed may be lost there.");
    }
    volume->stores = {};
    home().post([this, volume] {
      stores_closed_ = home().now();
      leaving_.erase(volume->spec.id);
      log_info("Volume " + volume->spec.name + ": its stores are closed.");
      await_detached();
    });
  });
}

std::string Node::still_owed(const Volume& volume) {
  return "It was detached, but not all that was given to its disk (" + volume.spec.data +
         "), or to the partner's, has come back. Until it has, the volume can't be attached, made or deleted on this "
         "node; all else goes on. Bring the disk back; if that can't be, restart this node.";
}

}  // namespace lockstep::data_plane
