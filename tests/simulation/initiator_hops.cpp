// A command whose session's thread is another than its volume's: there, and back, as by HopDisk
// (mgmt/data_plane/hop_disk.cpp). Its cancelling follows it, and comes back, too, before the command is over.
#include "tests/simulation/initiator.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

/// By turn, as lockstepd places connections.
unsigned Initiator::thread_at(const Host& host) const {
  return (number_ + static_cast<unsigned>(host.side())) % world_.scenario.shards;
}

bool Initiator::hops(const Attempt& a) const { return a.host->shard_of(a.volume) != thread_at(*a.host); }

void Initiator::bring(Attempt& a) {
  Program& node = *a.host->program();
  a.away = 1;
  const engine::TimePoint stood_still = node.came_since(thread_at(*a.host)), &waited = a.request.came_since;
  const bool is_older = stood_still != engine::TimePoint{} && (waited == engine::TimePoint{} || stood_still < waited);
  if (is_older) a.request.came_since = stood_still;
  node.post(a.host->shard_of(a.volume), [this, at = key(a)] { start(*find(at)); });
}

void Initiator::bring_back(const Attempt& a) {
  a.host->program()->post(thread_at(*a.host), [this, at = key(a)] {
    Attempt& back = *find(at);
    if (--back.away == 0) came_back(back);
  });
}

void Initiator::bring_cancel(Attempt& a) {
  ++a.away;
  a.host->program()->post(a.host->shard_of(a.volume), [this, at = key(a)] {
    Attempt& there = *find(at);
    if (there.at_work) cancel_there(there);
    bring_back(there);
  });
}

void Initiator::cancel_there(Attempt& a) {
  engine::Disk* disk = a.host->program()->disk(a.volume);
  if (disk != nullptr) disk->cancel(a.request);
}

}  // namespace lockstep::simulation
