#pragma once
// The shards of a node have one fence: its orders are carried out one after the other, and what was ordered while one
// was carried out is answered by the next, since the partner has to be off at some moment after it was ordered. Lives
// on the home reactor.
#include <map>
#include <optional>
#include <string>

#include "engine/base/result.hpp"
#include "replication/core/fencing.hpp"

namespace lockstep::data_plane {

class FenceOrders {
 public:
  using Done = engine::Callback<const std::string&>;

  /// `fence` outlives this.
  explicit FenceOrders(replication::Fence& fence) : fence_(fence) {}

  /// As Fence::power_off(), of a shard that has none under way.
  void power_off(unsigned shard, Done done);
  /// As Fence::stop(), for that shard alone.
  void stop(unsigned shard);

 private:
  void begin();
  void end(const std::string& problem);

  replication::Fence& fence_;
  std::map<unsigned, Done> waiting_, under_way_;
};

}  // namespace lockstep::data_plane
