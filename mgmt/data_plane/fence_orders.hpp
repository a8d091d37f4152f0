#pragma once
// The shards of a node have one fence: its orders are carried out one after the other. An order is answered by a
// command that began at the time it names or later, whoever it was begun for. Lives on the home reactor.
#include <map>
#include <optional>
#include <string>

#include "engine/base/result.hpp"
#include "replication/core/fencing.hpp"

namespace lockstep::data_plane {

class FenceOrders {
 public:
  using Done = engine::Callback<const replication::FenceEnd&>;

  /// Both outlive this.
  FenceOrders(engine::Clock& clock, replication::Fence& fence) : clock_(clock), fence_(fence) {}

  /// As Fence::power_off(), of a shard that has none under way.
  void power_off(unsigned shard, engine::TimePoint since, Done done);
  /// As Fence::stop(), for that shard alone.
  void stop(unsigned shard);
  /// The fence is not to be used any more: what was ordered ends with that.
  void end_all();

 private:
  using Orders = std::map<unsigned, Done>;
  void begin();
  void end(const replication::FenceEnd& how);
  static void answer(Orders orders, const replication::FenceEnd& how);

  engine::Clock& clock_;
  replication::Fence& fence_;
  std::optional<engine::TimePoint> began_;  ///< of the command that runs
  Orders waiting_, under_way_;
};

}  // namespace lockstep::data_plane
